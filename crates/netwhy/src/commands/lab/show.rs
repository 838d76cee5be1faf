//! Scenarios, outcomes and scores as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use lab::cpu_shortage::CpuShortage;
use lab::gain::GainError;
use lab::judge::Observation;
use lab::observer::MemorySample;
use lab::outcome::{Conditions, LinkUsage, Outcome, StepOutcome};
use lab::scenario::types::Excuse;
use lab::scenario::vary::Values;
use lab::scenario::{Kind, Scenario};
use lab::score::{Score, ratio};
use model::ExpectedGain;
use text::figures::significant;
use text::{Column, Table, count, percent};

use crate::output;

/// Lateness of an emulated link from which its run is in doubt: a tick at 250 Hz.
const MAX_LATENESS: Duration = Duration::from_millis(4);
/// Columns of the word that begins a line of an outcome.
const LABEL_WIDTH: usize = 8;

/// Appends a line that begins with a label, wrapped to the width.
fn put(out: &mut String, label: &str, text: &str) {
    let first = format!("  {label:LABEL_WIDTH$} ");
    let hang = " ".repeat(first.len());
    for line in text::wrap(text, &first, &hang, output::columns()) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// `netwhy lab list`
pub(super) fn list(all: &[(String, Scenario)]) -> String {
    let mut out = String::new();
    for (kind, heading) in [
        (Kind::Fault, "Faults: one cause, or a chain of causes that are fixed one by one"),
        (Kind::Compound, "Compounds: two causes at once"),
        (Kind::Healthy, "Healthy networks: nothing must be named"),
    ] {
        let mut table = Table::new([Column::left(""), Column::left("")]);
        for (name, scenario) in all.iter().filter(|(_, scenario)| scenario.kind == kind) {
            table.row([name, &scenario.title]);
        }
        let heading = text::wrap(heading, "", "  ", output::columns()).join("\n");
        let _ = writeln!(out, "{heading}\n\n{}", table.text("  ", output::columns()));
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
                .map(|expect| {
                    serde_json::json!({
                        "cause": expect.cause.get_ref(),
                        "no_rule": expect.no_rule,
                        "undecidable": expect.undecidable,
                    })
                })
                .collect();
            serde_json::json!({
                "name": name, "kind": scenario.kind.name(), "title": scenario.title,
                "about": scenario.about, "expect": causes,
            })
        })
        .collect();
    crate::output::json(&rows)
}

/// One outcome in full.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let mut out = format!("{}{}\n", outcome.scenario, seed(outcome));
    let parameters = parameters(&outcome.parameters);
    if !parameters.is_empty() {
        put(&mut out, "with", &parameters);
    }
    for (number, step) in outcome.steps.iter().enumerate() {
        if number > 0 {
            out.push_str("  fixed\n");
        }
        put_step(&mut out, step);
    }
    if let Some(error) = &outcome.error {
        put(&mut out, "FAILED", error.trim_end());
    }
    if let Some(conditions) = &outcome.failed_step {
        put_conditions(&mut out, conditions, Detail::Full);
    }
    let _ = writeln!(out, "  {}\n", verdict(outcome));
    out
}

/// A predicted gain, and what the fix gave.
fn gain(one: &GainError) -> String {
    let words = match (&one.change, &one.gain) {
        (Some(change), _) => format!(
            "{} {} predicted, {} measured",
            significant(change.predicted),
            change.unit,
            significant(change.measured)
        ),
        (None, ExpectedGain::NotPredictable { why }) => format!("not predictable: {why}"),
        (None, ExpectedGain::Predicted(_)) => "of a figure that was not measured".to_string(),
    };
    format!("{}: {words}", one.cause)
}

