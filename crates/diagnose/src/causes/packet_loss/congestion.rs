//! Whether a transfer itself may have caused its losses: TCP sends more and more until a queue is full and
//! loses some, and so finds the rate of a link.

use model::Packets;
use text::share;

use crate::captured::{SharedPath, StreamDirection};

/// Round trips that show whether there was a queue.
pub(super) const MIN_ROUND_TRIPS: u64 = 20;
/// Times that losses began; fewer may be a transfer that overshot the rate of its link.
pub(super) const MIN_LOSS_EVENTS: u64 = 3;
/// The same where the transfer was far below the rate of the path, and cannot have overshot it; one may be an
/// accident.
const MIN_LOSS_EVENTS_BELOW: u64 = 2;
/// Segments that overshooting loses each time: it fills a queue, and what comes next is lost.
const MIN_OVERSHOT_SEGMENTS: u64 = 3;
/// Part of the shortest round trip that a queue is which it fills; less is jitter of the path.
const MIN_QUEUE_PART: u64 = 16;
/// Share of the round trips that are long from which on a queue was full.
const MIN_INFLATED_SHARE: f64 = 0.5;
/// A transfer is far below the rate of a path where its largest flight would leave half of the path empty,
/// and it used a quarter on average: a flight is seen whole near its sender only, and slow start ends with
/// twice of what it began its last round trip with.
const MAX_FLIGHT_SHARE: f64 = 0.5;
const MAX_MEAN_SHARE: f64 = 0.25;

/// Whether a transfer found the rate of its link: losses began once or twice, of several segments each,
/// and the receiver's acknowledgements were enough to repair them.
pub(super) fn is_overshoot(direction: StreamDirection<'_>) -> bool {
    let sent = direction.sent();
    let is_transfer = sent.round_trip.is_some_and(|trips| trips.samples >= MIN_ROUND_TRIPS);
    // Behind the losses, segments are missing; before them, the sender retransmits.
    let retransmitted = sent.round_trip.map_or(0, |trips| trips.losses);
    let events = retransmitted.max(sent.missing_began);
    let is_first = events > 0 && events < MIN_LOSS_EVENTS;
    let several = events.saturating_mul(MIN_OVERSHOT_SEGMENTS) <= sent.lost();
    is_transfer
        && began_with_a_queue(direction)
        && is_first
        && several
        && sent.rto_retransmissions == 0
}

/// Whether there was a queue most times that losses began: a rate is found by filling it.
fn began_with_a_queue(direction: StreamDirection<'_>) -> bool {
    let Some(trips) = direction.sent().round_trip else { return false };
    match trips.losses_after_longer.filter(|_| trips.losses > 0) {
        Some(longer) => longer.saturating_mul(2) > trips.losses,
        None => trips.max_us.saturating_sub(trips.min_us) >= trips.min_us / MIN_QUEUE_PART,
    }
}

/// Whether losses come from a full queue, by the round trips before them; `None` when there are too
/// few, or none over the part of the path that lost most.
pub(super) fn queue_was_full(direction: StreamDirection<'_>) -> Option<bool> {
    let sent = direction.sent();
    let trips = sent.round_trip.filter(|trips| trips.samples >= MIN_ROUND_TRIPS)?;
    let lost_before = sent.retransmissions_original_not_captured.saturating_mul(2) > sent.lost();
    let is_of_path = || {
        let path_us = direction.stream.round_trip_us();
        path_us.is_some_and(|us| trips.min_us.saturating_mul(2) >= us)
    };
    (!lost_before || is_of_path()).then(|| {
        trips.inflated >= MIN_INFLATED_SHARE
            || (trips.losses > 0 && trips.losses_after_long.saturating_mul(2) >= trips.losses)
    })
}

/// Whether losses began so often that a transfer which only finds the rate of its link has fewer.
pub(super) fn began_often(direction: StreamDirection<'_>, packets: Option<&Packets>) -> bool {
    let losses = direction.sent().round_trip.map_or(0, |trips| trips.losses);
    losses >= MIN_LOSS_EVENTS
        || (losses >= MIN_LOSS_EVENTS_BELOW
            && !began_with_a_queue(direction)
            && packets.is_some_and(|packets| is_far_below_path(direction, packets)))
}

