//! One stream packet by packet, in bounded memory: the first packets, the last, and those around the
//! worst stalls; its slowest exchanges; what it sent over time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;

use model::{CapturedExchange, Curve, CurveStep, Phase, PhaseKind, Side, TimeCategory};
use wire::packet::tcp::Flags;

use super::curve::Curves;
use super::events;
use super::recording::{RecordedPacket, StreamRecording};
use super::relative_numbers::RelativeNumbers;
use super::time_tracker::{TimeTracker, TimedExchange, longest_wait};
use super::worst_stalls::{PACKETS_BEFORE, StallRank, WorstStalls};
use crate::collect::watch::WatchedSegment;
use crate::ends::Ends;
use crate::segment::SegmentKind;
use crate::sequence::Sequence;
use crate::stream::Stream;
use crate::time::{Nanos, micros_between};
use crate::time_breakdown::CategoryTimes;

/// Exchanges that are kept.
const MAX_EXCHANGES: usize = 8;
/// Shares of the packets: the first ones, the last ones. Stalls are kept for more packets than there
/// may be room for, as a packet may be around several.
const FIRST_PACKETS_PART: usize = 8;
const LAST_PACKETS_PART: usize = 12;
const STALLS_PART: usize = 4;
const MAX_STALLS: usize = 10_000;
/// Waits that make a packet worth showing, though nothing was lost.
const SHOWN_WAITS: [TimeCategory; 3] =
    [TimeCategory::ServerThink, TimeCategory::Application, TimeCategory::Unexplained];

/// Records one stream.
#[derive(Debug)]
pub struct Recorder {
    max_packets: usize,
    tracker: TimeTracker,
    packets: u64,
    /// The sender of the first packet. It is the client of `ends` and `curves`: the sides of the
    /// stream may be swapped later.
    first_sender: Option<SocketAddr>,
    first: Nanos,
    last: Nanos,
    ends: Ends<EndNumbers>,
    curves: Curves,
    first_packets: Vec<RecordedPacket>,
    last_packets: VecDeque<RecordedPacket>,
    stalls: WorstStalls,
    slowest: BinaryHeap<Reverse<RankedExchange>>,
    exchanges: u64,
    first_data: Option<Nanos>,
    second_exchange: Option<Nanos>,
    last_data: Option<Nanos>,
}

/// Numbers of one end.
#[derive(Debug, Clone, Copy, Default)]
struct EndNumbers {
    relative: RelativeNumbers,
    /// Whether its window is closed.
    is_window_closed: bool,
    last_ack: Option<LastAck>,
    /// Right edge of its peer's window; 0: not known.
    right_edge: u64,
}

/// The last acknowledgement of an end.
#[derive(Debug, Clone, Copy)]
struct LastAck {
    acknowledgement: i64,
    window_field: u16,
    /// Duplicate acknowledgements of that number.
    duplicates: u32,
}

/// An exchange by its duration; of equal ones the first.
#[derive(Debug, Clone)]
struct RankedExchange {
    rank: (u64, Reverse<u32>),
    exchange: Box<CapturedExchange>,
}

impl PartialEq for RankedExchange {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for RankedExchange {}

impl PartialOrd for RankedExchange {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedExchange {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl Recorder {
    /// A recorder that keeps at most so many packets.
    pub fn new(max_packets: usize) -> Self {
        let max_packets = max_packets.max(1);
        Recorder {
            max_packets,
            tracker: TimeTracker::default(),
            packets: 0,
            first_sender: None,
            first: 0,
            last: 0,
            ends: Ends::default(),
            curves: Curves::default(),
            first_packets: Vec::new(),
            last_packets: VecDeque::new(),
            stalls: WorstStalls::new((max_packets / STALLS_PART).clamp(1, MAX_STALLS)),
            slowest: BinaryHeap::new(),
            exchanges: 0,
            first_data: None,
            second_exchange: None,
            last_data: None,
        }
    }

    /// Records a segment of the stream.
    pub fn record(&mut self, segment: &WatchedSegment<'_>) {
        if self.first_sender.is_none() {
            self.first_sender = Some(segment.source);
            (self.first, self.last) = (segment.at, segment.at);
        }
        let own = self.recorded_side(segment.source);
        let (since, ended) = self.tracker.packet(segment.stream, segment.event);
        if let Some(ended) = &ended {
            self.add_exchange(ended, segment.stream, segment.capture_began);
        }
        let packet = self.describe(segment, own, &since);
        self.add_to_curves(segment, own);
        self.keep(packet, segment, &since);
        self.packets += 1;
        self.last = self.last.max(segment.at);
    }

    /// The side under which an end is recorded.
    fn recorded_side(&self, address: SocketAddr) -> Side {
        if self.first_sender == Some(address) { Side::Client } else { Side::Server }
    }

