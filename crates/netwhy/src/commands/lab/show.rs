//! Scenarios, outcomes and scores as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use text::figures::significant;

use lab::run::{LinkUse, Measured, Outcome};
use lab::scenario::vary::Values;
use lab::scenario::{Kind, Scenario};
use lab::score::Score;

use crate::output;

/// Lateness of an emulated link that a user must know of, microseconds: a tick of many kernels.
const LATE_US: u64 = 4_000;
/// Columns of a terminal.
const WIDTH: usize = 80;

/// Columns before the text of a line: two spaces, a word, a space.
const HANG: usize = 11;

/// A line that begins with a word, broken where the terminal ends.
fn put(out: &mut String, word: &str, text: &str) {
    let first = format!("  {word:8} ");
    for line in text::wrap(text, &first, &" ".repeat(HANG), WIDTH) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// `netwhy lab list`
pub(super) fn list(all: &[(String, Scenario)]) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for kind in [Kind::Fault, Kind::Compound, Kind::Healthy] {
        let of_kind = all.iter().filter(|(_, scenario)| scenario.kind == kind);
        let _ = writeln!(out, "{}", kind.name());
        for (name, scenario) in of_kind {
            let first = format!("  {name:width$}  ");
            let lines = text::wrap(&scenario.title, &first, &" ".repeat(width + 4), WIDTH);
            lines.iter().for_each(|line| {
                // Nothing of a String fails.
                let _ = writeln!(out, "{line}");
            });
        }
        out.push('\n');
    }
    out.push_str("Run one: netwhy lab run NAME    all: netwhy lab score\n");
    out
}

/// `netwhy lab list --json`
pub(super) fn list_json(all: &[(String, Scenario)]) -> anyhow::Result<String> {
    let rows: Vec<_> = all
        .iter()
        .map(|(name, scenario)| {
            let expects = scenario.steps.iter().flat_map(|step| &step.expect);
            let causes: Vec<_> = expects
                .map(|e| serde_json::json!({ "cause": e.cause.get_ref(), "pending": e.pending }))
                .collect();
            serde_json::json!({
                "name": name, "kind": scenario.kind.name(), "title": scenario.title,
                "about": scenario.about, "expect": causes,
            })
        })
        .collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&rows)?))
}

/// One outcome, whole.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let mut out = format!("{}{}\n", outcome.scenario, seed(outcome));
    let parameters = parameters(&outcome.parameters);
    if !parameters.is_empty() {
        put(&mut out, "with", &parameters);
    }
    for (number, step) in outcome.steps.iter().enumerate() {
        if number > 0 {
            out.push_str("  mended\n");
        }
        whole(&mut out, step);
    }
    if let Some(error) = &outcome.error {
        put(&mut out, "FAILED", error.trim_end());
    }
    let _ = writeln!(out, "  {}\n", judgement(outcome));
    output::harmless(&out)
}

/// One step, whole.
fn whole(out: &mut String, step: &Measured) {
    put(out, "measured", &figures(step));
    if let Some(improved) = &step.improved {
        let got = match improved.got {
            Some(got) => format!("{} times better", significant(got)),
            None => "no figure to compare".to_string(),
        };
        put(out, "", &format!("{got} (at least {} wanted)", significant(improved.wanted)));
    }
    for link in &step.links {
        put(out, "link", &link_use(link));
    }
    for seen in &step.seen {
        if seen.findings.is_empty() {
            put(out, &seen.host, &format!("nothing named ({:.1} s)", seen.seconds));
        }
        for found in &seen.findings {
            let (cause, seconds) = (&found.cause, seen.seconds);
            let (title, subject) = (&found.title, &found.subject);
            put(out, &seen.host, &format!("{cause} ({seconds:.1} s)\n{title}\n{subject}"));
        }
    }
    for missed in &step.verdict.missed {
        let why = match (&missed.pending, &missed.instead) {
            (Some(why), _) => format!(" (no rule yet: {why})"),
            (None, Some(instead)) => format!(" of this subject, but of {instead}"),
            (None, None) => String::new(),
        };
        put(out, "MISSED", &format!("{}{why}", missed.cause));
    }
    for wrong in &step.verdict.wrong {
        let worst = if wrong.worst { ": of all names the worst" } else { "" };
        put(out, "WRONG", &format!("{} on {}{worst}", wrong.cause, wrong.host));
    }
}

/// One outcome in one line.
pub(super) fn line(outcome: &Outcome) -> String {
    let named: Vec<&str> =
        outcome.steps.iter().flat_map(|step| &step.verdict.named).map(String::as_str).collect();
    let named = if named.is_empty() { "nothing".to_string() } else { named.join(", ") };
    let mut out =
        format!("{:12} {}{}: {named}\n", judgement(outcome), outcome.scenario, seed(outcome));
    for step in &outcome.steps {
        for missed in step.verdict.missed.iter().filter(|missed| missed.pending.is_none()) {
            let instead = missed.instead.as_deref().map(|i| format!(" (of {i})"));
            let _ = writeln!(out, "    missed {}{}", missed.cause, instead.unwrap_or_default());
        }
        for wrong in &step.verdict.wrong {
            let _ =
                writeln!(out, "    wrong  {} on {}: {}", wrong.cause, wrong.host, wrong.subject);
        }
        if let Some(improved) = step.improved.as_ref().filter(|_| !step.is_good()) {
            let got = improved.got.map_or("no figure".to_string(), significant);
            let _ =
                writeln!(out, "    {got} times better, {} wanted", significant(improved.wanted));
        }
    }
    if let Some(error) = &outcome.error {
        let _ = writeln!(out, "    {}", error.trim_end().replace('\n', "\n    "));
    }
    output::harmless(&out)
}

