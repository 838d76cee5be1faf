//! # connection-refused
//!
//! ## What happens
//!
//! A SYN is answered with a reset: nothing listens on that port, or a firewall
//! rejects the connection. The client gets «connection refused» at once.
//!
//! ## Evidence
//!
//! In packets: a reset from the server in answer to a SYN, before any SYN-ACK.
//!
//! ## Threshold
//!
//! One. A reset is an answer, not an accident.
//!
//! ## Looks like it, but is not
//!
//! - syn-retransmitted: no answer at all.
//! - A listener with `tcp_abort_on_overflow`: it resets after the handshake, and
//!   only when its queue is full; see accept-queue-overflow on that host.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y 'tcp.flags.reset==1 && tcp.seq==1 && tcp.ack==1'
//! ss -ltn    # on the host that refuses: does it listen, and on which address?
//! ```
//!
//! ## Fix
//!
//! Start the service, or let it listen on the address that clients connect to; or
//! change the firewall rule (`REJECT --reject-with tcp-reset`).
//!
//! ## References
//!
//! - RFC 9293, section 3.10.7.1 (a segment for a closed port)

use model::{Evidence, Finding, ImpactUnit, Severity, Source, StreamEnd};
use text::{count, number};

use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::CommandLine;
use crate::remedies::advice_about;

pub(super) const CAUSE: Cause = Cause {
    id: "connection-refused",
    title: "connections are refused with a reset",
    slows: Slows::Connections,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("connection_refused.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the connections from which on it is critical.
const MIN_SHARE_CRITICAL: f64 = 0.01;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |_| "refused connections (none)".to_string())
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    (direction.server_sends && direction.stream.end == StreamEnd::Refused).then_some(0)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let refused = group.directions.len() as u64;
    let server = group.server;
    let host = server.ip().to_string();
    let proof = group.proof(
        evidence,
        "proof",
        format!("stream {}: a SYN is answered with a reset", group.worst().stream.number),
    );
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("{server} refuses connections"),
        "",
        vec![proof],
        vec![advice_about(
            &host,
            format!("start what should listen on {server}, or allow it there"),
        )],
    );
    if group.host_of_others() != Some(server.ip()) {
        let port = format!("sport = :{}", server.port());
        finding.checks.extend(CommandLine::new("ss -ltnp").arg(port).on(&host));
    }
    let share = text::share(refused as f64, group.streams_of_service() as f64);
    finding.impact.text = format!(
        "{} of {} refused",
        number(refused),
        count(group.streams_of_service(), "connection")
    );
    finding.impact.unit = ImpactUnit::ConnectionsLost;
    (finding.impact.amount, finding.impact.share) = (refused as f64, Some(share));
    finding.severity =
        if share >= MIN_SHARE_CRITICAL { Severity::Critical } else { Severity::Warning };
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:81").end = StreamEnd::Refused;
        vec![evidence]
    }

    #[test]
    fn fires_for_a_reset_in_answer_to_a_syn() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:81").end = StreamEnd::Refused;
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.title, "198.18.0.2:81 refuses connections");
        assert_eq!(finding.impact.text, "1 of 1 connection refused");
    }

    #[test]
    fn stays_quiet_for_resets_of_open_connections() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").end = StreamEnd::Reset;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