    fn describe(
        &mut self,
        segment: &WatchedSegment<'_>,
        side: Side,
        since: &CategoryTimes,
    ) -> RecordedPacket {
        let WatchedSegment { tcp, event, stream, at, .. } = *segment;
        let is_syn = tcp.flags.all(Flags::SYN);
        let (own, peer) = self.ends.own_and_peer(side);
        let sequence = own.relative.sequence(tcp.sequence, i64::from(!is_syn));
        let has_ack = tcp.flags.all(Flags::ACK);
        let acknowledgement = has_ack.then(|| peer.relative.acknowledgement(tcp.acknowledgement));
        let duplicate_acks = own.add_ack(acknowledgement, segment);
        let is_zero_window = tcp.window == 0 && !is_syn;
        let window_was_closed = std::mem::replace(&mut own.is_window_closed, is_zero_window);
        let exchanges = stream.exchange_count();
        let began_exchange = (exchanges > self.exchanges).then(|| exchanges - 1);
        if tcp.length > 0 {
            self.first_data.get_or_insert(at);
            self.last_data = Some(at);
        }
        if exchanges > 1 && self.exchanges <= 1 {
            self.second_exchange = Some(at);
        }
        self.exchanges = exchanges;
        let (sender, receiver) =
            (stream.ends.get(segment.side), stream.ends.get(segment.side.other()));
        RecordedPacket {
            packet: segment.packet,
            index: self.packets,
            at,
            since_previous: (self.packets > 0).then(|| at.saturating_sub(self.last)),
            source: segment.source,
            flags: tcp.flags,
            sequence,
            length: tcp.length,
            acknowledgement,
            window: sender.sent.advertised_window(tcp, &receiver.sent),
            kind: event.kind,
            stall: event.stall,
            waited: longest_wait(since),
            began_exchange,
            window_was_closed,
            duplicate_acks,
        }
    }

    /// Adds how far both ends have sent.
    fn add_to_curves(&mut self, segment: &WatchedSegment<'_>, own: Side) {
        let at = segment.at.saturating_sub(self.first);
        let ends = [(own, segment.side), (own.other(), segment.side.other())];
        for (recorded, side) in ends {
            let sent = &segment.stream.ends.get(side).sent;
            let Some((next, first)) = sent.next_sequence().zip(sent.first_sequence()) else {
                continue;
            };
            let first = Sequence::first(first);
            let end = next.since(first);
            let acknowledged = end.saturating_sub(sent.in_flight());
            let right_edge = &mut self.ends.get_mut(recorded).right_edge;
            if recorded != own
                && segment.tcp.flags.all(Flags::ACK)
                && let Some(window) = segment.stream.ends.get(segment.side).sent.window
            {
                *right_edge = (*right_edge).max(acknowledged.saturating_add(window.into()));
            }
            let right_edge = (*right_edge > 0).then_some(*right_edge);
            self.curves.add(recorded, at, CurveStep { sent: end, acknowledged, right_edge });
            if recorded == own && segment.event.kind.is_retransmission() {
                let byte = next.near(segment.tcp.sequence).since(first);
                self.curves.add_retransmission(recorded, at, byte);
            }
        }
    }

    /// Keeps a packet where it belongs.
    fn keep(
        &mut self,
        packet: RecordedPacket,
        segment: &WatchedSegment<'_>,
        since: &CategoryTimes,
    ) {
        self.stalls.packet(packet);
        let waits = SHOWN_WAITS.into_iter().map(|category| since.get(category));
        let rank = StallRank {
            stalled: events::stall_time(segment, since),
            waited: waits.fold(0, Nanos::saturating_add),
        };
        self.stalls.stall(rank, packet, self.last_packets.iter().copied());
        if self.first_packets.len() < self.max_packets {
            self.first_packets.push(packet);
        }
        if self.last_packets.len() >= PACKETS_BEFORE.max(self.max_last_packets()) {
            self.last_packets.pop_front();
        }
        self.last_packets.push_back(packet);
    }

    /// Packets at the end that are kept.
    fn max_last_packets(&self) -> usize {
        (self.max_packets / LAST_PACKETS_PART).max(2)
    }

    fn add_exchange(&mut self, ended: &TimedExchange, stream: &Stream, capture_began: Nanos) {
        let exchange = Box::new(ended.captured(stream, capture_began));
        let rank = (exchange.spent_us(), Reverse(ended.exchange.number));
        self.slowest.push(Reverse(RankedExchange { rank, exchange }));
        if self.slowest.len() > MAX_EXCHANGES {
            self.slowest.pop();
        }
    }

