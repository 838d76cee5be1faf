//! # time-wait-overflow
//!
//! ## What happens
//!
//! The end that closes a connection first keeps it for 60 s in TIME_WAIT, so that
//! late segments do no harm. Only `tcp_max_tw_buckets` of them are kept; above
//! that the kernel drops the state at once. A late segment or a repeated FIN of
//! the peer then meets nobody and is answered with a reset, and the same four
//! numbers may be used again too early.
//!
//! ## Evidence
//!
//! - `TcpExtTCPTimeWaitOverflow` grows: TIME_WAIT sockets were not kept;
//! - the number of TIME_WAIT sockets in this namespace, at its limit.
//!
//! ## Threshold
//!
//! One is a finding: the kernel counts nothing but that. It is a warning: most
//! connections have ended well before it.
//!
//! ## Looks like it, but is not
//!
//! - Many sockets in TIME_WAIT, under the limit: they cost 240 bytes each and
//!   nothing else.
//! - ephemeral-ports-exhausted: there the TIME_WAIT sockets of a client take its
//!   ports towards one destination.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpExtTCPTimeWaitOverflow
//! ss -Htn state time-wait | wc -l
//! sysctl net.ipv4.tcp_max_tw_buckets
//! ```
//!
//! ## Mend
//!
//! Raise `net.ipv4.tcp_max_tw_buckets`; it is one for each network namespace.
//! Better: keep connections open and use them again, so that fewer are closed.
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

use crate::Verdict;
use crate::make::{WithFigures as _, advice, proof, subject, sysctl};
use crate::words::command;

/// Smallest limit that is proposed: the kernel's own on machines with much memory.
const LEAST: u64 = 262_144;
const LIMIT: &str = "net.ipv4.tcp_max_tw_buckets";

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let waiting = waiting(evidence);
    let lost = evidence.increase("TcpExtTCPTimeWaitOverflow").unwrap_or(0);
    if lost == 0 {
        let of = evidence.sysctl_number(LIMIT).map(number).unwrap_or_default();
        return Verdict::RuledOut(format!("TIME_WAIT ({} of {of})", number(waiting)));
    }
    if !evidence.focus.is_everything() {
        return Verdict::RuledOut("TIME_WAIT (the limit has no focus)".to_string());
    }
    Verdict::Found(vec![finding(evidence, lost, waiting)])
}

/// Most sockets seen in TIME_WAIT.
fn waiting(evidence: &Evidence) -> u64 {
    let looked = evidence.sockets.as_ref().map_or(0, |sockets| {
        sockets.samples.iter().map(|look| look.count(TcpState::TimeWait)).max().unwrap_or(0)
    });
    let counted = evidence.sockstat.map_or(0, |stat| stat.tcp_time_wait.after);
    looked.max(counted)
}

fn finding(evidence: &Evidence, lost: u64, waiting: u64) -> Finding {
    let limit = evidence.sysctl_number(LIMIT);
    let kept = ["TcpExtTW", "TcpExtTWRecycled", "TcpExtTWKilled"];
    let kept: u64 = kept.iter().filter_map(|counter| evidence.increase(counter)).sum();
    let wanted = limit.unwrap_or(0).saturating_mul(4).max(LEAST);
    Finding {
        cause: "time-wait-overflow".to_string(),
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
                    "{} in TIME_WAIT at most, tcp_max_tw_buckets is {}",
                    number(waiting),
                    limit.map_or_else(|| "unknown".to_string(), number)
                ),
            )
            .over_window(evidence, "TIME_WAIT, most", waiting as f64, "sockets")
            .at_moment(LIMIT, limit.unwrap_or(0) as f64, "sockets"),
            proof(
                Source::Counters,
                "proof",
                format!("TcpExtTCPTimeWaitOverflow +{}", number(lost)),
            )
            .over_window(evidence, "TcpExtTCPTimeWaitOverflow", lost as f64, "sockets"),
        ],
        checks: [
            "nstat -az TcpExtTCPTimeWaitOverflow",
            "ss -Htn state time-wait | wc -l",
            "sysctl net.ipv4.tcp_max_tw_buckets",
        ]
        .map(|check| command(evidence, check))
        .to_vec(),
        remedies: vec![
            sysctl(evidence, LIMIT, &wanted.to_string(), Reach::Everything),
            advice("keep connections open and use them again: fewer are closed then"),
        ],
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{findings_of, healthy, increase_counter, remove_source, set_sysctl};

    fn overflowing() -> Evidence {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtTCPTimeWaitOverflow", 300);
        set_sysctl(&mut evidence, LIMIT, "100");
        let looks = &mut evidence.sockets.as_mut().unwrap().samples;
        looks[1].by_state.insert(TcpState::TimeWait, 100);
        evidence
    }

    #[test]
    fn fires_with_number_and_limit() {
        let finding = &findings_of(rule(&overflowing()))[0];
        assert_eq!(finding.impact.amount, 300.0);
        assert_eq!(finding.evidence[0].text, "100 in TIME_WAIT at most, tcp_max_tw_buckets is 100");
        assert_eq!(finding.remedies[0].text, "net.ipv4.tcp_max_tw_buckets=262144");
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
        let verdict = crate::cause("time-wait-overflow").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = overflowing();
        increase_counter(&mut evidence, "TcpExtTCPTimeWaitOverflow", u64::MAX - 1_000);
        set_sysctl(&mut evidence, LIMIT, "-1");
        evidence.sockets = None;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
