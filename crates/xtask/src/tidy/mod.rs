//! `cargo xtask tidy`: rules of the house that neither compiler nor clippy know.
//!
//! One file a rule; [`CHECKS`] is the list. A check looks and says what is wrong where; none
//! mends anything, and none advises: what it says fails the gate.

use std::fmt;

use crate::tree::Tree;

mod circles;
mod fresh;
mod heads;
mod lengths;
mod machine_paths;
mod panics;
mod rooms;
mod tables;
mod unsafe_code;
mod whitespace;

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// File, from the root of the repository.
    pub(crate) path: String,
    /// Line, from 1, when one line is at fault.
    pub(crate) line: Option<usize>,
    /// What is wrong and what to do.
    pub(crate) text: String,
}

impl Problem {
    fn new(path: impl Into<String>, line: Option<usize>, text: impl Into<String>) -> Problem {
        Problem { path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

/// One check.
struct Check {
    name: &'static str,
    run: fn(&Tree) -> anyhow::Result<Vec<Problem>>,
}

/// All checks, in the order in which they run.
const CHECKS: &[Check] = &[
    Check { name: "rooms", run: rooms::check },
    Check { name: "circles", run: circles::check },
    Check { name: "lengths", run: lengths::check },
    Check { name: "heads", run: heads::check },
    Check { name: "unsafe", run: unsafe_code::check },
    Check { name: "panics", run: panics::check },
    Check { name: "tables", run: tables::check },
    Check { name: "fresh docs", run: fresh::check },
    Check { name: "machine paths", run: machine_paths::check },
    Check { name: "whitespace", run: whitespace::check },
];

/// Runs all checks; whether nothing is wrong.
pub(crate) fn run() -> anyhow::Result<bool> {
    let tree = Tree::read(crate::root()?)?;
    let mut wrong = 0;
    for check in CHECKS {
        let problems = (check.run)(&tree)?;
        for problem in &problems {
            eprintln!("{problem} [{}]", check.name);
        }
        wrong += problems.len();
    }
    match wrong {
        0 => println!("tidy: {} checks passed on {} files", CHECKS.len(), tree.files().count()),
        1 => eprintln!("tidy: 1 thing is wrong"),
        _ => eprintln!("tidy: {wrong} things are wrong"),
    }
    Ok(wrong == 0)
}
