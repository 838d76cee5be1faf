//! Nothing that is shipped panics on purpose: no `unwrap`, `expect`, `panic!`, `unreachable!`,
//! `assert!` or `todo!` outside of tests.
//!
//! clippy knows most of these; they are denied here, as an allowance for tests would have to stand in
//! each test module. Indexing and slicing are clippy's (`indexing_slicing` in Cargo.toml).

use super::problem::Problem;
use crate::rust_source::{code_only, line_of, test_files, test_parts};
use crate::tree::Tree;

/// What may panic, and what to do instead.
const PANICS: [(&str, &str); 11] = [
    (".unwrap()", "return the error, or use a default"),
    (".unwrap_err()", "match on it"),
    (".expect(", "return the error with what was tried"),
    (".expect_err(", "match on it"),
    ("todo!(", "write it"),
    ("unimplemented!(", "write it"),
    ("panic!(", "return an error"),
    ("unreachable!(", "make the case impossible by types, or handle it"),
    ("assert!(", "return an error, or use debug_assert!"),
    ("assert_eq!(", "return an error, or use debug_assert_eq!"),
    ("assert_ne!(", "return an error, or use debug_assert_ne!"),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let tests = test_files(tree);
    let mut problems = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !tests.contains(*path)) {
        let code = code_only(text);
        let parts = test_parts(&code);
        for (panics, instead) in PANICS {
            for (at, _) in code.match_indices(panics) {
                // debug_assert! is for development, a constant one for the compiler.
                let before = &code[..at];
                if before.ends_with("debug_") || before.ends_with("const _: () = ") {
                    continue;
                }
                if !parts.iter().any(|part| part.contains(&at)) {
                    let text = format!("{panics} outside of tests: {instead}");
                    problems.push(Problem::new(path, Some(line_of(&code, at)), text));
                }
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
    fn only_tests_may_panic() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "fn a() {\n    b().unwrap();\n    c()\n        .expect(\"x\");\n}\n",
            ),
            (
                "crates/a/src/b.rs",
                "fn a() { b().unwrap_or(1); \".unwrap()\"; } // .expect(\n#[cfg(test)]\nmod tests { fn c() { d().unwrap() } }\n",
            ),
            ("crates/a/tests/live.rs", "fn a() { b().unwrap(); }\n"),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|p| (p.path, p.line)).collect();
        let path = "crates/a/src/lib.rs".to_string();
        assert_eq!(found, [(path.clone(), Some(2)), (path, Some(4))]);
    }
}
