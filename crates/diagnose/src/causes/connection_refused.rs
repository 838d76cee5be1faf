//! # connection-refused
//!
//! ## What happens
//!
//! A SYN is answered with a reset, or with an error of ICMP: nothing listens on
//! that port, or a firewall rejects the connection. The client gets «connection
//! refused», or «no route to host», at once.
//!
//! ## Evidence
//!
//! In packets: a reset from the server that acknowledges a SYN, before any
//! SYN-ACK, or an ICMP error about it (port, host or network unreachable,
//! prohibited), where no later SYN of the same connection is answered with a
//! SYN-ACK. What the client does next: another address of the same port, or another
//! port of the same host, that opens within 300 ms; or a later connection to the
//! same server.
//!
//! ## Threshold
//!
//! One. A reset is an answer, not an accident. It is critical where no later
//! connection of the client to that server opens, and a warning where one does.
//! Where the client goes on at once with another address, or its peer connects to
//! it instead (BGP: both ends connect), nothing is lost.
//!
//! ## Looks like it, but is not
//!
//! - syn-retransmitted: no answer at all.
//! - A scan, or a peer-to-peer program: a client that fails at eight addresses
//!   within a minute, that tries sixteen within two seconds, or that tries four
//!   ports of one host without a byte of data.
//! - A client that tries again at once and is let in, as Windows does: not refused.
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
//! ## Expected gain
//!
//! The share of the connections that fail (model «failures»). Not predictable
//! where the client goes on at once and loses nothing.
//!
//! ## References
//!
//! - RFC 9293, section 3.10.7.1 (a segment for a closed port)

use model::{
    CapturedStream, Evidence, Finding, GainFigure, ImpactUnit, Severity, Source, StreamEnd,
};
use text::{count, number};

use crate::captured::{
    AfterRefusal, Clients, Group, NO_PACKETS, NO_SYN, StreamDirection, verdict_from_packets,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::CommandLine;
use crate::gain;
use crate::remedies::advice_about;

pub(super) const CAUSE: Cause = Cause {
    id: "connection-refused",
    title: "connections are refused",
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
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let clients = Clients::of(packets);
    let is_probe = |stream: &CapturedStream| clients.is_one_of_many(stream);
    let hit = |direction: StreamDirection<'_>| {
        (is_refused(direction) && !is_probe(direction.stream)).then_some(0)
    };
    let finding = |evidence: &Evidence, group: &Group<'_>| finding(evidence, group, &clients);
    verdict_from_packets(evidence, hit, finding, |packets| {
        let of = |is: fn(&CapturedStream) -> bool| {
            packets.worst.iter().filter(|stream| is(stream)).count() as u64
        };
        let syns = of(|stream| stream.roles_known);
        let answered = of(|stream| stream.syn_answered || stream.end == StreamEnd::Refused);
        let probes = of(|stream| stream.end == StreamEnd::Refused);
        match (syns, answered, probes) {
            (0, ..) => Verdict::not_checked(NO_SYN),
            (_, 0, _) => Verdict::not_checked("no answer to a SYN was captured"),
            (_, all, 0) => {
                Verdict::RuledOut(format!("refused connections (0 of {} answered)", number(all)))
            }
            _ => Verdict::RuledOut(format!(
                "refused connections ({} of scans or peers)",
                number(probes)
            )),
        }
    })
}

fn is_refused(direction: StreamDirection<'_>) -> bool {
    direction.server_sends && direction.stream.end == StreamEnd::Refused
}

fn finding(evidence: &Evidence, group: &Group<'_>, clients: &Clients<'_>) -> Finding {
    let streams = group.directions.iter().map(|direction| direction.stream);
    let after = streams.map(|stream| clients.after_refusal(stream)).max();
    let refused = group.directions.len() as u64;
    let server = group.server;
    let host = server.ip().to_string();
    let proof = group.proof(
        evidence,
        "proof",
        format!(
            "stream {}: a SYN is answered with a reset, or an ICMP error",
            group.worst().stream.number
        ),
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
    let then = match after {
        Some(AfterRefusal::LostNothing) => ": the client went on at once, or its peer connected",
        Some(AfterRefusal::OpenedLater) => "; a later one opened",
        Some(AfterRefusal::Failed) | None => "",
    };
    finding.impact.text = format!(
        "{} of {} refused{then}",
        number(refused),
        count(group.streams_of_service(), "connection")
    );
    finding.impact.unit = ImpactUnit::ConnectionsLost;
    (finding.impact.amount, finding.impact.share) = (refused as f64, Some(share));
    finding.gain = match after {
        Some(AfterRefusal::LostNothing) => gain::not_predictable("its client lost nothing"),
        _ => gain::of_failures(
            GainFigure::FailedConnections,
            refused as f64,
            group.streams_of_service() as f64,
        ),
    };
    finding.severity = match after {
        Some(AfterRefusal::LostNothing) => Severity::Info,
        Some(AfterRefusal::Failed) | None if share >= MIN_SHARE_CRITICAL => Severity::Critical,
        _ => Severity::Warning,
    };
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
    fn a_client_that_is_let_in_elsewhere_or_later_lost_less() {
        let severity = |opened: &str, at_us: u64| {
            let mut evidence = healthy();
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:81");
            (stream.end, stream.handshake_us) = (StreamEnd::Refused, None);
            let stream = add_stream(&mut evidence, "198.18.0.1:4001", opened);
            (stream.first_us, stream.handshake_us) = (at_us, Some(1_000));
            findings_of(rule(&evidence))[0].severity
        };
        assert_eq!(severity("198.18.0.2:82", 1_000), Severity::Info);
        assert_eq!(severity("198.18.0.2:81", 4_000_000), Severity::Warning);
        assert_eq!(severity("198.18.0.9:443", 4_000_000), Severity::Critical);
    }

    #[test]
    fn stays_quiet_for_a_scan() {
        let mut evidence = healthy();
        for port in ["22", "25", "80", "443"] {
            let server = format!("198.18.0.2:{port}");
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", &server);
            (stream.end, stream.handshake_us) = (StreamEnd::Refused, None);
            (stream.from_client.new_bytes, stream.from_server.new_bytes) = (0, 0);
        }
        let because = "refused connections (4 of scans or peers)".to_string();
        assert_eq!(rule(&evidence), Verdict::RuledOut(because));
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
