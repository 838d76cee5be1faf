//! # middle-link-limited
//!
//! ## What happens
//!
//! A link between routers, neither that of the server nor that of one host, carries
//! less than its users ask for. Every transfer across it gets a share of its rate,
//! and every other flow across this link waits in the queue before it, although it
//! transfers nothing itself.
//!
//! ## Evidence
//!
//! An experiment (`netwhy ping --under-load URL HOST`): several places ping the
//! server, first idle, then while one of them downloads from it, once and several
//! times at once. Round trips rise for the places behind the link, whichever of
//! them downloads, and for none on its other side. The rate of the link is that of
//! all downloads together while its queue is full: bytes received and the headers
//! of full segments.
//!
//! ## Threshold
//!
//! A median round trip has risen by more than 2 ms, a quarter of the idle one and
//! three times the spread of the idle ones (p90 less p50), of 20 pings or more. It
//! rises where the downloads run and at one more place, and at one place it does
//! not: without such a place the link may be the server's own.
//!
//! ## Looks like it, but is not
//!
//! - The link of one host: others do not wait.
//! - The link of the server, or the server itself: all wait.
//! - A host that is busy: its own round trips rise with every transfer.
//! - A policer (rate-policed): packets are dropped, none waits; round trips stay.
//! - bufferbloat is the same queue in a capture of one transfer, which does not
//!   show whose link it is.
//!
//! ## Check by hand
//!
//! ```sh
//! ping -i 0.2 SERVER                     # on an idle host, while others transfer
//! ping -i 0.2 SERVER                     # on a host beyond the link, meanwhile
//! netwhy trace --watch SERVER            # from which hop on round trips rise
//! ```
//!
//! ## Fix
//!
//! At the routers of the link: a faster link, or queue management just below its
//! rate (`tc qdisc replace dev DEV root cake bandwidth RATE`), so that the queue is
//! where it is shared fairly. At the senders: bbr, which keeps the queue short, or
//! a limit for bulk transfers (`SO_MAX_PACING_RATE`).
//!
//! ## Expected gain
//!
//! A round trip: the idle one in place of that under load (model «queue»).
//!
//! ## References
//!
//! - RFC 7567 (queue management), RFC 8290 (FQ-CoDel)
//! - Gettys, Nichols: Bufferbloat: dark buffers in the Internet (CACM 2012)

use model::{
    Evidence, Finding, Impact, ImpactUnit, LimitedLink, Severity, Source, SubjectKind, UnderLoad,
};
use text::{bit_rate, count, micros};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::limited_link::{locate, worst_place};
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, qdisc};
use crate::words::{line, subject};

