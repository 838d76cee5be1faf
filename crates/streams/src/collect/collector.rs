//! Packets into streams, streams into evidence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::{CapturedStream, Packets, ReplyKind};
use sys::allocator::bytes_of_this_thread;
use wire::capture::Packet;
use wire::packet::icmp::{Icmp, Quoted};
use wire::packet::{
    DecodeError, Ip, PlainEnds, PlainSegment, Tcp, decode, icmp, plain_segment, tcp, udp,
};

use super::clock_check::{COMPARED, ClockCheck};
use super::ranked_stream::{Rank, RankedStream};
use super::selection::WatchedSelection;
use super::service_totals::Services;
use super::shard::Shard;
use super::shared_paths::SharedPaths;
use crate::captured_stream::captured_stream;
use crate::dns::{DNS_PORT, DnsQueries};
use crate::segment::SegmentKind;
use crate::stream::{SegmentEvent, Stream};
use crate::table::{FirstPackets, KnownSockets, Located, Table};
use crate::time::{Nanos, micros_between};

/// Streams that are reported one by one.
pub(super) const MAX_WORST_STREAMS: usize = 1024;
/// Packets whose streams are fetched into the cache together.
const BATCH_PACKETS: usize = 16;
/// So many streams stay in the cache anyway.
const CACHED_STREAMS: usize = 512;
/// Packets between two searches for streams that ended.
const FORGET_INTERVAL_PACKETS: u64 = 1024;

/// Makes evidence of a capture while it is read.
#[derive(Debug, Default)]
pub struct Collector {
    pub(super) packets: u64,
    pub(super) segments: u64,
    pub(super) duplicate_packets: u64,
    pub(super) undecodable: u64,
    pub(super) unsupported_links: u64,
    /// Length of the longest packet, bytes.
    pub(super) longest: u32,
    /// Time of the first packet.
    pub(super) first: Option<Nanos>,
    /// Time of the last packet.
    pub(super) last: Nanos,
    pub(super) clock_check: ClockCheck,
    pub(super) table: Table,
    pub(super) services: Services,
    pub(super) shared_paths: SharedPaths,
    pub(super) worst: BinaryHeap<Reverse<RankedStream>>,
    /// Number of the stream that is reported in any case.
    pub(super) requested: Option<u64>,
    pub(super) requested_stream: Option<CapturedStream>,
    /// What the last segment was.
    pub(super) segment: CollectedSegment,
    pub(super) selection: Option<Box<WatchedSelection>>,
    pub(super) evicted: u64,
    pub(super) dns_queries: DnsQueries,
    /// Streams of tables that are closed.
    pub(super) streams: u64,
    pub(super) shard: Option<Shard>,
    /// Plain segments that were not taken in ping-pong, and whether most of the last batch were.
    pub(super) others: u64,
    pub(super) is_in_ping_pong: bool,
    pub(super) first_packets: Vec<FirstPackets>,
    /// Bytes that it holds, and most of them.
    pub(super) held_bytes: isize,
    pub(super) max_bytes: isize,
}

/// How much a collector keeps in memory: for more, it ends the streams that have been idle for longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Most streams; 0: any number.
    pub streams: usize,
    /// Most bytes, as far as the process counts them ([`sys::allocator`]); 0: any number.
    pub bytes: usize,
}

impl MemoryLimits {
    /// Those of a capture file.
    pub const FILE: MemoryLimits = MemoryLimits { streams: 100_000, bytes: 224 << 20 };
    /// What an open stream takes, and its place in the table.
    const STREAM_BYTES: usize = 2 << 10;
    /// Fewest bytes: sums take some, however few the streams.
    const MIN_BYTES: usize = 8 << 20;

    /// As many streams as so many bytes have room for.
    pub fn of(bytes: usize) -> Self {
        MemoryLimits { streams: bytes / Self::STREAM_BYTES, bytes }
    }

    /// Those of each of several collectors.
    #[must_use]
    pub fn shared_by(self, collectors: u32) -> Self {
        let of = collectors.max(1) as usize;
        let share = |most: usize, least: usize| if most == 0 { 0 } else { (most / of).max(least) };
        MemoryLimits { streams: share(self.streams, 1), bytes: share(self.bytes, Self::MIN_BYTES) }
    }
}

/// What a segment was.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectedSegment {
    /// Number of its stream.
    pub stream: u64,
    /// What it was in its stream, and what it ended.
    pub event: SegmentEvent,
}

/// Evidence, and what has no place in it.
#[derive(Debug)]
pub struct Collected {
    /// The evidence.
    pub packets: Packets,
    /// The stream that was requested.
    pub requested: Option<CapturedStream>,
    /// Packets whose headers are truncated or malformed.
    pub undecodable: u64,
    /// Packets of link types that are not supported.
    pub unsupported_links: u64,
    /// Streams that were ended to make room, though they were open.
    pub evicted: u64,
    /// Queries of DNS that were not followed, as there was no room.
    pub dns_queries_refused: u64,
}

