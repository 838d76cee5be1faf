//! What a cause is: its page, the evidence it needs, its rule.

use model::{Capability, Evidence, Finding, Observation, Source};

/// A named reason for slowness.
pub struct Cause {
    /// The name that users see; its file has the same with underscores.
    pub id: &'static str,
    /// One line: what happens.
    pub title: &'static str,
    /// What its users complain of.
    pub slows: Slows,
    /// Sets of sources, each of which suffices to rule the cause out.
    pub needs: &'static [&'static [Source]],
    /// Its rule. It does not care what is missing: see [`Cause::judge`].
    pub rule: fn(&Evidence) -> Verdict,
    /// Its source file, whose first comment is its page.
    pub(crate) source: &'static str,
    /// Makes evidence on which it is found.
    #[cfg(test)]
    pub(crate) examples: fn() -> Vec<Evidence>,
}

/// What users complain of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slows {
    /// Connections.
    Connections,
    /// Requests.
    Requests,
    /// Transfers.
    Transfers,
}

impl Slows {
    /// All of them.
    pub const ALL: [Slows; 3] = [Slows::Connections, Slows::Requests, Slows::Transfers];

    /// The complaint.
    pub fn complaint(self) -> &'static str {
        match self {
            Slows::Connections => "connections are refused, dropped or slow to open",
            Slows::Requests => "requests are slow",
            Slows::Transfers => "transfers are slow",
        }
    }
}

/// What a rule concludes from one evidence.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The cause is there, once or several times.
    Found(Vec<Finding>),
    /// It is not: the figure that excludes it, short.
    RuledOut(String),
    /// Nothing was observed that could have shown it: what there was not, short.
    NotChecked(String),
    /// The evidence does not decide.
    Undecided {
        /// What is missing.
        needs: String,
        /// The sources that would decide it.
        sources: Vec<Source>,
        /// What to do to observe it.
        how_to_observe: Option<String>,
    },
}

impl Verdict {
    /// Found, or what there is instead when there are no findings.
    pub(crate) fn from_findings(
        findings: Vec<Finding>,
        otherwise: impl FnOnce() -> Verdict,
    ) -> Self {
        if findings.is_empty() { otherwise() } else { Verdict::Found(findings) }
    }

    /// Nothing was observed that could have shown the cause.
    pub(crate) fn not_checked(because: &str) -> Self {
        Verdict::NotChecked(because.to_string())
    }
}

impl Cause {
    /// Asks the rule. What was observed may prove a cause even when something is missing; but
    /// without one whole set of what it needs, it is not ruled out.
    pub fn judge(&self, evidence: &Evidence) -> Verdict {
        let verdict = (self.rule)(evidence);
        let missing = self.missing(evidence);
        let excludes = matches!(verdict, Verdict::RuledOut(_) | Verdict::NotChecked(_));
        if excludes && !missing.is_empty() {
            return undecided(evidence, missing);
        }
        verdict
    }

    /// Whether what these sources show suffices to rule the cause out.
    pub fn is_decided_by(&self, sources: &[Source]) -> bool {
        self.needs.iter().any(|set| set.iter().all(|source| sources.contains(source)))
    }

    /// Whether this kind of observation can decide the cause at all: a capture alone does not show a
    /// listener's queue, and who only watches a host sends no probe.
    pub(crate) fn concerns(&self, evidence: &Evidence) -> bool {
        self.needs.iter().any(|set| is_within_reach(set, evidence))
    }

    /// The sources that are missing of the set that lacks least, of those that this kind of
    /// observation can have; none where one set is complete.
    fn missing(&self, evidence: &Evidence) -> Vec<Source> {
        let lacking = |set: &&&[Source]| set.iter().filter(|one| !evidence.has(**one)).count();
        let reachable = self.needs.iter().filter(|set| is_within_reach(set, evidence));
        let nearest = reachable.min_by_key(lacking).or(self.needs.iter().min_by_key(lacking));
        let set = nearest.copied().unwrap_or_default();
        set.iter().copied().filter(|source| !evidence.has(*source)).collect()
    }
}

