//! What is printed at the end of the tests: each phase with its time, the longest test binaries, what
//! was skipped and why, what failed at first, and the counts.

use std::time::Duration;

use text::{Column, Table, count, duration, number};

use super::notes::Notes;
use super::phase::{Binary, Outcome};

/// Test binaries that are listed.
const BINARIES: usize = 12;
/// Binaries that are faster are not listed.
const WORTH_LISTING: Duration = Duration::from_secs(1);

/// The summary as text, and whether all is well. In CI a skip that is not on the list fails.
pub(super) fn summary(
    outcomes: &[Outcome],
    notes: &Notes,
    ci: bool,
    time: Duration,
) -> (String, bool) {
    let mut text = "\n== what was checked\n".to_string();
    let mut phases = Table::new([
        Column::left("phase"),
        Column::left("result"),
        Column::right("time"),
        Column::left(""),
    ]);
    for outcome in outcomes {
        let result = if outcome.passed { "ok" } else { "FAILED" };
        phases.row([outcome.name, result, &duration(outcome.time), &outcome.remark]);
    }
    text += &phases.text("  ", 100);

    let binaries: Vec<&Binary> = outcomes.iter().flat_map(|outcome| &outcome.binaries).collect();
    let mut longest = binaries.clone();
    longest.sort_by_key(|binary| std::cmp::Reverse(binary.time));
    longest.retain(|binary| binary.time >= WORTH_LISTING);
    if !longest.is_empty() {
        let mut table = Table::new([
            Column::left("longest tests"),
            Column::right("tests"),
            Column::right("time"),
        ]);
        for binary in longest.iter().take(BINARIES) {
            let tests = number(binary.passed + binary.failed);
            table.row([binary.name.as_str(), &tests, &duration(binary.time)]);
        }
        text += &format!("\n{}", table.text("  ", 100));
    }

    let failed: Vec<&String> = outcomes.iter().flat_map(|outcome| &outcome.failed).collect();
    list(&mut text, &count(failed.len() as u64, "test"), "failed", &failed, |test| (*test).clone());
    list(&mut text, &count(notes.skips.len() as u64, "test"), "skipped", &notes.skips, |skip| {
        let allowed = match skip.allowed() {
            Some(why) => format!(" (allowed in CI: {why})"),
            None if ci => " (not allowed in CI)".to_string(),
            None => String::new(),
        };
        format!("{}: {}{allowed}", skip.test, skip.why)
    });
    list(
        &mut text,
        &count(notes.first_failures.len() as u64, "scenario"),
        "failed once and then passed twice (docs/decisions), or failed again",
        &notes.first_failures,
        |one| format!("{} ({}) {}", one.name, one.test, one.remark),
    );

    let sum = |of: fn(&Binary) -> u64| binaries.iter().map(|binary| of(binary)).sum::<u64>();
    let (passed, failures) = (sum(|b| b.passed), sum(|b| b.failed));
    let skipped = notes.skips.len() as u64 + sum(|b| b.ignored);
    let refused = ci && notes.skips.iter().any(|skip| skip.allowed().is_none());
    let well = outcomes.iter().all(|outcome| outcome.passed) && !refused;
    // The last line is read by programs.
    let well_words = if well { "all is well" } else { "NOT all is well" };
    text += &format!(
        "\n{well_words}, in {}\n{passed} passed, {failures} failed, {skipped} skipped\n",
        duration(time)
    );
    (text, well)
}

fn list<T>(text: &mut String, counted: &str, what: &str, all: &[T], line: impl Fn(&T) -> String) {
    if !all.is_empty() {
        *text += &format!("\n  {counted} {what}\n");
        for one in all {
            *text += &format!("    {}\n", line(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::Skip;
    use super::*;

    fn outcome(passed: bool) -> Outcome {
        Outcome {
            name: "tests",
            passed,
            time: Duration::from_secs(65),
            binaries: vec![Binary {
                name: "live".into(),
                passed: 62,
                failed: u64::from(!passed),
                ignored: 1,
                time: Duration::from_secs(40),
            }],
            failed: if passed { Vec::new() } else { vec!["live::an_idle_host".into()] },
            ..Outcome::default()
        }
    }

    fn skip(kind: &str) -> Notes {
        let skip = Skip { test: "live::a".into(), kind: kind.into(), why: "needs it".into() };
        Notes { skips: vec![skip], ..Notes::default() }
    }

    #[test]
    fn counts_stand_in_the_last_line() {
        let (text, well) =
            summary(&[outcome(true)], &Notes::default(), true, Duration::from_secs(70));
        assert!(
            well && text.ends_with("all is well, in 1 min 10 s\n62 passed, 0 failed, 1 skipped\n"),
            "{text}"
        );
        let (text, well) =
            summary(&[outcome(false)], &Notes::default(), false, Duration::from_secs(70));
        assert!(!well && text.contains("1 test failed\n    live::an_idle_host\n"), "{text}");
        assert!(text.ends_with("62 passed, 1 failed, 1 skipped\n"), "{text}");
    }

    #[test]
    fn a_skip_fails_in_ci_unless_it_is_on_the_list() {
        let well = |notes: &Notes, ci| summary(&[outcome(true)], notes, ci, Duration::ZERO).1;
        assert!(well(&skip("not-root"), false) && !well(&skip("not-root"), true));
        assert!(well(&skip("no-captures"), true));
        let (text, _) = summary(&[outcome(true)], &skip("not-root"), true, Duration::ZERO);
        assert!(text.contains("live::a: needs it (not allowed in CI)"), "{text}");
    }
}
