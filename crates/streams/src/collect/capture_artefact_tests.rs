//! Tests of captures that have packets in another order, truncated, or not at all; and of what looks
//! like a loss and is none.

use super::test_connection::{ACK, SYN, TestConnection, timestamp};

#[test]
fn many_late_segments_at_once_are_not_lost() {
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // Of two hundred that leave in one millisecond, every other comes behind all of the rest.
    let (overtaking, late) = ((1..200).step_by(2), (0..200).step_by(2));
    for (place, segment) in overtaking.chain(late).enumerate() {
        let next = 1 + segment * 1448;
        connection.packet(
            90_000 + place as u64,
            false,
            ACK,
            [next, 101, timestamp(50_000), 1448],
            60_000,
        );
    }
    let sent = connection.sent_by_server();
    assert_eq!(
        (sent.reordered, sent.retransmitted(), sent.late_originals),
        (100, 0, 0),
        "{sent:?}"
    );
}

#[test]
fn late_originals_are_known_after_many_retransmissions() {
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // The time stamp is the millisecond of `at`: for a late segment, when it was sent.
    let arrive = |connection: &mut TestConnection, at: u64, segment: u32| {
        connection.packet(
            at,
            false,
            ACK,
            [1 + segment * 1448, 101, timestamp(50_000), 1448],
            60_000,
        );
    };
    (1..80).step_by(2).for_each(|segment| arrive(&mut connection, 90_000, segment));
    (0..80).step_by(2).for_each(|segment| arrive(&mut connection, 130_000, segment));
    // The originals, held up for longer than their retransmissions took.
    (0..80).step_by(2).for_each(|segment| arrive(&mut connection, 90_900, segment));
    let sent = connection.sent_by_server();
    assert_eq!((sent.late_originals, sent.retransmitted()), (40, 0), "{sent:?}");
}

#[test]
fn segments_captured_out_of_order_were_not_late() {
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // Two CPUs write one file: the first two of three segments are in the wrong order, with their
    // own times; and an acknowledgement comes before its data.
    for three in 0..20_u32 {
        let (at, next) = (90_000 + u64::from(three) * 50, 1 + three * 4344);
        let data = |connection: &mut TestConnection, after: u64, next: u32| {
            connection.packet(at + after, false, ACK, [next, 101, timestamp(50_000), 1448], 60_000);
        };
        data(&mut connection, 10, next + 1448);
        data(&mut connection, 0, next);
        data(&mut connection, 20, next + 2896);
        if three % 2 == 0 {
            connection.packet(at + 40, true, ACK, [101, next + 4344, 0, 0], 60_000);
        }
    }
    connection.packet(99_000, true, ACK, [101, 1 + 62 * 1448, 0, 0], 60_000);
    connection.packet(98_990, false, ACK, [1 + 61 * 1448, 101, timestamp(50_000), 1448], 60_000);
    let sent = connection.sent_by_server();
    assert_eq!((sent.reordered, sent.lost(), sent.duplicate_sacks), (0, 0, 0), "{sent:?}");
    assert_eq!(sent.new_bytes, 61 * 1448, "{sent:?}");
}

#[test]
fn what_a_router_forwards_is_a_copy_without_time_stamps_too() {
    // Both sides of a router are captured; 40 segments pass while one waits in it.
    let forwarded = |hops: u8, new_ids: bool| {
        let mut connection = TestConnection::open(60_000);
        connection.timestamps = false;
        connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
        let first_id = connection.next_id;
        for (copy, at) in [(false, 90_000), (true, 95_000)] {
            connection.next_id = if copy && !new_ids { first_id } else { connection.next_id };
            connection.hops = if copy { hops } else { 64 };
            for segment in 0..40_u32 {
                let at = at + u64::from(segment) * 100;
                connection.packet(at, false, ACK, [1 + segment * 1448, 101, 0, 1448], 60_000);
            }
        }
        connection.packet(140_000, true, ACK, [101, 1 + 40 * 1448, 0, 0], 60_000);
        let sent = connection.sent_by_server();
        assert_eq!(sent.new_bytes, 40 * 1448, "{sent:?}");
        sent.retransmitted()
    };
    assert_eq!(forwarded(63, false), 0);
    assert!(forwarded(63, true) >= 24 && forwarded(64, false) >= 24, "sent twice");
}