    /// The stream is over, or the capture is.
    pub fn finish(mut self, stream: &Stream, capture_began: Nanos) -> StreamRecording {
        let (_, last) = self.tracker.end(stream);
        if let Some(last) = last {
            self.add_exchange(&last, stream, capture_began);
        }
        let phases = self.phases(stream);
        let curve = self.curve(stream);
        let slowest = std::mem::take(&mut self.slowest).into_iter().map(|Reverse(ranked)| ranked);
        let mut slowest: Vec<RankedExchange> = slowest.collect();
        slowest.sort_by(|a, b| b.cmp(a));
        StreamRecording {
            phases,
            slowest_exchanges: slowest.into_iter().map(|ranked| *ranked.exchange).collect(),
            first: self.first,
            packets: self.packets,
            curve,
            recorded: self.recorded_packets(),
        }
    }

    /// The curve of the end that sent more.
    fn curve(&mut self, stream: &Stream) -> Curve {
        let sent = stream.ends.each_ref().map(|end| end.sent.counts.new_bytes);
        if sent == Ends::default() {
            return Curve::default();
        }
        let side = if sent.server > sent.client { Side::Server } else { Side::Client };
        let recorded = self.recorded_side(stream.ends.get(side).address);
        let until = stream.last.saturating_sub(self.first);
        std::mem::take(&mut self.curves).finish(recorded, stream.role(side), until)
    }

    /// The packets that are reported, at most as many as were requested.
    fn recorded_packets(self) -> Vec<RecordedPacket> {
        if self.packets <= self.max_packets as u64 {
            return self.first_packets;
        }
        let first_count = (self.max_packets / FIRST_PACKETS_PART).max(2);
        let skipped = self.last_packets.len().saturating_sub(self.max_last_packets());
        let first = self.first_packets.iter().take(first_count);
        let ends = first.chain(self.last_packets.iter().skip(skipped));
        let mut packets: BTreeMap<u64, RecordedPacket> =
            ends.map(|packet| (packet.index, *packet)).collect();
        for context in self.stalls.finish() {
            let is_new = |packet: &&RecordedPacket| !packets.contains_key(&packet.index);
            let new = context.packets.iter().filter(is_new).count();
            if packets.len() + new <= self.max_packets {
                packets.extend(context.packets.iter().map(|packet| (packet.index, *packet)));
            }
        }
        // With few stalls there is room for more of the first packets.
        for packet in &self.first_packets {
            if packets.len() >= self.max_packets {
                break;
            }
            packets.insert(packet.index, *packet);
        }
        packets.into_values().collect()
    }

    fn phases(&self, stream: &Stream) -> Vec<Phase> {
        let end = stream.last;
        let mut from = stream.first;
        let mut phases = Vec::new();
        let mut until = |phase: PhaseKind, to: Nanos| {
            let to = to.clamp(from, end.max(from));
            let at_us = micros_between(stream.first, from);
            phases.push(Phase { phase, at_us, duration_us: micros_between(from, to) });
            from = to;
        };
        let handshake = &stream.handshake;
        if handshake.syn.is_known() || handshake.syn_ack.is_known() {
            until(PhaseKind::Handshake, handshake.completed.get().unwrap_or(end));
        }
        if let Some((first, last)) = self.first_data.zip(self.last_data) {
            until(PhaseKind::BeforeData, first);
            until(PhaseKind::FirstExchange, self.second_exchange.unwrap_or(last));
            if self.second_exchange.is_some() {
                until(PhaseKind::LaterExchanges, last);
            }
        }
        until(PhaseKind::AfterData, end);
        phases
    }
}

impl EndNumbers {
    /// Notes the acknowledgement of a segment of this end. Returns how many duplicate
    /// acknowledgements it has sent, this one included; 0: it is none.
    fn add_ack(&mut self, acknowledgement: Option<i64>, segment: &WatchedSegment<'_>) -> u32 {
        let tcp = segment.tcp;
        let is_plain = tcp.length == 0
            && ![Flags::SYN, Flags::FIN, Flags::RST].into_iter().any(|flag| tcp.flags.all(flag));
        let peer = segment.stream.ends.get(segment.side.other());
        let same = self.last_ack.filter(|last| {
            Some(last.acknowledgement) == acknowledgement && last.window_field == tcp.window
        });
        let duplicates = match same {
            Some(last) if is_plain && peer.sent.in_flight() > 0 => {
                let is_duplicate = segment.event.kind == SegmentKind::NoData;
                last.duplicates.saturating_add(u32::from(is_duplicate))
            }
            _ => 0,
        };
        let window_field = tcp.window;
        self.last_ack = acknowledgement.map(|acknowledgement| LastAck {
            acknowledgement,
            window_field,
            duplicates,
        });
        duplicates
    }
}