/// One step in full.
fn put_step(out: &mut String, step: &StepOutcome) {
    put(out, "measured", &figures(step));
    if let Some(improvement) = &step.improvement {
        let measured = match improvement.measured {
            Some(times) => format!("{} times better", significant(times)),
            None => "no figure to compare".to_string(),
        };
        let required = significant(improvement.required);
        put(out, "", &format!("{measured} (at least {required} required)"));
        for one in &improvement.gains {
            put(out, "gain", &gain(one));
        }
    }
    let watched = step.observations.iter().any(|one| !one.memory.is_empty());
    let brief = step.is_as_expected() && !watched;
    let detail = if brief { Detail::Brief } else { Detail::Full };
    put_conditions(out, &step.conditions, detail);
    for observation in &step.observations {
        put_memory(out, observation);
        if observation.findings.is_empty() {
            let text = format!("nothing named ({:.1} s)", observation.seconds);
            put(out, &observation.host, &text);
        }
        for finding in &observation.findings {
            let (cause, seconds) = (&finding.cause, observation.seconds);
            let (title, subject) = (&finding.title, &finding.subject);
            let text = format!("{cause} ({seconds:.1} s)\n{title}\n{subject}");
            put(out, &observation.host, &text);
        }
    }
    for missed in &step.verdict.missed {
        let why = match (&missed.excuse, &missed.named_subject) {
            (Some(excuse), _) => format!(" ({})", excuse.sentence()),
            (None, Some(subject)) => format!(": named with another subject, {subject}"),
            (None, None) => String::new(),
        };
        put(out, "MISSED", &format!("{}{why}", missed.cause));
    }
    for wrong in &step.verdict.wrong {
        let never = if wrong.never { ": must never be named here" } else { "" };
        put(out, "WRONG", &format!("{} on {}{never}", wrong.cause, wrong.host));
    }
}

/// The memory of netwhy on a host: at its first reading, and the most, with their times.
fn put_memory(out: &mut String, observation: &Observation) {
    let most = observation.memory.iter().max_by_key(|sample| sample.resident);
    let (Some(first), Some(last), Some(most)) =
        (observation.memory.first(), observation.memory.last(), most)
    else {
        return;
    };
    let of = |sample: &MemorySample| {
        format!("{} after {:.0} s", text::bytes(sample.resident), sample.seconds)
    };
    let text = format!(
        "memory of netwhy on {}: {}, {}; at most {}",
        observation.host,
        of(first),
        of(last),
        of(most)
    );
    put(out, "memory", &text);
}

/// How much is shown of the conditions of a step.
#[derive(Clone, Copy, PartialEq)]
enum Detail {
    /// Lateness only of links that were too late.
    Brief,
    /// The lateness of every link, and the CPU that the machine lacked.
    Full,
}

fn put_conditions(out: &mut String, conditions: &Conditions, detail: Detail) {
    for link in &conditions.links {
        put(out, "link", &link_usage(link, detail));
    }
    let shortage = cpu_shortage(&conditions.cpu_shortage);
    if detail == Detail::Full && !shortage.is_empty() {
        put(out, "cpu", &shortage);
    }
}

/// What a link did, and how late it was.
fn link_usage(link: &LinkUsage, detail: Detail) -> String {
    let mut out = format!("{}: {}", link.name, count(link.packets, "packet"));
    if link.dropped > 0 {
        let _ = write!(out, ", {} dropped", text::number(link.dropped));
    }
    let unreliable = Duration::from_micros(link.late_p99_us) > MAX_LATENESS;
    if unreliable || (detail == Detail::Full && link.packets > 0) {
        let p99 = text::micros(link.late_p99_us);
        let _ = write!(out, "; late {p99} (p99), {} (max)", text::micros(link.late_max_us));
    }
    if unreliable {
        out.push_str(": UNRELIABLE, the emulator had no CPU");
    }
    out
}

/// How much CPU the machine lacked; empty when that is not known.
fn cpu_shortage(shortage: &CpuShortage) -> String {
    let waiting = shortage
        .waiting
        .map(|share| format!("a task waited for a CPU {} of the time", percent(share)));
    let stolen =
        shortage.stolen.map(|share| format!("the hypervisor took {} of the CPUs", percent(share)));
    let busy = shortage.busy.map(|share| format!("the CPUs were {} busy", percent(share)));
    let all: Vec<String> = [busy, waiting, stolen].into_iter().flatten().collect();
    all.join(", ")
}