/// Whether the path would have carried much more than was ever sent, by how fast it delivered flights.
fn is_far_below_path(direction: StreamDirection<'_>, packets: &Packets) -> bool {
    let path = SharedPath::of(packets, direction);
    let Some(rate) = path.rate_bps.map(|rate| rate / path.streams_at_once) else { return false };
    let sent = direction.sent();
    let trip_us = direction.stream.round_trip_us().unwrap_or(0);
    let mean = share(sent.new_bytes as f64 * 8e6, direction.stream.busy_us() as f64);
    let largest = share(sent.max_in_flight as f64 * 8e6, trip_us as f64);
    trip_us > 0 && largest <= rate * MAX_FLIGHT_SHARE && mean <= rate * MAX_MEAN_SHARE
}

#[cfg(test)]
mod tests {
    use model::{CapturedStream, TimeCategory};

    use super::*;
    use crate::fixtures::{add_stream, healthy, set_time};

    /// A transfer of a second with so many losses, over a path that delivers flights at 100 Mbit/s.
    fn judged<T>(
        change: impl Fn(&mut CapturedStream),
        judge: impl Fn(StreamDirection<'_>, &Packets) -> T,
    ) -> T {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        let sent = &mut stream.from_server;
        sent.fast_retransmissions = 7;
        sent.flight_rate_bps = Some(100_000_000);
        set_time(sent, TimeCategory::Network, 1_000_000);
        let trips = sent.round_trip.get_or_insert_default();
        (trips.losses, trips.losses_after_longer) = (2, Some(0));
        change(stream);
        let packets = evidence.packets.as_ref().unwrap();
        judge(StreamDirection { stream: &packets.worst[0], server_sends: true }, packets)
    }

    #[test]
    fn a_transfer_far_below_the_path_did_not_overshoot_it() {
        let often = |change: fn(&mut CapturedStream)| {
            judged(change, |direction, packets| began_often(direction, Some(packets)))
        };
        // 1 MB in a second, 100 kB each 20 ms at most: 8 and 40 Mbit/s.
        assert!(often(|_| {}));
        assert!(!often(|stream| stream.from_server.max_in_flight = 200_000), "a large flight");
        assert!(!often(|stream| stream.from_server.new_bytes = 5_000_000), "40 Mbit/s");
        assert!(!often(|stream| stream.from_server.flight_rate_bps = None), "nothing shows it");
        let trips = |stream: &mut CapturedStream, losses, longer| {
            let trips = stream.from_server.round_trip.get_or_insert_default();
            (trips.losses, trips.losses_after_longer) = (losses, Some(longer));
        };
        assert!(!judged(
            |stream| trips(stream, 1, 0),
            |direction, packets| began_often(direction, Some(packets))
        ));
        assert!(
            !judged(
                |stream| trips(stream, 2, 2),
                |direction, packets| began_often(direction, Some(packets))
            ),
            "there was a queue"
        );
        assert!(judged(
            |stream| trips(stream, 3, 3),
            |direction, packets| began_often(direction, Some(packets))
        ));
    }

    #[test]
    fn the_round_trips_before_the_losses_show_a_queue_not_the_longest_of_all() {
        for (losses, longer, overshot) in [(2, 1, false), (2, 2, true), (1, 1, true), (0, 0, true)]
        {
            let found = judged(
                |stream| {
                    let trips = stream.from_server.round_trip.get_or_insert_default();
                    (trips.losses, trips.losses_after_longer) = (losses, Some(longer));
                    // Seen behind the losses, before the round trips are known.
                    stream.from_server.missing_began = 1;
                    trips.max_us = 30_000;
                },
                |direction, _| is_overshoot(direction),
            );
            assert_eq!(found, overshot, "{losses} {longer}");
        }
    }

    #[test]
    fn round_trips_of_the_other_part_of_the_path_show_no_queue() {
        for (not_captured, min_us, known) in [(7, 20_000, true), (7, 30, false), (0, 30, true)] {
            let found = judged(
                |stream| {
                    let sent = &mut stream.from_server;
                    sent.fast_retransmissions = 7 - not_captured;
                    sent.retransmissions_original_not_captured = not_captured;
                    sent.round_trip.get_or_insert_default().min_us = min_us;
                },
                |direction, _| queue_was_full(direction),
            );
            assert_eq!(found, known.then_some(false), "{not_captured} {min_us}");
        }
    }
}
