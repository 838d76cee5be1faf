//! Both captures at once, in the order of one clock: what left, what arrived, what did not.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use model::{Path, PathCapture, PathChange, PathClock, PathService, PathStream, Side};
use wire::packet::tcp::Flags;

use super::capture_summary::{CaptureSummary, MAX_STREAMS};
use super::clock::{ClockDifference, MinTransitTimes};
use super::coverage::{Coverage, END_MARGIN};
use super::direction::DirectionTracker;
use super::field_changes;
use super::fingerprint::PacketFingerprint;
use super::stream_matching::{MatchedStream, MatchedStreams};
use super::totals::DirectionTotals;
use crate::ends::Ends;
use crate::time::Nanos;

/// Arrivals are taken this much later: the clocks are known to less than that, and captures may have
/// packets a little out of order.
const ARRIVAL_DELAY: Nanos = 5_000_000;
/// A stream is kept this long after its end.
const LINGER_TIME: Nanos = 5_000_000_000;
/// Most packets whose arrival is not taken yet: more come only of a clock that stands still.
const MAX_PENDING_PACKETS: usize = 1 << 18;
/// Most streams at once; others are not followed.
const MAX_LIVE_STREAMS: usize = 50_000;
/// Most streams that are reported.
const MAX_WORST_STREAMS: usize = 1024;
/// Most services that are added up, and that are reported.
const MAX_SERVICES: usize = 4096;
const MAX_SERVICES_REPORTED: usize = 256;

/// Two captures of the same streams, merged.
#[derive(Debug)]
pub struct Merge {
    matched: Vec<MatchedStream>,
    /// Places in `matched`, by the number of a stream in each capture.
    by_number: Ends<HashMap<u64, usize>>,
    clock: ClockDifference,
    /// Whether IP identifications arrive as they left, so that they tell packets apart.
    ids_kept: bool,
    changes: Vec<PathChange>,
    /// By the vantage point at which a direction leaves.
    coverage: Ends<Coverage>,
    live: HashMap<usize, Box<LiveStream>>,
    done: HashSet<usize>,
    ended: VecDeque<(Nanos, usize)>,
    pending: BinaryHeap<Reverse<PendingPacket>>,
    taken: u64,
    totals: Ends<DirectionTotals>,
    arrived_before_sent: u64,
    not_followed: u64,
    syns_never_arrived: Ends<u64>,
    services: HashMap<[SocketAddr; 2], PathService>,
    worst: Vec<RankedStream>,
}

/// A stream that is in both captures, by the vantage points of its ends.
#[derive(Debug)]
struct LiveStream {
    directions: Ends<DirectionTracker>,
    finished: Ends<bool>,
    is_over: bool,
}

/// A packet that is taken later, in the order of times.
#[derive(Debug)]
struct PendingPacket {
    at: Nanos,
    order: u64,
    /// The capture that has it.
    vantage: Side,
    place: usize,
    packet: PacketFingerprint,
}

impl PartialEq for PendingPacket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PendingPacket {}

