//! A capture to evidence, in one pass and in bounded memory: all streams added up by service, and the
//! streams that lost most time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use hashbrown::HashMap;
use model::{CapturedStream, Packets, Service, TimeCategory, TimeShare};
use wire::capture::Packet;
use wire::packet::{DecodeError, Ip, Tcp, decode, plain_segment, udp};

use crate::Nanos;
use crate::budget::{PARTS, Parts};
use crate::direction::Kind;
use crate::facts;
use crate::histogram::Histogram;
use crate::lookups::{self, Lookups};
use crate::stream::{Event, Stream};
use crate::table::{Begun, Table};
use said::Said;
use share::Share as Mine;
use watch::Watching;

#[cfg(test)]
mod artefacts;
#[cfg(test)]
mod bound;
#[cfg(test)]
mod pauses;
mod said;
mod share;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod talk;
pub mod watch;

/// Streams that are told one by one.
const WORST: usize = 1024;
/// Services that are told; beyond that new ones are counted and not told.
const SERVICES: usize = 4096;
/// Services that a rule is told: those that lost most time.
const TOLD: usize = 256;
/// Packets that are looked at together.
const BATCH: usize = 16;
/// So many streams stay in the cache anyway.
const CACHED: usize = 512;
/// How often streams that are over are looked for, in packets.
const GLANCE: u64 = 1024;

/// What is made of a capture while it is read.
#[derive(Debug, Default)]
pub struct Collector {
    packets: u64,
    segments: u64,
    captured_twice: u64,
    unread: u64,
    other_links: u64,
    first: Option<Nanos>,
    last: Nanos,
    table: Table,
    places: HashMap<SocketAddr, u32>,
    services: Vec<(SocketAddr, Sums)>,
    worst: BinaryHeap<Reverse<Ranked>>,
    wanted: Option<u64>,
    found: Option<CapturedStream>,
    seen: Seen,
    watching: Option<Box<Watching>>,
    cut: u64,
    lookups: Lookups,
    /// Streams of tables that are closed.
    streams: u64,
    share: Option<Mine>,
    begun: Vec<Begun>,
}

/// What a packet was.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Number of its stream.
    pub stream: u64,
    /// What it was in it, and what it ended.
    pub event: Event,
}

/// Evidence, and what has no place in it.
#[derive(Debug)]
pub struct Collected {
    /// The evidence.
    pub packets: Packets,
    /// The stream that was asked for.
    pub wanted: Option<CapturedStream>,
    /// Packets with headers that are cut off or malformed.
    pub unread: u64,
    /// Packets of link types that are not read.
    pub other_links: u64,
    /// Streams that went on and counted as over, to make room.
    pub cut: u64,
}

/// All streams of a service, added up.
#[derive(Debug, Clone, Default)]
struct Sums {
    streams: u64,
    turns: u64,
    bytes: u64,
    data_segments: u64,
    repeated: u64,
    parts: Parts,
    turns_with: [u64; PARTS],
    times: Histogram,
    said: Said,
}

/// A stream by the time that it lost, then by what was sent again and by its bytes.
#[derive(Debug, Clone, PartialEq)]
struct Ranked(Rank, CapturedStream);

type Rank = (Nanos, u64, u64, Reverse<u64>);

