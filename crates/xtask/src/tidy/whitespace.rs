//! Text ends with one line feed, no line ends with spaces, Rust has no tabs.
//!
//! Recorded machines and test data are left as they were recorded.

use super::problem::Problem;
use crate::tree::Tree;

/// Folders of what others wrote: recorded as it was.
const RECORDED: [&str; 3] = ["/fixtures/", "/snapshots/", "/testdata/"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let written = tree.files().filter(|(path, text)| {
        !text.is_empty() && !text.contains('\0') && !RECORDED.iter().any(|r| path.contains(r))
    });
    for (path, text) in written {
        if !text.ends_with('\n') {
            problems.push(Problem::new(path, None, "does not end with a line feed"));
        } else if text.ends_with("\n\n") {
            problems.push(Problem::new(path, None, "ends with empty lines"));
        }
        for (number, line) in text.lines().enumerate() {
            let line_number = Some(number + 1);
            if line.ends_with([' ', '\t', '\r']) {
                problems.push(Problem::new(path, line_number, "ends with white space"));
            }
            if path.ends_with(".rs") && line.contains('\t') {
                problems.push(Problem::new(path, line_number, "has a tab: rustfmt uses spaces"));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn ends_are_clean() {
        let tree = Tree::of(&[
            ("a.md", "fine\n\n\tfine too\n"),
            ("b.md", "no end"),
            ("c.md", "two ends\n\n"),
            ("d.sh", "one\ntwo \n"),
            ("e.rs", "fn a() {}\n\tb()\n"),
            ("crates/wire/tests/fixtures/f.txt", "as recorded \n\n"),
            ("empty", ""),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|p| (p.path, p.line)).collect();
        let expected = [("b.md", None), ("c.md", None), ("d.sh", Some(2)), ("e.rs", Some(2))];
        assert_eq!(found, expected.map(|(path, line)| (path.to_string(), line)));
    }
}
