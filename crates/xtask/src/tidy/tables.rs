//! The tables of causes and observers hold what the folders hold, and the docs name them.
//!
//! Both crates test their tables themselves; this looks from outside, where a file that nobody
//! registered can be seen.

use std::collections::BTreeSet;

use super::problem::Problem;
use crate::tree::Tree;

const OBSERVERS: &str = "crates/observe/src/observers";
const CAUSES: &str = "crates/diagnose/src/causes";
const TABLE_OF_OBSERVERS: &str = "crates/observe/src/observers/mod.rs";
const TABLE_OF_CAUSES: &str = "crates/diagnose/src/causes/mod.rs";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Files beside the causes that are none.
const NO_CAUSES: [&str; 3] = ["mod", "common", "tests"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let observers: Vec<&str> =
        observe::observers::OBSERVERS.iter().map(|entry| entry.name).collect();
    let causes: Vec<&str> = diagnose::causes::TABLE.iter().map(|cause| cause.id).collect();
    let mut problems = compare_observers(tree, &observers);
    problems.extend(compare_causes(tree, &causes));
    Ok(problems)
}

fn compare_observers(tree: &Tree, observers: &[&str]) -> Vec<Problem> {
    let mut problems = twice(TABLE_OF_OBSERVERS, observers);
    let folders: BTreeSet<&str> = tree
        .rust()
        .filter_map(|(path, _)| path.strip_prefix(OBSERVERS)?.strip_prefix('/'))
        .filter_map(|path| path.split_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    for folder in folders.iter().filter(|folder| !observers.contains(folder)) {
        let text = "is a folder of the observers and not in their table";
        problems.push(Problem::new(format!("{OBSERVERS}/{folder}"), None, text));
    }
    for observer in observers {
        if !folders.contains(observer) {
            let text = format!("{observer} has no folder in {OBSERVERS}");
            problems.push(Problem::new(TABLE_OF_OBSERVERS, None, text));
        }
        if !tree.text(ARCHITECTURE).unwrap_or("").contains(&format!("| `{observer}` |")) {
            let text = format!("has no row for the observer {observer}");
            problems.push(Problem::new(ARCHITECTURE, None, text));
        }
    }
    problems
}

fn compare_causes(tree: &Tree, causes: &[&str]) -> Vec<Problem> {
    let mut problems = twice(TABLE_OF_CAUSES, causes);
    let files: BTreeSet<String> = tree
        .rust()
        .filter_map(|(path, _)| path.strip_prefix(CAUSES)?.strip_prefix('/'))
        .filter_map(|path| path.split(['/', '.']).next())
        .filter(|name| !NO_CAUSES.contains(name))
        .map(|name| name.replace('_', "-"))
        .collect();
    for file in files.iter().filter(|file| !causes.contains(&file.as_str())) {
        let path = format!("{CAUSES}/{}.rs", file.replace('-', "_"));
        problems.push(Problem::new(path, None, "is not in the table of causes"));
    }
    for cause in causes {
        if !cause.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            let text = format!("{cause} is not lower case with hyphens");
            problems.push(Problem::new(TABLE_OF_CAUSES, None, text));
        }
        if !files.contains(*cause) {
            let text = format!("{cause} has no file {}.rs of its own", cause.replace('-', "_"));
            problems.push(Problem::new(TABLE_OF_CAUSES, None, text));
        }
    }
    problems
}

fn twice(path: &str, names: &[&str]) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    let again = names.iter().filter(|name| !seen.insert(**name));
    again.map(|name| Problem::new(path, None, format!("{name} stands twice"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{compare_causes, compare_observers};
    use crate::tree::Tree;

    #[test]
    fn observers_have_folders_and_rows() {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", "| `sockets` | x |\n| `gone` | x |\n"),
            ("crates/observe/src/observers/mod.rs", ""),
            ("crates/observe/src/observers/sockets/mod.rs", ""),
            ("crates/observe/src/observers/sockets/whole.rs", ""),
            ("crates/observe/src/observers/softnet/mod.rs", ""),
            ("crates/observe/src/observers/extra/mod.rs", ""),
        ]);
        let found = compare_observers(&tree, &["sockets", "softnet", "gone", "sockets"]);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/observe/src/observers/mod.rs: sockets stands twice",
                "crates/observe/src/observers/extra: is a folder of the observers and not in their \
                 table",
                "ARCHITECTURE.md: has no row for the observer softnet",
                "crates/observe/src/observers/mod.rs: gone has no folder in crates/observe/src/observers",
            ]
        );
    }

    #[test]
    fn causes_have_files_and_files_are_causes() {
        let tree = Tree::of(&[
            ("crates/diagnose/src/causes/mod.rs", ""),
            ("crates/diagnose/src/causes/fd_exhausted.rs", ""),
            ("crates/diagnose/src/causes/syn_flood/mod.rs", ""),
            ("crates/diagnose/src/causes/forgotten.rs", ""),
        ]);
        let found = compare_causes(&tree, &["fd-exhausted", "syn-flood", "Gone"]);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/diagnose/src/causes/forgotten.rs: is not in the table of causes",
                "crates/diagnose/src/causes/mod.rs: Gone is not lower case with hyphens",
                "crates/diagnose/src/causes/mod.rs: Gone has no file Gone.rs of its own",
            ]
        );
    }
}
