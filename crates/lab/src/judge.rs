//! What netwhy named, compared with what it must name.

use model::{ExpectedGain, Finding};
use serde::Serialize;

use crate::observer::{Diagnosis, MemorySample};
use crate::scenario::types::{Excuse, Expect, Step};

/// The result of one observer.
#[derive(Debug, Clone, Serialize)]
pub struct Observation {
    /// On which host.
    pub host: String,
    /// From the start of the observation to its report, seconds.
    pub seconds: f64,
    /// The causes it named, worst first.
    pub findings: Vec<NamedCause>,
    /// Consequences that these findings list: the ids of the causes they would be.
    pub also_causes: Vec<String>,
    /// Causes that it could not decide.
    pub undecided: Vec<String>,
    /// The memory of netwhy while it watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemorySample>,
}

/// One finding in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedCause {
    /// Id of the cause.
    pub cause: String,
    /// One line.
    pub title: String,
    /// At fault: name, addresses, processes.
    pub subject: String,
    /// What fixing it is expected to give.
    pub gain: ExpectedGain,
}

impl Observation {
    /// The short form of a diagnosis.
    pub(crate) fn new(host: &str, seconds: f64, diagnosis: &Diagnosis) -> Self {
        let also_causes = diagnosis.findings.iter().flat_map(|finding| &finding.also_causes);
        Observation {
            host: host.to_string(),
            seconds,
            findings: diagnosis.findings.iter().map(NamedCause::of).collect(),
            also_causes: also_causes.filter_map(|effect| effect.cause.clone()).collect(),
            undecided: diagnosis.undecided.iter().map(|one| one.cause.clone()).collect(),
            memory: diagnosis.memory.clone(),
        }
    }
}

impl NamedCause {
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
        NamedCause {
            cause: finding.cause.clone(),
            title: finding.title.clone(),
            subject: parts.join(" · "),
            gain: finding.gain.clone(),
        }
    }
}

/// The verdict on one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Causes expected and named, with the right subject.
    pub named: Vec<String>,
    /// Causes expected and not named.
    pub missed: Vec<Missed>,
    /// Causes named and not there.
    pub wrong: Vec<WronglyNamed>,
}

/// A cause that was expected and not named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missed {
    /// Id of the cause.
    pub cause: String,
    /// Why it cannot be named here; `None`: it should have been.
    pub excuse: Option<Excuse>,
    /// The cause was named with another subject: this one.
    pub named_subject: Option<String>,
}

/// A cause that was named and is not there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WronglyNamed {
    /// Id of the cause.
    pub cause: String,
    /// On which host it was named.
    pub host: String,
    /// The subject it was named with.
    pub subject: String,
    /// The scenario lists it under `never`: the worst mistake.
    pub never: bool,
}

impl Verdict {
    /// Nothing named wrongly, nothing missed without an excuse.
    pub fn is_as_expected(&self) -> bool {
        self.wrong.is_empty() && self.missed.iter().all(|missed| missed.excuse.is_some())
    }
}

/// Compares observations with what a step expects; `substitute` replaces names in subjects.
pub(crate) fn judge(
    step: &Step,
    observations: &[Observation],
    substitute: &dyn Fn(&str) -> crate::Result<String>,
) -> crate::Result<Verdict> {
    let mut verdict = Verdict::default();
    for expect in &step.expect {
        let texts: Vec<String> = expect
            .subject
            .iter()
            .map(|text| substitute(text.get_ref()))
            .collect::<Result<_, _>>()?;
        let named: Vec<&NamedCause> = findings_of(expect, observations).collect();
        let cause = expect.cause.get_ref().clone();
        if named.iter().any(|finding| texts.iter().all(|text| finding.subject.contains(text))) {
            verdict.named.push(cause);
        } else {
            let named_subject = named.first().map(|finding| finding.subject.clone());
            verdict.missed.push(Missed { cause, excuse: expect.excuse(), named_subject });
        }
    }
    for observation in observations {
        for finding in &observation.findings {
            let is = |name: &toml::Spanned<String>| *name.get_ref() == finding.cause;
            let expected = step.expect.iter().any(|expect| {
                let host = expect.host.as_ref();
                host.is_none_or(|host| *host.get_ref() == observation.host) && is(&expect.cause)
            });
            if !expected && !step.allow.iter().any(is) {
                verdict.wrong.push(WronglyNamed {
                    cause: finding.cause.clone(),
                    host: observation.host.clone(),
                    subject: finding.subject.clone(),
                    never: step.never.iter().any(is),
                });
            }
        }
    }
    Ok(verdict)
}

