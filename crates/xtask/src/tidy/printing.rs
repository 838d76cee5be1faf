//! All that netwhy prints passes one door, which sanitizes it.

use super::problem::Problem;
use crate::rust_source::{code_only, line_of, test_files, test_parts};
use crate::tree::Tree;

/// Where printing is the job: files, or folders that end in `/`.
const DOORS: [(&str, &str); 6] = [
    ("crates/netwhy/src/output.rs", "the door"),
    ("crates/netwhy/src/progress.rs", "progress lines, sanitized"),
    ("crates/netwhy/src/main.rs", "the last error, sanitized; the log for developers"),
    ("crates/lab/src/host.rs", "a line for the process that started the host"),
    ("crates/test_support/", "reports what tests skip"),
    ("crates/xtask/", "not part of netwhy"),
];

const PRINTS: [&str; 5] = ["println!(", "print!(", "stdout()", "stderr()", "io::stderr"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let tests = test_files(tree);
    let mut problems = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !tests.contains(*path)) {
        if !path.starts_with("crates/") || !path.contains("/src/") || is_door(path) {
            continue;
        }
        let code = code_only(text);
        let parts = test_parts(&code);
        for print in PRINTS {
            for (at, _) in code.match_indices(print) {
                // `rules_print!(` is something else; `eprint!(` is not.
                let before = code[..at].trim_end_matches('e');
                let is_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if !is_name && !parts.iter().any(|part| part.contains(&at)) {
                    let text = format!("{print}: print by crates/netwhy/src/output.rs");
                    problems.push(Problem::new(path, Some(line_of(&code, at)), text));
                }
            }
        }
    }
    Ok(problems)
}

fn is_door(path: &str) -> bool {
    DOORS.iter().any(|(door, _)| path == *door || door.ends_with('/') && path.starts_with(door))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn only_doors_and_tests_print() {
        let tree = Tree::of(&[
            ("crates/netwhy/src/output.rs", "fn a() {\n    print!(\"a\");\n}\n"),
            (
                "crates/netwhy/src/a.rs",
                "fn a() {\n    eprintln!(\"a\");\n    write(std::io::stdout());\n}\n\n\
                 #[cfg(test)]\nmod tests {\n    fn b() {\n        println!(\"b\");\n    }\n}\n",
            ),
        ]);
        let lines: Vec<_> = check(&tree).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("crates/netwhy/src/a.rs:2"), "{lines:?}");
        assert!(lines[1].starts_with("crates/netwhy/src/a.rs:3"), "{lines:?}");
    }
}