impl PartialOrd for PendingPacket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PendingPacket {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A stream by what it lost.
#[derive(Debug)]
struct RankedStream {
    lost: u64,
    max_delay: Nanos,
    place: usize,
    directions: Ends<DirectionTotals>,
}

impl Merge {
    /// From the summaries of both captures. `None`: they have no stream, or no packet, in common.
    pub fn of(summaries: &Ends<CaptureSummary>) -> Option<Self> {
        let matched = MatchedStreams::find(summaries);
        let mut times: Ends<MinTransitTimes> = Ends::default();
        for (stream, packet) in matched.common() {
            let sender = stream.vantage_of_common(packet);
            let (left, arrived) = (packet.get(sender), packet.get(sender.other()));
            times.get_mut(sender).add(packet.client.at, arrived.at.saturating_sub(left.at));
        }
        let clock = ClockDifference::of(&times)?;
        let changes = field_changes::find(summaries, &matched);
        let kept = matched
            .packets
            .iter()
            .filter(|(_, packet)| packet.client.id != 0 && packet.client.id == packet.server.id);
        let ids_kept = kept.count() * 10 >= matched.packets.len() * 9;
        let places = |vantage| -> HashMap<u64, usize> {
            let streams = matched.streams.iter().enumerate();
            streams.map(|(place, stream)| (*stream.numbers.get(vantage), place)).collect()
        };
        let by_number = Ends { client: places(Side::Client), server: places(Side::Server) };
        let span = |vantage| {
            let summary = summaries.get(vantage);
            let first = clock.to_client(vantage, summary.first?);
            Some((first, clock.to_client(vantage, summary.last)))
        };
        let (client, server) = (span(Side::Client)?, span(Side::Server)?);
        let min_delay = clock.min.map(|delay| delay as Nanos);
        let coverage = Ends {
            client: Coverage { leaving: client, arriving: server, min_delay: min_delay.client },
            server: Coverage { leaving: server, arriving: client, min_delay: min_delay.server },
        };
        let never_arrived = |vantage| {
            let (summary, matched) = (summaries.get(vantage), by_number.get(vantage));
            syns_never_arrived(summary, matched, &clock, vantage, coverage.get(vantage))
        };
        let syns_never_arrived =
            Ends { client: never_arrived(Side::Client), server: never_arrived(Side::Server) };
        let streams = summaries.client.streams().min(summaries.server.streams());
        Some(Merge {
            matched: matched.streams,
            by_number,
            clock,
            ids_kept,
            changes,
            coverage,
            live: HashMap::new(),
            done: HashSet::new(),
            ended: VecDeque::new(),
            pending: BinaryHeap::new(),
            taken: 0,
            totals: Ends::default(),
            arrived_before_sent: 0,
            not_followed: streams.saturating_sub(MAX_STREAMS as u64),
            syns_never_arrived,
            services: HashMap::new(),
            worst: Vec::new(),
        })
    }

    /// A time of one of the captures by the client's clock: packets are taken in this order.
    pub fn time(&self, vantage: Side, at: Nanos) -> Nanos {
        self.clock.to_client(vantage, at)
    }

    /// Takes a packet of one capture.
    pub fn take(&mut self, vantage: Side, packet: PacketFingerprint) {
        let at = self.time(vantage, packet.at);
        self.take_pending(at);
        let places = self.by_number.get(vantage);
        let Some(place) = places.get(&packet.stream).copied() else { return };
        let Some(stream) = self.matched.get(place) else { return };
        if self.done.contains(&place) {
            return;
        }
        let Some(sender) = stream.vantage_of(vantage, packet.source) else { return };
        if !self.live.contains_key(&place) && self.live.len() >= MAX_LIVE_STREAMS {
            self.not_followed += 1;
            self.done.insert(place);
            return;
        }
        let live = self.live.entry(place).or_insert_with(|| {
            let tracker = || DirectionTracker::new(stream.mss);
            let directions = Ends { client: tracker(), server: tracker() };
            Box::new(LiveStream { directions, finished: Ends::default(), is_over: false })
        });
        if sender == vantage {
            live.directions.get_mut(sender).leaves(&packet, at, self.coverage.get(sender));
        }
        if packet.flags.any(Flags::FIN_OR_RST) {
            *live.finished.get_mut(sender) = true;
            let both = live.finished.client && live.finished.server;
            if (packet.flags.all(Flags::RST) || both) && !live.is_over {
                live.is_over = true;
                self.ended.push_back((at, place));
            }
        }
        self.taken += 1;
        let order = self.taken;
        self.pending.push(Reverse(PendingPacket { at, order, vantage, place, packet }));
    }

