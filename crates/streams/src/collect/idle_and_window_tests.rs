//! Tests near the receiver of data: pauses of the sender that are no round trips, and windows that
//! grow.

use model::{CapturedDirection, TimeCategory};

use super::test_connection::{ACK, TestConnection, timestamp};

/// Requests with responses of 200 ms, and a pause after each.
fn responses(pause_us: u64) -> CapturedDirection {
    let mut connection = TestConnection::open(60_000);
    let (mut request, mut next, mut at) = (1, 1, 50_000);
    for _ in 0..10 {
        connection.packet(at, true, ACK, [request, next, 0, 100], 60_000);
        request += 100;
        for segment in 0..200 {
            let arrives = at + 40_000 + segment * 1_000;
            // The last one that reached the server: of the request, then of acknowledgements.
            let echo = timestamp(at.max(arrives - 40_000));
            connection.packet(arrives, false, ACK, [next, request, echo, 1448], 60_000);
            next += 1448;
            connection.packet(arrives + 5, true, ACK, [request, next, 0, 0], 60_000);
        }
        at += 240_000 + pause_us;
    }
    connection.sent_by_server()
}

#[test]
fn a_pause_of_the_sender_is_no_round_trip() {
    let trips = responses(900_000).round_trip.expect("round trips");
    assert!((39_000..41_000).contains(&trips.min_us) && trips.samples > 20, "{trips:?}");
    assert!(trips.max_us < 80_000 && trips.inflated == 0.0, "{trips:?}");
}

#[test]
fn a_queue_makes_round_trips_longer_near_the_receiver() {
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // A segment each millisecond; what it echoes is older with each, up to 300 ms.
    for segment in 0..6_000_u64 {
        let at = 90_000 + segment * 1_000;
        let trip = 40_000 + (segment * 300).min(260_000);
        let (next, echo) = (1 + segment as u32 * 1448, timestamp(at - trip));
        connection.packet(at, false, ACK, [next, 101, echo, 1448], 60_000);
        connection.packet(at + 5, true, ACK, [101, next + 1448, 0, 0], 60_000);
    }
    let trips = connection.sent_by_server().round_trip.expect("round trips");
    assert!((290_000..310_000).contains(&trips.max_us) && trips.inflated > 0.5, "{trips:?}");
}

/// Twenty round trips, in each of which the server fills a window of so many bytes; after so many
/// microseconds the reader makes room again.
fn windows(grow: impl Fn(u32) -> u32, late: u64) -> CapturedDirection {
    let mut connection = TestConnection::open(128);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 128);
    let (mut next, mut at) = (1, 90_000);
    for trip in 0..20 {
        let window = grow(trip);
        let began = at;
        let end = next + window;
        while next < end {
            let length = (end - next).min(1448);
            connection.packet(
                at,
                false,
                ACK,
                [next, 101, timestamp(began - 40_000), length],
                60_000,
            );
            next += length;
            at += 10;
        }
        let shifted = (grow(trip + 1) >> 8) as u16;
        at += late;
        connection.packet(at, true, ACK, [101, next, 0, 0], shifted);
        at += 40_000;
    }
    connection.sent_by_server()
}

#[test]
fn time_is_counted_since_the_window_settled() {
    let waited = |direction: &CapturedDirection| direction.time_us(TimeCategory::ReceiveWindow);
    let same = windows(|_| 128 << 8, 0);
    assert!(waited(&same) > 600_000, "{same:?}");
    let settled = same.settled_window_us.expect("a time");
    assert!(settled > 500_000 && settled <= waited(&same), "{settled}");
    // A reader that is behind now and then: half of the time is its own.
    let slow = windows(|trip| if trip % 2 == 0 { 128 << 8 } else { 64 << 8 }, 0);
    let settled = slow.settled_window_us.expect("a time");
    assert!(
        settled > 200_000 && settled < waited(&slow) * 6 / 10,
        "{settled} of {}",
        waited(&slow)
    );
    // The window is as large as ever, and opens late: all of that time is the reader's.
    let late = windows(|_| 128 << 8, 30_000);
    let settled = late.settled_window_us.expect("a time");
    assert!(settled * 4 < late.reader_behind_us.expect("a time"), "{late:?}");
    assert_eq!(same.reader_behind_us, Some(0));
    let growing = windows(|trip| (128 + 128 * trip) << 8, 0);
    assert!(waited(&growing) > 600_000, "{growing:?}");
    // The last steps are smaller than a quarter.
    assert!(growing.settled_window_us.expect("a time") < waited(&growing) / 2, "{growing:?}");
}

/// Near its receiver: data comes all the time over a path of 30 ms, then so many segments together, so often,
/// which echo what the receiver sent `old` microseconds before. Returns the share of long round trips.
fn inflated(segments: u32, every: u64, old: u64) -> f64 {
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    let (mut next, mut now) = (1, 100_000);
    for number in 0..2_000 {
        let (segments, every, old) =
            if number < 100 { (1, 4_000, 30_000) } else { (segments, every, old) };
        now += every;
        for segment in 0..segments {
            let (at, echo) = (now + u64::from(segment) * 300, timestamp(now - old));
            connection.packet(at, false, ACK, [next, 101, echo, 1448], 60_000);
            next += 1448;
        }
        connection.packet(now + 2_000, true, ACK, [101, next, timestamp(now), 0], 60_000);
    }
    connection.sent_by_server().round_trip.map_or(0.0, |trips| trips.inflated)
}

#[test]
fn data_that_was_not_there_yet_is_no_queue() {
    // Pictures, 25 a second: an echo may be two of them old.
    assert_eq!(inflated(5, 40_000, 78_000), 0.0);
    // A queue of 70 ms before a slow link: data comes all the time.
    assert!(inflated(1, 4_000, 100_000) > 0.5);
    // And pictures behind one of 250 ms.
    assert!(inflated(5, 40_000, 278_000) > 0.5);
}