/// One outcome in one line, with what was not as expected below it.
pub(super) fn line(outcome: &Outcome) -> String {
    let named: Vec<&str> =
        outcome.steps.iter().flat_map(|step| &step.verdict.named).map(String::as_str).collect();
    let named = if named.is_empty() { "nothing".to_string() } else { named.join(", ") };
    let mut out =
        format!("{:15}  {}{}: {named}\n", verdict(outcome), outcome.scenario, seed(outcome));
    for step in &outcome.steps {
        for missed in step.verdict.missed.iter().filter(|missed| missed.excuse.is_none()) {
            let subject = missed.named_subject.as_deref();
            let subject = subject.map(|subject| format!(" (named with the subject {subject})"));
            let _ = writeln!(out, "    missed {}{}", missed.cause, subject.unwrap_or_default());
        }
        for wrong in &step.verdict.wrong {
            let _ =
                writeln!(out, "    wrong  {} on {}: {}", wrong.cause, wrong.host, wrong.subject);
        }
        if let Some(improvement) = step.improvement.as_ref().filter(|one| !one.is_sufficient()) {
            let measured = improvement.measured.map_or("no figure".to_string(), significant);
            let required = significant(improvement.required);
            let _ = writeln!(out, "    {measured} times better, {required} required");
        }
        if !step.is_as_expected() {
            line_conditions(&mut out, &step.conditions);
        }
    }
    if let Some(error) = &outcome.error {
        let _ = writeln!(out, "    {}", error.trim_end().replace('\n', "\n    "));
    }
    if let Some(conditions) = &outcome.failed_step {
        line_conditions(&mut out, conditions);
    }
    out
}

/// The worst link and the CPU of a step that was not as expected.
fn line_conditions(out: &mut String, conditions: &Conditions) {
    if let Some(link) = conditions.links.iter().max_by_key(|link| link.late_max_us) {
        let _ = writeln!(out, "    link {}", link_usage(link, Detail::Full));
    }
    let shortage = cpu_shortage(&conditions.cpu_shortage);
    if !shortage.is_empty() {
        let _ = writeln!(out, "    cpu {shortage}");
    }
}

fn verdict(outcome: &Outcome) -> &'static str {
    if outcome.error.is_some() {
        return "DID NOT RUN";
    }
    if !outcome.is_as_expected() {
        return "NOT AS EXPECTED";
    }
    let missed = outcome.steps.iter().flat_map(|step| &step.verdict.missed);
    let excuses: Vec<&Excuse> = missed.filter_map(|missed| missed.excuse.as_ref()).collect();
    match excuses.iter().any(|excuse| matches!(excuse, Excuse::NoRule(_))) {
        true => "no rule yet",
        false if excuses.is_empty() => "as expected",
        false => "not decidable",
    }
}

fn seed(outcome: &Outcome) -> String {
    outcome.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default()
}

fn parameters(values: &Values) -> String {
    let all: Vec<String> = values.iter().map(|(name, value)| format!("{name} {value}")).collect();
    all.join(", ")
}

/// The figure that counts, then the others.
fn figures(step: &StepOutcome) -> String {
    let first = match step.figures.get(&step.figure) {
        Some(value) => figure(&step.figure, *value),
        None if step.figures.is_empty() => "nothing".to_string(),
        None => format!("no {}", step.figure.replace('_', " ")),
    };
    let rest = step.figures.iter().filter(|(name, _)| **name != step.figure);
    let mut all = vec![first];
    all.extend(rest.map(|(name, value)| figure(name, *value)));
    all.join(", ")
}

/// One figure with its unit, which is the end of its name: `p99 1,035 ms`, `95 Mbit/s`.
fn figure(name: &str, value: f64) -> String {
    let value = significant(value);
    let words = |name: &str| name.replace('_', " ");
    let with_unit = |stem: &str, unit: &str| match stem.trim_end_matches('_') {
        "" => format!("{value} {unit}"),
        stem => format!("{} {value} {unit}", words(stem)),
    };
    if let Some(stem) = name.strip_suffix("mbit_per_second") {
        with_unit(stem, "Mbit/s")
    } else if let Some(counted) = name.strip_suffix("_per_second") {
        format!("{value} {}/s", words(counted))
    } else if let Some(stem) = name.strip_suffix("_ms") {
        with_unit(stem, "ms")
    } else if let Some(stem) = name.strip_suffix("seconds") {
        with_unit(stem, "s")
    } else {
        format!("{value} {}", words(name))
    }
}

