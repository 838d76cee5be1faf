//! README lists every cause and every command, and none that there is not.

use std::collections::BTreeSet;

use super::problem::Problem;
use crate::docs::tables::{README, command_names, listed_commands};
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let causes = diagnose::causes::TABLE.iter().map(|cause| cause.id.to_string()).collect();
    Ok(compare(tree, &causes))
}

fn compare(tree: &Tree, causes: &BTreeSet<String>) -> Vec<Problem> {
    let readme = tree.text(README).unwrap_or_default();
    let mut problems = differences("cause", causes, &listed_causes(readme));
    problems.extend(differences("command", &command_names(tree), &listed_commands(readme)));
    problems
}

fn differences(what: &str, are: &BTreeSet<String>, listed: &BTreeSet<String>) -> Vec<Problem> {
    let missing = are.difference(listed).map(|name| format!("does not list the {what} {name}"));
    let gone =
        listed.difference(are).map(|name| format!("lists the {what} {name}, and there is none"));
    missing.chain(gone).map(|text| Problem::new(README, None, text)).collect()
}

/// Links to pages of causes: `docs/causes/NAME.md`.
fn listed_causes(readme: &str) -> BTreeSet<String> {
    let links = readme.split("docs/causes/").skip(1);
    let names = links.filter_map(|link| link.split_once(".md").map(|(name, _)| name));
    names.filter(|name| *name != "README").map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_gone_is_found() {
        let tree = Tree::of(&[
            (
                README,
                "[a](docs/causes/a.md), [x](docs/causes/x.md) [all](docs/causes/README.md)\n\
                 | `netwhy` | the main job |\n| `netwhy -- COMMAND` | it |\n\
                 | `netwhy ping HOST` | round trips |\n| `netwhy gone` | x |\n",
            ),
            (
                "crates/netwhy/src/commands/mod.rs",
                "commands! {\n    /// Round trips\n    Ping => ping,\n    Lab => lab,\n}\n",
            ),
        ]);
        let causes = ["a", "b"].map(str::to_string).into();
        let found: Vec<_> = compare(&tree, &causes).into_iter().map(|p| p.text).collect();
        assert_eq!(
            found,
            [
                "does not list the cause b",
                "lists the cause x, and there is none",
                "does not list the command lab",
                "lists the command gone, and there is none"
            ]
        );
    }
}