/// The findings of the expected cause, on the host that the expectation names.
fn findings_of<'a>(
    expect: &'a Expect,
    observations: &'a [Observation],
) -> impl Iterator<Item = &'a NamedCause> {
    let host = expect.host.as_ref();
    observations
        .iter()
        .filter(move |observation| host.is_none_or(|host| *host.get_ref() == observation.host))
        .flat_map(|observation| &observation.findings)
        .filter(|finding| finding.cause == *expect.cause.get_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(host: &str, causes: &[(&str, &str)]) -> Observation {
        let finding = |(cause, subject): &(&str, &str)| NamedCause {
            cause: (*cause).into(),
            title: String::new(),
            subject: (*subject).into(),
            gain: ExpectedGain::default(),
        };
        Observation {
            host: host.into(),
            seconds: 3.0,
            findings: causes.iter().map(finding).collect(),
            also_causes: vec![],
            undecided: vec![],
            memory: vec![],
        }
    }

    fn verdict(step: &str, observations: &[Observation]) -> Verdict {
        let step: Step = toml::from_str(step).unwrap();
        judge(&step, observations, &|text| Ok(text.to_string())).unwrap()
    }

    const STEP: &str = r#"
        expect = [
            { cause = "fd-exhausted", subject = ["nginx"], host = "server" },
            { cause = "qdisc-drop", no_rule = "needs qdisc statistics" },
            { cause = "rate-shaped", undecidable = "needs packets" },
        ]
        allow = ["syn-retransmitted"]
        never = ["accept-queue-overflow"]
    "#;

    #[test]
    fn causes_are_named_missed_or_wrong() {
        let server = observation("server", &[("fd-exhausted", "nginx · 0.0.0.0:80")]);
        let client = observation("client", &[("syn-retransmitted", "x")]);
        let good = verdict(STEP, &[server.clone(), client]);
        assert_eq!(good.named, ["fd-exhausted"]);
        let excuses: Vec<_> = good.missed.iter().flat_map(|missed| missed.excuse.clone()).collect();
        assert_eq!(
            excuses,
            [
                Excuse::NoRule("needs qdisc statistics".into()),
                Excuse::Undecidable("needs packets".into())
            ]
        );
        assert!(good.is_as_expected());

        let other = verdict(STEP, &[observation("server", &[("fd-exhausted", "php-fpm")])]);
        assert_eq!(other.missed[0].named_subject.as_deref(), Some("php-fpm"));
        assert!(!other.is_as_expected());

        let client = observation("client", &[("fd-exhausted", "nginx")]);
        let wrong_host = verdict(STEP, &[server, client]);
        assert_eq!(wrong_host.wrong.len(), 1);
        assert!(!wrong_host.is_as_expected() && !wrong_host.wrong[0].never);
        let never = verdict(STEP, &[observation("server", &[("accept-queue-overflow", "nginx")])]);
        assert!(never.wrong[0].never);
    }

    #[test]
    fn any_cause_named_in_a_healthy_step_is_wrong() {
        let step = Step::default();
        let judged = judge(&step, &[observation("a", &[("fd-exhausted", "x")])], &|t| Ok(t.into()));
        assert_eq!(judged.unwrap().wrong.len(), 1);
    }
}
