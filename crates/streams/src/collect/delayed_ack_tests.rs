//! Delayed acknowledgements for which Nagle's algorithm waits: what one held, and what it did not.

use super::test_connection::{ACK, SYN, TestConnection, timestamp};

/// When the first exchange begins.
const FIRST: u64 = 100_000;
/// From one exchange to the next.
const EACH: u64 = 1_000_000;

/// Writes of the client in two small pieces: the first is acknowledged after `wait`, and the second
/// follows `release` later. Then the server responds.
fn write_in_two(connection: &mut TestConnection, exchanges: u32, wait: u64, release: u64) {
    for exchange in 0..exchanges {
        let at = FIRST + u64::from(exchange) * EACH;
        let (own, peer) = (1 + exchange * 200, 1 + exchange * 50);
        connection.packet(at, true, ACK, [own, peer, 0, 100], 60_000);
        connection.packet(at + wait, false, ACK, [peer, own + 100, timestamp(at), 0], 60_000);
        let held = at + wait + release;
        connection.packet(held, true, ACK, [own + 100, peer, 0, 100], 60_000);
        let echo = timestamp(held);
        connection.packet(held + 40_500, false, ACK, [peer, own + 200, echo, 50], 60_000);
        connection.packet(held + 40_510, true, ACK, [own + 200, peer + 50, echo, 0], 60_000);
    }
}

#[test]
fn what_a_delayed_acknowledgement_releases_was_held() {
    let mut connection = TestConnection::open(60_000);
    write_in_two(&mut connection, 5, 80_000, 50);
    let sent = connection.sent_by_client();
    assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (5, 5), "{sent:?}");
    let total_ms = sent.delayed_ack_stalls.total_us / 1000;
    assert!((195..=205).contains(&total_ms), "{sent:?}");
}

#[test]
fn an_acknowledgement_after_one_round_trip_was_not_delayed() {
    // Without the handshake, no shorter time is known before the response to the first exchange.
    for has_handshake in [true, false] {
        let mut connection =
            if has_handshake { TestConnection::open(60_000) } else { TestConnection::new() };
        write_in_two(&mut connection, 5, 40_000, 50);
        let sent = connection.sent_by_client();
        assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (0, 0), "{sent:?}");
    }
}

#[test]
fn a_stretched_timer_is_known_by_what_it_releases_on_a_short_path() {
    // 70 ms is the timer of nobody; no path of 1 ms explains it.
    let stalls = |round_trip: u64| {
        let mut connection = TestConnection::new();
        connection.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
        connection.packet(round_trip, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        connection.packet(round_trip + 20, true, ACK, [1, 1, 1, 0], 60_000);
        write_in_two(&mut connection, 3, round_trip + 70_000, 50);
        connection.sent_by_client().delayed_ack_stalls.count
    };
    assert_eq!((stalls(1_000), stalls(38_000)), (3, 0));
}

#[test]
fn who_sends_small_segments_while_others_are_in_flight_is_not_held() {
    let mut connection = TestConnection::open(60_000);
    // TCP_NODELAY: two small segments at once.
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    connection.packet(50_100, true, ACK, [101, 1, 0, 100], 60_000);
    connection.packet(90_000, false, ACK, [1, 201, timestamp(50_000), 0], 60_000);
    for exchange in 0..5_u32 {
        let (at, own) = (200_000 + u64::from(exchange) * EACH, 201 + exchange * 200);
        connection.packet(at, true, ACK, [own, 1, 0, 100], 60_000);
        connection.packet(at + 80_000, false, ACK, [1, own + 100, timestamp(at), 0], 60_000);
        connection.packet(at + 80_050, true, ACK, [own + 100, 1, 0, 100], 60_000);
        let echo = timestamp(at + 80_050);
        connection.packet(at + 160_000, false, ACK, [1, own + 200, echo, 0], 60_000);
    }
    let sent = connection.sent_by_client();
    assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (0, 10), "{sent:?}");
}

