//! The score of many runs: how often each cause was named, missed and wrongly named; precision,
//! recall, time to diagnosis; and which cause was mistaken for which.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::gain::{GOOD_FACTOR, GainError};
use crate::outcome::{Improvement, Outcome, StepOutcome};
use crate::scenario::types::Excuse;

/// Stands in the confusion matrix for a healthy network, and for no finding.
const NOTHING: &str = "(nothing)";

/// The score.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Score {
    /// Runs.
    pub runs: usize,
    /// Runs that did not come to their end.
    pub failed_runs: usize,
    /// Every cause that was expected or named.
    pub causes: BTreeMap<String, Tally>,
    /// Steps in which nothing was broken.
    pub healthy: Healthy,
    /// How often each actual cause (first key) was named as which (second key), in steps.
    pub confusion: BTreeMap<String, BTreeMap<String, usize>>,
    /// Fixes whose effect was measured.
    pub fixes: Fixes,
    /// Steps with a link that held packets back, since its emulator had no CPU. All else counts them too.
    pub late: Late,
    #[serde(skip)]
    seconds: Vec<f64>,
}

/// Steps whose links were not what the scenario describes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Late {
    /// All steps, late or not.
    pub of_steps: usize,
    /// Late ones.
    pub steps: usize,
    /// Causes missed in these, although a rule decides them.
    pub missed: usize,
    /// Causes named in these that were not there.
    pub wrong: usize,
}

/// The score of one cause.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// Expected and named.
    pub named: usize,
    /// Expected and not named, although a rule decides it.
    pub missed: usize,
    /// Expected and not named, because netwhy has no rule for it.
    pub no_rule: usize,
    /// Expected and not named, because the observation does not decide it.
    pub undecidable: usize,
    /// Named and not there.
    pub wrong: usize,
    /// Why it could not be named, each reason once.
    pub excuses: Vec<Excuse>,
}

/// Steps in which nothing was broken.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Healthy {
    /// All.
    pub steps: usize,
    /// Those with a finding.
    pub with_findings: usize,
}

/// Fixes whose effect was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Fixes {
    /// All.
    pub measured: usize,
    /// Those that improved the figure as required.
    pub effective: usize,
    /// Causes that were fixed, and whose gain is not predictable.
    pub not_predictable: usize,
    /// Those whose predicted figure the workload does not measure.
    pub of_another_figure: usize,
    /// How many times the predicted gain is the measured one, or the reverse; in ascending order.
    pub gain_factors: Vec<f64>,
}

impl Tally {
    /// Expected and not named, for whatever reason.
    pub fn all_missed(&self) -> usize {
        self.missed + self.no_rule + self.undecidable
    }

    /// Share of the findings that were right.
    pub fn precision(&self) -> Option<f64> {
        share(self.named, self.named + self.wrong)
    }

    /// Share of the expected causes that were named.
    pub fn recall(&self) -> Option<f64> {
        share(self.named, self.named + self.all_missed())
    }

    /// Why it could not be named; empty if it could.
    pub fn remark(&self) -> String {
        let remarks: Vec<String> = self.excuses.iter().map(Excuse::sentence).collect();
        remarks.join("; ")
    }
}

impl Fixes {
    fn add_gain(&mut self, one: &GainError) {
        match (&one.change, one.gain.predicted()) {
            (Some(change), _) => self.gain_factors.push(change.factor()),
            (None, Some(_)) => self.of_another_figure += 1,
            (None, None) => self.not_predictable += 1,
        }
    }

    /// How well gains were predicted, in one sentence; `None` without any.
    fn gains(&self) -> Option<String> {
        let median = quantile(&self.gain_factors, 0.5)?;
        let p90 = quantile(&self.gain_factors, 0.9)?;
        let good = self.gain_factors.iter().filter(|factor| **factor <= GOOD_FACTOR).count();
        Some(format!(
            "expected gains: {good} of {} within a factor of {GOOD_FACTOR} of what the fix gave; \
             median {median:.2}, 90 % within {p90:.2}; {} of another figure, {} not predictable",
            self.gain_factors.len(),
            self.of_another_figure,
            self.not_predictable
        ))
    }
}

