//! What a cause is: its page, the evidence it needs, its rule.

use model::{Evidence, Finding, Source};

/// A named reason for slowness.
pub struct Cause {
    /// The name that users see; its file has the same with underscores.
    pub id: &'static str,
    /// One line: what happens.
    pub title: &'static str,
    /// Evidence without which it cannot be ruled out.
    pub needs: &'static [Source],
    /// Whether packets, in place of all that, rule it out too.
    pub or_packets: bool,
    /// Its rule. It does not care for what is missing: see [`Cause::judge`].
    pub rule: fn(&Evidence) -> Verdict,
    /// Its source file, whose first comment is its page.
    pub(crate) source: &'static str,
}

/// What a rule says of one evidence.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The cause is there, once or several times.
    Found(Vec<Finding>),
    /// It is not: the figure that excludes it, short.
    RuledOut(String),
    /// The evidence does not decide.
    Undecided {
        /// What is missing.
        needs: String,
        /// What would close it.
        closes_with: Option<String>,
    },
}

impl Verdict {
    /// Found, or ruled out when there are no findings.
    pub(crate) fn from_findings(
        findings: Vec<Finding>,
        otherwise: impl FnOnce() -> String,
    ) -> Self {
        if findings.is_empty() { Verdict::RuledOut(otherwise()) } else { Verdict::Found(findings) }
    }
}

impl Cause {
    /// Asks the rule. What is there may prove a cause even when something is missing; but without
    /// all it needs, nothing is ruled out.
    pub fn judge(&self, evidence: &Evidence) -> Verdict {
        let verdict = (self.rule)(evidence);
        if !matches!(verdict, Verdict::RuledOut(_))
            || (self.or_packets && evidence.has(Source::Packets))
        {
            return verdict;
        }
        match self.needs.iter().find(|source| !evidence.has(**source)) {
            None => verdict,
            Some(missing) => {
                let gap = evidence.missing(*missing);
                Verdict::Undecided {
                    needs: gap.map_or_else(|| missing.name().to_string(), |gap| gap.what.clone()),
                    closes_with: match gap {
                        Some(gap) => gap.how_to_observe.clone(),
                        // A host is watched without its packets.
                        None if *missing == Source::Packets => Some("netwhy --capture".to_string()),
                        None => None,
                    },
                }
            }
        }
    }

    /// Whether the evidence could tell of it at all: a capture alone does not tell of a listener's
    /// queue, and a host alone does not tell of what only packets show.
    pub(crate) fn concerns(&self, evidence: &Evidence) -> bool {
        // What both ends of a path show was diagnosed one by one before.
        let of_path = self.needs == [Source::Path];
        if of_path || evidence.path.is_some() {
            return of_path && evidence.path.is_some();
        }
        // What only one kind of probe shows is asked of that.
        if let [probe @ (Source::UnderLoad | Source::Transfer)] = self.needs {
            return evidence.has(*probe);
        }
        let capture_alone = evidence.packets.is_some() && evidence.counters.is_none();
        !capture_alone || self.or_packets || self.needs == [Source::Packets]
    }
}
