//! Tests of what a pause of a sender must not look like, at the receiver of the data, of windows that
//! grow, and of segments that come late.

use model::CapturedDirection;
use wire::capture::{LinkType, Packet};

use super::Collector;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A capture at the client, which lies so many milliseconds away from the server.
#[derive(Default)]
struct Talk {
    collector: Collector,
    packets: u16,
}

impl Talk {
    /// A packet, with a time stamp of its millisecond; `to_server`: who sends it.
    fn packet(&mut self, us: u64, to_server: bool, flags: u8, tcp: [u32; 4], window: u16) {
        let [seq, ack, echo, length] = tcp;
        self.packets += 1;
        let mut options = Vec::new();
        if flags & SYN != 0 {
            options.extend([2, 4, 5, 180, 1, 3, 3, 8]);
        }
        options.extend([1, 1, 8, 10]);
        // What the server's clock says does not matter.
        options.extend((us as u32 / 1000 + 1).to_be_bytes());
        options.extend(echo.to_be_bytes());
        let header = 20 + options.len();
        let total = 20 + header as u32 + length;
        let mut bytes = vec![0x45, 0];
        bytes.extend((total as u16).to_be_bytes());
        bytes.extend(self.packets.to_be_bytes());
        bytes.extend([0x40, 0, 64, 6, 0, 0]);
        let (from, to) = if to_server { (1, 2) } else { (2, 1) };
        bytes.extend([198, 18, 0, from, 198, 18, 0, to]);
        let (port, other): (u16, u16) = if to_server { (4000, 80) } else { (80, 4000) };
        bytes.extend(port.to_be_bytes());
        bytes.extend(other.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(header as u8 / 4) << 4, flags]);
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(options);
        let time_ns = Some(i128::from(us) * 1000);
        let link = LinkType::RAW;
        let packet =
            Packet { time_ns, interface: 0, link, bytes: &bytes, length: total, drops: None };
        self.collector.look(&packet);
    }

    /// A handshake over 40 ms.
    fn open(window: u16) -> Self {
        let mut talk = Talk::default();
        talk.packet(0, true, SYN, [0, 0, 0, 0], window);
        talk.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        talk.packet(40_020, true, ACK, [1, 1, 41, 0], window);
        talk
    }

    fn sent_by_server(self) -> CapturedDirection {
        self.collector.finish(Vec::new(), 0).packets.worst.swap_remove(0).from_server
    }
}

fn stamp(us: u64) -> u32 {
    us as u32 / 1000 + 1
}

/// Answers of 200 ms, asked for each time, and a pause behind each.
fn answers(pause_us: u64) -> CapturedDirection {
    let mut talk = Talk::open(60_000);
    let (mut asked, mut next, mut at) = (1, 1, 50_000);
    for _ in 0..10 {
        talk.packet(at, true, ACK, [asked, next, 0, 100], 60_000);
        asked += 100;
        for segment in 0..200 {
            let arrives = at + 40_000 + segment * 1_000;
            // The last that the server has seen: of the request, then of acknowledgements.
            let echo = stamp(at.max(arrives - 40_000));
            talk.packet(arrives, false, ACK, [next, asked, echo, 1448], 60_000);
            next += 1448;
            talk.packet(arrives + 5, true, ACK, [asked, next, 0, 0], 60_000);
        }
        at += 240_000 + pause_us;
    }
    talk.sent_by_server()
}

#[test]
fn a_pause_of_the_sender_is_no_round_trip() {
    let trips = answers(900_000).round_trip.expect("round trips");
    assert!((39_000..41_000).contains(&trips.least_us) && trips.samples > 20, "{trips:?}");
    assert!(trips.most_us < 80_000 && trips.inflated == 0.0, "{trips:?}");
}

#[test]
fn a_queue_makes_round_trips_long_at_the_receiver() {
    let mut talk = Talk::open(60_000);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 60_000);
    // A segment each millisecond; what it echoes is older with each, up to 300 ms.
    for segment in 0..6_000_u64 {
        let at = 90_000 + segment * 1_000;
        let trip = 40_000 + (segment * 300).min(260_000);
        let (next, echo) = (1 + segment as u32 * 1448, stamp(at - trip));
        talk.packet(at, false, ACK, [next, 101, echo, 1448], 60_000);
        talk.packet(at + 5, true, ACK, [101, next + 1448, 0, 0], 60_000);
    }
    let trips = talk.sent_by_server().round_trip.expect("round trips");
    assert!((290_000..310_000).contains(&trips.most_us) && trips.inflated > 0.5, "{trips:?}");
}

/// Twenty round trips, in each of which the server fills a window of so many bytes; its reader takes
/// so many microseconds before there is room again.
fn windows(grow: impl Fn(u32) -> u32, late: u64) -> CapturedDirection {
    let mut talk = Talk::open(128);
    talk.packet(50_000, true, ACK, [1, 1, 0, 100], 128);
    let (mut next, mut at) = (1, 90_000);
    for trip in 0..20 {
        let window = grow(trip);
        let began = at;
        let end = next + window;
        while next < end {
            let length = (end - next).min(1448);
            talk.packet(at, false, ACK, [next, 101, stamp(began - 40_000), length], 60_000);
            next += length;
            at += 10;
        }
        let shifted = (grow(trip + 1) >> 8) as u16;
        at += late;
        talk.packet(at, true, ACK, [101, next, 0, 0], shifted);
        at += 40_000;
    }
    talk.sent_by_server()
}

#[test]
fn a_window_that_grows_is_not_settled() {
    let spent = |direction: &CapturedDirection| {
        let mut budget = direction.budget.iter();
        budget.find(|share| share.part == model::Part::ReceiveWindow).map_or(0, |share| share.us)
    };
    let same = windows(|_| 128 << 8, 0);
    assert!(spent(&same) > 600_000, "{same:?}");
    let settled = same.settled_window_us.expect("a time");
    assert!(settled > 500_000 && settled <= spent(&same), "{settled}");
    // A reader that is behind now and then: half of that time is its own.
    let slow = windows(|trip| if trip % 2 == 0 { 128 << 8 } else { 64 << 8 }, 0);
    let settled = slow.settled_window_us.expect("a time");
    assert!(settled > 200_000 && settled < spent(&slow) * 6 / 10, "{settled} of {}", spent(&slow));
    // The window is as large as ever, and opens late: that is the reader, all of it.
    let late = windows(|_| 128 << 8, 30_000);
    let settled = late.settled_window_us.expect("a time");
    assert!(settled * 4 < late.reader_behind_us.expect("a time"), "{late:?}");
    assert_eq!(same.reader_behind_us, Some(0));
    let growing = windows(|trip| (128 + 128 * trip) << 8, 0);
    assert!(spent(&growing) > 600_000, "{growing:?}");
    // The last steps are smaller than a quarter.
    assert!(growing.settled_window_us.expect("a time") < spent(&growing) / 2, "{growing:?}");
}

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
    assert_eq!((sent.reordered, sent.repeated(), sent.late_originals), (100, 0, 0), "{sent:?}");
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
    assert_eq!((sent.late_originals, sent.repeated()), (40, 0), "{sent:?}");
}
