//! Every Rust file begins with a `//!` comment that says what it is for.

use super::problem::Problem;
use crate::tree::Tree;

/// Fewest characters of a first line that can say something.
const SHORTEST: usize = 10;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust() {
        let says = match text.lines().next().and_then(|line| line.strip_prefix("//!")) {
            None => "does not begin with a //! comment that says what it is for",
            Some(head) if head.trim().len() < SHORTEST => "its first line says too little",
            Some(head) if head.to_lowercase().contains("placeholder") => {
                "is a placeholder: write it, or take it out"
            }
            Some(_) => continue,
        };
        problems.push(Problem::new(path, Some(1), says));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn heads_say_something() {
        let tree = Tree::of(&[
            ("a.rs", "//! The listeners of a host.\n"),
            ("b.rs", "use std::fs;\n//! The listeners of a host.\n"),
            ("c.rs", "//! Types.\n"),
            ("d.rs", "//! Placeholder until there is code.\n"),
            ("e.rs", ""),
            ("f.py", ""),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|p| p.path).collect();
        assert_eq!(found, ["b.rs", "c.rs", "d.rs", "e.rs"]);
    }
}
