//! Tests of what is a loss: each with what looks like one and is none, and with its true twin.

use model::{CapturedDirection, TimeCategory};

use super::test_connection::{ACK, FIN, RST, SYN, TestConnection, timestamp};

const WINDOW: u16 = 60_000;
/// When the client sends its request, microseconds.
const SENT: u64 = 100_000;

/// A connection at whose client a request of 100 bytes was sent.
fn request() -> TestConnection {
    let mut connection = TestConnection::open(WINDOW);
    // The round trip is known from before: 40 ms.
    for number in 0..3_u32 {
        let at = 50_000 + u64::from(number) * 10;
        connection.packet(at, true, ACK, [1 + number, 1, 41, 1], WINDOW);
        connection.packet(at + 40_000, false, ACK, [1, 2 + number, timestamp(at), 0], WINDOW);
    }
    again(&mut connection, SENT);
    connection
}

/// The request, or the same again.
fn again(connection: &mut TestConnection, at: u64) {
    connection.packet(at, true, ACK, [4, 1, 41, 100], WINDOW);
}

/// Its acknowledgement, which echoes the time stamp of the moment `sent`.
fn answer(connection: &mut TestConnection, at: u64, sent: u64) {
    connection.packet(at, false, ACK, [1, 104, timestamp(sent), 0], WINDOW);
}

fn lost_time(sent: &CapturedDirection) -> u64 {
    sent.time_us(TimeCategory::Loss)
}

#[test]
fn an_acknowledgement_of_the_original_shows_that_it_arrived() {
    for (echo, lost) in [(SENT, 0), (SENT + 300_000, 1)] {
        let mut connection = request();
        again(&mut connection, SENT + 300_000);
        answer(&mut connection, SENT + 345_000, echo);
        let sent = connection.sent_by_client();
        assert_eq!((sent.retransmitted(), sent.lost()), (1, lost), "{sent:?}");
        assert_eq!(lost_time(&sent) > 0, lost > 0, "{sent:?}");
    }
}

#[test]
fn an_old_echo_tells_nothing_behind_other_data() {
    // The first segment waits for a delayed acknowledgement; the second was lost, and its
    // retransmission has the first acknowledged, whose time stamp is echoed (RFC 7323, 4.3).
    let mut connection = request();
    connection.packet(SENT + 10, true, ACK, [104, 1, 41, 100], WINDOW);
    connection.packet(SENT + 85_000, true, ACK, [104, 1, 41, 100], WINDOW);
    connection.packet(SENT + 126_000, false, ACK, [1, 204, timestamp(SENT), 0], WINDOW);
    let sent = connection.sent_by_client();
    assert_eq!((sent.retransmitted(), sent.lost()), (1, 1), "{sent:?}");
}

#[test]
fn nobody_can_miss_a_segment_sooner_than_a_round_trip() {
    for (later, lost) in [(3_000, 0), (250_000, 1)] {
        let mut connection = request();
        again(&mut connection, SENT + later);
        answer(&mut connection, SENT + later + 41_000, SENT + later);
        let sent = connection.sent_by_client();
        assert_eq!((sent.retransmitted(), sent.lost()), (1, lost), "{sent:?}");
    }
}

#[test]
fn what_the_receiver_holds_was_not_lost() {
    for (held, lost) in [(Some((104, 204)), 1), (None, 2)] {
        let mut connection = request();
        connection.packet(SENT + 10, true, ACK, [104, 1, 41, 100], WINDOW);
        connection.held = held;
        connection.packet(SENT + 40_000, false, ACK, [1, 4, timestamp(90_000), 0], WINDOW);
        connection.held = None;
        again(&mut connection, SENT + 300_000);
        connection.packet(SENT + 300_010, true, ACK, [104, 1, 41, 100], WINDOW);
        let echo = timestamp(SENT + 300_000);
        connection.packet(SENT + 345_000, false, ACK, [1, 204, echo, 0], WINDOW);
        let sent = connection.sent_by_client();
        assert_eq!((sent.retransmitted(), sent.lost()), (2, lost), "{sent:?}");
    }
}

