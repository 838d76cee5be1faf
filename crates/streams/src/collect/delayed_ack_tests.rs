//! Tests of small segments that wait for a delayed acknowledgement, and of those that seem to.

use model::CapturedDirection;

use super::test_connection::{ACK, TestConnection, timestamp};

/// Messages in two small pieces; each first piece is acknowledged after this time, and the second
/// passes so much later. The round trip is 40 ms, and the capture is at the client.
fn two_pieces(acknowledged_us: u64, released_us: u64) -> CapturedDirection {
    let mut connection = TestConnection::open(60_000);
    for message in 0..10_u32 {
        let (at, seq) = (100_000 + u64::from(message) * 500_000, 1 + message * 40);
        connection.packet(at, true, ACK, [seq, 1, 0, 20], 60_000);
        let acknowledged = at + acknowledged_us;
        connection.packet(acknowledged, false, ACK, [1, seq + 20, timestamp(at), 0], 60_000);
        let released = acknowledged + released_us;
        connection.packet(released, true, ACK, [seq + 20, 1, 0, 20], 60_000);
        connection.packet(
            released + 40_000,
            false,
            ACK,
            [1, seq + 40, timestamp(released), 0],
            60_000,
        );
    }
    connection.sent_by_client()
}

#[test]
fn a_segment_that_a_delayed_acknowledgement_releases_waited_for_it() {
    let stalls = two_pieces(80_000, 100).delayed_ack_stalls;
    assert_eq!((stalls.count, stalls.total_us), (10, 400_000));
}

#[test]
fn an_acknowledgement_after_a_round_trip_is_not_delayed() {
    let sent = two_pieces(41_000, 100);
    assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (0, 0));
}

#[test]
fn what_follows_a_delayed_acknowledgement_later_did_not_wait_for_it() {
    let sent = two_pieces(80_000, 5_000);
    assert_eq!((sent.delayed_ack_stalls.count, sent.acknowledged_late), (0, 10));
}

#[test]
fn an_end_that_sends_small_segments_behind_each_other_does_not_wait() {
    let mut connection = TestConnection::open(60_000);
    connection.packet(100_000, true, ACK, [1, 1, 0, 20], 60_000);
    connection.packet(110_000, true, ACK, [21, 1, 0, 20], 60_000);
    connection.packet(150_000, false, ACK, [1, 41, timestamp(100_000), 0], 60_000);
    connection.packet(300_000, true, ACK, [41, 1, 0, 20], 60_000);
    assert_eq!(connection.sent_by_client().small_behind_small, 1);
}

/// At the server, what a server's acknowledgement releases passes a round trip later: an earlier
/// message was on its way already.
#[test]
fn what_passes_sooner_than_a_round_trip_was_not_released() {
    let stalls = |released_us: u64| {
        let mut connection = TestConnection::new();
        connection.packet(0, true, super::test_connection::SYN, [0, 0, 0, 0], 60_000);
        let syn_ack = super::test_connection::SYN | ACK;
        connection.packet(100, false, syn_ack, [0, 1, 1, 0], 60_000);
        connection.packet(40_000, true, ACK, [1, 1, 1, 0], 60_000);
        let mut seq = 1;
        for message in 0..10_u64 {
            let at = 100_000 + message * 500_000;
            connection.packet(at, true, ACK, [seq, 1, 0, 20], 60_000);
            connection.packet(at + 40_000, false, ACK, [1, seq + 20, timestamp(at), 0], 60_000);
            let released = at + 40_000 + released_us;
            connection.packet(released, true, ACK, [seq + 20, 1, 0, 20], 60_000);
            connection.packet(
                released + 50,
                false,
                ACK,
                [1, seq + 40, timestamp(released), 0],
                60_000,
            );
            seq += 40;
        }
        connection.sent_by_client().delayed_ack_stalls.count
    };
    assert_eq!(stalls(40_200), 10);
    assert_eq!(stalls(20_000), 0);
}
