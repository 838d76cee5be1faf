//! The score of many runs: for each cause named, missed and wrongly named; precision, recall, time
//! to diagnosis; and which cause was taken for which.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::run::{Measured, Outcome};

/// What stands in the matrix for a network in which nothing is broken, and for no name at all.
const NOTHING: &str = "(nothing)";

/// The score.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Score {
    /// Runs.
    pub runs: usize,
    /// Runs that did not come to their end.
    pub broken: usize,
    /// Each cause that was expected or named.
    pub causes: BTreeMap<String, Tally>,
    /// Steps in which nothing was broken, and how many of them had a finding.
    pub healthy: Healthy,
    /// What was (first) and what was named for it (second), in steps.
    pub confusion: BTreeMap<String, BTreeMap<String, usize>>,
    /// Remedies that were measured, and how many improved the figure as they had to.
    pub remedies: Remedies,
    #[serde(skip)]
    seconds: Vec<f64>,
}

/// One cause.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// Expected and named.
    pub named: usize,
    /// Expected and not named, though its rule is there.
    pub missed: usize,
    /// Expected and not named, for want of a rule.
    pub pending: usize,
    /// Named and not so.
    pub wrong: usize,
    /// Why it is pending.
    pub why: Option<String>,
}

/// Steps in which nothing was broken.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Healthy {
    /// All.
    pub steps: usize,
    /// Those with a finding.
    pub disturbed: usize,
}

/// Remedies.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Remedies {
    /// Measured.
    pub measured: usize,
    /// Those that improved the figure by what they had to.
    pub worked: usize,
}

impl Tally {
    /// Named, of all that were named.
    pub fn precision(&self) -> Option<f64> {
        share(self.named, self.named + self.wrong)
    }

