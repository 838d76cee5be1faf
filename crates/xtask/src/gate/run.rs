//! The phases: format, tidy, clippy, tests; all of them, or the quick ones. What takes seconds comes
//! first, what takes minutes last.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use super::notes::Notes;
use super::phase::{self, Outcome};
use super::summary::summary;
use crate::repository::{root, target_folder};
use crate::{recipes, tidy, tree};

/// What is to be checked.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only what takes a few minutes: format, tidy, unit tests, a dozen scenarios.
    pub(crate) quick: bool,
    /// A program that runs the tests, some of which need root: `sudo -n -E`.
    pub(crate) runner: Option<String>,
}

/// Test binaries with a phase of their own.
const LAB: &str = "lab";
const LIVE: &str = "live";

/// Checks, prints the summary; whether all is well.
pub(crate) fn run(options: &Options) -> anyhow::Result<bool> {
    let began = Instant::now();
    let notes = notes_file()?;
    let mut outcomes = vec![phase::run("format", &mut cargo(&["fmt", "--all", "--check"])?)?];
    outcomes.push(own("tidy", tidy::run)?);
    if !options.quick {
        let words = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        outcomes.push(phase::run("clippy", &mut cargo(&words)?)?);
    }
    for (name, words) in if options.quick { quick_tests() } else { all_tests()? } {
        let mut command = cargo(&["test", "--workspace", "--locked"])?;
        command.args(words);
        command.env(test_support::NOTES, &notes);
        if options.quick {
            command.env("NETWHY_QUICK", "1");
        }
        if let Some(runner) = &options.runner {
            command.env(runner_variable()?, runner);
        }
        outcomes.push(phase::run(name, &mut command)?);
    }
    if !options.quick {
        outcomes.push(own("recipes", recipes::run)?);
    }
    let ci = std::env::var_os("CI").is_some();
    let (text, well) = summary(&outcomes, &Notes::read(&notes), ci, began.elapsed());
    print!("{text}");
    Ok(well)
}

/// A phase of tests: its name, and what cargo tests.
///
/// Always of the whole workspace: the crates of others have other features for a part of it, and would be
/// built again.
type Tests = (&'static str, Vec<String>);

fn quick_tests() -> Vec<Tests> {
    vec![
        unit_tests(),
        ("a dozen scenarios", words("--test lab -- scenarios_name_what_they_expect")),
    ]
}

fn all_tests() -> anyhow::Result<Vec<Tests>> {
    let mut others = words("--no-fail-fast --examples");
    for name in test_binaries()? {
        if name != LAB && name != LIVE {
            others.extend(["--test".to_string(), name]);
        }
    }
    Ok(vec![
        unit_tests(),
        ("tests of programs and captures", others),
        ("documentation", words("--no-fail-fast --doc")),
        ("lab", words("--test lab")),
        // All are started at once, and make room for each other.
        ("live", words("--test live -- --test-threads 100")),
    ])
}

fn unit_tests() -> Tests {
    ("unit tests", words("--no-fail-fast --lib --bins"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

/// The names of all test binaries of the workspace.
fn test_binaries() -> anyhow::Result<BTreeSet<String>> {
    let names = tree::names(root()?)?;
    Ok(names.iter().filter_map(|path| test_binary(path)).map(str::to_string).collect())
}

/// The test binary whose first file this is.
fn test_binary(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, "tests", file] => file.strip_suffix(".rs"),
        ["crates", _, "tests", folder, "main.rs"] => Some(folder),
        _ => None,
    }
}

fn cargo(words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root()?).stdin(std::process::Stdio::null());
    Ok(command)
}

/// A phase that is part of this program.
fn own(name: &'static str, check: fn() -> anyhow::Result<bool>) -> anyhow::Result<Outcome> {
    println!("\n== {name}");
    let began = Instant::now();
    let passed = check()?;
    Ok(Outcome { name, passed, time: began.elapsed(), ..Outcome::default() })
}

/// An empty file for the notes of the tests, in the folder of what is built.
fn notes_file() -> anyhow::Result<PathBuf> {
    let folder = target_folder()?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join("test-notes");
    std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The variable that names cargo's runner: `CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER`.
fn runner_variable() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV does not say its host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace(['-', '.'], "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_test_binary_is_known() {
        for (path, name) in [
            ("crates/netwhy/tests/live.rs", Some("live")),
            ("crates/streams/tests/oracle/main.rs", Some("oracle")),
            ("crates/netwhy/tests/live/host.rs", None),
            ("crates/streams/src/tests.rs", None),
        ] {
            assert_eq!(test_binary(path), name, "{path}");
        }
        let all = test_binaries().expect("the files of the repository");
        assert!([LAB, LIVE].iter().all(|name| all.contains(*name)), "{all:?}");
    }
}
