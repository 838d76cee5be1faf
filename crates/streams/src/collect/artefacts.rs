//! Tests of what a capture does to what it records: packets that it has in another order, has in part,
//! or has not; and of what looks like a loss and is none.

use super::talk::{ACK, SYN, Talk, stamp};

#[test]
fn many_late_segments_at_once_are_not_lost() {
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // Of two hundred that leave in one millisecond, every other comes behind all of the rest.
    let (overtaking, late) = ((1..200).step_by(2), (0..200).step_by(2));
    for (place, segment) in overtaking.chain(late).enumerate() {
        let next = 1 + segment * 1448;
        talk.packet(90_000 + place as u64, false, ACK, [next, 101, stamp(50_000), 1448], 60_000);
    }
    let sent = talk.sent_by_server();
    assert_eq!(
        (sent.reordered, sent.retransmitted(), sent.late_originals),
        (100, 0, 0),
        "{sent:?}"
    );
}

#[test]
fn what_was_late_is_known_behind_many_copies() {
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // The stamp of a segment is the millisecond of `at`, which for what is late is when it was sent.
    let arrive = |talk: &mut Talk, at: u64, segment: u32| {
        talk.packet(at, false, ACK, [1 + segment * 1448, 101, stamp(50_000), 1448], 60_000);
    };
    (1..80).step_by(2).for_each(|segment| arrive(&mut talk, 90_000, segment));
    (0..80).step_by(2).for_each(|segment| arrive(&mut talk, 130_000, segment));
    // What was sent first, held up for longer than its copies took.
    (0..80).step_by(2).for_each(|segment| arrive(&mut talk, 90_900, segment));
    let sent = talk.sent_by_server();
    assert_eq!((sent.late_originals, sent.retransmitted()), (40, 0), "{sent:?}");
}

#[test]
fn what_was_captured_behind_what_came_after_it_was_not_late() {
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // Two CPUs write one file: the first two of three stand in the wrong order, with their own times;
    // so does an acknowledgement before what it acknowledges.
    for three in 0..20_u32 {
        let (at, next) = (90_000 + u64::from(three) * 50, 1 + three * 4344);
        let data = |talk: &mut Talk, after: u64, next: u32| {
            talk.packet(at + after, false, ACK, [next, 101, stamp(50_000), 1448], 60_000);
        };
        data(&mut talk, 10, next + 1448);
        data(&mut talk, 0, next);
        data(&mut talk, 20, next + 2896);
        if three % 2 == 0 {
            talk.packet(at + 40, true, ACK, [101, next + 4344, 0, 0], 60_000);
        }
    }
    talk.packet(99_000, true, ACK, [101, 1 + 62 * 1448, 0, 0], 60_000);
    talk.packet(98_990, false, ACK, [1 + 61 * 1448, 101, stamp(50_000), 1448], 60_000);
    let sent = talk.sent_by_server();
    assert_eq!((sent.reordered, sent.lost(), sent.duplicate_sacks), (0, 0, 0), "{sent:?}");
    assert_eq!(sent.new_bytes, 61 * 1448, "{sent:?}");
}

#[test]
fn what_was_acknowledged_before_was_not_lost() {
    // The server's timer is too short, or the acknowledgement is lost behind this place.
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    talk.packet(90_000, false, ACK, [1, 101, stamp(50_000), 1448], 60_000);
    talk.packet(90_005, true, ACK, [101, 1449, 0, 0], 60_000);
    for again in 1..4 {
        let at = 90_000 + again * 400_000;
        talk.packet(at, false, ACK, [1, 101, stamp(50_000), 1448], 60_000);
        talk.packet(at + 5, true, ACK, [101, 1449, 0, 0], 60_000);
    }
    let sent = talk.sent_by_server();
    assert_eq!(
        (sent.retransmitted(), sent.already_acknowledged, sent.lost()),
        (3, 3, 0),
        "{sent:?}"
    );
    assert_eq!(sent.time_us(model::TimeCategory::Loss), 0, "nobody waited: {sent:?}");
    // The same with more to send: its sender waited for what was lost.
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    talk.packet(90_000, false, ACK, [1, 101, stamp(50_000), 1448], 60_000);
    talk.packet(90_005, true, ACK, [101, 1449, 0, 0], 60_000);
    talk.packet(490_000, false, ACK, [1, 101, stamp(50_000), 1448], 60_000);
    talk.packet(490_005, true, ACK, [101, 1449, 0, 0], 60_000);
    talk.packet(530_000, false, ACK, [1449, 101, stamp(490_005), 1448], 60_000);
    talk.packet(530_005, true, ACK, [101, 2897, 0, 0], 60_000);
    let sent = talk.sent_by_server();
    assert_eq!(
        (sent.already_acknowledged, sent.time_us(model::TimeCategory::Loss)),
        (1, 400_000),
        "{sent:?}"
    );
}

