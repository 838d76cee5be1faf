//! # packet-loss
//!
//! ## What happens
//!
//! Segments do not arrive and are retransmitted. A fast retransmission costs a
//! round trip and half of the congestion window; a timeout (RTO) costs 200 ms
//! or more, and doubles each time. A few losses in thousands are how TCP finds
//! its rate; more of them, or a few in short transfers, slow it down.
//!
//! ## Evidence
//!
//! In packets with data, by kind of retransmission: after three duplicate
//! acknowledgements (fast), after a silence as long as a retransmission timeout
//! (RTO), with the original not captured (lost before the capture point), or of
//! unknown kind (such as a tail-loss probe). Left out: duplicate packets of the
//! capture, segments that arrived late, keepalives, probes of a closed window,
//! data that its receiver had no room for, repeated SYNs and FINs, data after a
//! reset; and what was not lost: what the receiver reported as received twice
//! (D-SACK), what it had acknowledged before, if only selectively, what its
//! acknowledgement shows to have arrived (its echo of a time stamp is older
//! than the retransmission, or it comes sooner than a round trip after that),
//! and what was retransmitted sooner than anybody could miss it. Its sender's
//! timer is too short then, or the acknowledgement was lost or late.
//!
//! What the receiver never answered shows no loss: the path is interrupted, or
//! the other host is gone. It is a finding of its own words, «does not answer
//! any more», where the receiver had sent packets before and the sender waited,
//! up to its last retransmission or until either end closed the connection. Where
//! no packet of the receiver was captured, what a client does shows it: all that
//! it retransmits is one segment, after three timeouts or more.
//!
//! ## Threshold
//!
//! Two losses, or one that cost a timeout; 1 % of the active time (all but idle
//! periods) and 10 ms; or, in a transfer of 20 round trips or more, one segment
//! in a thousand, where a round trip for each time that losses began makes 10
//! ms too. But not when round trips show that a queue was full, or when losses
//! began at most twice in a transfer: this is how TCP finds the rate of a link,
//! and what it costs in time says whether it hurts. Losses that began at most
//! twice in a transfer of 20 round trips or more, of three segments each or more,
//! and that no timeout had to repair, hurt from a second on, unless round trips
//! before them were not a sixteenth longer than the shortest: then there is no
//! queue that they could have filled. Where there is none, losses that began twice
//! count like more of them if the transfer was far below the rate at which the path
//! delivers flights: half of it in its largest flight, a quarter on average. A
//! receiver that does not answer any more: two retransmissions, and a second of
//! waiting.
//!
//! ## Looks like it, but is not
//!
//! - Captures on two interfaces, or before and behind a router: every packet twice.
//! - reordering: the segment was late, not lost.
//! - receiver-stalled: full-size probes of a closed window.
//! - corruption: at least half of what was lost from one host to the other arrived
//!   damaged, on this stream or on all of them together.
//! - A capture that lost packets itself: acknowledgements of data that was never
//!   captured.
//!
//! ## Check by hand
//!
//! ```sh
//! # also counts duplicate packets of the capture, and probes
//! tshark -r FILE -Y tcp.analysis.retransmission
//! ```
//!
//! ## Fix
//!
//! Find out where: `netwhy` on both hosts shows their own drops, captures at
//! both ends show the part between. Losses while the round trip is long come
//! from a full queue: pace below its rate, or use queue management there.
//! Losses at any time come from a link. Over long, lossy paths
//! `tcp_congestion_control=bbr` keeps its rate.
//!
//! ## Expected gain
//!
//! The rate of a transfer: the rate at which the path delivers a flight, shared
//! by the streams that send at a time, or the receiver's window over the round
//! trip, whichever is lower (model «next limit»). Where no flight showed the rate
//! of the path, the mean time of an exchange without the time of loss recovery
//! (model «difference»). Not predictable where the congestion window was small
//! after losses for longer than recovery took, and no flight showed what the path
//! would carry; or where the receiver does not answer any more.
//!
//! ## References
//!
//! - RFC 5681 (fast retransmit), RFC 6298 (timeout), RFC 2883 (D-SACK)
//! - Rewaskar, Kaur, Smith: A passive state-machine approach for accurate analysis
//!   of TCP out-of-sequence segments (CCR 2006)

