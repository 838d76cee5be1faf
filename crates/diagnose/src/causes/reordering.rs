//! # reordering
//!
//! ## What happens
//!
//! Segments overtake each other: several links carry one connection, or a router
//! has several queues for it. The receiver reports a hole in sequence numbers, and
//! the sender takes the late segment for a lost one, retransmits it and slows down.
//!
//! ## Evidence
//!
//! In packets: a segment fills a hole and was sent before what passed before it, by
//! its time stamp or IP identification, or the hole is younger than a
//! retransmission could be, and no three duplicate acknowledgements asked for it;
//! at the sender, segments that were retransmitted and that the receiver got twice
//! (D-SACK).
//!
//! ## Threshold
//!
//! Three late segments, five in a thousand, late by a quarter of the round trip on
//! average (1 ms where it is not known): from then on a sender takes them for lost.
//! Or two that are late by 200 ms on average. Or three spurious retransmissions,
//! one in a thousand and half of all retransmissions, which late segments or
//! duplicate acknowledgements explain: tail-loss probes are too early where CPUs
//! are busy, and timers of some servers on any path with jitter. The shortest round
//! trip is 200 us or more, or not known.
//!
//! ## Looks like it, but is not
//!
//! - packet-loss: the hole lasts for a round trip, and a retransmission fills it.
//! - Segments that change places within microseconds, in a network card or an
//!   access point: nobody waits for them, and nothing is retransmitted.
//! - A capture on several CPUs or interfaces that writes packets in another order,
//!   microseconds apart: their time stamps go back. Nothing was late.
//! - A sender that moves to another CPU: for a moment its segments wait for two
//!   CPUs, tens of microseconds each. Where round trips are as short, on one host
//!   or between its containers, senders take that for loss: on such a short path
//!   it is no finding.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y 'tcp.analysis.out_of_order || tcp.options.sack.dsack_le'
//! nstat -az TcpExtTCPDSACKRecv TcpExtTCPSACKReorder TcpExtTCPTSReorder
//! ```
//!
//! ## Fix
//!
//! Keep a connection on one link: hash by connection instead of round robin in the
//! bond or router. Linux adapts (RACK, `net.ipv4.tcp_reordering`).
//!
//! ## Expected gain
//!
//! The rate of a transfer, as for packet-loss (model «next limit»): a sender that
//! takes late segments for lost ones keeps its window small.
//!
//! ## References
//!
//! - RFC 4737 (reordering metrics), RFC 8985 (RACK), RFC 2883 (D-SACK)

use model::{CapturedDirection, Evidence, Finding, Source};
use text::{count, micros, number, percent, share};