#[test]
fn what_is_never_answered_shows_no_loss() {
    let retransmit = |connection: &mut TestConnection| {
        for at in [300_000, 700_000, 1_500_000, 3_100_000] {
            again(connection, SENT + at);
        }
    };
    let mut connection = request();
    retransmit(&mut connection);
    let sent = connection.sent_by_client();
    assert_eq!((sent.lost(), sent.unanswered, sent.unanswered_us), (0, 4, 3_100_000), "{sent:?}");
    // It was answered at last.
    let mut connection = request();
    retransmit(&mut connection);
    answer(&mut connection, SENT + 3_145_000, SENT + 3_100_000);
    let sent = connection.sent_by_client();
    assert_eq!((sent.lost(), sent.unanswered, sent.unanswered_us), (4, 0, 0), "{sent:?}");
    // An end has closed the connection: nobody waits for the other one.
    for to_server in [true, false] {
        let mut connection = request();
        let numbers = if to_server { [104, 1, 41, 0] } else { [1, 4, 41, 0] };
        connection.packet(SENT + 20, to_server, ACK | FIN, numbers, WINDOW);
        retransmit(&mut connection);
        let sent = connection.sent_by_client();
        assert_eq!((sent.lost(), sent.unanswered_us, lost_time(&sent)), (0, 0, 0), "{sent:?}");
    }
    // The other direction was not captured.
    let mut connection = TestConnection::new();
    again(&mut connection, SENT);
    retransmit(&mut connection);
    let sent = connection.sent_by_client();
    assert_eq!((sent.lost(), sent.unanswered_us, lost_time(&sent)), (0, 0, 0), "{sent:?}");
}

#[test]
fn after_both_ends_have_closed_nobody_waits() {
    // The server closes after its response. Or the client closes first, with its request, and still
    // waits for the response.
    for (client_closes_first, lost) in [(false, 0), (true, 1)] {
        let mut connection = TestConnection::open(WINDOW);
        let client = |connection: &mut TestConnection, at, numbers| {
            connection.packet(at, true, ACK | FIN, numbers, WINDOW);
        };
        if client_closes_first {
            client(&mut connection, SENT, [1, 1, 41, 100]);
        } else {
            connection.packet(SENT, true, ACK, [1, 1, 41, 100], WINDOW);
        }
        let end = 101 + u32::from(client_closes_first);
        connection.packet(SENT + 41_000, false, ACK, [1, end, 101, 1000], WINDOW);
        connection.packet(SENT + 41_020, true, ACK, [end, 1001, 142, 0], WINDOW);
        connection.packet(SENT + 42_000, false, ACK | FIN, [1001, end, 101, 500], WINDOW);
        if !client_closes_first {
            client(&mut connection, SENT + 42_010, [101, 1001, 142, 0]);
        }
        connection.packet(SENT + 342_000, false, ACK | FIN, [1001, end, 101, 500], WINDOW);
        connection.packet(
            SENT + 342_020,
            true,
            ACK,
            [102, 1502, timestamp(SENT + 342_000), 0],
            WINDOW,
        );
        let sent = connection.sent_by_server();
        assert_eq!((sent.retransmitted(), sent.lost()), (1, lost), "{sent:?}");
        assert_eq!(lost_time(&sent) > 0, lost > 0, "{sent:?}");
    }
}

#[test]
fn without_acknowledgements_nothing_shows_what_was_lost() {
    // Somebody filtered the capture: nothing but data.
    for acknowledged in [false, true] {
        let mut connection = TestConnection::new();
        connection.packet(0, true, ACK, [4, 1, 1, 100], WINDOW);
        connection.packet(1_300_000, true, ACK, [4, 1, 1, 100], WINDOW);
        connection.packet(2_000_000, false, ACK, [1, 104, timestamp(1_300_000), 500], WINDOW);
        if acknowledged {
            connection.packet(2_000_020, true, ACK, [104, 501, 1, 0], WINDOW);
        }
        let sent = connection.sent_by_client();
        assert_eq!((sent.retransmitted(), sent.lost()), (1, acknowledged.into()), "{sent:?}");
        assert_eq!(lost_time(&sent) > 0, acknowledged, "{sent:?}");
    }
}