mod congestion;

use model::{
    CapturedDirection, Evidence, Finding, NetworkPart, Packets, Reach, Source, TimeCategory,
};
use text::{count, micros, number, percent, share};

use self::congestion::{MIN_ROUND_TRIPS, began_often, is_overshoot, queue_was_full};
use crate::captured::{
    Group, StreamDirection, is_damaged, is_path_damaged, total, verdict_from_packets, window_limit,
    without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::{Noted as _, advice, sysctl_on};

pub(super) const CAUSE: Cause = Cause {
    id: "packet-loss",
    title: "segments are lost and retransmitted",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("packet_loss.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Losses that are no accident.
const MIN_LOSSES: u64 = 2;
/// Share of the segments with data.
const MIN_SEGMENT_SHARE: f64 = 0.001;
/// What overshooting may cost, microseconds: recovery of many losses takes some round trips, and nobody
/// has to do something about it. From here on a finding is a warning.
const MIN_OVERSHOOT_US: u64 = 1_000_000;
/// Share of the active time.
const MIN_TIME_SHARE: f64 = 0.01;
/// Time lost, microseconds: nobody feels less, and no timer of a sender is shorter.
const MIN_TIME_US: u64 = 10_000;
/// Time that a sender waits before a receiver does not answer any more: the first timeout
/// (RFC 6298, 2.1).
const MIN_UNANSWERED_US: u64 = 1_000_000;
/// A receiver so near the capture point, microseconds, is likely to be the host that captures.
const MAX_NEAR_US: u64 = 1_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let lost = |direction: StreamDirection<'_>| hit(direction, evidence.packets.as_ref());
    verdict_from_packets(evidence, lost, finding, |packets| {
        without_data(packets).unwrap_or_else(|| {
            let lost = total(packets, CapturedDirection::lost);
            let data = total(packets, |sent| sent.data_segments);
            Verdict::RuledOut(format!(
                "packet loss ({} of {})",
                number(lost),
                count(data, "segment")
            ))
        })
    })
}

fn hit(direction: StreamDirection<'_>, packets: Option<&Packets>) -> Option<u64> {
    let sent = direction.sent();
    if is_silent(direction) {
        return Some(sent.unanswered_us);
    }
    let lost = sent.lost();
    // Spurious retransmissions cost their part of the time.
    let spurious = sent.spurious().saturating_sub(sent.already_acknowledged);
    let time = sent.time_us(TimeCategory::Loss).saturating_sub(sent.unanswered_us);
    let cost = (time as f64 * share(lost as f64, lost.saturating_add(spurious) as f64)) as u64;
    let felt = cost >= MIN_TIME_US
        && share(cost as f64, direction.stream.busy_us() as f64) >= MIN_TIME_SHARE
        && (cost >= MIN_OVERSHOOT_US || !is_overshoot(direction));
    let many = share(lost as f64, sent.data_segments as f64) >= MIN_SEGMENT_SHARE;
    let several = lost >= MIN_LOSSES || (lost > 0 && sent.rto_retransmissions > 0);
    let is_path_damaged = || packets.is_some_and(|packets| is_path_damaged(packets, direction));
    let lost_here = several && !sent.is_mostly_reordered() && !is_damaged(direction);
    // How TCP finds the rate of a link: it fills the queue, loses some, and goes on. What is shorter
    // has no rate to find, and loses time alone.
    let trips = sent.round_trip.filter(|trips| trips.samples >= MIN_ROUND_TRIPS);
    let is_slowed = || {
        queue_was_full(direction) == Some(false)
            && trips.is_some_and(|trips| trips.losses.saturating_mul(trips.mean_us) >= MIN_TIME_US)
            && began_often(direction, packets)
    };
    (lost_here && (felt || (many && is_slowed())) && !is_path_damaged()).then_some(cost)
}

/// Whether the receiver, which had sent packets before, does not answer any more, and the sender
/// waits for it.
fn is_silent(direction: StreamDirection<'_>) -> bool {
    let sent = direction.sent();
    sent.unanswered >= MIN_LOSSES && sent.unanswered_us >= MIN_UNANSWERED_US
}

/// The round trip from the capture point to a near receiver behind which most of the lost segments
/// were captured: they were not lost on the path before it.
fn lost_behind(direction: StreamDirection<'_>) -> Option<u64> {
    let (stream, sent) = (direction.stream, direction.sent());
    let (to_receiver, to_sender) = match direction.server_sends {
        true => (stream.to_client_us?, stream.to_server_us?),
        false => (stream.to_server_us?, stream.to_client_us?),
    };
    let is_near = to_receiver <= MAX_NEAR_US && to_receiver.saturating_mul(4) <= to_sender;
    let lost_before = sent.retransmissions_original_not_captured;
    (is_near && lost_before.saturating_mul(2) < sent.lost()).then_some(to_receiver)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    if is_silent(direction) {
        return no_answer(evidence, group);
    }
    let lost = group.sum(|sent| sent.lost());
    let data = group.sum(|sent| sent.data_segments);
    let kinds = [
        (group.sum(|sent| sent.fast_retransmissions), "fast"),
        (group.sum(|sent| sent.rto_retransmissions), "after a timeout (RTO)"),
        (group.sum(|sent| sent.retransmissions_original_not_captured), "original not captured"),
        (group.sum(|sent| sent.retransmissions_kind_unknown), "kind unknown"),
    ];
    let by_kind: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", number(*count)))
        .collect();
    let mut text = format!("retransmitted: {}", by_kind.join(", "));
    let unneeded = [
        (group.sum(|sent| sent.spurious()), "spurious (D-SACK)"),
        (group.sum(|sent| sent.already_acknowledged), "of segments that had arrived"),
        (group.sum(|sent| sent.unanswered), "not answered any more"),
    ];
    for (segments, words) in unneeded.into_iter().filter(|(segments, _)| *segments > 0) {
        let all = number(group.sum(|sent| sent.retransmitted()));
        text.push_str(&format!("; {} of all {all} {words}", number(segments)));
    }
    let retransmissions = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "segments lost", lost as f64, "segments")
        .over_window(evidence, "segments with data", data as f64, "segments");
    let mut proofs = vec![retransmissions];
    if let (Some(trips), Some(queue)) = (direction.sent().round_trip, queue_was_full(direction)) {
        let text = format!(
            "round trips of stream {}: shortest {}, {} on average{}",
            direction.stream.number,
            micros(trips.min_us),
            micros(trips.mean_us),
            if queue {
                ": the losses come from a full queue"
            } else {
                ", no sign of a full queue: a link on the path may lose them"
            },
        );
        proofs.push(group.proof(evidence, "why", text));
    }
    if let Some(us) = lost_behind(direction) {
        let text = format!(
            "they had passed the capture point, {} from {}: lost on the last link, or by that host \
             itself (nstat -az TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop TcpInCsumErrors)",
            micros(us),
            group.receiving_host()
        );
        proofs.push(group.proof(evidence, "where", text));
    }
    let sender = group.sender();
    let text = format!(
        "find out where packets are dropped: run netwhy on {} and {}, and capture at both",
        group.sending_host(),
        group.receiving_host()
    );
    let mut remedies = vec![advice(text)];
    if !direction.is_within_one_host() {
        let name = "net.ipv4.tcp_congestion_control";
        let bbr = sysctl_on(&group.sending_host(), name, "bbr", Reach::NewConnections);
        remedies.push(bbr.noted("over a long path with loss: bbr keeps its rate"));
    }
    let mut harm = format!("{} of {} from {sender} lost", number(lost), count(data, "segment"));
    if group.lost_us > 0 {
        harm.push_str(&format!(", loss recovery took {}", group.lost_text()));
    }
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!(
            "{} of the segments are lost and retransmitted",
            percent(share(lost as f64, data as f64))
        ),
        &harm,
        proofs,
        remedies,
    );
    if let Some(gain) = group.gain_of_transfers(window_limit) {
        finding.gain = gain;
    } else if after_losses_us(group) > group.lost_us {
        // Without losses the window would be larger; by how much, nothing shows.
        finding.gain = gain::path_is_not_known();
    }
    finding
}

