//! # bufferbloat
//!
//! ## What happens
//!
//! The bottleneck of the path has a long queue, and a transfer fills it. Little is
//! lost and the throughput is that of the link, but everything that passes the
//! bottleneck waits in the queue: the round trip grows from milliseconds to
//! hundreds.
//!
//! ## Evidence
//!
//! In packets: round trips under load of at least twice the shortest, which follow
//! the bytes in flight: the more is in flight, the longer they take. At the
//! receiver of the data, round trips are measured by time stamps and their echo.
//!
//! ## Threshold
//!
//! At least a third of ten or more round trips are twice the shortest and 20 ms
//! longer, and they follow the bytes in flight (correlation 0.3 or more). Or losses
//! begin, at least one time in five, just after such a round trip: then the queue
//! was full (other losses come while it drains). At least two full segments are in
//! the queue, by the sizes that the SYNs allow: where an acknowledgement is lost,
//! or the capture lost it, round trips seem long too. The longest round trip is
//! 60 ms or more above the shortest: every transfer fills a queue somewhat, and
//! calls and games bear less. Round trips were long for a second or more of the
//! active time: a transfer overshoots in slow start, and it is over. There is a
//! path between the ends: within one host no link is the bottleneck, and an end
//! that acknowledges late waits for a CPU.
//!
//! ## Looks like it, but is not
//!
//! - A path that became longer: the round trip changes once, whatever is sent.
//! - Wi-Fi and mobile schedulers: round trips vary, and do not follow the bytes in
//!   flight.
//! - rate-policed: packets are dropped, none waits.
//! - An end that acknowledges late because it has no CPU.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y tcp.analysis.ack_rtt -T fields -e frame.time_relative \
//!   -e tcp.analysis.ack_rtt
//! ping HOST    # while the transfer runs, and without it
//! ```
//!
//! ## Fix
//!
//! At the bottleneck: queue management (fq_codel, cake), or a shorter queue. At the
//! sender: bbr, which keeps the queue short, or pacing below the rate of the link
//! (`SO_MAX_PACING_RATE`), or fewer bytes in flight (`tcp_notsent_lowat` does not
//! help: these bytes are in flight already).
//!
//! ## Expected gain
//!
//! A round trip: the shortest, which is one with an empty queue, in place of the
//! mean (model «queue»). Each exchange across the link saves the difference once
//! for each of its round trips. Of a transfer that began before the capture the
//! queue may have held something all the time: then it is at least that much.
//!
//! ## References
//!
//! - Gettys, Nichols: Bufferbloat: dark buffers in the Internet (CACM 2012)
//! - RFC 7567 (queue management), RFC 8289 (CoDel)

use model::{Evidence, Finding, Reach, RoundTrips, Source};
use text::{bit_rate, bytes, count, micros, number, percent};

