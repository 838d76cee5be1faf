//! What was found, held against what must be found.

use model::Finding;
use serde::Serialize;

use crate::scenario::types::{Expect, Step};
use crate::watcher::Said;

/// What an observer found.
#[derive(Debug, Clone, Serialize)]
pub struct Seen {
    /// On which host.
    pub host: String,
    /// From the start of the look to its report, seconds.
    pub seconds: f64,
    /// The causes, worst first.
    pub findings: Vec<Found>,
    /// Consequences under these findings, by the cause that each would be.
    pub effects: Vec<String>,
    /// Causes that could not be decided.
    pub undecided: Vec<String>,
}

/// One finding, short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Id of the cause.
    pub cause: String,
    /// One line.
    pub title: String,
    /// At fault: name, ends, processes.
    pub subject: String,
}

impl Seen {
    /// The short form of a report.
    pub(crate) fn of(host: &str, seconds: f64, report: &Said) -> Self {
        let effects = report.findings.iter().flat_map(|finding| &finding.also_causes);
        Seen {
            host: host.to_string(),
            seconds,
            findings: report.findings.iter().map(Found::of).collect(),
            effects: effects.filter_map(|effect| effect.cause.clone()).collect(),
            undecided: report.undecided.iter().map(|u| u.cause.clone()).collect(),
        }
    }
}

impl Found {
    fn of(finding: &Finding) -> Self {
        let subject = &finding.subject;
        let ends = [subject.local, subject.remote].into_iter().flatten().map(|end| end.to_string());
        let processes = subject.processes.iter().map(|process| process.name.clone());
        let mut parts = vec![subject.name.clone()];
        for part in ends.chain(processes) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        Found {
            cause: finding.cause.clone(),
            title: finding.title.clone(),
            subject: parts.join(" · "),
        }
    }
}

/// The judgement of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Causes expected and named, with the right subject.
    pub named: Vec<String>,
    /// Causes expected and not named.
    pub missed: Vec<Missed>,
    /// Causes named that are not so.
    pub wrong: Vec<Wrong>,
}

/// A cause that was expected and not named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missed {
    /// Id of the cause.
    pub cause: String,
    /// Why it cannot be named yet; `None`: it should have been.
    pub pending: Option<String>,
    /// It was named, of something else: what was named.
    pub instead: Option<String>,
}

/// A cause that was named and is not so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wrong {
    /// Id of the cause.
    pub cause: String,
    /// Who named it.
    pub host: String,
    /// What it was named of.
    pub subject: String,
    /// The scenario says that it would be worst to name just this.
    pub worst: bool,
}

impl Verdict {
    /// Nothing wrong, nothing missed but what cannot be named yet.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.missed.iter().all(|missed| missed.pending.is_some())
    }
}

/// Holds what was seen against a step; `fill` puts in what names in subjects stand for.
pub(crate) fn judge(
    step: &Step,
    seen: &[Seen],
    fill: &dyn Fn(&str) -> crate::Result<String>,
) -> crate::Result<Verdict> {
    let mut verdict = Verdict::default();
    for expect in &step.expect {
        let texts: Vec<String> =
            expect.subject.iter().map(|text| fill(text.get_ref())).collect::<Result<_, _>>()?;
        let named: Vec<&Found> = found(expect, seen).collect();
        let cause = expect.cause.get_ref().clone();
        if named.iter().any(|found| texts.iter().all(|text| found.subject.contains(text))) {
            verdict.named.push(cause);
        } else {
            let instead = named.first().map(|found| found.subject.clone());
            verdict.missed.push(Missed { cause, pending: expect.pending.clone(), instead });
        }
    }
    for seen in seen {
        for found in &seen.findings {
            let expected = step.expect.iter().any(|expect| {
                let here = expect.on.as_ref().is_none_or(|on| *on.get_ref() == seen.host);
                here && *expect.cause.get_ref() == found.cause
            });
            let allowed = step.may.iter().any(|may| *may.get_ref() == found.cause);
            if !expected && !allowed {
                verdict.wrong.push(Wrong {
                    cause: found.cause.clone(),
                    host: seen.host.clone(),
                    subject: found.subject.clone(),
                    worst: step.never.iter().any(|never| *never.get_ref() == found.cause),
                });
            }
        }
    }
    Ok(verdict)
}

fn found<'a>(expect: &'a Expect, seen: &'a [Seen]) -> impl Iterator<Item = &'a Found> {
    seen.iter()
        .filter(|seen| expect.on.as_ref().is_none_or(|on| *on.get_ref() == seen.host))
        .flat_map(|seen| &seen.findings)
        .filter(|found| found.cause == *expect.cause.get_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(host: &str, causes: &[(&str, &str)]) -> Seen {
        let found = |(cause, subject): &(&str, &str)| Found {
            cause: (*cause).into(),
            title: String::new(),
            subject: (*subject).into(),
        };
        Seen {
            host: host.into(),
            seconds: 3.0,
            findings: causes.iter().map(found).collect(),
            effects: vec![],
            undecided: vec![],
        }
    }

    fn verdict(step: &str, seen: &[Seen]) -> Verdict {
        let step: Step = toml::from_str(step).unwrap();
        judge(&step, seen, &|text| Ok(text.to_string())).unwrap()
    }

    const STEP: &str = r#"
        expect = [
            { cause = "fd-exhausted", subject = ["nginx"], on = "server" },
            { cause = "rate-shaped", pending = "needs packets" },
        ]
        may = ["syn-retransmitted"]
        never = ["accept-queue-overflow"]
    "#;

    #[test]
    fn named_missed_and_wrong() {
        let server = seen("server", &[("fd-exhausted", "nginx · 0.0.0.0:80")]);
        let client = seen("client", &[("syn-retransmitted", "x")]);
        let good = verdict(STEP, &[server.clone(), client]);
        assert_eq!(good.named, ["fd-exhausted"]);
        assert_eq!(good.missed[0].pending.as_deref(), Some("needs packets"));
        assert!(good.is_good());

        let other = verdict(STEP, &[seen("server", &[("fd-exhausted", "php-fpm")])]);
        assert_eq!(other.missed[0].instead.as_deref(), Some("php-fpm"));
        assert!(!other.is_good());

        // The right cause, named on a host where it is not.
        let there = verdict(STEP, &[server, seen("client", &[("fd-exhausted", "nginx")])]);
        assert_eq!(there.wrong.len(), 1);
        assert!(!there.is_good() && !there.wrong[0].worst);
        let worst = verdict(STEP, &[seen("server", &[("accept-queue-overflow", "nginx")])]);
        assert!(worst.wrong[0].worst);
    }

    #[test]
    fn a_healthy_step_takes_no_name() {
        let step = Step::default();
        let judged = judge(&step, &[seen("a", &[("fd-exhausted", "x")])], &|t| Ok(t.into()));
        assert_eq!(judged.unwrap().wrong.len(), 1);
    }
}