#[test]
fn nagle_lets_a_small_segment_follow_full_ones() {
    let mut connection = TestConnection::open(60_000);
    // A small segment behind full ones is what a write leaves over.
    connection.packet(50_000, true, ACK, [1, 1, 0, 1448], 60_000);
    connection.packet(50_010, true, ACK, [1449, 1, 0, 100], 60_000);
    connection.packet(90_500, false, ACK, [1, 1549, timestamp(50_000), 0], 60_000);
    for exchange in 0..3_u32 {
        let (at, own) = (200_000 + u64::from(exchange) * EACH, 1549 + exchange * 200);
        connection.packet(at, true, ACK, [own, 1, 0, 100], 60_000);
        connection.packet(at + 80_000, false, ACK, [1, own + 100, timestamp(at), 0], 60_000);
        connection.packet(at + 80_050, true, ACK, [own + 100, 1, 0, 100], 60_000);
        let echo = timestamp(at + 80_050);
        connection.packet(at + 120_600, false, ACK, [1, own + 200, echo, 0], 60_000);
    }
    let sent = connection.sent_by_client();
    assert_eq!(sent.delayed_ack_stalls.count, 3, "{sent:?}");
}

#[test]
fn what_passes_sooner_than_from_the_far_end_was_not_released() {
    // Captured at the server: the client is 40 ms away, there and back.
    let stalls = |release: u64| {
        let mut connection = TestConnection::new();
        connection.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
        connection.packet(20, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        connection.packet(40_020, true, ACK, [1, 1, 1, 0], 60_000);
        for exchange in 0..5_u32 {
            let at = FIRST + u64::from(exchange) * EACH;
            let own = 1 + exchange * 200;
            connection.packet(at, true, ACK, [own, 1, 0, 100], 60_000);
            connection.packet(at + 40_000, false, ACK, [1, own + 100, timestamp(at), 0], 60_000);
            connection.packet(at + 40_000 + release, true, ACK, [own + 100, 1, 0, 100], 60_000);
            let echo = timestamp(at + 40_000 + release);
            connection.packet(at + 200_000, false, ACK, [1, own + 200, echo, 0], 60_000);
        }
        connection.sent_by_client().delayed_ack_stalls.count
    };
    assert_eq!((stalls(41_000), stalls(5_000), stalls(60_000)), (5, 0, 0));
}

/// The connection was open before the capture: the held segment is the largest that was ever captured,
/// and no acknowledgement came sooner than the delayed ones.
#[test]
fn a_socket_shows_what_the_handshake_showed() {
    let joined = |mss: Option<u16>| {
        let mut connection = TestConnection::new();
        mss.into_iter().for_each(|mss| connection.know(mss, 1_000));
        for exchange in 0..5 {
            let at = FIRST + u64::from(exchange) * EACH;
            let (own, peer) = (1 + exchange * 1_300, 1 + exchange * 50);
            connection.packet(at, true, ACK, [own, peer, 0, 600], 500);
            let acknowledged = at + 41_000;
            connection.packet(acknowledged, false, ACK, [peer, own + 600, timestamp(at), 0], 500);
            let held = acknowledged + 50;
            connection.packet(held, true, ACK, [own + 600, peer, 0, 700], 500);
            let echo = timestamp(held);
            connection.packet(held + 1_000, false, ACK, [peer, own + 1_300, echo, 50], 500);
        }
        connection.sent_by_client()
    };
    assert_eq!(joined(None).delayed_ack_stalls.count, 0);
    let sent = joined(Some(1_448));
    assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (5, 5), "{sent:?}");
    assert_eq!((sent.window_scale, sent.max_window), (Some(8), 500 << 8));
    // It is a full segment, which Nagle's algorithm does not hold.
    assert_eq!(joined(Some(700)).delayed_ack_stalls.count, 0);
}