/// The score for a terminal.
pub(super) fn score(score: &Score) -> String {
    let mut table = Table::new([
        Column::left("cause"),
        Column::right("named"),
        Column::right("missed"),
        Column::right("wrong"),
        Column::right("precision"),
        Column::right("recall"),
        Column::left(""),
    ]);
    for (cause, tally) in &score.causes {
        table.row([
            cause.clone(),
            tally.named.to_string(),
            tally.all_missed().to_string(),
            tally.wrong.to_string(),
            ratio(tally.precision()),
            ratio(tally.recall()),
        ]);
        for excuse in &tally.excuses {
            table.note(&excuse.sentence());
        }
    }
    let mut out = format!("\n{}\n", table.text("", output::columns()));
    for line in score.summary() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// `docs/lab-score.md`
pub(super) fn score_page(score: &Score, outcomes: &[Outcome]) -> String {
    let mut out = String::from(
        "# The score of the lab\n\n\
         Written by `netwhy lab score`: every scenario on a real kernel with real programs; the \
         causes that netwhy named, missed and wrongly named.\n\n",
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
        if drawn { "drawn by seed" } else { "with their defaults" },
    );
    out.push_str(&score.markdown());
    out.push_str(
        "\n## The runs\n\n\
         | scenario | kind | seed | named | figure | improvement | expected gain | |\n\
         |---|---|---:|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let named: Vec<&str> =
            outcome.steps.iter().flat_map(|s| &s.verdict.named).map(String::as_str).collect();
        let figures: Vec<String> = outcome
            .steps
            .iter()
            .map(|step| {
                let value = step.figures.get(&step.figure);
                value.map_or("–".to_string(), |value| figure(&step.figure, *value))
            })
            .collect();
        let improvements: Vec<String> = outcome
            .steps
            .iter()
            .filter_map(|step| step.improvement.as_ref())
            .map(|one| format!("× {}", one.measured.map_or("–".to_string(), significant)))
            .collect();
        let fixes = outcome.steps.iter().filter_map(|step| step.improvement.as_ref());
        let gains: Vec<String> = fixes.flat_map(|fix| &fix.gains).map(gain).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            outcome.scenario,
            outcome.kind,
            outcome.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            named.join(", "),
            figures.join(" → "),
            improvements.join(", "),
            gains.join("; "),
            verdict(outcome)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_unit() {
        for (name, value, shown) in [
            ("p99_ms", 1035.0, "p99 1,035 ms"),
            ("longest_ms", 4.0, "longest 4 ms"),
            ("requests_per_second", 11_327.4, "11,327 requests/s"),
            ("mbit_per_second", 95.0, "95 Mbit/s"),
            ("first_mbit_per_second", 200.0, "first 200 Mbit/s"),
            ("seconds", 5.01, "5.01 s"),
            ("errors", 0.0, "0 errors"),
        ] {
            assert_eq!(figure(name, value), shown);
        }
    }

    #[test]
    fn the_lateness_of_a_link_is_shown_when_it_matters() {
        let link = |late_p99_us, late_max_us| LinkUsage {
            name: "a-b".into(),
            packets: 1,
            dropped: 0,
            late_p99_us,
            late_max_us,
        };
        assert_eq!(link_usage(&link(90, 75_000), Detail::Brief), "a-b: 1 packet");
        assert_eq!(
            link_usage(&link(90, 75_000), Detail::Full),
            "a-b: 1 packet; late 90 µs (p99), 75 ms (max)"
        );
        let unreliable = link_usage(&link(12_000, 75_000), Detail::Brief);
        assert!(
            unreliable
                .ends_with("late 12 ms (p99), 75 ms (max): UNRELIABLE, the emulator had no CPU")
        );
    }
}