    /// Takes the arrivals that are due, and ends the streams that have been over for a while.
    fn take_pending(&mut self, now: Nanos) {
        while let Some(Reverse(first)) = self.pending.peek()
            && (first.at <= now.saturating_sub(ARRIVAL_DELAY)
                || self.pending.len() >= MAX_PENDING_PACKETS)
        {
            let Some(Reverse(pending)) = self.pending.pop() else { break };
            self.take_arrival(&pending);
        }
        while let Some((since, place)) = self.ended.front().copied() {
            if now.saturating_sub(since) < LINGER_TIME {
                break;
            }
            self.ended.pop_front();
            self.end_stream(place);
        }
    }

    fn take_arrival(&mut self, pending: &PendingPacket) {
        let PendingPacket { at, vantage, place, packet, .. } = pending;
        let Some(live) = self.live.get_mut(place) else { return };
        let Some(stream) = self.matched.get(*place) else { return };
        let Some(sender) = stream.vantage_of(*vantage, packet.source) else { return };
        let has_ack = packet.flags.all(Flags::ACK);
        let (own, peer) = live.directions.own_and_peer(sender);
        if sender == *vantage {
            own.left(packet);
            if has_ack {
                peer.acknowledged(packet);
            }
        } else {
            own.arrives(packet, *at, self.ids_kept, self.coverage.get(sender));
            if has_ack {
                let coverage = self.coverage.get(sender.other());
                peer.acknowledgement_arrives(packet, *at, coverage);
            }
        }
    }

    /// A stream is over.
    fn end_stream(&mut self, place: usize) {
        let Some(mut live) = self.live.remove(&place) else { return };
        self.done.insert(place);
        for (direction, coverage) in live.directions.iter_mut().zip(self.coverage.iter()) {
            direction.finish(coverage);
            self.arrived_before_sent += direction.arrived_before_sent;
        }
        let directions = live.directions.map(|direction| DirectionTotals {
            report: direction.report,
            delays: direction.delays,
        });
        for (total, direction) in self.totals.iter_mut().zip(directions.iter()) {
            total.add(direction);
        }
        self.add_to_service(place, &directions);
        let lost = directions.iter().flat_map(DirectionTotals::lost_segments).sum();
        let max_delay = directions.client.delays.max().max(directions.server.delays.max());
        self.worst.push(RankedStream { lost, max_delay, place, directions });
        if self.worst.len() >= 2 * MAX_WORST_STREAMS {
            self.keep_worst();
        }
    }

    fn add_to_service(&mut self, place: usize, directions: &Ends<DirectionTotals>) {
        let Some(stream) = self.matched.get(place) else { return };
        let servers = stream.ends.map(|ends| ends.server).into_array();
        if self.services.len() >= MAX_SERVICES && !self.services.contains_key(&servers) {
            return;
        }
        let service = self.services.entry(servers).or_insert_with(|| PathService {
            servers,
            streams: 0,
            to_server: [0; 3],
            to_client: [0; 3],
        });
        service.streams += 1;
        let sums = [&mut service.to_server, &mut service.to_client];
        for (sums, direction) in sums.into_iter().zip(directions.iter()) {
            for (sum, more) in sums.iter_mut().zip(direction.lost_segments()) {
                *sum += more;
            }
        }
    }

    fn keep_worst(&mut self) {
        self.worst.sort_by_key(|one| (Reverse(one.lost), Reverse(one.max_delay), one.place));
        self.worst.truncate(MAX_WORST_STREAMS);
    }

