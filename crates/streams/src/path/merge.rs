//! Both captures at once, in the order of one clock: what left, what arrived, what did not.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use model::{Path, PathClock, PathDelay, PathDirection, PathLoss, PathService, PathStream};
use wire::packet::tcp::Flags;

use super::clock::Clock;
use super::delays::Delays;
use super::glimpse::Glimpse;
use super::pairs::{self, Pair, Pairs};
use super::survey::{STREAMS, Survey};
use super::way::{AT_THE_END, Covered, Way};
use crate::Nanos;

/// What arrives is looked at so much later: the clocks are known to less than that, and captures may
/// have packets a little out of order.
const LATER: Nanos = 5_000_000;
/// So long after its end a stream is kept.
const LINGER: Nanos = 5_000_000_000;
/// Streams at once; others are not followed.
const LIVE: usize = 50_000;
/// Streams and services that are told.
const WORST: usize = 1024;
const SERVICES: usize = 256;
/// Services that are added up.
const SERVICES_MOST: usize = 4096;

/// Two captures of the same streams, merged.
#[derive(Debug)]
pub struct Merge {
    pairs: Pairs,
    by_number: [HashMap<u64, usize>; 2],
    covered: [Covered; 2],
    live: HashMap<usize, Box<Live>>,
    done: HashSet<usize>,
    ended: VecDeque<(Nanos, usize)>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    taken: u64,
    totals: Sums,
    not_followed: u64,
    syns_never_arrived: [u64; 2],
    services: HashMap<[SocketAddr; 2], PathService>,
    worst: Vec<Ranked>,
}

/// A stream that is in both captures; what left at each place.
#[derive(Debug)]
struct Live {
    ways: [Way; 2],
    finished: [bool; 2],
    over: bool,
}

/// All streams.
#[derive(Debug, Default)]
struct Sums {
    ways: [PathDirection; 2],
    delays: [Delays; 2],
    before_they_left: u64,
}

/// A packet that is to be looked at, in the order of times.
#[derive(Debug)]
struct Waiting {
    at: Nanos,
    order: u64,
    place: usize,
    pair: usize,
    seen: Glimpse,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A stream by what it lost.
#[derive(Debug)]
struct Ranked {
    lost: u64,
    longest: Nanos,
    pair: usize,
    ways: [PathDirection; 2],
    delays: [Delays; 2],
}

impl Merge {
    /// From the first look at both; `None`: they have no stream, or not one packet, in common.
    pub fn of(surveys: &[Survey; 2]) -> Option<Self> {
        let pairs = pairs::of(surveys)?;
        let by_number: [HashMap<u64, usize>; 2] = [0, 1].map(|place| {
            pairs.pairs.iter().enumerate().map(|(at, pair)| (pair.numbers[place], at)).collect()
        });
        let [a, b] = surveys;
        let first = (a.first?, a.last);
        let second = (pairs.clock.to_first(b.first?), pairs.clock.to_first(b.last));
        let least = pairs.clock.least.map(|least| least as Nanos);
        let covered = [
            Covered { leaving: first, arriving: second, least: least[0] },
            Covered { leaving: second, arriving: first, least: least[1] },
        ];
        let not_followed = [a, b].iter().map(|survey| survey.streams()).min().unwrap_or(0);
        let syns_never_arrived = [0, 1].map(|place| {
            never_arrived(&surveys[place], &by_number[place], &pairs.clock, place, &covered[place])
        });
        Some(Merge {
            syns_never_arrived,
            by_number,
            covered,
            live: HashMap::new(),
            done: HashSet::new(),
            ended: VecDeque::new(),
            waiting: BinaryHeap::new(),
            taken: 0,
            totals: Sums::default(),
            not_followed: not_followed.saturating_sub(STREAMS as u64),
            services: HashMap::new(),
            worst: Vec::new(),
            pairs,
        })
    }

    /// A time of one of the captures by the first one's clock: packets are to be taken in this order.
    pub fn time(&self, place: usize, at: Nanos) -> Nanos {
        if place == 0 { at } else { self.pairs.clock.to_first(at) }
    }

    /// A packet of the capture at this place, 0 or 1.
    pub fn take(&mut self, place: usize, seen: Glimpse) {
        let at = self.time(place, seen.at);
        self.due(at);
        let Some(number) = self.by_number[place].get(&seen.stream).copied() else { return };
        if self.done.contains(&number) {
            return;
        }
        let pair = self.pairs.pairs[number];
        let Some(sender) = sender(&pair, place, &seen) else { return };
        if !self.live.contains_key(&number) && self.live.len() >= LIVE {
            self.not_followed += 1;
            self.done.insert(number);
            return;
        }
        let live = self.live.entry(number).or_insert_with(|| {
            let ways = [Way::new(pair.segment), Way::new(pair.segment)];
            Box::new(Live { ways, finished: [false; 2], over: false })
        });
        if sender == place {
            live.ways[sender].leaves(&seen, at, &self.covered[sender]);
        }
        if seen.flags.any(Flags::FIN_OR_RST) {
            live.finished[sender] = true;
            let over = seen.flags.all(Flags::RST) || live.finished == [true; 2];
            if over && !live.over {
                live.over = true;
                self.ended.push_back((at, number));
            }
        }
        self.taken += 1;
        let waiting = Waiting { at, order: self.taken, place, pair: number, seen };
        self.waiting.push(Reverse(waiting));
    }