#[test]
fn a_window_whose_scale_was_cut_off_is_not_closed() {
    // 48 bytes hold a segment size, and not the scale behind it; windows of 100 are 25,600 bytes.
    for (snap, cut) in [(usize::MAX, false), (46, true)] {
        let mut talk = Talk::begin();
        talk.snap = snap;
        talk.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
        talk.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        talk.snap = usize::MAX;
        talk.packet(40_020, true, ACK, [1, 1, 41, 0], 100);
        talk.packet(50_000, true, ACK, [1, 1, 0, 100], 100);
        for segment in 0..20_u32 {
            let at = 90_000 + u64::from(segment) * 40_000;
            talk.packet(at, false, ACK, [1 + segment * 1448, 101, 50, 1448], 60_000);
            talk.packet(at + 5, true, ACK, [101, 1449 + segment * 1448, 0, 0], 100);
        }
        let sent = talk.sent_by_server();
        assert_eq!((sent.options_truncated, sent.window_scale.is_none()), (cut, cut), "{sent:?}");
        assert_eq!((sent.mss, sent.zero_window_stalls.count), (Some(1460), 0), "{sent:?}");
    }
}

#[test]
fn a_closed_window_is_one_without_its_handshake() {
    let mut talk = Talk::begin();
    talk.packet(0, true, ACK, [1, 1, 0, 100], 500);
    // Its scale is not known: more than 500 bytes may be out.
    for segment in 0..10 {
        talk.packet(40_000, false, ACK, [1 + segment * 1448, 101, 1, 1448], 60_000);
    }
    // No room for the last two, nor when they come again.
    talk.packet(40_010, true, ACK, [101, 1 + 8 * 1448, 0, 0], 0);
    for probe in 1..6 {
        let at = 40_000 + probe * 1_000_000;
        talk.packet(at, false, ACK, [1 + 8 * 1448, 101, 1, 1448], 60_000);
        talk.packet(at + 5, false, ACK, [1 + 9 * 1448, 101, 1, 1448], 60_000);
        talk.packet(at + 10, true, ACK, [101, 1 + 8 * 1448, 0, 0], 0);
    }
    let sent = talk.sent_by_server();
    assert_eq!((sent.lost(), sent.window_probes), (0, 10), "{sent:?}");
    assert!(sent.time_us(model::TimeCategory::ReceiverStalled) > 4_000_000, "{sent:?}");
}

#[test]
fn full_segments_are_known_when_time_stamps_were_cut_off_the_handshake() {
    let mut talk = Talk::begin();
    talk.snap = 46;
    talk.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
    talk.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
    talk.snap = usize::MAX;
    talk.packet(40_020, true, ACK, [1, 1, 41, 0], 60_000);
    // 1448 bytes and 12 of time stamps, acknowledged as late as small ones would be, far away.
    for turn in 0..10_u32 {
        let at = 100_000 + u64::from(turn) * 200_000;
        talk.packet(at, true, ACK, [1 + turn * 2896, 1, 0, 1448], 60_000);
        talk.packet(at + 90_000, false, ACK, [1, 1449 + turn * 2896, stamp(at), 0], 60_000);
        talk.packet(at + 90_010, true, ACK, [1449 + turn * 2896, 1, 0, 1448], 60_000);
        talk.packet(at + 180_000, false, ACK, [1, 2897 + turn * 2896, stamp(at), 0], 60_000);
    }
    let sent = talk.sent_by_client();
    // The first passed before the server had sent any stamp.
    assert!(sent.acknowledged_late <= 1 && sent.delayed_ack_stalls.count == 0, "{sent:?}");
}