/// Whether an observation of this kind can have all of these sources.
fn is_within_reach(set: &[Source], evidence: &Evidence) -> bool {
    let of_path = evidence.path.is_some();
    let capture_alone = evidence.packets.is_some() && evidence.counters.is_none();
    set.iter().all(|source| match source.observation() {
        // Each end of a path was diagnosed by itself before.
        Observation::Host => !of_path && !capture_alone,
        Observation::Packets => !of_path,
        Observation::Path | Observation::Probe => evidence.has(*source),
    })
}

fn undecided(evidence: &Evidence, sources: Vec<Source>) -> Verdict {
    let Some(first) = sources.first().copied() else {
        return Verdict::not_checked("nothing was observed");
    };
    let (needs, how_to_observe) = match evidence.missing(first) {
        Some(missing) => {
            let needs = match evidence.capability(first) {
                Some(Capability::Unsupported) => {
                    format!("{}, which this kernel does not offer", missing.what)
                }
                Some(Capability::NotApplicable) => {
                    format!("{}, of which there is nothing here", missing.what)
                }
                Some(Capability::NotPermitted) if missing.how_to_observe.is_none() => {
                    format!("{}, which is not permitted", missing.what)
                }
                _ => missing.what.clone(),
            };
            (needs, missing.how_to_observe.clone())
        }
        // Watching a host does not capture its packets.
        None if first == Source::Packets => {
            (first.name().to_string(), Some("netwhy --capture".to_string()))
        }
        None => (first.name().to_string(), None),
    };
    Verdict::Undecided { needs, sources, how_to_observe }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{healthy, remove_source};

    fn with(needs: &'static [&'static [Source]]) -> Cause {
        let rule = |_: &Evidence| Verdict::not_checked("nothing");
        let slows = Slows::Requests;
        Cause { id: "x", title: "x", slows, needs, rule, source: "", examples: Vec::new }
    }

    fn undecided_sources(cause: &Cause, evidence: &Evidence) -> Vec<Source> {
        match cause.judge(evidence) {
            Verdict::Undecided { sources, .. } => sources,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn any_one_set_rules_out_and_the_nearest_is_named() {
        let cause = with(&[&[Source::Counters, Source::Listeners], &[Source::KernelLog]]);
        let mut evidence = healthy();
        assert_eq!(cause.judge(&evidence), Verdict::not_checked("nothing"));
        remove_source(&mut evidence, Source::Counters);
        assert_eq!(cause.judge(&evidence), Verdict::not_checked("nothing"), "the log suffices");
        remove_source(&mut evidence, Source::KernelLog);
        assert_eq!(undecided_sources(&cause, &evidence), [Source::Counters]);
        remove_source(&mut evidence, Source::Listeners);
        assert_eq!(undecided_sources(&cause, &evidence), [Source::KernelLog]);
        assert!(cause.is_decided_by(&[Source::KernelLog]));
        assert!(!cause.is_decided_by(&[Source::Counters]));
    }

    #[test]
    fn a_cause_is_judged_where_its_sources_can_be_observed() {
        let host = healthy();
        let mut capture = Evidence { packets: host.packets.clone(), ..Evidence::default() };
        let queue = with(&[&[Source::Counters, Source::Listeners]]);
        let either = with(&[&[Source::Sockets], &[Source::Packets]]);
        let probed = with(&[&[Source::Transfer]]);
        let concerned =
            |evidence: &Evidence| [&queue, &either, &probed].map(|cause| cause.concerns(evidence));
        assert_eq!(concerned(&host), [true, true, false]);
        assert_eq!(concerned(&capture), [false, true, false]);
        capture.packets = None;
        assert_eq!(concerned(&capture), [true, true, false], "nothing was observed");
    }

    #[test]
    fn why_a_source_is_missing_stands_in_the_words() {
        let cause = with(&[&[Source::Conntrack]]);
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Conntrack);
        let needs = |evidence: &Evidence| match cause.judge(evidence) {
            Verdict::Undecided { needs, .. } => needs,
            other => panic!("{other:?}"),
        };
        assert_eq!(needs(&evidence), "the conntrack", "how to observe it says enough");
        evidence.missing_evidence[0].how_to_observe = None;
        assert_eq!(needs(&evidence), "the conntrack, which is not permitted");
        evidence.missing_evidence[0].capability = Capability::Unsupported;
        assert_eq!(needs(&evidence), "the conntrack, which this kernel does not offer");
    }
}