use crate::captured::{
    Group, StreamDirection, total, verdict_from_packets, window_limit, without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::proofs::WithFigures as _;
use crate::remedies::advice;
use crate::words::title;

pub(super) const CAUSE: Cause = Cause {
    id: "reordering",
    title: "segments overtake each other",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("reordering.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Shortest round trip, microseconds: nearer hosts reorder packets by as much themselves.
const MIN_ROUND_TRIP_US: u64 = 200;
/// Late segments, or spurious retransmissions, that are no accident.
const MIN_SEGMENTS: u64 = 3;
/// How late they are on average, microseconds, where the round trip is not known; else a quarter
/// of that (RFC 8985, 6.2).
const MIN_LATENESS_US: u64 = 1_000;
/// Segments that were so late that the receiver waited for them, microseconds: the shortest retransmission
/// timeout of Linux.
const MIN_HELD: u64 = 2;
const MIN_HELD_US: u64 = 200_000;
/// Share of late segments of those with data.
const MIN_LATE_SHARE: f64 = 0.005;
/// The same of spurious retransmissions.
const MIN_SPURIOUS_SHARE: f64 = 0.001;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        without_data(packets).unwrap_or_else(|| {
            Verdict::RuledOut(format!(
                "reordering ({} of {} late)",
                number(total(packets, |sent| sent.reordered)),
                count(total(packets, |sent| sent.data_segments), "segment")
            ))
        })
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let near = direction.stream.round_trip_us().is_some_and(|us| us < MIN_ROUND_TRIP_US);
    if near || direction.is_within_one_host() {
        return None;
    }
    let often = share(sent.reordered as f64, sent.data_segments as f64) >= MIN_LATE_SHARE;
    let min_lateness = direction.stream.round_trip_us().map_or(MIN_LATENESS_US, |us| us / 4);
    let is_felt = sent.late_us >= sent.reordered.saturating_mul(min_lateness);
    let late = sent.reordered >= MIN_SEGMENTS && often && is_felt;
    let spurious = sent.spurious();
    let mistaken = spurious >= MIN_SEGMENTS
        && share(spurious as f64, sent.data_segments as f64) >= MIN_SPURIOUS_SHARE
        && spurious.saturating_mul(2) >= sent.retransmitted()
        // Timeouts that are too early are another fault.
        && sent.fast_retransmissions.saturating_add(sent.retransmissions_kind_unknown)
            > sent.rto_retransmissions
        // So are tail-loss probes that are too early, on hosts whose CPUs are all busy: nothing was
        // late, and no acknowledgement reported it.
        && (sent.fast_retransmissions >= MIN_SEGMENTS || explains(sent, is_felt) >= spurious);
    if sent.reordered >= MIN_HELD && held_us(sent) >= MIN_HELD_US {
        return Some(held_us(sent));
    }
    // What it costs does not show in the packets: the sender slows down.
    (late || mistaken).then_some(0)
}

/// How many spurious retransmissions the late segments explain: one each, and as many again where the sender
/// takes what was sent before them for lost, too.
fn explains(sent: &CapturedDirection, is_felt: bool) -> u64 {
    let late = if is_felt { sent.reordered } else { 0 };
    late.saturating_add(sent.late_originals).saturating_mul(2)
}

/// How long the receiver waited at least for late segments: they may have been late at the same time.
fn held_us(sent: &CapturedDirection) -> u64 {
    sent.late_us / sent.reordered.max(1)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let late = group.sum(|sent| sent.reordered);
    let data = group.sum(|sent| sent.data_segments);
    let spurious = group.sum(|sent| sent.spurious().saturating_add(sent.late_originals));
    let by_us = group.sum(|sent| sent.late_us) / late.max(1);
    let by = if late > 0 { format!(", by {} on average", micros(by_us)) } else { String::new() };
    let text = format!(
        "{} of {} were late ({}{by}), {}",
        number(late),
        count(data, "segment"),
        percent(share(late as f64, data as f64)),
        count(spurious, "spurious retransmission")
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "late segments", late as f64, "segments")
        .over_window(evidence, "spurious retransmissions", spurious as f64, "segments");
    let what =
        format!("{} late, {}", count(late, "segment"), count(spurious, "spurious retransmission"));
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        title(
            format!("Segments from {} overtake each other", group.sender()),
            "Segments overtake each other",
        ),
        &what,
        vec![proof],
        vec![advice("keep a connection on one link: hash by connection in bonds and routers")],
    );
    if let Some(gain) = group.gain_of_transfers(window_limit) {
        finding.gain = gain;
    }
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![late(40 * 10_000)]
    }

    /// Forty segments so late, microseconds together.
    fn late(us: u64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        (stream.from_server.reordered, stream.from_server.late_us) = (40, us);
        evidence
    }

    #[test]
    fn fires_for_late_segments_and_for_spurious_retransmissions() {
        assert_eq!(
            findings_of(rule(&late(40 * 10_000)))[0].title,
            "Segments from 198.18.0.2:80 overtake each other"
        );
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.fast_retransmissions, sent.duplicate_sacks) = (9, 8);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn fires_for_two_that_are_held_for_longer_than_a_timeout() {
        for (segments, us, is_found) in
            [(2, 900_000, true), (2, 300_000, false), (1, 900_000, false)]
        {
            let mut evidence = late(us);
            evidence.packets.as_mut().unwrap().worst[0].from_server.reordered = segments;
            let verdict = rule(&evidence);
            assert_eq!(matches!(verdict, Verdict::Found(_)), is_found, "{segments} {us}");
        }
        let mut evidence = late(900_000);
        evidence.packets.as_mut().unwrap().worst[0].from_server.reordered = 2;
        assert_eq!(findings_of(rule(&evidence))[0].impact.amount, 0.45);
    }

    #[test]
    fn one_late_segment_does_not_explain_many_spurious_retransmissions() {
        for (late, is_found) in [(1, false), (4, true)] {
            let mut evidence = healthy();
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            let sent = &mut stream.from_server;
            (sent.retransmissions_kind_unknown, sent.duplicate_sacks) = (8, 8);
            (sent.reordered, sent.late_us) = (late, late * 45_000);
            let verdict = rule(&evidence);
            assert_eq!(matches!(verdict, Verdict::Found(_)), is_found, "{late}");
        }
    }

    #[test]
    fn stays_quiet_for_a_few() {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.reordered, sent.fast_retransmissions, sent.duplicate_sacks) = (2, 9, 3);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        // Many, microseconds late: they changed places in a network card.
        assert!(matches!(rule(&late(40 * 50)), Verdict::RuledOut(_)));
        // Many, where there is no link.
        let mut evidence = healthy();
        add_stream(&mut evidence, "127.0.0.1:4000", "127.0.0.1:80").from_client.reordered = 40;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        // Between two containers of one host.
        let mut evidence = healthy();
        let near = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        near.from_client.reordered = 40;
        (near.to_client_us, near.to_server_us) = (Some(20), Some(30));
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