#[test]
fn acknowledged_data_was_not_lost() {
    // The server's timer is too short, or the acknowledgement is lost beyond the capture point.
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    connection.packet(90_000, false, ACK, [1, 101, timestamp(50_000), 1448], 60_000);
    connection.packet(90_005, true, ACK, [101, 1449, 0, 0], 60_000);
    for again in 1..4 {
        let at = 90_000 + again * 400_000;
        connection.packet(at, false, ACK, [1, 101, timestamp(50_000), 1448], 60_000);
        connection.packet(at + 5, true, ACK, [101, 1449, 0, 0], 60_000);
    }
    let sent = connection.sent_by_server();
    assert_eq!(
        (sent.retransmitted(), sent.already_acknowledged, sent.lost()),
        (3, 3, 0),
        "{sent:?}"
    );
    assert_eq!(sent.time_us(model::TimeCategory::Loss), 0, "nobody waited: {sent:?}");
    // The same with more to send: its sender waited for what was lost.
    let mut connection = TestConnection::open(60_000);
    connection.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    connection.packet(90_000, false, ACK, [1, 101, timestamp(50_000), 1448], 60_000);
    connection.packet(90_005, true, ACK, [101, 1449, 0, 0], 60_000);
    connection.packet(490_000, false, ACK, [1, 101, timestamp(50_000), 1448], 60_000);
    connection.packet(490_005, true, ACK, [101, 1449, 0, 0], 60_000);
    connection.packet(530_000, false, ACK, [1449, 101, timestamp(490_005), 1448], 60_000);
    connection.packet(530_005, true, ACK, [101, 2897, 0, 0], 60_000);
    let sent = connection.sent_by_server();
    assert_eq!(
        (sent.already_acknowledged, sent.time_us(model::TimeCategory::Loss)),
        (1, 400_000),
        "{sent:?}"
    );
}

#[test]
fn a_window_whose_scale_was_truncated_is_not_closed() {
    // 48 bytes hold a segment size, and not the scale behind it; windows of 100 are 25,600 bytes.
    for (snap_length, truncated) in [(usize::MAX, false), (46, true)] {
        let mut connection = TestConnection::new();
        connection.snap_length = snap_length;
        connection.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
        connection.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        connection.snap_length = usize::MAX;
        connection.packet(40_020, true, ACK, [1, 1, 41, 0], 100);
        connection.packet(50_000, true, ACK, [1, 1, 0, 100], 100);
        for segment in 0..20_u32 {
            let at = 90_000 + u64::from(segment) * 40_000;
            connection.packet(at, false, ACK, [1 + segment * 1448, 101, 50, 1448], 60_000);
            connection.packet(at + 5, true, ACK, [101, 1449 + segment * 1448, 0, 0], 100);
        }
        let sent = connection.sent_by_server();
        let found = (sent.options_truncated, sent.window_scale.is_none());
        assert_eq!(found, (truncated, truncated), "{sent:?}");
        assert_eq!((sent.mss, sent.zero_window_stalls.count), (Some(1460), 0), "{sent:?}");
    }
}