#[test]
fn only_data_is_lost() {
    let mut connection = TestConnection::new();
    for at in [0, 1_000_000, 3_000_000] {
        connection.packet(at, true, SYN, [0, 0, 0, 0], WINDOW);
    }
    connection.packet(3_040_000, false, SYN | ACK, [0, 1, 3001, 0], WINDOW);
    connection.packet(3_040_020, true, ACK, [1, 1, 41, 100], WINDOW);
    connection.packet(3_080_020, false, ACK, [1, 101, 3041, 0], WINDOW);
    for at in [4_000_000, 4_300_000, 4_900_000] {
        connection.packet(at, true, ACK | FIN, [101, 1, 41, 0], WINDOW);
    }
    connection.packet(4_941_000, false, ACK, [1, 102, 4901, 0], WINDOW);
    let sent = connection.sent_by_client();
    assert_eq!((sent.data_segments, sent.retransmitted(), sent.lost()), (1, 0, 0), "{sent:?}");
}

#[test]
fn what_follows_a_reset_is_not_lost() {
    for (flags, retransmitted) in [(ACK | RST, 0), (ACK, 1)] {
        let mut connection = request();
        connection.packet(SENT + 41_000, false, flags, [1, 4, 41, 0], WINDOW);
        again(&mut connection, SENT + 300_000);
        answer(&mut connection, SENT + 345_000, SENT + 300_000);
        let sent = connection.sent_by_client();
        assert_eq!(sent.retransmitted(), retransmitted, "{sent:?}");
    }
}

#[test]
fn another_first_number_is_another_beginning() {
    // A proxy answers the SYN first, then the server itself, whose numbers are below.
    let mut connection = TestConnection::new();
    connection.packet(0, true, SYN, [0, 0, 0, 0], WINDOW);
    connection.packet(40_000, false, SYN | ACK, [90_000_000, 1, 1, 0], WINDOW);
    connection.packet(40_020, true, ACK, [1, 90_000_001, 41, 100], WINDOW);
    connection.packet(700_000, false, SYN | ACK, [50_000, 1, 1, 0], WINDOW);
    for segment in 0..8_u32 {
        let at = 800_000 + u64::from(segment) * 50_000;
        let next = 50_001 + segment * 500;
        connection.packet(at, false, ACK, [next, 101, 41, 500], WINDOW);
        connection.packet(at + 20, true, ACK, [101, next + 500, timestamp(at), 0], WINDOW);
    }
    let sent = connection.sent_by_server();
    assert_eq!((sent.lost(), sent.retransmitted(), sent.new_bytes), (0, 0, 4_000), "{sent:?}");
    // The numbers of the data are below that of the only SYN.
    let mut connection = TestConnection::new();
    connection.packet(0, true, SYN, [0, 0, 0, 0], WINDOW);
    connection.packet(40_000, false, SYN | ACK, [90_000_000, 1, 1, 0], WINDOW);
    connection.packet(40_020, true, ACK, [1, 50_001, 41, 100], WINDOW);
    connection.packet(80_000, false, ACK, [50_001, 101, 41, 500], WINDOW);
    connection.packet(80_020, true, ACK, [101, 50_501, timestamp(80_000), 0], WINDOW);
    let sent = connection.sent_by_server();
    assert_eq!((sent.lost(), sent.retransmitted(), sent.new_bytes), (0, 0, 500), "{sent:?}");
}

#[test]
fn a_number_beyond_all_that_was_offered_is_no_data() {
    // One damaged header.
    let mut connection = TestConnection::open(500);
    for segment in 0..6_u32 {
        let at = 100_000 + u64::from(segment) * 100_000;
        let next = 1 + segment * 100;
        connection.packet(at, false, ACK, [next, 1, 41, 100], WINDOW);
        if segment == 2 {
            connection.packet(at + 10, false, ACK, [1_000_000_000, 1, 41, 500], WINDOW);
        }
        connection.packet(at + 20, true, ACK, [1, next + 100, timestamp(at), 0], 500);
    }
    let sent = connection.sent_by_server();
    assert_eq!((sent.retransmitted(), sent.new_bytes), (0, 600), "{sent:?}");
    // The capture lacks all packets for a while: more follows.
    let mut connection = TestConnection::open(500);
    for segment in 0..6_u32 {
        let at = 100_000 + u64::from(segment) * 100_000;
        let next = if segment < 3 { 1 } else { 1_000_000_000 } + segment * 100;
        connection.packet(at, false, ACK, [next, 1, 41, 100], WINDOW);
    }
    let sent = connection.sent_by_server();
    // All but the first behind the gap: nothing confirmed it yet.
    assert_eq!((sent.retransmitted(), sent.new_bytes), (0, 500), "{sent:?}");
}

