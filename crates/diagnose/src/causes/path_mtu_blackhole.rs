//! # path-mtu-blackhole
//!
//! ## What happens
//!
//! Somewhere on the path, packets above a size vanish without an ICMP message: a
//! tunnel whose headers are not counted, a firewall that drops all ICMP. Handshakes
//! and requests pass; the first full-size segment of a response never does. It is
//! retransmitted again and again, each time after twice the time.
//!
//! ## Evidence
//!
//! In packets near the sender: the same full-size segment is retransmitted after
//! timeouts, no segment of that size was ever acknowledged, and the other end is
//! alive: it opened the connection, it sends data of its own or acknowledged a
//! small segment, and retransmits nothing. Or: the segment was retransmitted in
//! smaller ones (`tcp_mtu_probing`), and those arrived.
//!
//! ## Threshold
//!
//! Two timeouts for one full-size segment, in several connections of the service;
//! or in one that retransmitted it in smaller ones, or whose receiver acknowledged
//! a smaller segment while four of full size after it, or more, were in flight;
//! none of that size acknowledged in it.
//!
//! ## Looks like it, but is not
//!
//! - packet-loss: full-size segments are lost, and others of them arrive.
//! - A path that is down: small segments vanish too, the other end retransmits its
//!   own.
//! - receiver-stalled: the window is closed, and the retransmissions are probes.
//!
//! A capture behind the black hole shows nothing of it: full-size segments do not
//! get there.
//!
//! ## Check by hand
//!
//! ```sh
//! ping -M do -s 1472 ADDRESS    # and smaller, until it answers
//! tracepath ADDRESS
//! ```
//!
//! ## Fix
//!
//! At the sender: `net.ipv4.tcp_mtu_probing=1` (new connections find the size). On
//! the router: clamp the MSS (`nft ... tcp option maxseg size set rt mtu`), and let
//! ICMP «fragmentation needed» pass.
//!
//! ## Expected gain
//!
//! Where full-size segments never arrive: the share of the connections that fail,
//! of those that send full-size segments (model «failures»). Where they arrive in
//! smaller pieces: the mean time of an exchange without the timeouts (model
//! «difference»).
//!
//! ## References
//!
//! - RFC 2923 (problems with path MTU discovery), RFC 4821 (packetization layer)
//! - Linux: `tcp_mtu_probing`, `tcp_base_mss`

use std::net::SocketAddr;

use model::{Evidence, Finding, GainFigure, Packets, Reach, Source};
use text::{count, micros, number};

use crate::captured::{Group, NO_PACKETS, StreamDirection, group_directions};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::CommandLine;
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::{advice, sysctl_on};

pub(super) const CAUSE: Cause = Cause {
    id: "path-mtu-blackhole",
    title: "full-size packets vanish without an ICMP message",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("path_mtu_blackhole.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Timeouts of one segment.
const MIN_TIMEOUTS: u32 = 2;
/// Connections that show it, where none sent the segment again in smaller ones.
const MIN_CONNECTIONS: usize = 2;
/// Full-size segments that vanished while the smaller one before them arrived: no chance, as each alone
/// may be lost.
const MIN_PASSED_OVER: u64 = 4;
/// Data of a full-size segment, bytes.
const MIN_FULL_BYTES: u32 = 1_000;
/// Round trips that an end measures before it sends data: that of its SYN.
const ROUND_TRIPS_OF_HANDSHAKE: u64 = 1;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let mut groups = group_directions(packets, hit);
    groups.retain(|group| {
        group.directions.len() >= MIN_CONNECTIONS
            || group.sum(|sent| sent.resegmented) > 0
            || group.sum(|sent| sent.full_size_passed_over) >= MIN_PASSED_OVER
    });
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let sent = || packets.directions().filter_map(|direction| direction.full_size_arrived);
        let (arrived, all) = (sent().filter(|arrived| *arrived).count(), sent().count());
        match (arrived, all) {
            (_, 0) => Verdict::not_checked("no full-size segment"),
            (0, _) => Verdict::Undecided {
                needs: "whether any full-size packet arrives: none is acknowledged".to_string(),
                sources: vec![Source::Packets],
                how_to_observe: unacknowledged(packets)
                    .map(|receiver| format!("tracepath -n {}", receiver.ip())),
            },
            _ => Verdict::RuledOut(format!(
                "path MTU (full-size segments arrive in {} of {})",
                number(arrived as u64),
                count(all as u64, "direction")
            )),
        }
    })
}

