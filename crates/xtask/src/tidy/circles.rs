//! No files of a crate import each other in a circle: each can be read with what stands below it.

use super::problem::Problem;
use crate::modules;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for arrows in modules::arrows(tree).into_values() {
        for circle in modules::circles(&arrows) {
            let ties = arrows
                .iter()
                .filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let ties = ties.map(|((from, to), names)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("\n  {from} -> {to}: {}", names.join(", "))
            });
            let first = circle.first().cloned().unwrap_or_default();
            let text = format!(
                "{} files import each other in a circle: move what both need below them{}",
                circle.len(),
                ties.collect::<String>()
            );
            problems.push(Problem::new(first, None, text));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn a_circle_is_found_with_its_ties() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "use crate::c::C;\npub struct B;\n"),
            ("crates/a/src/c.rs", "use crate::b::B;\npub struct C;\n"),
        ]);
        let found = check(&tree).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].text.contains("crates/a/src/b.rs -> crates/a/src/c.rs: C"),
            "{}",
            found[0]
        );
    }
}
