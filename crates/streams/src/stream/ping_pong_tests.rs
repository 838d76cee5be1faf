//! Messages that are taken in ping-pong are also taken one by one: all that is known of the stream must be
//! the same, after each of them and at the end.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;

use proptest::prelude::*;
use sys::capture::Capture;
use wire::capture::{LinkType, Packet};
use wire::packet::PlainSegment;

use super::ping_pong::{PingPong, Taken};
use super::state::{SegmentEvent, Stream};
use crate::Collector;
use crate::time::Nanos;

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// A copy of a stream, before its next message.
#[derive(Debug)]
pub(crate) struct Compared(Stream);

impl Compared {
    pub(crate) fn begin(stream: &Stream, messages: &PingPong) -> Self {
        let mut stream = stream.clone();
        stream.end_ping_pong(messages.clone());
        Compared(stream)
    }

    /// A message was taken in ping-pong; the copy takes it as any other packet.
    pub(crate) fn compare(
        self,
        (segment, at, packet): (&PlainSegment<'_>, Nanos, u64),
        stream: &Stream,
        messages: &PingPong,
        taken: Taken,
    ) {
        let Compared(mut other) = self;
        let (ip, tcp) = segment.parts();
        let side = other.side(segment.source() <= segment.destination());
        let mut event = SegmentEvent::default();
        other.take(side, &ip, &tcp, at, packet, &mut event);
        let mut ended = stream.clone();
        ended.end_ping_pong(messages.clone());
        // They only say when the next ping-pong begins.
        (ended.messages, other.messages) = (0, 0);
        assert_eq!(format!("{ended:#?}"), format!("{other:#?}"));
        let duration = event.exchange.and_then(|exchange| exchange.total());
        assert_eq!((taken.ended, None), (duration, event.stall));
        COMPARED.set(COMPARED.get() + 1);
    }
}

/// Packets of each capture that are read.
const PACKETS: u64 = 20_000;

/// The evidence of the first packets of a capture, and how many they were.
fn evidence(
    path: &Path,
    mut take: impl FnMut(&mut Collector, &[Packet<'_>]),
) -> Option<(u64, model::Packets)> {
    let mut capture = Capture::open(path).ok()?;
    let mut collector = Collector::new(None);
    let read = capture.for_each_batch(|batch| {
        take(&mut collector, batch);
        let is_enough = collector.packets() >= PACKETS;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // Some are damaged on purpose.
    read.ok()?;
    Some((collector.packets(), collector.finish(Vec::new(), 0).packets))
}

fn take_each(collector: &mut Collector, packets: &[Packet<'_>]) {
    packets.iter().for_each(|packet| _ = collector.take(packet));
}

#[test]
fn captures_have_the_same_evidence_with_ping_pong() {
    for folder in ["labelled", "policing", "wild"] {
        let Some(folder) = test_support::captures(folder) else { return };
        let files = std::fs::read_dir(&folder).expect("a folder").flatten();
        let (mut packets, before) = (0, COMPARED.get());
        for path in files.map(|file| file.path()).filter(|path| path.is_file()) {
            let Some((count, each)) = evidence(&path, take_each) else { continue };
            let (_, batches) = evidence(&path, Collector::take_batch).expect("it was read before");
            assert_eq!(batches, each, "{}", path.display());
            packets += count;
        }
        let compared = COMPARED.get() - before;
        println!("{}: {compared} of {packets} packets in ping-pong", folder.display());
    }
}

/// What happens next in a connection.
#[derive(Debug, Clone, Copy)]
struct Event {
    what: u8,
    length: u16,
    wait_us: u32,
    payload: u8,
}

/// Two ends that send each other messages, and now and then something else.
struct Talk {
    packets: Vec<(i128, Vec<u8>)>,
    now_us: u64,
    /// Next sequence number and identification of each end.
    next: [u32; 2],
    id: [u16; 2],
    acknowledged: [u32; 2],
    window: u16,
    has_time_stamps: bool,
    /// Addresses and ports.
    ends: [([u8; 4], u16); 2],
    echo: [u32; 2],
}

impl Talk {
    fn packet(&mut self, sender: usize, flags: u8, sequence: u32, data: &[u8]) {
        let receiver = 1 - sender;
        let is_syn = flags & 2 != 0;
        let mut options = if is_syn { vec![2, 4, 5, 180, 1, 3, 3, 7] } else { Vec::new() };
        let value = (self.now_us / 1000) as u32 + 7;
        if self.has_time_stamps {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(self.echo[sender].to_be_bytes());
        }
        let header = 20 + options.len();
        let total = (20 + header + data.len()) as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend(total.to_be_bytes());
        bytes.extend(self.id[sender].to_be_bytes());
        bytes.extend([0x40, 0, 64, 6, 0, 0]);
        let [(from, port), (to, other)] = [self.ends[sender], self.ends[receiver]];
        bytes.extend(from.into_iter().chain(to));
        bytes.extend(port.to_be_bytes().into_iter().chain(other.to_be_bytes()));
        let acknowledgement = if flags & 16 != 0 { self.next[receiver] } else { 0 };
        bytes.extend(sequence.to_be_bytes().into_iter().chain(acknowledgement.to_be_bytes()));
        bytes.extend([(header as u8 / 4) << 4, flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(data);
        self.packets.push((i128::from(self.now_us) * 1000, bytes));
        self.id[sender] = self.id[sender].wrapping_add(1);
        self.echo[receiver] = value;
        self.acknowledged[receiver] = acknowledgement;
    }

    fn send(&mut self, sender: usize, flags: u8, data: &[u8]) {
        let sequence = self.next[sender];
        let flag_bytes = u32::from(flags & 2 != 0) + u32::from(flags & 1 != 0);
        self.packet(sender, flags, sequence, data);
        self.next[sender] = sequence.wrapping_add(data.len() as u32 + flag_bytes);
    }

    /// The packets of a connection in which these events happen.
    fn of(events: &[Event], has_time_stamps: bool, round_trip_us: u64) -> Self {
        let mut talk = Talk {
            packets: Vec::new(),
            now_us: 1_000_000,
            next: [u32::MAX - 2_000, 77],
            id: [1, 40_000],
            acknowledged: [0, 0],
            window: 500,
            has_time_stamps,
            ends: [([198, 18, 1, 2], 40_123), ([198, 19, 7, 9], 8080)],
            echo: [0, 0],
        };
        talk.send(0, 2, b"");
        talk.now_us += round_trip_us;
        talk.send(1, 18, b"");
        talk.now_us += 10;
        talk.send(0, 16, b"");
        let mut sender = 0;
        for event in events {
            talk.now_us += u64::from(event.wait_us);
            sender = talk.happens(event, sender);
        }
        talk
    }

    /// Returns who sends next.
    fn happens(&mut self, event: &Event, sender: usize) -> usize {
        let begins: &[u8] = match (event.payload, sender) {
            (0..=5, 0) => b"GET /a HTTP/1.1\r\nHost: x\r\n",
            (6, 0) => b"GET /a/longer/path?with=query HTTP/1.1\r\n",
            (7, 0) => b"\x16\x03\x01\0\x05\x01\0\0\x01\x03",
            (0..=5, _) => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n",
            (6, _) => b"HTTP/1.1 404 Not Found\r\n",
            _ => b"\0\x01binary",
        };
        let mut data = begins.to_vec();
        data.resize(begins.len().max(event.length.into()), b'.');
        let last = self.packets.last().cloned();
        match event.what {
            // The receiver acknowledges at once.
            0..=3 => {
                self.send(sender, 24, &data);
                self.now_us += 30;
                self.packet(1 - sender, 16, self.next[1 - sender], b"");
            }
            4 => self.window = 400 + event.length % 200,
            5 => self.send(sender, 24, &[b'.'; 1448]),
            // The capture has a packet twice.
            6 => self.packets.extend(last.map(|(at, bytes)| (at + 1_000, bytes))),
            7 => self.packet(sender, 24, self.next[sender].wrapping_sub(50), &data),
            8 => self.now_us = self.now_us.saturating_sub(500),
            9 => self.packet(1 - sender, 16, self.next[1 - sender], b""),
            // Two in a row.
            10 => {
                self.send(sender, 24, &data);
                self.now_us += 100;
                self.send(sender, 24, &data);
            }
            11 => self.next[sender] = self.next[sender].wrapping_add(100),
            _ => self.send(sender, 24, &data),
        }
        if matches!(event.what, 4 | 6..=9 | 11) { sender } else { 1 - sender }
    }

    fn packets(&self) -> Vec<Packet<'_>> {
        let packets = self.packets.iter().map(|(at, bytes)| Packet {
            time_ns: Some(*at),
            interface: 0,
            link: LinkType::RAW,
            bytes,
            length: bytes.len() as u32,
            drops: None,
        });
        packets.collect()
    }
}

fn event() -> impl Strategy<Value = Event> {
    // Most are plain messages.
    let what = prop_oneof![8 => 12u8..40, 3 => 0u8..4, 1 => 4u8..12];
    let wait_us = prop_oneof![6 => 20u32..3_000, 2 => 3_000u32..40_000, 1 => 40_000u32..400_000];
    (what, 1u16..1400, wait_us, 0u8..9).prop_map(|(what, length, wait_us, payload)| Event {
        what,
        length,
        wait_us,
        payload,
    })
}

proptest! {
    #[test]
    fn conversations_have_the_same_evidence_with_ping_pong(
        events in proptest::collection::vec(event(), 1..120),
        has_time_stamps: bool,
        round_trip_us in prop_oneof![Just(80u64), Just(2_500), Just(30_000)],
    ) {
        let talk = Talk::of(&events, has_time_stamps, round_trip_us);
        let packets = talk.packets();
        let (mut each, mut batches) = (Collector::new(None), Collector::new(None));
        take_each(&mut each, &packets);
        packets.chunks(50).for_each(|packets| batches.take_batch(packets));
        prop_assert_eq!(batches.finish(Vec::new(), 0).packets, each.finish(Vec::new(), 0).packets);
    }
}

#[test]
fn most_messages_of_a_conversation_are_taken_in_ping_pong() {
    let before = COMPARED.get();
    let event = Event { what: 20, length: 60, wait_us: 300, payload: 0 };
    let talk = Talk::of(&[event; 400], true, 80);
    Collector::new(None).take_batch(&talk.packets());
    let compared = COMPARED.get() - before;
    assert!(compared > 350, "{compared} of 400 messages");
}
