//! # packet-loss
//!
//! ## What happens
//!
//! Segments do not arrive and are sent again. A fast retransmission costs a round
//! trip and half of the congestion window; a timeout costs 200 ms and more, and
//! doubles when it is repeated. A few losses in thousands are how TCP finds its
//! rate; more of them, or a few in short transfers, are felt.
//!
//! ## Evidence
//!
//! In packets, by how they were sent again: after three duplicate acknowledgements
//! (fast), after a silence as long as a retransmission timeout, for another reason
//! (a tail-loss probe), or with the first one never seen at the place of capture
//! (lost before it). Left out: packets that were captured twice, segments that
//! arrived late, keep-alives, probes of a closed window, data that its receiver had
//! no room for, what its receiver told to have had twice (D-SACK), and what it had
//! acknowledged before it was sent again: not that segment was lost, at most its
//! acknowledgement.
//!
//! ## Threshold
//!
//! Two losses, or one that cost a timeout; one percent of the time in which
//! somebody waited, or one segment in a thousand and more. But not when round trips
//! tell that a queue was full, or losses began twice at most in a transfer: so TCP
//! finds the rate of a line, and what it costs in time says whether it hurts.
//!
//! ## Looks like it, but is not
//!
//! - Captures on two interfaces, or before and behind a router: every packet twice.
//! - reordering: the segment was late, not lost.
//! - receiver-stalled: full-size probes of a closed window.
//! - A capture that lost packets itself: acknowledgements of data never seen.
//!
//! ## Check by hand
//!
//! ```sh
//! # also counts what was captured twice, and probes
//! tshark -r FILE -Y tcp.analysis.retransmission
//! ```
//!
//! ## Mend
//!
//! Find where: `netwhy` on both hosts for their own drops, a capture at both ends
//! for the part between. Losses while the round trip is long come from a full
//! queue: pace below its rate, or queue management there. Losses at any time come
//! from the line. Over long, lossy paths `tcp_congestion_control=bbr` keeps its
//! rate.
//!
//! ## References
//!
//! - RFC 5681 (fast retransmit), RFC 6298 (timeout), RFC 2883 (D-SACK)
//! - Rewaskar, Kaur, Smith: A passive state-machine approach for accurate analysis
//!   of TCP out-of-sequence segments (CCR 2006)

use model::{Evidence, Finding, TimeCategory};
use text::{count, micros, number, percent, share};

use super::corruption::is_damaged;
use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, advice};

/// Losses that are no accident.
const SEVERAL: u64 = 2;
/// Share of the segments with data.
const SEGMENTS: f64 = 0.001;
/// Times that losses began; below, a transfer may only have overshot the rate of its line.
const OFTEN: u64 = 3;
/// Share of the time in which somebody waited.
const TIME: f64 = 0.01;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        let lost = packets.directions().map(|direction| direction.lost()).sum();
        let data = packets.directions().map(|direction| direction.data_segments).sum();
        format!("loss ({} of {} segments)", number(lost), number(data))
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let lost = sent.lost();
    // What was sent again for nothing cost its part of the time.
    let cost = (sent.time_us(TimeCategory::Loss) as f64
        * share(lost as f64, sent.retransmitted() as f64)) as u64;
    let felt = share(cost as f64, direction.stream.busy_us() as f64) >= TIME;
    let many = share(lost as f64, sent.data_segments as f64) >= SEGMENTS;
    let several = lost >= SEVERAL || (lost > 0 && sent.rto_retransmissions > 0);
    let lost_here = several && !sent.is_mostly_reordered() && !is_damaged(direction);
    // How TCP finds the rate of a line: it fills the queue, loses some, and goes on.
    let trips = sent.round_trip.filter(|trips| trips.samples >= 20);
    let finds_rate =
        queue_was_full(direction) == Some(true) || trips.is_some_and(|trips| trips.losses < OFTEN);
    (lost_here && (felt || (many && !finds_rate))).then_some(cost)
}

