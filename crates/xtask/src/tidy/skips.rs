//! Tests are skipped by `test_support` and by nothing else: what it does not note, `cargo xtask test`
//! does not count.
//!
//! Found are messages that begin with "skip", and the questions that lead to them.

use super::problem::Problem;
use crate::rust_source::{code_only, line_of, test_files, test_parts};
use crate::tree::Tree;

/// The crate that skips tests.
const SKIPS: &str = "crates/test_support/";

/// What prints a message.
const PRINTS: [&str; 3] = ["println!(", "print!(", "writeln!("];

/// Questions that a test leaves to `test_support`, which skips it at once.
const QUESTIONS: [(&str, &str); 2] = [
    ("geteuid()", "test_support::is_root, which skips the test"),
    ("\"NETWHY_CAPTURES\"", "test_support::captures, which skips the test"),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let tests = test_files(tree);
    let mut problems = Vec::new();
    // This check has what it looks for in its own tests.
    let is_checked = |path: &str| {
        path.starts_with("crates/") && ![SKIPS, "crates/xtask/"].iter().any(|c| path.starts_with(c))
    };
    for (path, text) in tree.rust().filter(|(path, _)| is_checked(path)) {
        let code = code_only(text);
        let parts = test_parts(&code);
        let in_tests =
            |at: usize| tests.contains(path) || parts.iter().any(|part| part.contains(&at));
        let mut found = |at: usize, what: &str| {
            if in_tests(at) {
                problems.push(Problem::new(path, Some(line_of(&code, at)), what));
            }
        };
        for at in PRINTS.iter().flat_map(|print| ends(&code, print)) {
            if is_about_skipping(&text[at..]) {
                found(at, "a test says itself that it is skipped: use test_support::skip");
            }
        }
        for (question, instead) in QUESTIONS {
            for (at, _) in text.match_indices(question) {
                found(at, &format!("{question} in a test: use {instead}"));
            }
        }
    }
    problems.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    problems.dedup();
    Ok(problems)
}

/// Where the words end that stand in the code.
fn ends<'a>(code: &'a str, words: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(words).map(|(at, found)| at + found.len())
}

/// Whether the first literal of the arguments of a macro begins with "skip".
fn is_about_skipping(arguments: &str) -> bool {
    let statement = arguments.split(';').next().unwrap_or_default();
    let literal = statement.split('"').nth(1).unwrap_or_default();
    literal.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("skip"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn only_test_support_skips_tests() {
        let print = "fn a() {\n    eprintln!(\n        \"skipped: needs root\"\n    );\n}\n";
        let inside = format!("#[cfg(test)]\nmod tests {{\n{print}}}\n");
        let tree = Tree::of(&[
            ("crates/a/tests/live.rs", print),
            ("crates/a/src/lib.rs", print),
            ("crates/a/src/b.rs", &inside),
            ("crates/a/tests/c.rs", "println!(\"{skipped} skipped\"); // println!(\"skip\")\n"),
            ("crates/a/tests/d.rs", "\nlet root = rustix::process::geteuid().is_root();\n"),
            ("crates/a/tests/e.rs", "let folder = std::env::var_os(\"NETWHY_CAPTURES\");\n"),
            ("crates/test_support/src/lib.rs", &inside),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|p| (p.path, p.line)).collect();
        let expected = [
            ("crates/a/src/b.rs", 4),
            ("crates/a/tests/d.rs", 2),
            ("crates/a/tests/e.rs", 1),
            ("crates/a/tests/live.rs", 2),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_string(), Some(line))));
    }
}
