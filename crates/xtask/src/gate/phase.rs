//! One command of cargo: run, passed on line by line, its results counted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// What one command did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) passed: bool,
    pub(super) time: Duration,
    /// What there is to say of it beyond that.
    pub(super) remark: String,
    pub(super) binaries: Vec<Binary>,
    /// Tests that failed, with their binary.
    pub(super) failed: Vec<String>,
}

/// One test binary.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Binary {
    pub(super) name: String,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    pub(super) time: Duration,
}

/// Runs a command. What it prints, to standard output and error, goes to standard output as it comes.
pub(super) fn run(name: &'static str, command: &mut Command) -> anyhow::Result<Outcome> {
    println!("\n== {name}");
    let began = Instant::now();
    // One pipe for both: the results stand behind the name of their binary then.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The copies of the parent are closed, or the pipe would never end.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut results = Results::default();
    let mut out = std::io::stdout();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what cargo prints")?;
        let line = String::from_utf8_lossy(&line);
        // A reader that went away does not end the tests.
        let _ = writeln!(out, "{line}");
        results.line(&line);
    }
    let status = child.wait().with_context(|| format!("cannot wait for {command:?}"))?;
    Ok(Outcome {
        name,
        passed: status.success(),
        time: began.elapsed(),
        remark: String::new(),
        binaries: results.binaries,
        failed: results.failed,
    })
}

/// Results of tests, from the lines of cargo and of the test harness.
#[derive(Debug, Default)]
struct Results {
    binaries: Vec<Binary>,
    failed: Vec<String>,
    current: String,
}

impl Results {
    fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Running ").and_then(binary_name) {
            self.current = name;
        } else if let Some(name) = line.strip_prefix("Doc-tests ") {
            self.current = format!("documentation of {name}");
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.binaries.push(Binary { name: self.current.clone(), ..counts(result) });
        } else if let Some(test) = failed_test(line) {
            self.failed.push(format!("{}::{test}", self.current));
        }
    }
}

/// `tests/live.rs (target/debug/deps/live-0a1b)`: `live`.
fn binary_name(running: &str) -> Option<String> {
    let program = running.split_once('(')?.1.strip_suffix(')')?;
    let file = program.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name).to_string())
}

/// `ok. 45 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s`
fn counts(result: &str) -> Binary {
    let mut binary = Binary::default();
    for part in result.split(['.', ';']).map(str::trim) {
        if let Some((number, what)) = part.split_once(' ')
            && let Ok(number) = number.parse()
        {
            match what {
                "passed" => binary.passed = number,
                "failed" => binary.failed = number,
                "ignored" => binary.ignored = number,
                _ => {}
            }
        }
    }
    let time = result.rsplit("finished in ").next().and_then(|time| time.strip_suffix('s'));
    let seconds = time.and_then(|time| time.parse().ok()).unwrap_or(0.0);
    binary.time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    binary
}

/// `test live::healthy::an_idle_host ... FAILED`
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_by_binary() {
        let mut results = Results::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/text-83c0)",
            "test figures::tests::sizes ... ok",
            "test result: ok. 45 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s",
            "     Running tests/live.rs (/somewhere/deps/live-0a1b)",
            "test healthy::an_idle_host ... FAILED",
            "test result: FAILED. 62 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 241.70s",
            "   Doc-tests wire",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            results.line(line);
        }
        let all = results.binaries.iter();
        let all: Vec<_> = all
            .map(|b| (b.name.as_str(), b.passed, b.failed, b.ignored, b.time.as_millis()))
            .collect();
        assert_eq!(
            all,
            [
                ("text", 45, 0, 1, 120),
                ("live", 62, 1, 0, 241_700),
                ("documentation of wire", 0, 0, 0, 0)
            ]
        );
        assert_eq!(results.failed, ["live::healthy::an_idle_host"]);
    }

    #[test]
    fn a_command_that_fails_is_an_outcome() {
        let outcome =
            run("a try", Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        let outcome = outcome.unwrap();
        assert!(!outcome.passed && outcome.binaries.is_empty());
        assert!(run("no program", &mut Command::new("/no/such/program")).is_err());
    }
}