pub(super) const CAUSE: Cause = Cause {
    id: "middle-link-limited",
    title: "a shared link is full of the transfers of others",
    slows: Slows::Transfers,
    needs: &[&[Source::UnderLoad]],
    rule,
    source: include_str!("middle_link_limited.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Rise of the round trip of an idle host from which on people notice it, milliseconds.
const MIN_RISE_CRITICAL_MS: f64 = 100.0;
/// Share of the rate of the link to which queue management is set.
const SHAPED_SHARE: f64 = 0.95;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let undecided = |needs: String| Verdict::Undecided {
        needs,
        sources: vec![Source::UnderLoad],
        how_to_observe: Some("netwhy ping --under-load URL HOST --from PLACE ...".to_string()),
    };
    let measured = evidence.probes.as_ref().and_then(|probes| probes.under_load.as_ref());
    let Some(measured) = measured else {
        return undecided("pings under load".to_string());
    };
    let verdict = locate(measured);
    match verdict.link {
        LimitedLink::Middle => {
            Verdict::Found(finding(evidence, measured, &verdict).into_iter().collect())
        }
        LimitedLink::None => Verdict::RuledOut(format!(
            "shared links (round trips from 0 of {} rose)",
            count(measured.vantage_points.len() as u64, "place")
        )),
        LimitedLink::Access => Verdict::RuledOut(format!(
            "shared links (1 of {} alone waits)",
            count(measured.vantage_points.len() as u64, "place")
        )),
        LimitedLink::Shared => undecided("a place on the other side of the link".to_string()),
        LimitedLink::Unclear => {
            let why = verdict.reasons.last().map(|why| why.trim_end_matches('.').to_lowercase());
            undecided(why.unwrap_or_else(|| "pings from several places".to_string()))
        }
    }
}

fn finding(
    evidence: &Evidence,
    measured: &UnderLoad,
    verdict: &model::LoadVerdict,
) -> Option<Finding> {
    let bits = verdict.wire_bits_per_s?;
    let (idle, full, place) = worst_place(measured, verdict)?;
    let names = |all: &[usize]| {
        let names: Vec<String> = all
            .iter()
            .filter_map(|at| measured.vantage_points.get(*at))
            .map(|name| line(name))
            .collect();
        names.join(", ")
    };
    let us = |ms: f64| (ms.max(0.0) * 1e3) as u64;
    let proof = proof(Source::Probes, "proof", verdict.reasons.join("\n"))
        .over_window(evidence, "rate of the link", bits, "bit/s")
        .at_moment("idle round trip", idle, "ms")
        .at_moment("round trip under load", full, "ms");
    let rise = full - idle;
    let target = line(&measured.target);
    let rate = bit_rate(bits);
    Some(Finding {
        cause: CAUSE.id.to_string(),
        title: format!("A link in the middle carries {rate} and is full"),
        severity: if rise >= MIN_RISE_CRITICAL_MS { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Destination,
            format!("the path to {target} from {}", names(&verdict.behind)),
            None,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "a round trip from {} to {target} takes {} instead of {} while others download",
                line(place),
                micros(us(full)),
                micros(us(idle)),
            ),
            unit: ImpactUnit::SecondsLost,
            amount: rise / 1e3,
            share: None,
        },
        evidence: vec![proof],
        checks: commands([CommandLine::new("netwhy ping -i 200ms").name(&measured.target).here()]),
        remedies: vec![
            qdisc(
                format!("cake bandwidth {:.0}kbit", bits * SHAPED_SHARE / 1e3),
                format!(
                    "at the link, between {} and {}: a faster one, or queue management just below \
                     {rate} (cake, fq_codel)",
                    names(&verdict.before),
                    names(&verdict.behind)
                ),
            )
            .noted("on the router that sends across it"),
            advice("at the senders: bbr, or pacing (SO_MAX_PACING_RATE)"),
        ],
        gain: gain::of_queue(full, (idle, idle)),
        also_causes: Vec::new(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use model::Probes;

    use super::*;
    use crate::fixtures::{findings_of, healthy};
    use crate::limited_link::fixture;

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![with([104.0, 105.0, 1.0])]
    }

    fn with(medians: [f64; 3]) -> Evidence {
        let mut evidence = healthy();
        let idle = (None, 0, [10.0, 10.0, 1.0]);
        let under_load = Some(fixture(&[idle, (Some(0), 4, medians)]));
        evidence.probes = Some(Probes { under_load, ..Probes::default() });
        evidence
    }

    #[test]
    fn fires_for_places_that_wait_and_one_that_does_not() {
        let finding = &findings_of(rule(&with([104.0, 105.0, 1.0])))[0];
        assert_eq!(finding.title, "A link in the middle carries 40 Mbit/s and is full");
        assert!(finding.impact.text.starts_with("a round trip from inner to server takes 105 ms"));
        assert!(finding.evidence[0].text.contains("outer: 1.0 ms idle"), "{finding:#?}");
    }

    #[test]
    fn stays_quiet_when_none_waits_or_one_alone() {
        for medians in [[10.0, 10.0, 1.0], [104.0, 10.0, 1.0]] {
            assert!(matches!(rule(&with(medians)), Verdict::RuledOut(_)), "{medians:?}");
        }
    }

    #[test]
    fn undecided_when_all_wait_or_nothing_was_measured() {
        assert!(matches!(rule(&with([104.0, 105.0, 95.0])), Verdict::Undecided { .. }));
        assert!(matches!(rule(&healthy()), Verdict::Undecided { .. }));
        // Watching a host says nothing about it.
        let report = crate::diagnose(&healthy());
        assert!(report.undecided.is_empty());
    }
}