    /// Named, of all that should have been.
    pub fn recall(&self) -> Option<f64> {
        share(self.named, self.named + self.missed + self.pending)
    }
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
            score.broken += usize::from(outcome.error.is_some());
            for step in &outcome.steps {
                score.add(step);
            }
        }
        score.seconds.sort_by(f64::total_cmp);
        score
    }

    fn add(&mut self, step: &Measured) {
        let verdict = &step.verdict;
        for cause in &verdict.named {
            self.tally(cause).named += 1;
            self.confuse(cause, cause);
        }
        let wrong: Vec<&str> = verdict.wrong.iter().map(|wrong| wrong.cause.as_str()).collect();
        for missed in &verdict.missed {
            let tally = self.tally(&missed.cause);
            match &missed.pending {
                Some(why) => {
                    tally.pending += 1;
                    tally.why = Some(why.clone());
                }
                None => tally.missed += 1,
            }
            match wrong.as_slice() {
                [] => self.confuse(&missed.cause, NOTHING),
                names => names.iter().for_each(|name| self.confuse(&missed.cause, name)),
            }
        }
        for cause in &wrong {
            self.tally(cause).wrong += 1;
        }
        if step.expected.is_empty() {
            self.healthy.steps += 1;
            self.healthy.disturbed += usize::from(!wrong.is_empty());
            match wrong.as_slice() {
                [] => self.confuse(NOTHING, NOTHING),
                names => names.iter().for_each(|name| self.confuse(NOTHING, name)),
            }
        }
        if let Some(improved) = &step.improved {
            self.remedies.measured += 1;
            let worked = improved.got.is_some_and(|got| got >= improved.wanted);
            self.remedies.worked += usize::from(worked);
        }
        self.seconds.extend(step.seen.iter().map(|seen| seen.seconds));
    }

    fn tally(&mut self, cause: &str) -> &mut Tally {
        self.causes.entry(cause.to_string()).or_default()
    }

    fn confuse(&mut self, is: &str, named: &str) {
        let row = self.confusion.entry(is.to_string()).or_default();
        *row.entry(named.to_string()).or_default() += 1;
    }

    /// All causes together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.causes.values() {
            total.named += tally.named;
            total.missed += tally.missed;
            total.pending += tally.pending;
            total.wrong += tally.wrong;
        }
        total
    }

    /// Recall over the causes whose rule is there.
    pub fn recall_of_implemented(&self) -> Option<f64> {
        let total = self.total();
        share(total.named, total.named + total.missed)
    }

    /// Time from the start of a look to its report: median, 95th percentile, seconds.
    pub fn time_to_diagnosis(&self) -> Option<(f64, f64)> {
        let at = |share: f64| {
            let last = self.seconds.len().checked_sub(1)?;
            self.seconds.get((last as f64 * share).round() as usize).copied()
        };
        Some((at(0.5)?, at(0.95)?))
    }

    /// The score as Markdown: a table of causes, the totals, the matrix.
    pub fn markdown(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::from(
            "| cause | named | missed | wrongly named | precision | recall | |\n\
             |---|---:|---:|---:|---:|---:|---|\n",
        );
        // Nothing of a String fails.
        for (cause, tally) in &self.causes {
            let _ = writeln!(
                out,
                "| {cause} | {} | {} | {} | {} | {} | {} |",
                tally.named,
                tally.missed + tally.pending,
                tally.wrong,
                ratio(tally.precision()),
                ratio(tally.recall()),
                tally.why.as_deref().map(|why| format!("no rule yet: {why}")).unwrap_or_default()
            );
        }
        let total = self.total();
        let _ = writeln!(
            out,
            "| **all** | {} | {} | {} | {} | {} | |\n",
            total.named,
            total.missed + total.pending,
            total.wrong,
            ratio(total.precision()),
            ratio(total.recall())
        );
        for line in self.summary() {
            let _ = writeln!(out, "- {line}");
        }
        let columns: Vec<&String> = {
            let named = self.confusion.values().flat_map(BTreeMap::keys);
            let mut all: Vec<&String> = named.collect();
            all.sort();
            all.dedup();
            all
        };
        let head: Vec<&str> = columns.iter().map(|name| name.as_str()).collect();
        let _ = writeln!(out, "\n| is \\ named | {} |", head.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.len()));
        for (is, row) in &self.confusion {
            let cells: Vec<String> = columns
                .iter()
                .map(|name| row.get(*name).map_or("·".to_string(), ToString::to_string))
                .collect();
            let _ = writeln!(out, "| {is} | {} |", cells.join(" | "));
        }
        out
    }

    /// The totals, a sentence each.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let total = self.total();
        if let Some(recall) = self.recall_of_implemented() {
            lines.push(format!(
                "causes with a rule: {} of {} named, recall {recall:.3}",
                total.named,
                total.named + total.missed
            ));
        }
        if total.pending > 0 {
            lines.push(format!("{} more missed for want of a rule", total.pending));
        }
        lines.push(format!(
            "healthy steps: {} of {} without a finding, precision {}",
            self.healthy.steps - self.healthy.disturbed,
            self.healthy.steps,
            ratio(share(self.healthy.steps - self.healthy.disturbed, self.healthy.steps))
        ));
        if self.remedies.measured > 0 {
            let (worked, all) = (self.remedies.worked, self.remedies.measured);
            lines.push(format!("remedies: {worked} of {all} improved the figure as they had to"));
        }
        if let Some((median, most)) = self.time_to_diagnosis() {
            lines.push(format!(
                "time to diagnosis, the window included: {median:.1} s (median), {most:.1} s (p95)"
            ));
        }
        if self.broken > 0 {
            lines.push(format!("{} of {} runs did not come to their end", self.broken, self.runs));
        }
        lines
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Missed, Verdict, Wrong};
    use crate::run::Improved;

    fn step(expected: &[&str], named: &[&str], pending: &[&str], wrong: &[&str]) -> Measured {
        let is_named = |cause: &&&str| named.contains(cause);
        let missed = expected.iter().filter(|cause| !is_named(cause)).map(|cause| Missed {
            cause: cause.to_string(),
            pending: pending.contains(cause).then(|| "needs packets".to_string()),
            instead: None,
        });
        let wrongly = |cause: &&str| Wrong {
            cause: cause.to_string(),
            host: "h".into(),
            subject: String::new(),
            worst: false,
        };
        Measured {
            expected: expected.iter().map(ToString::to_string).collect(),
            figures: BTreeMap::new(),
            figure: "p50_ms".into(),
            seen: vec![],
            verdict: Verdict {
                named: named.iter().map(ToString::to_string).collect(),
                missed: missed.collect(),
                wrong: wrong.iter().map(wrongly).collect(),
            },
            links: vec![],
            improved: Some(Improved { wanted: 2.0, got: Some(3.0) }),
        }
    }

    fn outcome(steps: Vec<Measured>) -> Outcome {
        Outcome {
            scenario: "s".into(),
            kind: "fault",
            seed: None,
            parameters: Default::default(),
            steps,
            error: None,
        }
    }

    #[test]
    fn counts_precision_recall_and_confusion() {
        let outcomes = [
            outcome(vec![step(&["a"], &["a"], &[], &[]), step(&[], &[], &[], &[])]),
            outcome(vec![step(&["a", "b"], &["a"], &["b"], &[])]),
            outcome(vec![step(&["a"], &[], &[], &["c"]), step(&[], &[], &[], &["c"])]),
        ];
        let score = Score::of(&outcomes);
        assert_eq!(score.causes["a"].recall(), Some(2.0 / 3.0));
        assert_eq!(score.causes["a"].precision(), Some(1.0));
        assert_eq!(score.causes["b"].recall(), Some(0.0));
        assert_eq!(score.causes["c"].precision(), Some(0.0));
        assert_eq!(score.recall_of_implemented(), Some(2.0 / 3.0));
        assert_eq!((score.healthy.steps, score.healthy.disturbed), (2, 1));
        assert_eq!(score.confusion["a"]["c"], 1);
        assert_eq!(score.confusion["b"][NOTHING], 1);
        assert_eq!(score.confusion[NOTHING]["c"], 1);
        assert_eq!(score.remedies.worked, 5);
        let text = score.markdown();
        assert!(
            text.contains("| b | 0 | 1 | 0 | – | 0.00 | no rule yet: needs packets |"),
            "{text}"
        );
    }
}
