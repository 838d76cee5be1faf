//! No path of the machine on which something was written or recorded: nobody else has it.

use super::problem::Problem;
use crate::tree::Tree;

/// Where people and build machines keep their files. Taken apart, so that this file passes.
const PLACES: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (path, text) in tree.files() {
        for (number, line) in text.lines().enumerate() {
            for place in PLACES.iter().filter(|place| names(line, place)) {
                let text = format!("a path of one machine ({place}…): nobody else has it");
                problems.push(Problem::new(path, Some(number + 1), text));
            }
        }
    }
    Ok(problems)
}

/// Whether the place stands in a line as an absolute path, with something below it.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + place.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*'))
            && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
    })
}

#[cfg(test)]
mod tests {
    use super::{PLACES, check};
    use crate::tree::Tree;

    #[test]
    fn absolute_places_are_found() {
        let [people, _, root, _] = PLACES;
        let text = format!(
            "a {people}ann/x\n`{root}.cargo`\nhttps://example.net{people}page\n{people}\n{people}*/x\n"
        );
        let tree = Tree::of(&[("README.md", &text)]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().filter_map(|p| p.line).collect();
        assert_eq!(found, [1, 2]);
    }
}