use crate::captured::{Group, StreamDirection, verdict_from_packets, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::{Noted as _, qdisc, sysctl_on};

pub(super) const CAUSE: Cause = Cause {
    id: "bufferbloat",
    title: "a queue on the path fills and delays everything",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("bufferbloat.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the round trips that a queue made long.
const MIN_INFLATED_SHARE: f64 = 1.0 / 3.0;
/// Round trips that were measured.
const MIN_SAMPLES: u64 = 10;
/// One in so many losses begins after a long round trip.
const ONE_IN: u64 = 5;
/// Bytes of a full segment where no SYN allows less.
const MAX_SEGMENT_BYTES: u16 = 1460;
/// Full segments in the queue.
const MIN_SEGMENTS_QUEUED: f64 = 2.0;
/// Correlation of round trips with the bytes in flight.
const MIN_FLIGHT_CORRELATION: f64 = 0.3;
/// How long the queue was there, microseconds: slow start, of this stream or of another, fills a queue for
/// some round trips, whatever its length, and it is over before it delays anybody for long.
const MIN_QUEUE_US: f64 = 1e6;
/// Longest round trip above the shortest: calls and games bear less.
const MIN_RISE_US: u64 = 60_000;
/// Share of the throughput to which queue management is set, so that the queue is there and not at
/// the bottleneck.
const SHAPED_SHARE: f64 = 0.95;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let lost = |direction: StreamDirection<'_>| hit(direction).map(|(_, us)| us);
    verdict_from_packets(evidence, lost, finding, |packets| {
        if let Some(not_checked) = without_data(packets) {
            return not_checked;
        }
        let trips = || {
            let all = packets.directions().filter_map(|direction| direction.round_trip);
            all.filter(|trips| trips.samples >= MIN_SAMPLES)
        };
        let shortest = trips().map(|trips| trips.min_us).min();
        match (shortest, trips().map(|trips| trips.max_us).max()) {
            (Some(least), Some(most)) => Verdict::RuledOut(format!(
                "queues (round trips of {} to {})",
                micros(least),
                micros(most)
            )),
            _ => Verdict::not_checked("no stream with 10 round trips"),
        }
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<(RoundTrips, u64)> {
    let trips = direction.sent().round_trip?;
    let follows = trips.follows_flight.is_some_and(|follows| follows >= MIN_FLIGHT_CORRELATION);
    let long = trips.samples >= MIN_SAMPLES && trips.inflated >= MIN_INFLATED_SHARE;
    // Time that packets were in the queue; how much of it somebody waited for is not known.
    let queue = trips.mean_us.saturating_sub(trips.min_us);
    // Late segments have long round trips without a queue.
    let full = !direction.sent().is_mostly_reordered()
        && trips.losses_after_long > 0
        && trips.losses_after_long.saturating_mul(ONE_IN) >= trips.losses;
    let several = queued_bytes(direction) >= MIN_SEGMENTS_QUEUED * f64::from(segment(direction))
        && !direction.is_within_one_host();
    let lasted = direction.stream.busy_us() as f64 * trips.inflated >= MIN_QUEUE_US;
    let noticed = trips.max_us.saturating_sub(trips.min_us) >= MIN_RISE_US;
    let enough = trips.samples >= MIN_SAMPLES && several && lasted && noticed;
    (enough && ((long && follows) || full)).then_some((trips, queue))
}

/// Bytes per second that a direction carried on average.
fn throughput(direction: StreamDirection<'_>) -> f64 {
    direction.sent().new_bytes as f64 * 1e6 / direction.stream.span_us.max(1) as f64
}

/// Bytes of a full segment, by the SYNs.
fn segment(direction: StreamDirection<'_>) -> u16 {
    let allowed = [direction.sent(), direction.reverse()].into_iter().filter_map(|one| one.mss);
    allowed.min().unwrap_or(MAX_SEGMENT_BYTES).min(MAX_SEGMENT_BYTES)
}

/// Bytes that were in the queue on average.
fn queued_bytes(direction: StreamDirection<'_>) -> f64 {
    let trips = direction.sent().round_trip.unwrap_or_default();
    throughput(direction) * trips.mean_us.saturating_sub(trips.min_us) as f64 / 1e6
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let trips = direction.sent().round_trip.unwrap_or_default();
    // Before the handshake nothing of it was in the queue.
    let began_before = direction.stream.handshake_us.is_none();
    let mut text = format!(
        "round trip {} {}, {} on average, up to {}; about {} in the queue",
        micros(trips.min_us),
        if began_before {
            "or less with an empty queue (the transfer began before the capture)"
        } else {
            "with an empty queue"
        },
        micros(trips.mean_us),
        micros(trips.max_us),
        bytes(queued_bytes(direction) as u64),
    );
    let least_ms = trips.min_us as f64 / 1e3;
    if let Some(follows) = trips.follows_flight {
        text.push_str(&format!("; correlation with the bytes in flight {follows:.2}"));
    }
    if trips.losses > 0 {
        text.push_str(&format!(
            "; the queue was full {} of {} that losses began",
            number(trips.losses_after_long),
            count(trips.losses, "time"),
        ));
    }
    let proof = group
        .proof(evidence, "proof", text)
        .at_moment("shortest round trip", least_ms, "ms")
        .over_window(evidence, "mean round trip", trips.mean_us as f64 / 1e3, "ms");
    let (sender, receiver) = (group.sender(), group.receiver());
    let host = group.sending_host();
    let rate = throughput(direction) * 8.0;
    let qdisc = qdisc(
        format!("cake bandwidth {:.0}kbit", rate * SHAPED_SHARE / 1e3),
        "at the bottleneck: queue management (cake, fq_codel) or a shorter queue".to_string(),
    );
    let name = "net.ipv4.tcp_congestion_control";
    let bbr = sysctl_on(&host, name, "bbr", Reach::NewConnections)
        .noted(format!("or pace below {} (SO_MAX_PACING_RATE)", bit_rate(rate)));
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!(
            "A full queue on the path delays everything: {} become {}",
            micros(trips.min_us),
            micros(if trips.inflated >= MIN_INFLATED_SHARE { trips.mean_us } else { trips.max_us })
        ),
        "",
        vec![proof],
        vec![qdisc, bbr],
    );
    finding.impact.text = format!(
        "{}: {} of the round trips from {sender} to {receiver} are at least twice the shortest",
        group.streams_text(),
        percent(trips.inflated)
    );
    finding.impact.share = Some(trips.inflated);
    finding.severity = model::Severity::Warning;
    let empty_ms = if began_before { 0.0 } else { least_ms };
    finding.gain = gain::of_queue(trips.mean_us as f64 / 1e3, (empty_ms, least_ms));
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![queued(0.9, 0.8)]
    }

    fn queued(inflated: f64, follows: f64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        set_time(&mut stream.from_server, TimeCategory::Network, 8_000_000);
        let trips = stream.from_server.round_trip.as_mut().unwrap();
        (trips.mean_us, trips.inflated, trips.follows_flight) = (400_000, inflated, Some(follows));
        trips.max_us = 700_000;
        evidence
    }

    #[test]
    fn fires_for_long_round_trips_that_follow_the_flight() {
        let finding = &findings_of(rule(&queued(0.9, 0.8)))[0];
        assert_eq!(
            finding.title,
            "A full queue on the path delays everything: 20 ms become 400 ms"
        );
    }

    #[test]
    fn a_transfer_that_began_before_the_capture_may_not_show_an_empty_queue() {
        for (handshake_us, words, lowest) in
            [(Some(20_000), "20 ms with an", 20.0), (None, "20 ms or less with an", 0.0)]
        {
            let mut evidence = queued(0.9, 0.8);
            evidence.packets.as_mut().unwrap().worst[0].handshake_us = handshake_us;
            let finding = &findings_of(rule(&evidence))[0];
            assert!(finding.evidence[0].text.contains(words), "{}", finding.evidence[0].text);
            let gain = finding.gain.predicted().unwrap();
            assert_eq!((gain.expected, gain.lowest), (20.0, lowest));
        }
    }

    #[test]
    fn stays_quiet_for_a_short_queue() {
        let mut evidence = queued(0.9, 0.8);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.as_mut().unwrap().max_us = 70_000;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "nobody notices it");
    }

    #[test]
    fn stays_quiet_for_a_queue_of_slow_start() {
        let mut evidence = queued(0.4, 0.8);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_client.time_breakdown.clear();
        stream.from_server.time_breakdown.clear();
        for (busy_us, is_found) in [(2_000_000, false), (3_000_000, true)] {
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            set_time(&mut stream.from_server, TimeCategory::Network, busy_us);
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_found, "{busy_us}");
        }
    }

    #[test]
    fn fires_when_losses_begin_after_long_round_trips() {
        let mut evidence = queued(0.15, 0.2);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        let trips = sent.round_trip.as_mut().unwrap();
        (trips.losses, trips.losses_after_long) = (6, 1);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "one of six");
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.as_mut().unwrap().losses_after_long = 2;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.as_mut().unwrap().inflated = 0.1;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "it lasted for 0.8 s");
    }

    #[test]
    fn stays_quiet_for_a_few_and_without_correlation() {
        assert!(matches!(rule(&queued(0.2, 0.8)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&queued(0.9, 0.1)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_where_there_is_no_queue() {
        let mut evidence = queued(0.9, 0.8);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        let sent = stream.from_server.new_bytes;
        // 400 ms of a few bytes per second are late acknowledgements.
        stream.from_server.new_bytes = 100;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.new_bytes = sent;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.client.set_ip(stream.server.ip());
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "on one host");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