/// Of values in ascending order.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Score {
    /// The score of these runs.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut score = Score::default();
        for outcome in outcomes {
            score.runs += 1;
            score.failed_runs += usize::from(outcome.error.is_some());
            for step in &outcome.steps {
                score.add(step);
            }
        }
        score.seconds.sort_by(f64::total_cmp);
        score.fixes.gain_factors.sort_by(f64::total_cmp);
        score
    }

    fn add(&mut self, step: &StepOutcome) {
        let verdict = &step.verdict;
        for cause in &verdict.named {
            self.tally(cause).named += 1;
            self.add_to_confusion(cause, cause);
        }
        let wrong: Vec<&str> = verdict.wrong.iter().map(|wrong| wrong.cause.as_str()).collect();
        for missed in &verdict.missed {
            let tally = self.tally(&missed.cause);
            match &missed.excuse {
                Some(Excuse::NoRule(_)) => tally.no_rule += 1,
                Some(Excuse::Undecidable(_)) => tally.undecidable += 1,
                None => tally.missed += 1,
            }
            if let Some(excuse) = missed.excuse.as_ref().filter(|e| !tally.excuses.contains(e)) {
                tally.excuses.push(excuse.clone());
            }
            match wrong.as_slice() {
                [] => self.add_to_confusion(&missed.cause, NOTHING),
                names => names.iter().for_each(|name| self.add_to_confusion(&missed.cause, name)),
            }
        }
        for cause in &wrong {
            self.tally(cause).wrong += 1;
        }
        self.late.of_steps += 1;
        if step.conditions.is_late() {
            self.late.steps += 1;
            self.late.missed += verdict.missed.iter().filter(|one| one.excuse.is_none()).count();
            self.late.wrong += wrong.len();
        }
        if step.expected.is_empty() {
            self.healthy.steps += 1;
            self.healthy.with_findings += usize::from(!wrong.is_empty());
            match wrong.as_slice() {
                [] => self.add_to_confusion(NOTHING, NOTHING),
                names => names.iter().for_each(|name| self.add_to_confusion(NOTHING, name)),
            }
        }
        if let Some(improvement) = &step.improvement {
            self.fixes.measured += 1;
            self.fixes.effective += usize::from(Improvement::is_sufficient(improvement));
            for one in &improvement.gains {
                self.fixes.add_gain(one);
            }
        }
        self.seconds.extend(step.observations.iter().map(|observation| observation.seconds));
    }

    fn tally(&mut self, cause: &str) -> &mut Tally {
        self.causes.entry(cause.to_string()).or_default()
    }

    fn add_to_confusion(&mut self, actual: &str, named: &str) {
        let row = self.confusion.entry(actual.to_string()).or_default();
        *row.entry(named.to_string()).or_default() += 1;
    }

    /// All causes together; without the reasons.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.causes.values() {
            total.named += tally.named;
            total.missed += tally.missed;
            total.no_rule += tally.no_rule;
            total.undecidable += tally.undecidable;
            total.wrong += tally.wrong;
        }
        total
    }

    /// Recall over the causes that could be named.
    pub fn recall_of_decidable(&self) -> Option<f64> {
        let total = self.total();
        share(total.named, total.named + total.missed)
    }

    /// Time from the start of an observation to its report: median and 95th percentile, seconds.
    pub fn time_to_diagnosis(&self) -> Option<(f64, f64)> {
        Some((quantile(&self.seconds, 0.5)?, quantile(&self.seconds, 0.95)?))
    }

    /// The score as Markdown: a table of causes, the totals, the confusion matrix.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "| cause | named | missed | wrongly named | precision | recall | |\n\
             |---|---:|---:|---:|---:|---:|---|\n",
        );
        let total = self.total();
        let causes = self.causes.iter().map(|(cause, tally)| (cause.clone(), tally));
        for (cause, tally) in causes.chain([("**all**".to_string(), &total)]) {
            // Writing to a String does not fail.
            let _ = writeln!(
                out,
                "| {cause} | {} | {} | {} | {} | {} | {} |",
                tally.named,
                tally.all_missed(),
                tally.wrong,
                ratio(tally.precision()),
                ratio(tally.recall()),
                tally.remark()
            );
        }
        out.push('\n');
        for line in self.summary() {
            let _ = writeln!(out, "- {line}");
        }
        out.push_str(&self.confusion_matrix());
        out
    }

    fn confusion_matrix(&self) -> String {
        let mut columns: Vec<&String> = self.confusion.values().flat_map(BTreeMap::keys).collect();
        columns.sort();
        columns.dedup();
        let heads: Vec<&str> = columns.iter().map(|name| name.as_str()).collect();
        let mut out = format!("\n| actual \\ named | {} |\n", heads.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.len()));
        for (actual, row) in &self.confusion {
            let cells: Vec<String> = columns
                .iter()
                .map(|name| row.get(*name).map_or("·".to_string(), ToString::to_string))
                .collect();
            let _ = writeln!(out, "| {actual} | {} |", cells.join(" | "));
        }
        out
    }

    /// The totals, one sentence each.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let total = self.total();
        if let Some(recall) = self.recall_of_decidable() {
            lines.push(format!(
                "causes that could be named: {} of {} named, recall {recall:.3}",
                total.named,
                total.named + total.missed
            ));
        }
        if total.no_rule > 0 {
            lines.push(format!("{} more missed: no rule yet", total.no_rule));
        }
        if total.undecidable > 0 {
            lines.push(format!(
                "{} more missed: not decidable from what was observed",
                total.undecidable
            ));
        }
        let quiet = self.healthy.steps - self.healthy.with_findings;
        lines.push(format!(
            "healthy steps: {quiet} of {} without a finding ({})",
            self.healthy.steps,
            share(quiet, self.healthy.steps)
                .map_or("–".to_string(), |share| format!("{share:.3}"))
        ));
        if self.fixes.measured > 0 {
            let (effective, all) = (self.fixes.effective, self.fixes.measured);
            lines.push(format!("fixes: {effective} of {all} improved the figure as required"));
        }
        lines.extend(self.fixes.gains());
        if self.late.steps > 0 {
            lines.push(format!(
                "{} of {} steps had a link that was 20 ms or more late for 1 % of its packets, since the \
                 emulator had no CPU; in these, {} of the {} wrong names and {} of the {} misses",
                self.late.steps,
                self.late.of_steps,
                self.late.wrong,
                total.wrong,
                self.late.missed,
                total.missed
            ));
        }
        if let Some((median, p95)) = self.time_to_diagnosis() {
            lines.push(format!(
                "time to diagnosis, including the observation: {median:.1} s (median), \
                 {p95:.1} s (p95)"
            ));
        }
        if self.failed_runs > 0 {
            lines.push(format!("{} of {} runs did not complete", self.failed_runs, self.runs));
        }
        lines
    }
}