    /// Both captures are over. `captures` describes them, the client's first.
    pub fn finish(mut self, captures: [PathCapture; 2]) -> Path {
        while let Some(Reverse(pending)) = self.pending.pop() {
            self.take_arrival(&pending);
        }
        let mut left: Vec<usize> = self.live.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().for_each(|place| self.end_stream(place));
        self.keep_worst();
        let [client, _] = &captures;
        let clock = self.path_clock(client.first_unix_us.saturating_mul(1_000));
        let half_round_trip = self.clock.has_both_directions.then(|| self.min_round_trip() / 2.0);
        let shortest = self.totals.each_ref().map(|total| total.delays.min().unwrap_or(0));
        let report = |directions: Ends<DirectionTotals>| {
            let directions = directions.zip(shortest);
            directions.map(|(direction, shortest)| direction.finish(shortest, half_round_trip))
        };
        let mut worst = Vec::with_capacity(self.worst.len());
        for RankedStream { place, directions, .. } in self.worst {
            let Some(stream) = self.matched.get(place) else { continue };
            let Ends { client: to_server, server: to_client } = report(directions);
            let Ends { client: ends, server: other } = stream.ends;
            worst.push(PathStream {
                numbers: stream.numbers.into_array(),
                client: ends.client,
                server: ends.server,
                rewritten: (other != ends).then_some(other.into_array()),
                to_server,
                to_client,
            });
        }
        let mut services: Vec<PathService> = self.services.into_values().collect();
        let lost = |service: &PathService| -> u64 {
            service.to_server.iter().chain(&service.to_client).copied().sum()
        };
        services.sort_by_key(|one| (Reverse(lost(one)), Reverse(one.streams), one.servers));
        services.truncate(MAX_SERVICES_REPORTED);
        let count = |is: fn(&MatchedStream) -> bool| {
            self.matched.iter().filter(|stream| is(stream)).count() as u64
        };
        let Ends { client: to_server, server: to_client } = report(self.totals);
        Path {
            captures,
            streams_in_both: self.matched.len() as u64,
            streams_rewritten: count(|stream| stream.ends.client != stream.ends.server),
            streams_not_followed: self.not_followed,
            syns_never_arrived: self.syns_never_arrived.into_array(),
            streams_opened_at_server: count(|stream| !stream.is_opened_by_client),
            clock,
            to_server,
            to_client,
            changes: self.changes,
            services,
            worst,
        }
    }

    /// By how much the shortest times differ from those of the sample, nanoseconds.
    fn beyond_sample(&self) -> Ends<f64> {
        self.totals.each_ref().map(|total| total.delays.min().unwrap_or(0) as f64)
    }

    /// The shortest round trip between both vantage points, nanoseconds.
    fn min_round_trip(&self) -> f64 {
        let (min, more) = (self.clock.min, self.beyond_sample());
        min.client + min.server + more.client + more.server
    }

    /// The clocks, by all packets, at the first packet of the client's capture.
    fn path_clock(&self, first: Nanos) -> PathClock {
        let ClockDifference { offset, slope, drifts, .. } = self.clock;
        let more = self.beyond_sample();
        let round_trip = self.min_round_trip();
        let since = first.saturating_sub(self.clock.from) as f64;
        let offset = offset + (more.client - more.server) / 2.0 + slope * since;
        let known_us = |nanos: f64| self.clock.has_both_directions.then_some(nanos / 1e3);
        PathClock {
            offset_us: known_us(offset),
            uncertainty_us: known_us(round_trip.abs() / 2.0),
            min_round_trip_us: known_us(round_trip),
            drift_ppm: drifts.then_some(slope * 1e6),
            drift_uncertainty_ppm: self.clock.disagreement.map(|drift| drift * 1e6),
            before_they_left: self.arrived_before_sent,
        }
    }
}

/// Streams of one capture that are a SYN without an answer, which the other capture must have seen if
/// it had arrived.
fn syns_never_arrived(
    summary: &CaptureSummary,
    matched: &HashMap<u64, usize>,
    clock: &ClockDifference,
    vantage: Side,
    coverage: &Coverage,
) -> u64 {
    let (first, last) = coverage.arriving;
    let lost = summary.streams.iter().filter(|(number, start)| {
        let Ends { client: Some(syn), server: None } = start.syns else { return false };
        let at = clock.to_client(vantage, syn.at).saturating_add(coverage.min_delay);
        let must_be_seen = at.saturating_add(END_MARGIN) <= last && at >= first;
        must_be_seen && !matched.contains_key(number)
    });
    lost.count() as u64
}
