//! # bufferbloat
//!
//! ## What happens
//!
//! The narrowest place of the path has a long queue, and a transfer fills it.
//! Nothing is lost, or late, and the rate is that of the line; but everything that
//! passes there waits behind the queue: the round trip grows from milliseconds to
//! hundreds.
//!
//! ## Evidence
//!
//! In packets: round trips under load of twice the shortest and more, that follow
//! the bytes on their way: the more is sent, the longer they take. At the receiver
//! of the data they are known by time stamps and their echo.
//!
//! ## Threshold
//!
//! At least a third of ten or more round trips are twice the shortest and 20 ms
//! longer, and they follow the bytes that were out (correlation 0.3 and more). Or
//! losses begin, one time in five or more, just after such a round trip: then the
//! queue was full (other losses come while it drains). In the queue stand two full
//! segments and more, by the sizes that the SYNs allow: where an acknowledgement is
//! lost, or the capture lost it, round trips seem long too. Between the ends there
//! is a path: on one host no line is narrow, and who acknowledges late waits for a
//! CPU.
//!
//! ## Looks like it, but is not
//!
//! - A path that became longer: the round trip changes once, whatever is sent.
//! - Wi-Fi and mobile schedulers: round trips vary, and do not follow the bytes.
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
//! ## Mend
//!
//! At the narrow place: queue management (fq_codel, cake), or a shorter queue. At
//! the sender: bbr, which keeps the queue short, or pacing below the rate of the
//! line (`SO_MAX_PACING_RATE`), or fewer bytes out (`tcp_notsent_lowat` does not
//! help: these bytes are on their way).
//!
//! ## References
//!
//! - Gettys, Nichols: Bufferbloat: dark buffers in the Internet (CACM 2012)
//! - RFC 7567 (queue management), RFC 8289 (CoDel)

use model::{Evidence, Finding, RoundTrips};
use text::{bit_rate, bytes, micros, percent};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, advice};

/// Share of the round trips that a queue made long.
const INFLATED: f64 = 1.0 / 3.0;
/// Round trips that tell something.
const SAMPLES: u64 = 10;
/// Losses of which one must begin after a long one.
const ONE_IN: u64 = 5;
/// Bytes of a full segment where no SYN allows less.
const SEGMENT: u16 = 1460;
/// How closely they follow what is out.
const FOLLOWS: f64 = 0.3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let lost = |direction: StreamDirection<'_>| hit(direction).map(|(_, us)| us);
    verdict_from_packets(evidence, lost, finding, |packets| {
        let trips = packets.directions().filter_map(|direction| direction.round_trip);
        let most = trips.map(|trips| trips.max_us).max();
        format!("queues (round trip at most {})", micros(most.unwrap_or(0)))
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<(RoundTrips, u64)> {
    let trips = direction.sent().round_trip?;
    let follows = trips.follows_flight.is_some_and(|follows| follows >= FOLLOWS);
    let long = trips.samples >= SAMPLES && trips.inflated >= INFLATED;
    // Time in which packets stood in the queue: nobody can tell how much of it was waited for.
    let queue = trips.mean_us.saturating_sub(trips.min_us);
    // Late segments have long round trips, and no queue.
    let full = !direction.sent().is_mostly_reordered()
        && trips.losses_after_long > 0
        && trips.losses_after_long * ONE_IN >= trips.losses;
    let several = standing(direction) >= 2.0 * f64::from(segment(direction))
        && !direction.is_within_one_host();
    let enough = trips.samples >= SAMPLES && several;
    (enough && ((long && follows) || full)).then_some((trips, queue))
}

/// Bytes a second that a direction carried on average.
fn speed(direction: StreamDirection<'_>) -> f64 {
    direction.sent().new_bytes as f64 * 1e6 / direction.stream.span_us.max(1) as f64
}

/// Bytes of a full segment, as far as is known.
fn segment(direction: StreamDirection<'_>) -> u16 {
    let allowed = [direction.sent(), direction.reverse()].into_iter().filter_map(|one| one.mss);
    allowed.min().unwrap_or(SEGMENT).min(SEGMENT)
}

/// Bytes that stood in the queue on average.
fn standing(direction: StreamDirection<'_>) -> f64 {
    let trips = direction.sent().round_trip.unwrap_or_default();
    speed(direction) * trips.mean_us.saturating_sub(trips.min_us) as f64 / 1e6
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let trips = direction.sent().round_trip.unwrap_or_default();
    let text = format!(
        "round trip {} empty, {} on average, {} at most; it follows the\n\
         bytes on their way (correlation {:.2}); about {} stood in the queue;\n\
         {} of {} times it was full when losses began",
        micros(trips.min_us),
        micros(trips.mean_us),
        micros(trips.max_us),
        trips.follows_flight.unwrap_or(0.0),
        bytes(standing(direction) as u64),
        trips.losses_after_long,
        trips.losses,
    );
    let proof = group
        .proof(evidence, "proof", text)
        .at_moment("shortest round trip", trips.min_us as f64 / 1e3, "ms")
        .over_window(evidence, "mean round trip", trips.mean_us as f64 / 1e3, "ms");
    let (sender, receiver) = (group.sender(), group.receiver());
    let mut finding = group.finding(
        evidence,
        "bufferbloat",
        format!(
            "A queue on the way delays everything: {} become {}",
            micros(trips.min_us),
            micros(if trips.inflated >= INFLATED { trips.mean_us } else { trips.max_us })
        ),
        "",
        vec![proof],
        vec![
            advice("queue management at the narrow place (fq_codel, cake), or a shorter queue"),
            advice(format!("{sender}: bbr, or pacing below {}", bit_rate(speed(direction) * 8.0))),
        ],
    );
    finding.impact.text = format!(
        "{}: {} of the round trips from {sender} to\n{receiver} are twice the shortest and longer",
        group.streams_text(),
        percent(trips.inflated)
    );
    finding.impact.share = Some(trips.inflated);
    finding.severity = model::Severity::Warning;
    finding
}

#[cfg(test)]
mod tests {
    use model::Source;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    fn queued(inflated: f64, follows: f64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        let trips = sent.round_trip.as_mut().unwrap();
        (trips.mean_us, trips.inflated, trips.follows_flight) = (400_000, inflated, Some(follows));
        evidence
    }

    #[test]
    fn fires_for_long_round_trips_that_follow_the_flight() {
        let finding = &findings_of(rule(&queued(0.9, 0.8)))[0];
        assert_eq!(finding.title, "A queue on the way delays everything: 20 ms become 400 ms");
    }

    #[test]
    fn fires_when_losses_begin_after_long_round_trips() {
        let mut evidence = queued(0.1, 0.2);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        let trips = sent.round_trip.as_mut().unwrap();
        (trips.losses, trips.losses_after_long) = (6, 1);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "one of six");
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.round_trip.as_mut().unwrap().losses_after_long = 2;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn stays_quiet_for_a_few_and_for_those_that_follow_nothing() {
        assert!(matches!(rule(&queued(0.2, 0.8)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&queued(0.9, 0.1)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_where_no_queue_is() {
        let mut evidence = queued(0.9, 0.8);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        let sent = stream.from_server.new_bytes;
        // 400 ms of a few bytes a second are late acknowledgements.
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
        let verdict = crate::cause("bufferbloat").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