fn rank(stream: &Stream) -> Rank {
    let lost = TimeCategory::ALL.into_iter().filter(|part| part.is_lost());
    let lost = lost.map(|part| stream.budget.sides.iter().map(|side| side[part as usize]).sum());
    let [a, b] = stream.directions.each_ref().map(|one| &one.counts);
    let repeated = a.retransmissions() + b.retransmissions();
    (
        lost.fold(0, Nanos::saturating_add),
        repeated,
        a.new_bytes + b.new_bytes,
        Reverse(stream.number),
    )
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl Collector {
    /// One that keeps this stream too, whatever it lost.
    pub fn new(wanted: Option<u64>) -> Self {
        Collector { wanted, ..Collector::default() }
    }

    /// One that keeps at most so many streams in memory; beyond that those of which nothing came for
    /// longest count as over.
    pub fn at_most(streams: usize) -> Self {
        Collector { table: Table::at_most(streams), ..Collector::default() }
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes packets in of which nobody wants to know what they were: streams that come next are
    /// fetched from memory while others are looked at.
    pub fn batch(&mut self, packets: &[Packet<'_>]) {
        if self.table.streams().len() < CACHED {
            packets.iter().for_each(|packet| _ = self.look(packet));
            return;
        }
        for packets in packets.chunks(BATCH) {
            let mut segments = [const { None }; BATCH];
            for (segment, packet) in segments.iter_mut().zip(packets) {
                *segment = plain_segment(packet.link, packet.bytes, packet.length);
                if let Some((ip, tcp)) = segment
                    && self.has(ip, tcp)
                {
                    self.table.fetch(ip, tcp);
                }
            }
            for (segment, packet) in segments.iter().zip(packets) {
                let at = self.time(packet);
                match segment {
                    Some((ip, tcp)) if self.has(ip, tcp) => self.segment(ip, tcp, at),
                    Some(_) => {}
                    None => _ = self.other(packet, at),
                }
            }
        }
    }

    /// Whether a segment is of a stream that is taken in here.
    #[inline(always)]
    fn has(&self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> bool {
        self.share.is_none_or(|share| share.has(ip, tcp))
    }

    /// Counts a packet; when it passed.
    #[inline(always)]
    fn time(&mut self, packet: &Packet<'_>) -> Nanos {
        self.packets += 1;
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(self.last);
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        if self.packets.is_multiple_of(GLANCE) {
            self.forget(at);
        }
        at
    }

    /// Takes a packet in; what it was, if it was TCP.
    #[inline(always)]
    pub fn take(&mut self, packet: &Packet<'_>) -> Option<Seen> {
        self.look(packet).copied()
    }

    /// The same, not copied.
    #[inline(always)]
    pub fn look(&mut self, packet: &Packet<'_>) -> Option<&Seen> {
        let at = self.time(packet);
        let taken = match plain_segment(packet.link, packet.bytes, packet.length) {
            Some((ip, tcp)) if self.has(&ip, &tcp) => {
                self.segment(&ip, &tcp, at);
                true
            }
            Some(_) => false,
            None => self.other(packet, at),
        };
        taken.then_some(&self.seen)
    }

    /// A packet that is not as almost all are; whether it was taken in.
    #[inline(never)]
    fn other(&mut self, packet: &Packet<'_>, at: Nanos) -> bool {
        self.decoded(packet, at).unwrap_or_else(|skip| {
            self.skip(skip);
            false
        })
    }

    fn decoded(&mut self, packet: &Packet<'_>, at: Nanos) -> Result<bool, DecodeError> {
        let decoded = decode(packet.link, packet.bytes, packet.length)?;
        if decoded.ip.protocol == udp::PROTOCOL && self.share.is_none_or(Mine::is_first) {
            self.lookups.take(&decoded.ip, at);
        }
        let tcp = Tcp::of(&decoded.ip)?;
        let taken = self.has(&decoded.ip, &tcp);
        if taken {
            self.segment(&decoded.ip, &tcp, at);
        }
        Ok(taken)
    }

    #[inline(always)]
    fn segment(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>, at: Nanos) {
        self.segments += 1;
        self.table.number(self.packets);
        let mut replaced = None;
        let mut replace = |stream: &mut Stream| replaced = Some(Box::new(stream.clone()));
        let (stream, _) = self.table.segment(ip, tcp, at, &mut replace, &mut self.seen.event);
        self.seen.stream = stream.number;
        if (tcp.source == lookups::PORT || tcp.destination == lookups::PORT)
            && tcp.length > 0
            && self.seen.event.kind == Kind::New
        {
            self.lookups.segment(ip, tcp, at);
        }
        if let Some(turn) = &self.seen.event.turn
            && let Some(whole) = turn.whole()
            && let Some(sums) = sums(&mut self.places, &mut self.services, stream)
        {
            sums.times.add(whole);
        }
        if let Some(stream) = &mut replaced {
            self.over(stream);
        }
        if self.table.is_full() {
            self.make_room();
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let mut table = std::mem::take(&mut self.table);
        self.cut += table.make_room(&mut |stream| self.over(stream));
        self.table = table;
    }

    #[cold]
    fn forget(&mut self, now: Nanos) {
        let mut table = std::mem::take(&mut self.table);
        table.forget(now, &mut |stream| self.over(stream));
        self.table = table;
    }

    fn skip(&mut self, skip: DecodeError) {
        match skip {
            DecodeError::NotIp => {}
            DecodeError::UnknownLinkType => self.other_links += 1,
            DecodeError::Truncated | DecodeError::Malformed | DecodeError::TooManyHeaders => {
                self.unread += 1
            }
        }
    }

    /// A stream is over, or the capture is.
    fn over(&mut self, stream: &mut Stream) {
        stream.finish();
        if self.watching.is_none() || self.watch_over(stream) {
            self.add(stream);
        }
    }

    /// Adds up a stream that is over.
    fn add(&mut self, stream: &mut Stream) {
        let counts = stream.directions.each_ref().map(|one| &one.counts);
        self.captured_twice += counts.iter().map(|one| u64::from(one.copies)).sum::<u64>();
        if let Some(sums) = sums(&mut self.places, &mut self.services, stream) {
            if let Some(whole) = stream.last_turn().and_then(|turn| turn.whole()) {
                sums.times.add(whole);
            }
            sums.streams += 1;
            sums.turns += stream.turns();
            for counts in stream.directions.each_ref().map(|one| &one.counts) {
                sums.bytes += counts.new_bytes;
                sums.data_segments += counts.data;
                sums.repeated += counts.retransmissions();
            }
            for part in 0..PARTS {
                let time =
                    stream.budget.sides[0][part].saturating_add(stream.budget.sides[1][part]);
                sums.parts[part] = sums.parts[part].saturating_add(time);
                sums.turns_with[part] += u64::from(stream.turns_with[part]);
            }
            if let Some(spoken) = stream.spoken() {
                sums.said.add(spoken);
            }
        }
        let wanted = self.wanted == Some(stream.number);
        let rank = rank(stream);
        let full = self.worst.len() >= WORST;
        if full && !wanted && self.worst.peek().is_some_and(|Reverse(least)| rank < least.0) {
            return;
        }
        let told = facts::of(stream, self.first.unwrap_or(stream.first));
        if wanted {
            self.found = Some(told.clone());
        }
        self.worst.push(Reverse(Ranked(rank, told)));
        if self.worst.len() > WORST {
            self.worst.pop();
        }
    }

    /// The capture is over: what it tells. `from` are the names of its files or interfaces.
    pub fn finish(mut self, from: Vec<String>, lost_by_capture: u64) -> Collected {
        self.close();
        self.renumber();
        let mut services: Vec<Service> =
            self.services.iter().map(|(server, sums)| service(*server, sums)).collect();
        let lost = |service: &Service| {
            let lost = TimeCategory::ALL.into_iter().filter(|part| part.is_lost());
            (lost.map(|part| service.time_us(part)).sum::<u64>(), service.bytes)
        };
        services.sort_by_key(|service| (Reverse(lost(service)), service.server));
        services.truncate(TOLD);
        let mut worst: Vec<Ranked> = self.worst.into_iter().map(|Reverse(one)| one).collect();
        worst.sort_by(|a, b| b.cmp(a));
        let first = self.first.unwrap_or(0);
        let packets = Packets {
            sources: from,
            packets: self.packets,
            segments: self.segments,
            duplicate_packets: self.captured_twice,
            dropped_by_capture: lost_by_capture,
            streams: self.streams,
            selected: None,
            filter: None,
            first_unix_us: first / 1_000,
            span_us: u64::try_from(self.last.saturating_sub(first) / 1_000).unwrap_or(0),
            services,
            resolvers: self.lookups.told(self.last),
            worst: worst.into_iter().map(|Ranked(_, stream)| stream).collect(),
        };
        Collected {
            packets,
            wanted: self.found,
            unread: self.unread,
            other_links: self.other_links,
            cut: self.cut,
        }
    }
}

fn server(stream: &Stream) -> SocketAddr {
    let [a, b] = stream.ends;
    if !stream.roles_known && a.port() < b.port() { a } else { b }
}

/// Where a stream is added up; the stream remembers it.
#[inline]
fn sums<'a>(
    places: &mut HashMap<SocketAddr, u32>,
    services: &'a mut Vec<(SocketAddr, Sums)>,
    stream: &mut Stream,
) -> Option<&'a mut Sums> {
    if stream.place == u32::MAX {
        let server = server(stream);
        stream.place = match places.get(&server) {
            Some(place) => *place,
            None if services.len() >= SERVICES => return None,
            None => {
                places.insert(server, services.len() as u32);
                services.push((server, Sums::default()));
                services.len() as u32 - 1
            }
        };
    }
    services.get_mut(stream.place as usize).map(|(_, sums)| sums)
}

fn service(server: SocketAddr, sums: &Sums) -> Service {
    let parts = TimeCategory::ALL.into_iter().zip(sums.parts).zip(sums.turns_with);
    Service {
        server,
        streams: sums.streams,
        exchanges: sums.turns,
        bytes: sums.bytes,
        data_segments: sums.data_segments,
        retransmitted: sums.repeated,
        exchange_p50_us: sums.times.quantile(0.5),
        exchange_p99_us: sums.times.quantile(0.99),
        time_breakdown: parts
            .filter(|((_, time), _)| *time > 0)
            .map(|((part, time), turns)| TimeShare {
                category: part,
                time_us: u64::try_from(time / 1_000).unwrap_or(0),
                exchanges: turns,
            })
            .collect(),
        statuses: sums.said.statuses(),
        slow_requests: sums.said.slow_requests(),
    }
}