/// Whether losses come from a queue that was full, by the round trips before them; nothing when
/// there are too few.
fn queue_was_full(direction: StreamDirection<'_>) -> Option<bool> {
    let trips = direction.sent().round_trip.filter(|trips| trips.samples >= 20)?;
    Some(trips.inflated >= 0.5 || (trips.losses > 0 && trips.losses_after_long * 2 >= trips.losses))
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let lost = group.sum(|sent| sent.lost());
    let data = group.sum(|sent| sent.data_segments);
    let kinds = [
        (group.sum(|sent| sent.fast_retransmissions), "after duplicate acknowledgements"),
        (group.sum(|sent| sent.rto_retransmissions), "after a timeout"),
        (
            group.sum(|sent| sent.retransmissions_original_not_captured),
            "lost before the place of capture",
        ),
        (group.sum(|sent| sent.retransmissions_kind_unknown), "for another reason"),
    ];
    let mut lines: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", number(*count)))
        .collect();
    let needless = group.sum(|sent| sent.spurious());
    if needless > 0 {
        lines.push(format!("{} of them needless (D-SACK)", number(needless)));
    }
    let before = group.sum(|sent| sent.already_acknowledged);
    if before > 0 {
        lines.push(format!("{} of them acknowledged before", number(before)));
    }
    let seen = group
        .proof(evidence, "proof", format!("sent again: {}", lines.join(",\n")))
        .over_window(evidence, "segments lost", lost as f64, "segments")
        .over_window(evidence, "segments with data", data as f64, "segments");
    let mut proofs = vec![seen];
    if let (Some(trips), Some(queue)) = (direction.sent().round_trip, queue_was_full(direction)) {
        let text = format!(
            "round trips of stream {}: {} at least, {} on average:\n{}",
            direction.stream.number,
            micros(trips.min_us),
            micros(trips.mean_us),
            if queue {
                "a queue was full, losses come from it"
            } else {
                "no queue, the line loses"
            },
        );
        proofs.push(group.proof(evidence, "why", text));
    }
    let (sender, receiver) = (group.sender(), group.receiver());
    group.finding(
        evidence,
        "packet-loss",
        format!(
            "{} of the segments are lost and sent again",
            percent(share(lost as f64, data as f64))
        ),
        &format!(
            "{} of {} from {sender} lost, {} spent on it",
            number(lost),
            count(data, "segment"),
            micros(group.lost_us)
        ),
        proofs,
        vec![
            advice(format!("look for drops on the way from {sender} to {receiver}: netwhy there")),
            advice("over a long path that loses: tcp_congestion_control=bbr at the sender"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use model::Source;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    fn lossy(fast: u64, us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.fast_retransmissions = fast;
        sent.round_trip.get_or_insert_default().losses = OFTEN;
        set_time(sent, TimeCategory::Loss, us);
        evidence
    }

    #[test]
    fn fires_by_share_of_segments_or_of_time() {
        let finding = &findings_of(rule(&lossy(7, 0)))[0];
        assert_eq!(finding.title, "1.0 % of the segments are lost and sent again");
        assert_eq!(findings_of(rule(&lossy(2, 100_000))).len(), 1);
    }

    #[test]
    fn stays_quiet_for_one_loss_and_for_what_was_needless() {
        assert!(matches!(rule(&lossy(1, 10_000)), Verdict::RuledOut(_)));
        let mut evidence = lossy(7, 50_000);
        evidence.packets.as_mut().unwrap().worst[0].from_server.duplicate_sacks = 7;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_while_a_transfer_finds_the_rate_of_its_line() {
        let full = |us: u64| {
            let mut evidence = lossy(7, us);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            let trips = sent.round_trip.get_or_insert_default();
            (trips.samples, trips.losses, trips.losses_after_long) = (100, 2, 2);
            evidence
        };
        assert!(matches!(rule(&full(100)), Verdict::RuledOut(_)));
        assert_eq!(findings_of(rule(&full(100_000))).len(), 1, "it costs time");
        // The queue is too short to be seen in round trips: it overshot twice.
        let mut evidence = full(100);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.get_or_insert_default().losses_after_long = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = full(100);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        let trips = sent.round_trip.get_or_insert_default();
        (trips.losses, trips.losses_after_long) = (3, 0);
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "the line loses them");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("packet-loss").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
