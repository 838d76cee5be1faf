//! `unsafe` only in `sys` and `wire`, each with its reason in a `SAFETY` comment.

use super::problem::Problem;
use crate::rust_source::{code_only, line_of, words};
use crate::tree::Tree;

/// Where `unsafe` may stand.
const ROOMS: [&str; 2] = ["crates/sys/", "crates/wire/"];

/// How many lines above an `unsafe` its reason may begin.
const REASON_ABOVE: usize = 8;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust() {
        let allowed = ROOMS.iter().any(|room| path.starts_with(room));
        let code = code_only(text);
        for line in words(&code, "unsafe").map(|at| line_of(&code, at)) {
            if !allowed {
                let text = "unsafe outside of sys and wire: move it there, or do without";
                problems.push(Problem::new(path, Some(line), text));
            } else if !has_reason(text, line) {
                let text = "unsafe without a SAFETY comment that gives its reason";
                problems.push(Problem::new(path, Some(line), text));
            }
        }
    }
    Ok(problems)
}

fn has_reason(text: &str, line: usize) -> bool {
    let first = line.saturating_sub(REASON_ABOVE + 1);
    text.lines().take(line).skip(first).any(|line| {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        comment.contains("SAFETY:") || comment.contains("# Safety")
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn unsafe_needs_a_room_and_a_reason() {
        let tree = Tree::of(&[
            ("crates/report/src/a.rs", "// unsafe\nlet a = \"unsafe\";\n#![deny(unsafe_code)]\n"),
            ("crates/report/src/b.rs", "\n// SAFETY: none\nunsafe { f() }\n"),
            ("crates/sys/src/c.rs", "// SAFETY: the pointer is ours.\nunsafe { f() }\n"),
            ("crates/sys/src/d.rs", "let safety = \"SAFETY:\";\nunsafe { f() }\n"),
        ]);
        let found: Vec<_> = check(&tree).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/report/src/b.rs:3: unsafe outside of sys and wire: move it there, or do \
                 without",
                "crates/sys/src/d.rs:2: unsafe without a SAFETY comment that gives its reason",
            ]
        );
    }
}