/// An end to which no full-size segment is known to have come.
fn unacknowledged(packets: &Packets) -> Option<SocketAddr> {
    let all = packets.worst.iter().flat_map(StreamDirection::both);
    let mut never = all.filter(|one| one.sent().full_size_arrived == Some(false));
    never.next().map(|one| one.receiver())
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let (sent, back) = (direction.sent(), direction.reverse());
    let again = sent.max_timeouts_of_segment >= MIN_TIMEOUTS
        && sent.max_timeouts_segment_bytes >= MIN_FULL_BYTES;
    let never = sent.full_size_arrived == Some(false)
        || (sent.resegmented > 0 && sent.full_size_arrived.is_none());
    // The peer is there, and small segments reach it: it responds, or acknowledges some. Of an upload
    // it may acknowledge the small first segment, and then wait for the rest.
    let small_arrived =
        sent.round_trip.is_some_and(|trips| trips.samples > ROUND_TRIPS_OF_HANDSHAKE);
    let alive = direction.stream.handshake_us.is_some()
        && back.retransmitted() == 0
        && (back.new_bytes > 0 || small_arrived);
    (again && never && alive).then(|| {
        let unexplained = sent.time_us(model::TimeCategory::Unexplained);
        sent.time_us(model::TimeCategory::Loss).saturating_add(unexplained)
    })
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let sent = direction.sent();
    let size = sent.max_timeouts_segment_bytes;
    let cut = group.sum(|sent| sent.resegmented);
    let mut text = format!(
        "stream {}: a segment of {} was retransmitted {} after a timeout; none of that size was \
         acknowledged, smaller ones were",
        direction.stream.number,
        count(size.into(), "byte"),
        count(sent.max_timeouts_of_segment.into(), "time"),
    );
    if cut > 0 {
        text.push_str("; in smaller segments, it arrived");
    }
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(
            evidence,
            "timeouts of one segment",
            f64::from(sent.max_timeouts_of_segment),
            "timeouts",
        )
        .at_moment("size", f64::from(size), "bytes");
    let (sender, host, peer) = (group.sender(), group.sending_host(), group.receiving_host());
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("Full-size packets vanish on the path, {} lost", micros(group.lost_us)),
        &format!("segments of {} from {sender} never arrive", count(u64::from(size), "byte")),
        vec![proof],
        vec![
            advice(format!("on the path from {host} to {peer}: clamp the MSS to the path MTU")),
            sysctl_on(&host, "net.ipv4.tcp_mtu_probing", 1, Reach::NewConnections),
        ],
    );
    if cut == 0 {
        let hit = group.directions.len() as f64;
        let all = hit + others_that_arrived(evidence, group) as f64;
        finding.gain = gain::of_failures(GainFigure::FailedConnections, hit, all);
    }
    if group.host_of_others() != Some(direction.sender().ip()) {
        let receiver = direction.receiver().ip();
        finding.checks.extend(CommandLine::new("tracepath").arg(receiver).on(&host));
    }
    finding
}

/// Streams of the service whose full-size segments arrived in the same direction.
fn others_that_arrived(evidence: &Evidence, group: &Group<'_>) -> usize {
    let streams = evidence.packets.iter().flat_map(|packets| &packets.worst);
    let arrived = |other: &StreamDirection<'_>| {
        other.stream.server == group.server
            && other.server_sends == group.worst().server_sends
            && other.sent().full_size_arrived == Some(true)
    };
    streams.flat_map(StreamDirection::both).filter(arrived).count()
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![swallowed(2)]
    }

    fn swallowed(streams: u16) -> Evidence {
        let mut evidence = healthy();
        for _ in 0..streams {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            let sent = &mut stream.from_server;
            (sent.max_timeouts_of_segment, sent.max_timeouts_segment_bytes) = (3, 1448);
            sent.full_size_arrived = Some(false);
            set_time(sent, TimeCategory::Loss, 1_500_000);
        }
        evidence
    }

    #[test]
    fn fires_for_several_connections_or_one_that_resegmented() {
        let finding = &findings_of(rule(&swallowed(2)))[0];
        assert_eq!(finding.title, "Full-size packets vanish on the path, 3.0 s lost");
        assert!(matches!(rule(&swallowed(1)), Verdict::Undecided { .. }));
        let mut evidence = swallowed(1);
        evidence.packets.as_mut().unwrap().worst[0].from_server.resegmented = 1;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn fires_for_one_connection_whose_small_segments_arrive() {
        for (segments, is_found) in [(3, false), (4, true)] {
            let mut evidence = swallowed(1);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            sent.full_size_passed_over = segments;
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_found, "{segments}");
        }
    }

    #[test]
    fn fires_for_an_upload_whose_server_sends_nothing() {
        let upload = |acknowledged: u64| {
            let mut evidence = healthy();
            for _ in 0..2 {
                let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
                stream.from_server.new_bytes = 0;
                let sent = &mut stream.from_client;
                (sent.max_timeouts_of_segment, sent.max_timeouts_segment_bytes) = (3, 1448);
                sent.full_size_arrived = Some(false);
                sent.round_trip.get_or_insert_default().samples = 1 + acknowledged;
            }
            evidence
        };
        assert_eq!(findings_of(rule(&upload(1))).len(), 1);
        assert!(matches!(rule(&upload(0)), Verdict::Undecided { .. }), "the server may be gone");
    }

    #[test]
    fn stays_quiet_when_one_arrived_or_the_other_end_retransmits() {
        let change = |change: fn(&mut model::CapturedStream)| {
            let mut evidence = swallowed(3);
            evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(change);
            rule(&evidence)
        };
        let arrived = change(|stream| stream.from_server.full_size_arrived = Some(true));
        assert!(matches!(arrived, Verdict::RuledOut(_)));
        let both = change(|stream| stream.from_client.rto_retransmissions = 2);
        assert!(matches!(both, Verdict::Undecided { .. }));
        let small = change(|stream| stream.from_server.max_timeouts_segment_bytes = 200);
        assert!(matches!(small, Verdict::Undecided { .. }));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