#[test]
fn data_of_two_interfaces_in_other_pieces_is_not_retransmitted() {
    // A router: where they come in, two segments are one, where they go out they are two. Or it comes again
    // from its sender, 300 ms later.
    for (again_later, retransmitted) in [(30, 0), (300_000, 8)] {
        let mut connection = TestConnection::open(WINDOW);
        connection.packet(50_000, true, ACK, [1, 1, 41, 100], WINDOW);
        for burst in 0..4_u32 {
            let at = 90_000 + u64::from(burst) * 400_000;
            let next = 1 + burst * 2896;
            connection.packet(at, false, ACK, [next, 101, 51, 2896], WINDOW);
            connection.hops = 63;
            for (piece, later) in [(0, again_later), (1448, again_later + 5)] {
                connection.packet(at + later, false, ACK, [next + piece, 101, 51, 1448], WINDOW);
            }
            connection.hops = 64;
            let later = at + again_later + 1_000;
            connection.packet(later, true, ACK, [101, next + 2896, timestamp(later), 0], WINDOW);
        }
        let sent = connection.sent_by_server();
        assert_eq!((sent.retransmitted(), sent.new_bytes), (retransmitted, 11_584), "{sent:?}");
        let data = 4 + retransmitted;
        assert_eq!((sent.data_segments, sent.lost()), (data, retransmitted), "{sent:?}");
    }
}

#[test]
fn one_tick_of_the_clock_hides_what_was_sent_first() {
    // A segment fills a gap with the time stamp of what passed before it. Sooner than the sender can
    // know of the gap it was late; after a round trip, and duplicate acknowledgements, it is a
    // retransmission.
    for (later, lost) in [(5_000, 0), (45_000, 1)] {
        let mut connection = TestConnection::open(WINDOW);
        connection.packet(50_000, true, ACK, [1, 1, 41, 100], WINDOW);
        connection.packet(90_010, false, ACK, [1, 101, timestamp(50_000), 0], WINDOW);
        connection.clock = Some(91);
        for segment in [0_u32, 2, 3, 4, 5] {
            let at = 91_000 + u64::from(segment) * 10;
            connection.packet(at, false, ACK, [1 + segment * 1000, 101, 51, 1000], WINDOW);
            connection.packet(at + 5, true, ACK, [101, 1001, 91, 0], WINDOW);
        }
        connection.packet(91_020 + later, false, ACK, [1001, 101, 51, 1000], WINDOW);
        connection.packet(91_025 + later, true, ACK, [101, 6001, 91, 0], WINDOW);
        let sent = connection.sent_by_server();
        assert_eq!((sent.reordered, sent.lost()), (1 - lost, lost), "{sent:?}");
        assert_eq!(sent.late_us, (1 - lost) * 5_000, "{sent:?}");
    }
}