    /// Looks at what has waited long enough.
    fn due(&mut self, now: Nanos) {
        while let Some(Reverse(first)) = self.waiting.peek()
            && first.at <= now.saturating_sub(LATER)
        {
            let Some(Reverse(waiting)) = self.waiting.pop() else { break };
            self.look(&waiting);
        }
        while let Some((since, number)) = self.ended.front().copied() {
            if now.saturating_sub(since) < LINGER {
                break;
            }
            self.ended.pop_front();
            self.over(number);
        }
    }

    fn look(&mut self, waiting: &Waiting) {
        let Waiting { at, place, pair, seen, .. } = waiting;
        let Some(live) = self.live.get_mut(pair) else { return };
        let Some(sender) = sender(&self.pairs.pairs[*pair], *place, seen) else { return };
        let answers = seen.flags.all(Flags::ACK);
        let other = 1 - sender;
        if sender == *place {
            live.ways[sender].left(seen);
            if answers {
                live.ways[other].receiver_says(seen);
            }
        } else {
            let covered = &self.covered;
            live.ways[sender].arrives(seen, *at, self.pairs.ids_kept, &covered[sender]);
            if answers {
                live.ways[other].sender_hears(seen, *at, &covered[other]);
            }
        }
    }

    /// A stream is over.
    fn over(&mut self, number: usize) {
        let Some(mut live) = self.live.remove(&number) else { return };
        self.done.insert(number);
        for (way, covered) in live.ways.iter_mut().zip(&self.covered) {
            way.finish(covered);
        }
        let pair = self.pairs.pairs[number];
        let [a, b] = live.ways;
        self.totals.before_they_left += a.before_they_left + b.before_they_left;
        let (ways, delays) = ([a.told, b.told], [a.delays, b.delays]);
        for place in 0..2 {
            add(&mut self.totals.ways[place], &ways[place]);
            self.totals.delays[place].merge(&delays[place]);
        }
        let servers = pair.ends.map(|ends| ends[1]);
        let room = self.services.len() < SERVICES_MOST || self.services.contains_key(&servers);
        if room {
            let service = self.services.entry(servers).or_insert_with(|| PathService {
                servers,
                streams: 0,
                to_server: [0; 3],
                to_client: [0; 3],
            });
            service.streams += 1;
            for (sums, way) in
                [&mut service.to_server, &mut service.to_client].into_iter().zip(&ways)
            {
                for (sum, more) in sums.iter_mut().zip(losses(way)) {
                    *sum += more;
                }
            }
        }
        let lost = ways.iter().flat_map(losses).sum();
        let longest = delays[0].longest().max(delays[1].longest());
        self.worst.push(Ranked { lost, longest, pair: number, ways, delays });
        if self.worst.len() >= 2 * WORST {
            self.keep_worst();
        }
    }

    fn keep_worst(&mut self) {
        self.worst.sort_by_key(|one| (Reverse(one.lost), Reverse(one.longest), one.pair));
        self.worst.truncate(WORST);
    }

    /// Both captures are over: what they tell. `captures` describes them.
    pub fn finish(mut self, captures: [model::PathCapture; 2]) -> Path {
        while let Some(Reverse(waiting)) = self.waiting.pop() {
            self.look(&waiting);
        }
        let mut left: Vec<usize> = self.live.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().for_each(|number| self.over(number));
        self.keep_worst();
        let (clock, took) = self.clock(captures[0].first_unix_us.saturating_mul(1_000));
        let shortest = self.totals.delays.each_ref().map(|all| all.shortest().unwrap_or(0));
        let told = |place: usize, delays: &Delays| -> Option<PathDelay> {
            delays.told(shortest[place], took)
        };
        let mut worst = Vec::with_capacity(self.worst.len());
        for Ranked { pair, ways, delays, .. } in std::mem::take(&mut self.worst) {
            let pair = &self.pairs.pairs[pair];
            let [mut to_server, mut to_client] = ways;
            to_server.delay = told(0, &delays[0]);
            to_client.delay = told(1, &delays[1]);
            let [[client, server], other] = pair.ends;
            let rewritten = (other != [client, server]).then_some(other);
            worst.push(PathStream {
                numbers: pair.numbers,
                client,
                server,
                rewritten,
                to_server,
                to_client,
            });
        }
        let mut services: Vec<PathService> = self.services.into_values().collect();
        let lost = |one: &PathService| -> u64 {
            one.to_server.iter().chain(&one.to_client).copied().sum()
        };
        services.sort_by_key(|one| (Reverse(lost(one)), Reverse(one.streams), one.servers));
        services.truncate(SERVICES);
        let pairs = &self.pairs.pairs;
        let count = |of: fn(&Pair) -> bool| pairs.iter().filter(|pair| of(pair)).count() as u64;
        let [mut to_server, mut to_client] = self.totals.ways;
        to_server.delay = told(0, &self.totals.delays[0]);
        to_client.delay = told(1, &self.totals.delays[1]);
        Path {
            captures,
            streams_in_both: pairs.len() as u64,
            streams_rewritten: count(|pair| pair.ends[0] != pair.ends[1]),
            streams_not_followed: self.not_followed,
            syns_never_arrived: self.syns_never_arrived,
            streams_opened_at_server: count(|pair| !pair.client_first),
            clock,
            to_server,
            to_client,
            changes: self.pairs.changes,
            services,
            worst,
        }
    }