/// How long the congestion window was small after losses, microseconds.
fn after_losses_us(group: &Group<'_>) -> u64 {
    group.sum(|sent| {
        let parts = sent.network_breakdown.iter();
        let parts = parts.filter(|share| share.part == NetworkPart::AfterLoss);
        parts.map(|share| share.time_us).fold(0, u64::saturating_add)
    })
}

/// The finding about a receiver that does not answer any more.
fn no_answer(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let unanswered = group.sum(|sent| sent.unanswered);
    let (sender, receiver) = (group.sender(), group.receiver());
    let was_heard = group.worst().reverse().packets > 0;
    let text = if was_heard {
        format!("{} after the last packet of {receiver}", count(unanswered, "retransmission"))
    } else {
        format!(
            "{} of one segment, after timeouts; no packet of {receiver} was captured",
            count(unanswered, "retransmission")
        )
    };
    let proof = group.proof(evidence, "proof", text).over_window(
        evidence,
        "retransmissions not answered",
        unanswered as f64,
        "segments",
    );
    let remedy = format!(
        "find out whether the host or the path is gone: look for the segments of {sender} in a capture \
         on {}",
        group.receiving_host()
    );
    let harm = format!("{sender} waited {} without success", group.lost_text());
    let title = format!("{receiver} does not answer{}", if was_heard { " any more" } else { "" });
    let mut finding =
        group.finding(evidence, CAUSE.id, title, &harm, vec![proof], vec![advice(remedy)]);
    finding.gain = gain::not_predictable("nothing shows that it would answer");
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use super::congestion::MIN_LOSS_EVENTS;
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![lossy(7, 0)]
    }

    fn lossy(fast: u64, us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.fast_retransmissions = fast;
        sent.round_trip.get_or_insert_default().losses = MIN_LOSS_EVENTS;
        set_time(sent, TimeCategory::Loss, us);
        evidence
    }

    #[test]
    fn fires_by_share_of_segments_or_of_time() {
        let finding = &findings_of(rule(&lossy(7, 0)))[0];
        assert_eq!(finding.title, "1.0 % of the segments are lost and retransmitted");
        assert_eq!(findings_of(rule(&lossy(2, 100_000))).len(), 1);
    }

    #[test]
    fn what_a_small_congestion_window_costs_is_not_in_the_time_of_recovery() {
        for (after_us, is_predicted) in [(90_000, true), (110_000, false)] {
            let mut evidence = lossy(7, 100_000);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            sent.flight_rate_bps = None;
            let part = NetworkPart::AfterLoss;
            sent.network_breakdown = vec![model::NetworkShare { part, time_us: after_us }];
            let finding = &findings_of(rule(&evidence))[0];
            assert_eq!(finding.gain.predicted().is_some(), is_predicted, "{after_us}");
        }
    }

    #[test]
    fn stays_quiet_for_one_loss_and_for_spurious_ones() {
        assert!(matches!(rule(&lossy(1, 10_000)), Verdict::RuledOut(_)));
        let mut evidence = lossy(7, 50_000);
        evidence.packets.as_mut().unwrap().worst[0].from_server.duplicate_sacks = 7;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn a_receiver_that_does_not_answer_any_more_is_no_loss() {
        let silent = |retransmissions: u64, us: u64| {
            let mut evidence = lossy(0, us);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            sent.rto_retransmissions = retransmissions;
            (sent.unanswered, sent.unanswered_us) = (retransmissions, us);
            evidence
        };
        let finding = &findings_of(rule(&silent(4, 3_100_000)))[0];
        assert_eq!(finding.title, "198.18.0.1:4000 does not answer any more");
        let waited = "198.18.0.2:80 waited 3.1 s without success";
        assert!(finding.impact.text.contains(waited), "{}", finding.impact.text);
        // The capture may have ended too early.
        assert!(matches!(rule(&silent(1, 3_100_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&silent(4, 900_000)), Verdict::RuledOut(_)));
        // Nobody waited.
        assert!(matches!(rule(&silent(4, 0)), Verdict::RuledOut(_)));
    }

    #[test]
    fn what_had_passed_the_capture_point_at_its_receiver_was_lost_behind_it() {
        for (not_captured, behind) in [(0, true), (7, false)] {
            let mut evidence = lossy(7, 100_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.to_client_us, stream.to_server_us) = (Some(50), Some(40_000));
            let sent = &mut stream.from_server;
            sent.fast_retransmissions = 7 - not_captured;
            sent.retransmissions_original_not_captured = not_captured;
            let finding = &findings_of(rule(&evidence))[0];
            let found = finding.evidence.iter().any(|proof| proof.label == "where");
            assert_eq!(found, behind);
        }
    }

    #[test]
    fn stays_quiet_where_nobody_feels_it() {
        for (us, is_felt) in [(9_000, false), (100_000, true)] {
            let mut evidence = lossy(2, us);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            (sent.fast_retransmissions, sent.rto_retransmissions) = (1, 1);
            sent.round_trip.get_or_insert_default().losses = 1;
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_felt, "{us} us");
        }
        // Many, but too few for a transfer with a rate, or on a path of microseconds.
        for (samples, mean_us) in [(10, 50_000), (100, 30)] {
            let mut evidence = lossy(7, 0);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            let trips = sent.round_trip.get_or_insert_default();
            (trips.samples, trips.mean_us) = (samples, mean_us);
            assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "{samples}");
        }
    }

    #[test]
    fn stays_quiet_while_a_transfer_finds_the_rate_of_its_link() {
        let full = |us: u64| {
            let mut evidence = lossy(7, us);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            let trips = sent.round_trip.get_or_insert_default();
            (trips.samples, trips.losses, trips.losses_after_long) = (100, 2, 2);
            evidence
        };
        assert!(matches!(rule(&full(100)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&full(100_000)), Verdict::RuledOut(_)), "some round trips");
        assert_eq!(findings_of(rule(&full(1_100_000))).len(), 1, "it costs time");
        let mut evidence = full(100_000);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.rto_retransmissions = 1;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "only a timeout helped");
        // Seen behind the losses.
        for (began, is_found) in [(2, false), (3, true)] {
            let mut evidence = full(100_000);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            (sent.retransmissions_original_not_captured, sent.missing_began) = (7, began);
            sent.fast_retransmissions = 0;
            sent.round_trip.get_or_insert_default().losses = 0;
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_found, "{began}");
        }
        let mut evidence = full(100_000);
        evidence.packets.as_mut().unwrap().worst[0].from_server.fast_retransmissions = 3;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "one or two segments at a time");
        // The queue is too short to show in round trips: the transfer overshot twice.
        let mut evidence = full(100);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.get_or_insert_default().losses_after_long = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = full(100);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        let trips = sent.round_trip.get_or_insert_default();
        (trips.losses, trips.losses_after_long) = (3, 0);
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "a link loses them");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
