//! # time-wait-overflow
//!
//! ## What happens
//!
//! The end that closes a connection first keeps it in TIME_WAIT for 60 s, so that
//! late segments do no harm. Only `tcp_max_tw_buckets` of them are kept; above
//! that, the kernel drops the state at once. A late segment or a retransmitted FIN
//! of the peer then finds no socket and is answered with a reset, and the same
//! addresses and ports may be reused too early.
//!
//! ## Evidence
//!
//! - `TcpExtTCPTimeWaitOverflow` increases: TIME_WAIT sockets were not kept;
//! - the number of TIME_WAIT sockets in this namespace, at its limit.
//!
//! ## Threshold
//!
//! One is a finding: the kernel counts nothing else there. It is a warning: most
//! connections ended well before.
//!
//! ## Looks like it, but is not
//!
//! - Many sockets in TIME_WAIT, below the limit: they cost 240 bytes each and
//!   nothing else.
//! - ephemeral-ports-exhausted: the TIME_WAIT sockets of a client use up its ports
//!   towards one destination.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpExtTCPTimeWaitOverflow
//! ss -Htn state time-wait | wc -l
//! sysctl net.ipv4.tcp_max_tw_buckets
//! ```
//!
//! ## Fix
//!
//! Raise `net.ipv4.tcp_max_tw_buckets`; each network namespace has its own. Better:
//! keep connections open and reuse them, so that fewer are closed.
//!
//! ## Expected gain
//!
//! Not predictable: late segments do harm only now and then.
//!
//! ## References
//!
//! - <https://docs.kernel.org/networking/ip-sysctl.html> (tcp_max_tw_buckets)
//! - RFC 9293, section 3.6.1; RFC 1337
//! - Linux: `inet_twsk_alloc`, `tcp_time_wait`

use model::{
    Evidence, Finding, Impact, ImpactUnit, Reach, Severity, Source, SubjectKind, TcpState,
};
use text::{count, number, share};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{advice, sysctl};
use crate::words::subject;

pub(super) const CAUSE: Cause = Cause {
    id: "time-wait-overflow",
    title: "more sockets are in TIME_WAIT than the host may have",
    slows: Slows::Connections,
    needs: &[&[Source::Counters]],
    rule,
    source: include_str!("time_wait_overflow.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Smallest limit that is proposed: the kernel's default on machines with much memory.
const MIN_PROPOSED: u64 = 262_144;
const LIMIT: &str = "net.ipv4.tcp_max_tw_buckets";

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let waiting = waiting(evidence);
    let lost = evidence.increase("TcpExtTCPTimeWaitOverflow").unwrap_or(0);
    if lost == 0 {
        let limit = evidence.sysctl_number(LIMIT);
        let of = limit.map(|limit| format!(" of {}", number(limit))).unwrap_or_default();
        return Verdict::RuledOut(format!("TIME_WAIT ({}{of})", number(waiting)));
    }
    if !evidence.focus.is_everything() {
        return Verdict::Undecided {
            needs: "the whole host: sockets dropped from TIME_WAIT have no port".to_string(),
            sources: vec![Source::Counters],
            how_to_observe: Some("netwhy".to_string()),
        };
    }
    Verdict::Found(vec![finding(evidence, lost, waiting)])
}

/// Most sockets in TIME_WAIT.
fn waiting(evidence: &Evidence) -> u64 {
    let sampled = evidence.sockets.as_ref().map_or(0, |sockets| {
        sockets.samples.iter().map(|sample| sample.count(TcpState::TimeWait)).max().unwrap_or(0)
    });
    let counted = evidence.sockstat.map_or(0, |stat| stat.tcp_time_wait.after);
    sampled.max(counted)
}

fn finding(evidence: &Evidence, lost: u64, waiting: u64) -> Finding {
    let limit = evidence.sysctl_number(LIMIT);
    let kept = ["TcpExtTW", "TcpExtTWRecycled", "TcpExtTWKilled"];
    let kept = kept.iter().filter_map(|counter| evidence.increase(counter));
    let kept = kept.fold(0, u64::saturating_add);
    let wanted = limit.unwrap_or(0).saturating_mul(4).max(MIN_PROPOSED);
    Finding {
        cause: CAUSE.id.to_string(),
        title: "More sockets are in TIME_WAIT than this host may have".to_string(),
        severity: Severity::Warning,
        subject: subject(
            SubjectKind::Host,
            "this host's TIME_WAIT sockets",
            None,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} dropped at once: late segments are answered with resets",
                count(lost, "TIME_WAIT socket")
            ),
            unit: ImpactUnit::TimeWaitKilled,
            amount: lost as f64,
            share: Some(share(lost as f64, lost as f64 + kept as f64)),
        },
        evidence: vec![
            proof(
                Source::Sockets,
                "sockets",
                format!(
                    "up to {} in TIME_WAIT, tcp_max_tw_buckets is {}",
                    number(waiting),
                    limit.map_or_else(|| "unknown".to_string(), number)
                ),
            )
            .over_window(evidence, "TIME_WAIT, maximum", waiting as f64, "sockets")
            .at_moment(LIMIT, limit.unwrap_or(0) as f64, "sockets"),
            proof(
                Source::Counters,
                "proof",
                format!("TcpExtTCPTimeWaitOverflow +{}", number(lost)),
            )
            .over_window(evidence, "TcpExtTCPTimeWaitOverflow", lost as f64, "sockets"),
        ],
        checks: commands([
            CommandLine::new("nstat -az TcpExtTCPTimeWaitOverflow").in_netns(evidence),
            CommandLine::new("ss -Htn state time-wait").pipe("wc -l").in_netns(evidence),
            CommandLine::new("sysctl net.ipv4.tcp_max_tw_buckets").in_netns(evidence),
        ]),
        remedies: vec![
            sysctl(evidence, LIMIT, wanted, Reach::Everything),
            advice("keep connections open and reuse them, so that fewer are closed"),
        ],
        gain: gain::not_predictable("late segments do harm now and then"),
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{findings_of, healthy, increase_counter, remove_source, set_sysctl};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![overflowing()]
    }

    fn overflowing() -> Evidence {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtTCPTimeWaitOverflow", 300);
        set_sysctl(&mut evidence, LIMIT, "100");
        let samples = &mut evidence.sockets.as_mut().unwrap().samples;
        samples[1].by_state.insert(TcpState::TimeWait, 100);
        evidence
    }

    #[test]
    fn fires_with_number_and_limit() {
        let finding = &findings_of(rule(&overflowing()))[0];
        assert_eq!(finding.impact.amount, 300.0);
        assert_eq!(finding.evidence[0].text, "up to 100 in TIME_WAIT, tcp_max_tw_buckets is 100");
        let text = "set net.ipv4.tcp_max_tw_buckets to 262144 (now 100)";
        assert_eq!(finding.remedies[0].text, text);
    }

    #[test]
    fn stays_quiet_with_many_that_are_all_kept() {
        let mut evidence = overflowing();
        increase_counter(&mut evidence, "TcpExtTCPTimeWaitOverflow", 0);
        assert_eq!(rule(&evidence), Verdict::RuledOut("TIME_WAIT (100 of 100)".to_string()));
    }

    #[test]
    fn undecided_without_counters() {
        let mut evidence = overflowing();
        remove_source(&mut evidence, Source::Counters);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = overflowing();
        increase_counter(&mut evidence, "TcpExtTCPTimeWaitOverflow", u64::MAX - 1_000);
        set_sysctl(&mut evidence, LIMIT, "-1");
        evidence.sockets = None;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