    /// The clocks, by all packets; and the shortest time each way, nanoseconds.
    fn clock(&self, first: Nanos) -> (PathClock, Option<f64>) {
        let Clock { slope, both, drifts, disagree, .. } = self.pairs.clock;
        let [there, back] = self.totals.delays.each_ref().map(Delays::shortest);
        // By how much the shortest times are other ones than the sample had.
        let [there, back] = [there, back].map(|more| more.unwrap_or(0) as f64);
        let us = |nanos: f64| nanos / 1e3;
        let least = self.pairs.clock.least;
        let trip = least[0] + least[1] + there + back;
        let since = first.saturating_sub(self.pairs.clock.from) as f64;
        let offset = self.pairs.clock.offset + (there - back) / 2.0 + slope * since;
        let clock = PathClock {
            offset_us: both.then_some(us(offset)),
            uncertainty_us: both.then_some(us(trip.abs() / 2.0)),
            min_round_trip_us: both.then_some(us(trip)),
            drift_ppm: drifts.then_some(slope * 1e6),
            drift_uncertainty_ppm: disagree.map(|disagree| disagree * 1e6),
            before_they_left: self.totals.before_they_left,
        };
        (clock, both.then_some(trip / 2.0))
    }
}

/// Streams of one capture alone that are a SYN without an answer, which the other capture must have
/// seen if it had arrived.
fn never_arrived(
    survey: &Survey,
    paired: &HashMap<u64, usize>,
    clock: &Clock,
    place: usize,
    covered: &Covered,
) -> u64 {
    let (first, last) = covered.arriving;
    let alone = survey.streams.iter().filter(|(number, known)| {
        let [Some((_, at, ..)), None] = known.syns else { return false };
        let at = if place == 0 { at } else { clock.to_first(at) };
        let at = at.saturating_add(covered.least);
        let seen = at.saturating_add(AT_THE_END) <= last && at >= first;
        seen && !paired.contains_key(number)
    });
    alone.count() as u64
}

/// At which place the sender of a packet is.
fn sender(pair: &Pair, place: usize, seen: &Glimpse) -> Option<usize> {
    let from_client = pair.ends[place].iter().position(|end| *end == seen.ends[0])? == 0;
    Some(usize::from(from_client != pair.client_first))
}

/// Segments lost before, between and behind.
fn losses(way: &PathDirection) -> [u64; 3] {
    [way.lost_before.segments, way.lost_between.segments, way.lost_after.segments]
}

fn add(sum: &mut PathDirection, more: &PathDirection) {
    let loss = |sum: &mut PathLoss, more: &PathLoss| {
        sum.segments += more.segments;
        sum.bytes += more.bytes;
        let first = [sum.first_packet, more.first_packet].into_iter().filter(|number| *number > 0);
        sum.first_packet = first.min().unwrap_or(0);
        sum.last_packet = sum.last_packet.max(more.last_packet);
    };
    sum.segments += more.segments;
    sum.bytes += more.bytes;
    sum.matched += more.matched;
    loss(&mut sum.lost_between, &more.lost_between);
    loss(&mut sum.lost_before, &more.lost_before);
    loss(&mut sum.lost_after, &more.lost_after);
    sum.bursts += more.bursts;
    sum.lost_in_bursts += more.lost_in_bursts;
    sum.longest_burst = sum.longest_burst.max(more.longest_burst);
    sum.reordered += more.reordered;
    sum.duplicated += more.duplicated;
    sum.spurious += more.spurious;
    sum.pure_acks_lost += more.pure_acks_lost;
    sum.not_captured_arriving += more.not_captured_arriving;
    sum.not_captured_leaving += more.not_captured_leaving;
}