#[test]
fn newer_time_stamps_and_identifications_show_an_original_that_took_a_round_trip_longer() {
    // As before, and the segment comes 45 ms later: a round trip and more. The time stamp of what passed
    // last before it, its identification, and whether it is a retransmission.
    let is_lost = |newest: u32, id: u16| {
        let mut connection = TestConnection::open(WINDOW);
        connection.packet(50_000, true, ACK, [1, 1, 41, 100], WINDOW);
        connection.packet(90_010, false, ACK, [1, 101, timestamp(50_000), 0], WINDOW);
        for segment in [0_u32, 2, 3, 4, 5, 6] {
            connection.clock = Some(if segment == 6 { newest } else { 91 });
            connection.next_id = if id == 0 { 0 } else { 1_000 + segment as u16 };
            let at = 91_000 + u64::from(segment) * 10;
            connection.packet(at, false, ACK, [1 + segment * 1000, 101, 51, 1000], WINDOW);
            connection.packet(at + 5, true, ACK, [101, 1001, 91, 0], WINDOW);
        }
        (connection.clock, connection.next_id) = (Some(91), id);
        connection.packet(136_020, false, ACK, [1001, 101, 51, 1000], WINDOW);
        connection.packet(136_025, true, ACK, [101, 7001, 91, 0], WINDOW);
        let sent = connection.sent_by_server();
        assert_eq!(sent.reordered + sent.lost(), 1, "{sent:?}");
        sent.lost() == 1
    };
    assert!(is_lost(91, 0), "nothing shows more");
    assert!(!is_lost(101, 0), "what was sent later has passed before");
    assert!(!is_lost(91, 1_001), "one before that of the next segment");
    assert!(is_lost(91, 1_009), "sent after all others");
    assert!(is_lost(91, 40_000), "random identifications");
}

#[test]
fn a_client_that_repeats_one_segment_has_no_answer() {
    let repeated_bytes = |times: &[u64], to_server: bool, bytes: u32| {
        let mut connection = TestConnection::new();
        for at in times {
            connection.packet(*at, to_server, ACK, [1, 1, 0, bytes], 60_000);
        }
        let stream = connection.finish();
        let sent = if to_server { stream.from_client } else { stream.from_server };
        (sent.unanswered, sent.unanswered_us)
    };
    let repeated = |times: &[u64], to_server: bool| repeated_bytes(times, to_server, 100);
    let times = [0, 1_000_000, 3_000_000, 7_000_000];
    assert_eq!(repeated(&times, true), (3, 7_000_000));
    assert_eq!(repeated_bytes(&times, true, 1).1, 0, "keepalives");
    assert_eq!(repeated(&times[..3], true).1, 0, "too few");
    assert_eq!(repeated(&times, false).1, 0, "what a server sends unasked, nobody waits for");
}

#[test]
fn what_was_acknowledged_and_not_captured_is_counted() {
    let acknowledged = |upto: u32| {
        let mut connection = TestConnection::open(60_000);
        connection.packet(100_000, true, ACK, [1, 1, 41, 100], 60_000);
        connection.packet(140_000, false, ACK, [1, upto, timestamp(100_000), 0], 60_000);
        connection.sent_by_client().not_captured_bytes
    };
    // The SYN has a number too.
    assert_eq!((acknowledged(101), acknowledged(5_101)), (0, 5_001));
}

#[test]
fn missing_segments_begin_anew_once_all_before_them_is_acknowledged() {
    let mut connection = TestConnection::open(WINDOW);
    connection.packet(50_000, true, ACK, [1, 1, 41, 100], WINDOW);
    // The server sends twelve segments; the third, the fifth and the tenth are missing here.
    let data = |connection: &mut TestConnection, at: u64, number: u32| {
        connection.packet(at, false, ACK, [1 + (number - 1) * 1_000, 101, 51, 1_000], 60_000);
    };
    let acknowledge = |connection: &mut TestConnection, at: u64, until: u32| {
        connection.packet(at, true, ACK, [101, 1 + until * 1_000, timestamp(at), 0], WINDOW);
    };
    for (at, number) in [(90_000, 1), (90_100, 2), (90_200, 4), (90_300, 6)] {
        data(&mut connection, at, number);
    }
    acknowledge(&mut connection, 90_310, 2);
    data(&mut connection, 140_000, 3);
    acknowledge(&mut connection, 140_010, 4);
    data(&mut connection, 140_100, 5);
    acknowledge(&mut connection, 140_110, 6);
    for (at, number) in [(190_000, 7), (190_100, 8), (190_200, 9), (190_300, 11)] {
        data(&mut connection, at, number);
    }
    data(&mut connection, 240_000, 10);
    data(&mut connection, 240_100, 12);
    acknowledge(&mut connection, 240_110, 12);
    let sent = connection.sent_by_server();
    assert_eq!((sent.lost(), sent.missing_began), (3, 2), "{sent:?}");
}