/// A ratio with two decimals; a dash where it is undefined.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Missed, Verdict, WronglyNamed};
    use crate::outcome::LinkUsage;

    fn step(expected: &[&str], named: &[&str], no_rule: &[&str], wrong: &[&str]) -> StepOutcome {
        let is_named = |cause: &&&str| named.contains(cause);
        let missed = expected.iter().filter(|cause| !is_named(cause)).map(|cause| Missed {
            cause: cause.to_string(),
            excuse: no_rule.contains(cause).then(|| Excuse::NoRule("needs packets".to_string())),
            named_subject: None,
        });
        let wrongly_named = |cause: &&str| WronglyNamed {
            cause: cause.to_string(),
            host: "h".into(),
            subject: String::new(),
            never: false,
        };
        StepOutcome {
            expected: expected.iter().map(ToString::to_string).collect(),
            figures: BTreeMap::new(),
            figure: "p50_ms".into(),
            observations: vec![],
            verdict: Verdict {
                named: named.iter().map(ToString::to_string).collect(),
                missed: missed.collect(),
                wrong: wrong.iter().map(wrongly_named).collect(),
            },
            conditions: Default::default(),
            improvement: Some(Improvement { required: 2.0, measured: Some(3.0), gains: vec![] }),
        }
    }

    fn outcome(steps: Vec<StepOutcome>) -> Outcome {
        Outcome { steps, ..Outcome::new("s", None) }
    }

    #[test]
    fn steps_with_late_links_are_counted_apart() {
        let late = |us: u64| {
            let mut step = step(&["a"], &[], &[], &["c"]);
            step.conditions.links.push(LinkUsage {
                name: "a-b".to_string(),
                packets: 1000,
                dropped: 0,
                late_p99_us: us,
                late_max_us: us,
            });
            outcome(vec![step])
        };
        let score = Score::of(&[late(19_000), late(60_000)]);
        assert_eq!((score.late.steps, score.late.missed, score.late.wrong), (1, 1, 1));
        let line = "1 of 2 steps had a link that was 20 ms or more late";
        assert!(score.markdown().contains(line), "{}", score.markdown());
    }

    #[test]
    fn precision_recall_and_confusion_are_counted() {
        let mut undecidable = step(&["d"], &[], &[], &[]);
        undecidable.verdict.missed[0].excuse = Some(Excuse::Undecidable("needs a probe".into()));
        let outcomes = [
            outcome(vec![step(&["a"], &["a"], &[], &[]), step(&[], &[], &[], &[])]),
            outcome(vec![step(&["a", "b"], &["a"], &["b"], &[]), undecidable]),
            outcome(vec![step(&["a"], &[], &[], &["c"]), step(&[], &[], &[], &["c"])]),
        ];
        let score = Score::of(&outcomes);
        assert_eq!(score.causes["a"].recall(), Some(2.0 / 3.0));
        assert_eq!(score.causes["a"].precision(), Some(1.0));
        assert_eq!(score.causes["b"].recall(), Some(0.0));
        assert_eq!(score.causes["c"].precision(), Some(0.0));
        assert_eq!((score.total().no_rule, score.total().undecidable), (1, 1));
        assert_eq!(score.recall_of_decidable(), Some(2.0 / 3.0));
        assert_eq!((score.healthy.steps, score.healthy.with_findings), (2, 1));
        assert_eq!(score.confusion["a"]["c"], 1);
        assert_eq!(score.confusion["b"][NOTHING], 1);
        assert_eq!(score.confusion[NOTHING]["c"], 1);
        assert_eq!(score.fixes.effective, 6);
        let text = score.markdown();
        for row in [
            "| b | 0 | 1 | 0 | – | 0.00 | no rule yet: needs packets |",
            "| d | 0 | 1 | 0 | – | 0.00 | not decidable from this observation: needs a probe |",
            "- 1 more missed: no rule yet\n- 1 more missed: not decidable from what was observed\n",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }
}