fn judgement(outcome: &Outcome) -> &'static str {
    let pending = outcome.steps.iter().any(|step| !step.verdict.missed.is_empty());
    match (outcome.error.is_some(), outcome.is_good(), pending) {
        (true, ..) => "did not run",
        (_, true, false) => "as expected",
        (_, true, true) => "no rule yet",
        (_, false, _) => "NOT SO",
    }
}

fn seed(outcome: &Outcome) -> String {
    outcome.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default()
}

fn parameters(values: &Values) -> String {
    let all: Vec<String> = values.iter().map(|(name, value)| format!("{name} {value}")).collect();
    all.join(", ")
}

/// What a link did, and whether it could do what it had to.
fn link_use(link: &LinkUse) -> String {
    let mut out = format!("{}: {} packets", link.name, text::number(link.packets));
    if link.dropped > 0 {
        let _ = write!(out, ", {} dropped", text::number(link.dropped));
    }
    if link.late_p99_us > LATE_US {
        let ms = significant(link.late_p99_us as f64 / 1000.0);
        let _ = write!(out, "; not as it should be: up to {ms} ms late, for want of CPU");
    }
    out
}

/// The figure that counts, then the others.
fn figures(step: &Measured) -> String {
    let show =
        |name: &str, value: f64| format!("{} {}", significant(value), name.replace('_', " "));
    let first = step.figures.get(&step.figure).map(|value| show(&step.figure, *value));
    let rest = step.figures.iter().filter(|(name, _)| **name != step.figure);
    let mut all = vec![first.unwrap_or_else(|| format!("no {}", step.figure.replace('_', " ")))];
    all.extend(rest.map(|(name, value)| show(name, *value)));
    all.join(", ")
}

/// The score for a terminal.
pub(super) fn score(score: &Score) -> String {
    let width = score.causes.keys().map(String::len).max().unwrap_or(0).max(5);
    let mut out = format!(
        "\n{:width$} {:>6} {:>7} {:>6} {:>10} {:>7}\n",
        "cause", "named", "missed", "wrong", "precision", "recall"
    );
    let ratio = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.2}"));
    for (cause, tally) in &score.causes {
        let _ = writeln!(
            out,
            "{cause:width$} {:>6} {:>7} {:>6} {:>10} {:>7}{}",
            tally.named,
            tally.missed + tally.pending,
            tally.wrong,
            ratio(tally.precision()),
            ratio(tally.recall()),
            if tally.pending > 0 { "  no rule yet" } else { "" }
        );
    }
    out.push('\n');
    for line in score.summary() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// `docs/lab-score.md`
pub(super) fn score_page(score: &Score, outcomes: &[Outcome]) -> String {
    let mut out = String::from(
        "# The score of the lab\n\n\
         Written by `netwhy lab score`: every scenario on a real kernel with real programs, what \
         netwhy named, what it missed, what it named wrongly.\n\n",
    );
    let system = rustix::system::uname();
    let names: BTreeSet<&str> = outcomes.iter().map(|o| o.scenario.as_str()).collect();
    let drawn = outcomes.iter().any(|outcome| outcome.seed.is_some());
    let _ = writeln!(
        out,
        "netwhy {}, Linux {}: {} runs of {} scenarios, parameters {}.\n",
        env!("CARGO_PKG_VERSION"),
        system.release().to_string_lossy().split('-').next().unwrap_or_default(),
        score.runs,
        names.len(),
        if drawn { "drawn by seed" } else { "as they stand" },
    );
    out.push_str(&score.markdown());
    out.push_str("\n## The runs\n\n| scenario | kind | seed | named | figure | mended | |\n|---|---|---:|---|---|---|---|\n");
    for outcome in outcomes {
        let named: Vec<&str> =
            outcome.steps.iter().flat_map(|s| &s.verdict.named).map(String::as_str).collect();
        let figures: Vec<String> = outcome
            .steps
            .iter()
            .map(|s| {
                s.figures.get(&s.figure).map_or("–".to_string(), |value| significant(*value))
            })
            .collect();
        let unit = outcome.steps.first().map(|s| s.figure.replace('_', " ")).unwrap_or_default();
        let mended: Vec<String> = outcome
            .steps
            .iter()
            .filter_map(|s| s.improved.as_ref())
            .map(|i| format!("× {}", i.got.map_or("–".to_string(), significant)))
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} {unit} | {} | {} |",
            outcome.scenario,
            outcome.kind,
            outcome.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            named.join(", "),
            figures.join(" → "),
            mended.join(", "),
            judgement(outcome)
        );
    }
    output::harmless(&out)
}
