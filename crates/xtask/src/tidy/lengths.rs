//! No Rust file is longer than 500 lines, but for those listed here with a reason.

use super::Problem;
use crate::tree::Tree;

/// Most lines of a file.
const LIMIT: usize = 500;

/// Files that may be longer: path, why.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    Ok(compare(tree, LONGER))
}

fn compare(tree: &Tree, longer: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust() {
        let lines = text.lines().count();
        let excused = longer.iter().any(|(excused, _)| *excused == path);
        if lines > LIMIT && !excused {
            let text = format!("{lines} lines, {LIMIT} at most: divide it by what it does");
            problems.push(Problem::new(path, None, text));
        } else if lines <= LIMIT && excused {
            let text = "is excused from the limit of lines and need not be";
            problems.push(Problem::new(path, None, text));
        }
    }
    for (path, _) in longer.iter().filter(|(path, _)| tree.text(path).is_none()) {
        problems.push(Problem::new(
            *path,
            None,
            "is excused from the limit of lines and is gone",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::tree::Tree;

    #[test]
    fn long_files_need_an_excuse_and_excuses_need_a_long_file() {
        let long = "//! x\n".repeat(501);
        let fits = "//! x\n".repeat(500);
        let tree = Tree::of(&[
            ("a.rs", &long),
            ("b.rs", &fits),
            ("c.rs", &long),
            ("d.md", &long),
        ]);
        let excuses = [
            ("c.rs", "generated"),
            ("b.rs", "was long"),
            ("e.rs", "was there"),
        ];
        let found: Vec<_> = compare(&tree, &excuses)
            .into_iter()
            .map(|p| p.path)
            .collect();
        assert_eq!(found, ["a.rs", "b.rs", "e.rs"]);
    }
}
