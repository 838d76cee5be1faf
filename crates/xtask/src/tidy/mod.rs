//! `cargo xtask tidy`: rules of this repository that neither compiler nor clippy know.
//!
//! One file for each check; [`CHECKS`] is the list. A check reports what is wrong and where. It changes
//! nothing, and gives no advice: what it reports fails the gate.

use crate::repository::root;
use crate::tree::Tree;

use problem::Problem;

mod circles;
mod fresh;
mod heads;
mod lengths;
mod machine_paths;
mod panics;
mod printing;
mod problem;
mod readme;
mod rooms;
mod skips;
mod tables;
mod unsafe_code;
mod whitespace;
mod words;

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
    Check { name: "printing", run: printing::check },
    Check { name: "skips", run: skips::check },
    Check { name: "tables", run: tables::check },
    Check { name: "readme", run: readme::check },
    Check { name: "fresh docs", run: fresh::check },
    Check { name: "machine paths", run: machine_paths::check },
    Check { name: "whitespace", run: whitespace::check },
    Check { name: "words", run: words::check },
];

/// Runs all checks; whether nothing is wrong.
pub(crate) fn run() -> anyhow::Result<bool> {
    let tree = Tree::read(root()?)?;
    let found = problems(&tree)?;
    for problem in &found {
        eprintln!("{problem}");
    }
    let wrong = found.len();
    match wrong {
        0 => println!("tidy: {} checks passed on {} files", CHECKS.len(), tree.files().count()),
        1 => eprintln!("tidy: 1 thing is wrong"),
        _ => eprintln!("tidy: {wrong} things are wrong"),
    }
    Ok(wrong == 0)
}

/// What all checks find, one line each.
pub(crate) fn problems(tree: &Tree) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for check in CHECKS {
        let problems = (check.run)(tree)?;
        found.extend(problems.iter().map(|problem| format!("{problem} [{}]", check.name)));
    }
    Ok(found)
}