#[test]
fn a_window_is_closed_without_its_handshake_too() {
    let mut connection = TestConnection::new();
    connection.packet(0, true, ACK, [1, 1, 0, 100], 500);
    // Its scale is not known: more than 500 bytes may be in flight.
    for segment in 0..10 {
        connection.packet(40_000, false, ACK, [1 + segment * 1448, 101, 1, 1448], 60_000);
    }
    // No room for the last two segments, nor for their retransmissions.
    connection.packet(40_010, true, ACK, [101, 1 + 8 * 1448, 0, 0], 0);
    for probe in 1..6 {
        let at = 40_000 + probe * 1_000_000;
        connection.packet(at, false, ACK, [1 + 8 * 1448, 101, 1, 1448], 60_000);
        connection.packet(at + 5, false, ACK, [1 + 9 * 1448, 101, 1, 1448], 60_000);
        connection.packet(at + 10, true, ACK, [101, 1 + 8 * 1448, 0, 0], 0);
    }
    let sent = connection.sent_by_server();
    assert_eq!((sent.lost(), sent.window_probes), (0, 10), "{sent:?}");
    assert!(sent.time_us(model::TimeCategory::ReceiverStalled) > 4_000_000, "{sent:?}");
}

#[test]
fn the_mss_is_known_when_time_stamps_were_truncated() {
    let mut connection = TestConnection::new();
    connection.snap_length = 46;
    connection.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
    connection.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
    connection.snap_length = usize::MAX;
    connection.packet(40_020, true, ACK, [1, 1, 41, 0], 60_000);
    // Segments of 1448 bytes and 12 of time stamps, acknowledged as late as small ones would be.
    for exchange in 0..10_u32 {
        let at = 100_000 + u64::from(exchange) * 200_000;
        connection.packet(at, true, ACK, [1 + exchange * 2896, 1, 0, 1448], 60_000);
        connection.packet(
            at + 90_000,
            false,
            ACK,
            [1, 1449 + exchange * 2896, timestamp(at), 0],
            60_000,
        );
        connection.packet(at + 90_010, true, ACK, [1449 + exchange * 2896, 1, 0, 1448], 60_000);
        connection.packet(
            at + 180_000,
            false,
            ACK,
            [1, 2897 + exchange * 2896, timestamp(at), 0],
            60_000,
        );
    }
    let sent = connection.sent_by_client();
    // The first passed before the server had sent any time stamp.
    assert!(sent.acknowledged_late <= 1 && sent.delayed_ack_stalls.count == 0, "{sent:?}");
}

/// A greeting of 200 bytes, then heartbeats of 100, each acknowledged. The IP length of one is damaged, so
/// that what follows would be old; or frames were cut after so many bytes and say that they were so short.
fn heartbeats(cut_to: Option<u32>) -> model::CapturedDirection {
    let mut connection = TestConnection::open(60_000);
    let mut next = 1;
    for beat in 0..8_u64 {
        let at = 100_000 + beat * 1_000_000;
        let size = if beat == 0 { 200 } else { 100 };
        let mut bytes = segment(next, size);
        let length = cut_to.unwrap_or(bytes.len() as u32);
        if beat == 2 && cut_to.is_none() {
            bytes[2] = 0x20;
            connection.take(at, &bytes, length);
            bytes[2] = 0;
        }
        bytes.truncate(length as usize);
        connection.take(at + 10, &bytes, length);
        next += u32::from(size);
        connection.packet(at + 40_000, true, ACK, [1, next, 0, 0], 60_000);
    }
    connection.sent_by_server()
}

/// A segment of the server, from its IP header on, without options.
fn segment(sequence: u32, length: u16) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((40 + length).to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1]);
    bytes.extend([0, 80, 15, 160]);
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0x50, ACK, 0xea, 0x60, 0, 0, 0, 0]);
    bytes.resize(40 + usize::from(length), b'x');
    bytes
}

#[test]
fn a_packet_that_is_longer_than_its_frame_never_arrived() {
    let sent = heartbeats(None);
    assert_eq!((sent.new_bytes, sent.retransmitted(), sent.lost()), (900, 0, 0), "{sent:?}");
}

#[test]
fn packets_may_be_cut_and_say_that_they_were_so_short() {
    // As long as the longest frame of the handshake.
    let sent = heartbeats(Some(60));
    assert_eq!((sent.new_bytes, sent.retransmitted(), sent.lost()), (900, 0, 0), "{sent:?}");
}