impl Collector {
    /// A collector that reports this stream too, whatever it lost.
    pub fn new(requested: Option<u64>) -> Self {
        Collector { requested, ..Collector::default() }
    }

    /// The same with limits; without them it keeps every stream that may go on.
    #[must_use]
    pub fn limited(mut self, limits: MemoryLimits) -> Self {
        self.table.limit(limits.streams);
        self.max_bytes = isize::try_from(limits.bytes).unwrap_or(isize::MAX);
        self
    }

    /// Connections that were open before the first packet, as sockets of this host show them.
    pub fn know(&mut self, sockets: KnownSockets) {
        self.table.know(sockets);
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes packets and does not say what they were: messages of streams in ping-pong are added up, and the
    /// streams of the next packets are fetched from memory meanwhile.
    pub fn take_batch(&mut self, packets: &[Packet<'_>]) {
        let bytes_before = bytes_of_this_thread();
        let others_before = self.others;
        // What is needed of streams in ping-pong, and of few streams, is in the cache.
        if self.is_in_ping_pong || self.table.streams().len() < CACHED_STREAMS {
            for packet in packets {
                let at = self.count_packet(packet);
                if !self.is_of_other_shard(packet) {
                    match PlainSegment::of(packet.link, packet.bytes, packet.length) {
                        Some(segment) if self.take_message(&segment, at) => {}
                        Some(segment) => {
                            self.take_plain(&segment, &self.table.locate_plain(&segment), at);
                        }
                        None => _ = self.take_with_options(packet, at),
                    }
                }
            }
        } else {
            packets.chunks(BATCH_PACKETS).for_each(|packets| self.take_ahead(packets));
        }
        let others = self.others.wrapping_sub(others_before);
        self.is_in_ping_pong = (others as usize) < packets.len() / 2;
        self.held_bytes += bytes_of_this_thread() - bytes_before;
    }

    /// Takes packets whose streams are fetched into the cache first.
    fn take_ahead(&mut self, packets: &[Packet<'_>]) {
        let mut segments = [const { None }; BATCH_PACKETS];
        for (segment, packet) in segments.iter_mut().zip(packets) {
            *segment = PlainSegment::of(packet.link, packet.bytes, packet.length).map(|segment| {
                let located = self.table.locate_plain(&segment);
                if !self.is_of_other_shard(packet) {
                    self.table.prefetch(&located);
                }
                (segment, located)
            });
        }
        for (segment, packet) in segments.iter().zip(packets) {
            let at = self.count_packet(packet);
            if !self.is_of_other_shard(packet) {
                match segment {
                    Some((segment, _)) if self.take_message(segment, at) => {}
                    Some((segment, located)) => self.take_plain(segment, located, at),
                    None => _ = self.take_with_options(packet, at),
                }
            }
        }
    }

    /// Whether a packet is a segment of another shard, as far as the places show where it almost always has
    /// its ends.
    #[inline(always)]
    fn is_of_other_shard(&self, packet: &Packet<'_>) -> bool {
        let Some(shard) = self.shard else { return false };
        let ends = PlainEnds::of(packet.link, packet.bytes, packet.length);
        ends.is_some_and(|ends| !shard.has_ends(ends))
    }

    /// Takes a segment that is as the next message of a stream in ping-pong. Returns whether it is.
    #[inline(always)]
    fn take_message(&mut self, segment: &PlainSegment<'_>, at: Nanos) -> bool {
        let Some((taken, service)) = self.table.take_message(segment, at) else { return false };
        self.segments += 1;
        if let Some(duration) = taken.ended {
            self.services.add_exchange_of(service, duration);
        }
        true
    }

    /// Takes a plain segment of a stream of this collector that is no such message.
    #[inline(never)]
    fn take_plain(&mut self, segment: &PlainSegment<'_>, located: &Located, at: Nanos) {
        self.others = self.others.wrapping_add(1);
        let (ip, tcp) = segment.parts();
        if self.take_segment(located, &ip, &tcp, at) {
            self.table.begin_ping_pong(located);
        }
    }

    /// Takes a packet. Returns what it was, if it was TCP.
    #[inline(always)]
    pub fn take(&mut self, packet: &Packet<'_>) -> Option<CollectedSegment> {
        self.take_by_ref(packet).copied()
    }

    /// As [`Collector::take`], without a copy.
    #[inline(always)]
    pub fn take_by_ref(&mut self, packet: &Packet<'_>) -> Option<&CollectedSegment> {
        let bytes_before = bytes_of_this_thread();
        let is_taken = self.take_uncounted(packet);
        self.held_bytes += bytes_of_this_thread() - bytes_before;
        is_taken.then_some(&self.segment)
    }

    /// Takes a packet; the memory that it takes is not counted. Returns whether it was TCP.
    #[inline(always)]
    fn take_uncounted(&mut self, packet: &Packet<'_>) -> bool {
        let at = self.count_packet(packet);
        self.take_with_options(packet, at)
    }

    /// Takes a packet whose segment may have any options. Returns whether it was TCP of a stream of this
    /// collector.
    fn take_with_options(&mut self, packet: &Packet<'_>, at: Nanos) -> bool {
        match plain_segment(packet.link, packet.bytes, packet.length) {
            Some((ip, tcp)) if self.has(&ip, &tcp) => {
                let located = self.table.locate(&ip, &tcp);
                self.take_segment(&located, &ip, &tcp, at);
                true
            }
            Some(_) => false,
            None => self.take_other(packet, at),
        }
    }

    /// Whether a segment belongs to a stream of this collector.
    #[inline(always)]
    fn has(&self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> bool {
        self.shard.is_none_or(|shard| shard.has(ip, tcp))
    }

    /// Counts a packet. Returns when it passed.
    #[inline(always)]
    fn count_packet(&mut self, packet: &Packet<'_>) -> Nanos {
        self.packets += 1;
        self.longest = self.longest.max(packet.length);
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(self.last);
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        if self.packets <= COMPARED {
            self.clock_check.take(at);
        }
        if self.packets.is_multiple_of(FORGET_INTERVAL_PACKETS) {
            self.forget_ended(at);
        }
        at
    }

    /// Takes a packet that is not as almost all are. Returns whether it was TCP.
    #[inline(never)]
    fn take_other(&mut self, packet: &Packet<'_>, at: Nanos) -> bool {
        self.decode_and_take(packet, at).unwrap_or_else(|skip| {
            match skip {
                DecodeError::NotIp => {}
                DecodeError::UnknownLinkType => self.unsupported_links += 1,
                DecodeError::Truncated | DecodeError::Malformed | DecodeError::TooManyHeaders => {
                    self.undecodable += 1
                }
            }
            false
        })
    }

    fn decode_and_take(&mut self, packet: &Packet<'_>, at: Nanos) -> Result<bool, DecodeError> {
        let decoded = decode(packet.link, packet.bytes, packet.length)?;
        // What a tool cuts is as long as the longest packet that it leaves.
        if decoded.exceeds_frame && packet.length < self.longest {
            return Err(DecodeError::Malformed);
        }
        if decoded.ip.protocol == udp::PROTOCOL && self.shard.is_none_or(Shard::is_first) {
            self.dns_queries.take_datagram(&decoded.ip, at);
        } else if matches!(decoded.ip.protocol, icmp::V4 | icmp::V6) {
            self.take_icmp(&decoded.ip, at);
        }
        let tcp = Tcp::of(&decoded.ip)?;
        let is_taken = self.has(&decoded.ip, &tcp);
        if is_taken {
            let located = self.table.locate(&decoded.ip, &tcp);
            self.take_segment(&located, &decoded.ip, &tcp, at);
        }
        Ok(is_taken)
    }

    #[cold]
    fn take_icmp(&mut self, ip: &Ip<'_>, at: Nanos) {
        let v6 = ip.protocol == icmp::V6;
        if let Some(Icmp::Error(error)) = Icmp::parse(v6, ip.payload)
            && let Some(quoted) = &error.quoted
            && matches!(
                error.kind,
                ReplyKind::NetUnreachable
                    | ReplyKind::HostUnreachable
                    | ReplyKind::ProtocolUnreachable
                    | ReplyKind::PortUnreachable
                    | ReplyKind::Prohibited
            )
        {
            if quoted.protocol == tcp::PROTOCOL {
                self.take_syn_error(quoted);
            } else if self.shard.is_none_or(Shard::is_first) {
                self.dns_queries.take_error(quoted, error.kind, at);
            }
        }
    }

    /// A SYN did not reach its destination.
    fn take_syn_error(&mut self, quoted: &Quoted<'_>) {
        let Some([s0, s1, d0, d1, sequence @ ..]) = quoted.transport.first_chunk::<8>() else {
            return;
        };
        let client = (quoted.source, u16::from_be_bytes([*s0, *s1])).into();
        let server = (quoted.destination, u16::from_be_bytes([*d0, *d1])).into();
        if let Some(stream) = self.table.find_mut([client, server]) {
            stream.take_syn_error(client, u32::from_be_bytes(*sequence));
        }
    }

    /// Takes a segment. Returns whether its stream may be in ping-pong from now on.
    #[inline(always)]
    fn take_segment(&mut self, located: &Located, ip: &Ip<'_>, tcp: &Tcp<'_>, at: Nanos) -> bool {
        self.segments += 1;
        self.table.set_packet(self.packets);
        let mut replaced = None;
        let mut replace = |stream: &mut Stream| replaced = Some(Box::new(stream.clone()));
        let event = &mut self.segment.event;
        let (stream, _) = self.table.take_located(located, ip, tcp, at, &mut replace, event);
        self.segment.stream = stream.number;
        if (tcp.source == DNS_PORT || tcp.destination == DNS_PORT)
            && tcp.length > 0
            && event.kind == SegmentKind::New
        {
            self.dns_queries.take_segment(&{ *ip }, &{ *tcp }, at);
        }
        if let Some(exchange) = &event.exchange
            && let Some(duration) = exchange.total()
        {
            self.services.add_exchange(stream, duration);
        }
        let may_be_in_ping_pong = stream.may_be_in_ping_pong();
        if let Some(stream) = &mut replaced {
            self.end_stream(stream);
        }
        if self.table.is_full() {
            self.evict_oldest();
        }
        may_be_in_ping_pong
    }

    #[cold]
    fn evict_oldest(&mut self) {
        let mut table = std::mem::take(&mut self.table);
        self.evicted += table.evict_oldest(&mut |stream| self.end_stream(stream));
        self.table = table;
    }

    #[cold]
    fn forget_ended(&mut self, now: Nanos) {
        if self.table.has_ended(now) {
            let mut table = std::mem::take(&mut self.table);
            table.forget_ended(now, &mut |stream| self.end_stream(stream));
            self.table = table;
        }
        if self.max_bytes > 0 && self.held_bytes > self.max_bytes {
            self.evict_oldest();
        }
    }

    /// A stream ended, or the capture did.
    pub(super) fn end_stream(&mut self, stream: &mut Stream) {
        stream.finish();
        if self.end_for_watcher(stream) {
            self.add_stream(stream);
        } else {
            self.count_duplicates(stream);
        }
    }

    /// Shows a stream that ended to the watcher. Returns whether it is selected; without a watcher all
    /// are.
    fn end_for_watcher(&mut self, stream: &Stream) -> bool {
        let Some(selection) = &mut self.selection else { return true };
        let began = self.first.unwrap_or(stream.first);
        let captured = captured_stream(stream, began);
        selection.end_stream(stream, &captured, began)
    }

    fn count_duplicates(&mut self, stream: &Stream) {
        let counts = stream.ends.iter().map(|end| u64::from(end.sent.counts.duplicate_packets));
        self.duplicate_packets += counts.sum::<u64>();
    }

    /// Adds a stream that ended.
    pub(super) fn add_stream(&mut self, stream: &mut Stream) {
        self.count_duplicates(stream);
        self.services.add(stream);
        self.shared_paths.add(stream);
        let is_requested = self.requested == Some(stream.number);
        let rank = Rank::of(stream);
        let is_full = self.worst.len() >= MAX_WORST_STREAMS;
        let is_lower = |Reverse(least): &Reverse<RankedStream>| rank < least.rank;
        if is_full && !is_requested && self.worst.peek().is_some_and(is_lower) {
            return;
        }
        let captured = captured_stream(stream, self.first.unwrap_or(stream.first));
        if is_requested {
            self.requested_stream = Some(captured.clone());
        }
        self.worst.push(Reverse(RankedStream { rank, stream: captured }));
        if self.worst.len() > MAX_WORST_STREAMS {
            self.worst.pop();
        }
    }

    /// The capture is over: its evidence. `sources` are the names of its files or interfaces.
    pub fn finish(mut self, sources: Vec<String>, dropped_by_capture: u64) -> Collected {
        self.close();
        self.name_shared_buckets();
        self.renumber();
        let mut worst: Vec<RankedStream> =
            self.worst.into_iter().map(|Reverse(ranked)| ranked).collect();
        worst.sort_by(|a, b| b.cmp(a));
        let first = self.first.unwrap_or(0);
        let packets = Packets {
            sources,
            packets: self.packets,
            segments: self.segments,
            duplicate_packets: self.duplicate_packets,
            dropped_by_capture,
            streams: self.streams,
            selected: None,
            filter: None,
            first_unix_us: first / 1_000,
            span_us: micros_between(first, self.last),
            untrue_times: self.clock_check.is_untrue(self.last),
            services: self.services.report(),
            resolvers: self.dns_queries.resolvers(self.last),
            worst: worst.into_iter().map(|ranked| ranked.stream).collect(),
        };
        Collected {
            packets,
            requested: self.requested_stream,
            undecodable: self.undecodable,
            unsupported_links: self.unsupported_links,
            evicted: self.evicted,
            dns_queries_refused: self.dns_queries.refused,
        }
    }
}
