//! A small sender in virtual time, over paths of every kind.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::{PolicedResponse, PolicerDetector};
use crate::segment::SegmentKind;
use crate::sequence::Sequence;

pub(super) const DATA: u32 = 1448;
pub(super) const HEADERS: u32 = 52;
/// Bytes of an IP packet.
const WIRE: f64 = 1500.0;

/// Pseudo-random numbers (xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What is on the path beyond the capture point. Rates are in bytes a second.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path {
    Policer {
        rate: f64,
        bucket: f64,
    },
    /// A queue behind a bucket that lets bursts pass; a share of all packets is lost elsewhere.
    Shaper {
        rate: f64,
        bucket: f64,
        queue: f64,
        loss: f64,
    },
    /// A queue that drops early (RED), the more likely the longer it is.
    EarlyDrop {
        rate: f64,
        queue: f64,
    },
    RandomLoss {
        loss: f64,
    },
    /// Everything is lost now and then.
    Outages {
        mean: f64,
        duration: f64,
    },
    /// Losses in runs (Gilbert-Elliott): the probabilities, for each packet, that a run begins and that
    /// it ends, and of a loss within it.
    LossRuns {
        begin: f64,
        end: f64,
        loss: f64,
    },
    /// A queue that other traffic fills too.
    SharedQueue {
        rate: f64,
        queue: f64,
    },
}

/// A path and its state.
pub(super) struct Link {
    path: Path,
    /// Deficit of the bucket, or length of the queue, bytes.
    deficit: f64,
    at: f64,
    /// When other traffic comes, or the next outage begins, seconds.
    next_event: f64,
    arrived: f64,
    /// Half a round trip, seconds.
    pub(super) half: f64,
    is_in_run: bool,
    random: Random,
}

impl Link {
    pub(super) fn new(path: Path, half: f64, random: Random) -> Self {
        Link {
            path,
            deficit: 0.0,
            at: 0.0,
            next_event: 0.0,
            arrived: 0.0,
            half,
            is_in_run: false,
            random,
        }
    }

    /// When a packet that is sent now arrives; packets stay in order.
    pub(super) fn carry(&mut self, at: f64) -> Option<f64> {
        let arrival = self.pass(at)?;
        self.arrived = self.arrived.max(arrival) + 0.000_001;
        Some(self.arrived)
    }

    fn pass(&mut self, at: f64) -> Option<f64> {
        let jitter = self.random.share() * 0.0003;
        let (rate, capacity, free) = match self.path {
            Path::Policer { rate, bucket } => (rate, bucket, bucket),
            Path::Shaper { rate, bucket, queue, loss } => {
                if self.random.share() < loss {
                    return None;
                }
                (rate, bucket + queue, bucket)
            }
            Path::EarlyDrop { rate, queue } => {
                let length = (self.deficit - rate * (at - self.at)).max(0.0) / queue;
                if self.random.share() * 10.0 < length * length {
                    return None;
                }
                (rate, queue, 0.0)
            }
            Path::SharedQueue { rate, queue } => {
                // Other traffic is as much again, in bursts.
                while self.next_event < at {
                    self.deficit = (self.deficit - rate * 0.01).max(0.0);
                    if self.random.share() < 0.5 {
                        let burst = rate * 0.01 * self.random.share() * 2.5;
                        self.deficit = (self.deficit + burst).min(queue);
                    }
                    self.next_event += 0.01;
                }
                self.at = at;
                (rate, queue, 0.0)
            }
            Path::RandomLoss { loss } => {
                return (self.random.share() >= loss).then_some(at + self.half + jitter);
            }
            Path::LossRuns { begin, end, loss } => {
                let change = if self.is_in_run { end } else { begin };
                self.is_in_run ^= self.random.share() < change;
                let is_lost = self.is_in_run && self.random.share() < loss;
                return (!is_lost).then_some(at + self.half + jitter);
            }
            Path::Outages { mean, duration } => {
                if at > self.next_event + duration {
                    self.next_event = at + mean * 2.0 * self.random.share();
                }
                return (at < self.next_event).then_some(at + self.half + jitter);
            }
        };
        self.deficit = (self.deficit - rate * (at - self.at)).max(0.0);
        self.at = at;
        if self.deficit + WIRE > capacity {
            return None;
        }
        self.deficit += WIRE;
        let wait = (self.deficit - free).max(0.0) / rate;
        Some(at + self.half + jitter + wait)
    }
}

/// An arrival, sorted by time: nanoseconds, packet, transmission.
type Arrival = Reverse<(i64, u64, u64)>;

/// Sends some responses with a pause between them. Returns what was found of each, and how many of
/// its packets were lost.
fn responses(
    path: Path,
    count: usize,
    packets: u64,
    seed: u64,
) -> Vec<(Option<PolicedResponse>, u32)> {
    let half = if seed.is_multiple_of(2) { 0.008 } else { 0.05 };
    let mut link = Link::new(path, half, Random(seed * 2 + 1));
    let mut detector = PolicerDetector::default();
    let (mut now, mut next, mut all) = (1.0_f64, 0_u64, Vec::new());
    let mut order = 0_u64;
    for _ in 0..count {
        let end = next + packets;
        let (mut window, mut threshold) = (10.0_f64, f64::INFINITY);
        // Transmissions in flight: order and packet.
        let mut in_flight: BTreeMap<u64, u64> = BTreeMap::new();
        let mut missing: BTreeSet<u64> = (next..end).collect();
        let mut again: VecDeque<u64> = VecDeque::new();
        let mut arrivals: BinaryHeap<Arrival> = BinaryHeap::new();
        let (mut recovered, mut lost, mut wait) = (0, 0, 0.3);
        while !missing.is_empty() {
            while (in_flight.len() as f64) < window && (next < end || !again.is_empty()) {
                now += 0.000_005;
                let (packet, kind) = match again.pop_front() {
                    Some(packet) => (packet, SegmentKind::FastRetransmission),
                    None => (next, SegmentKind::New),
                };
                next += u64::from(kind == SegmentKind::New);
                let from = Sequence(packet * u64::from(DATA));
                detector.sent(kind, from, DATA, HEADERS, (now * 1e9) as i64);
                in_flight.insert(order, packet);
                match link.carry(now) {
                    Some(at) => {
                        arrivals.push(Reverse((((at + link.half) * 1e9) as i64, packet, order)))
                    }
                    None => lost += 1,
                }
                order += 1;
            }
            let Some(Reverse((at, packet, number))) = arrivals.pop() else {
                // A timeout: everything in flight is retransmitted.
                now += wait;
                wait = (wait * 2.0).min(3.0);
                again.extend(std::mem::take(&mut in_flight).into_values());
                again.retain(|packet| missing.contains(packet));
                (threshold, window) = ((window / 2.0).max(2.0), 1.0);
                continue;
            };
            wait = 0.3;
            now = now.max(at as f64 * 1e-9);
            in_flight.remove(&number);
            missing.remove(&packet);
            let first = missing.first().copied().unwrap_or(end).min(next);
            detector.acknowledged(Sequence(first * u64::from(DATA)), (now * 1e9) as i64);
            let here = Sequence(packet * u64::from(DATA));
            if packet > first {
                let all = Sequence(first * u64::from(DATA));
                detector.selectively_acknowledged(all, here, here.plus(DATA), (now * 1e9) as i64);
            }
            window += if window < threshold { 1.0 } else { 1.0 / window };
            // Three later ones have arrived: lost.
            while let Some((&oldest, &packet)) = in_flight.first_key_value() {
                if oldest + 3 > number {
                    break;
                }
                in_flight.remove(&oldest);
                if missing.contains(&packet) {
                    again.push_back(packet);
                    if oldest >= recovered {
                        recovered = order;
                        threshold = (window * 0.7).max(2.0);
                        window = threshold;
                    }
                }
            }
        }
        all.push((detector.end_response(0), lost));
        now += 1.0;
    }
    all
}

/// Sends for six seconds at this rate, whatever is lost, so many packets at once, as bbr does: a quarter
/// faster in one round trip of eight, a quarter slower in the next. Returns what was found.
fn paced(path: Path, rate: f64, at_once: u64, seed: u64) -> Option<PolicedResponse> {
    let half = 0.03;
    let mut link = Link::new(path, half, Random(seed * 2 + 1));
    let mut random = Random(seed * 7 + 3);
    let mut detector = PolicerDetector::default();
    let (mut now, mut next, mut again) = (1.0_f64, 0_u64, VecDeque::new());
    let mut missing: BTreeSet<u64> = BTreeSet::new();
    // When, which packet, and whether it was lost.
    let mut known: BinaryHeap<Reverse<(i64, u64, bool)>> = BinaryHeap::new();
    while now < 7.0 {
        while let Some(&Reverse((at, packet, is_lost))) = known.peek()
            && (at as f64) < now * 1e9
        {
            known.pop();
            if is_lost {
                again.push_back(packet);
                continue;
            }
            missing.remove(&packet);
            let first = missing.first().copied().unwrap_or(next);
            let all = Sequence(first * u64::from(DATA));
            let here = Sequence(packet * u64::from(DATA));
            detector.acknowledged(all, at);
            if packet > first {
                detector.selectively_acknowledged(all, here, here.plus(DATA), at);
            }
        }
        let (from, count, kind) = match again.pop_front() {
            Some(packet) => (packet, 1, SegmentKind::FastRetransmission),
            None => (next, at_once, SegmentKind::New),
        };
        let bytes = DATA * count as u32;
        detector.sent(kind, Sequence(from * u64::from(DATA)), bytes, HEADERS, (now * 1e9) as i64);
        for packet in from..from + count {
            missing.insert(packet);
            let passed = link.carry(now);
            let at = passed.unwrap_or(now + half + 0.002) + half;
            known.push(Reverse(((at * 1e9) as i64, packet, passed.is_none())));
        }
        next = next.max(from + count);
        let gain = match ((now - 1.0) / (2.0 * half)) as u64 % 8 {
            0 => 1.25,
            1 => 0.75,
            _ => 1.0,
        };
        now += count as f64 * WIRE / (rate * gain) * (0.9 + 0.2 * random.share());
    }
    detector.end_response(0)
}

pub(super) const MEGABIT: f64 = 125_000.0;

#[test]
fn policers_are_found_with_their_rate() {
    for rate in [0.5, 1.5, 3.0, 10.0] {
        for bucket in [8e3, 30e3, 100e3, 1e6, 2e6] {
            let path = Path::Policer { rate: rate * MEGABIT, bucket };
            let (mut found, mut policed) = (0, 0);
            for seed in [3, 4, 5, 6, 7] {
                for (this, lost) in responses(path, 5, 1382, seed) {
                    policed += usize::from(lost > 0);
                    let Some(this) = this else { continue };
                    found += 1;
                    if let Some(found) = this.rate_bps {
                        let off = found as f64 / (rate * 1e6) - 1.0;
                        assert!(off.abs() < 0.03, "{path:?}: {this:?}");
                    }
                    let (low, high) = this.rate_range_bps;
                    assert!(
                        (low as f64) < rate * 1.02e6 && high as f64 > rate * 0.98e6,
                        "{path:?}: {this:?}"
                    );
                }
            }
            println!("{rate} Mbit/s, {bucket} bytes: {found} of {policed}");
            assert!(found * 10 >= policed * 7, "{path:?}: {found} of {policed}");
        }
    }
}

/// How often each path is tried; NETWHY_SEEDS times as often by hand.
pub(super) fn seeds(count: u64) -> u64 {
    std::env::var("NETWHY_SEEDS").ok().and_then(|times| times.parse::<u64>().ok()).unwrap_or(1)
        * count
}

fn assert_not_found(path: Path, seeds: u64) {
    for seed in 1..=seeds {
        for (number, (this, _)) in responses(path, 3, 1382, seed).into_iter().enumerate() {
            assert_eq!(this, None, "{path:?} seed {seed} response {number}");
        }
    }
}

#[test]
fn queues_are_no_policers() {
    for rate in [0.5, 1.5, 3.0, 10.0, 40.0] {
        let rate = rate * MEGABIT;
        for queue in [8e3, 20e3, 100e3, 1e6] {
            for bucket in [0.0, 5e3, queue / 2.0, queue] {
                assert_not_found(Path::Shaper { rate, bucket, queue, loss: 0.0 }, seeds(2));
            }
            assert_not_found(Path::Shaper { rate, bucket: 0.0, queue, loss: 0.01 }, seeds(2));
            assert_not_found(Path::SharedQueue { rate, queue }, seeds(2));
            assert_not_found(Path::EarlyDrop { rate, queue }, seeds(2));
        }
    }
}

#[test]
fn random_losses_are_no_policers() {
    for loss in [0.003, 0.005, 0.01, 0.02, 0.05] {
        assert_not_found(Path::RandomLoss { loss }, seeds(12));
    }
}

#[test]
fn losses_in_runs_are_no_policers() {
    let rate = 100.0 * MEGABIT;
    for (begin, end, loss) in [(0.0005, 0.02, 0.5), (0.001, 0.03, 0.5), (0.001, 0.05, 0.3)] {
        let path = Path::LossRuns { begin, end, loss };
        for at_once in [1, 2] {
            for seed in 1..=seeds(20) {
                let found = paced(path, rate, at_once, seed);
                assert_eq!(found, None, "{path:?} {at_once} seed {seed}");
            }
        }
        assert_not_found(path, seeds(10));
    }
    // The same sender before a policer: the losses of runs come at any level, these at one.
    let path = Path::Policer { rate: 22.0 * MEGABIT, bucket: 20e3 };
    let found = (1..=10).filter(|seed| paced(path, 20.0 * MEGABIT, 2, *seed).is_some()).count();
    assert!(found >= 9, "{found} of 10");
}

#[test]
fn outages_are_no_policers() {
    for (mean, duration) in [(0.5, 0.05), (1.0, 0.15), (0.73, 0.3), (2.0, 0.05)] {
        assert_not_found(Path::Outages { mean, duration }, seeds(10));
    }
}

#[test]
fn a_stream_without_losses_is_forgotten() {
    let found = responses(Path::RandomLoss { loss: 0.0 }, 2, 400, 1);
    assert!(found.iter().all(|(this, lost)| this.is_none() && *lost == 0));
    let mut detector = PolicerDetector::default();
    for number in 0..100_000_u64 {
        let at = number as i64 * 1_000_000;
        detector.sent(SegmentKind::New, Sequence(number * 1448), DATA, HEADERS, at);
        detector.acknowledged(Sequence(number * 1448), at);
    }
    assert!(detector.recorded().is_some_and(|size| size < 1024));
    assert_eq!(detector.end_response(0), None);
    assert_eq!(detector.recorded(), None);
}

#[test]
fn a_long_response_is_judged_in_parts() {
    let path = Path::Policer { rate: 3.0 * MEGABIT, bucket: 100e3 };
    let found = responses(path, 1, 20_000, 9);
    let this = found[0].0.expect("a policer");
    assert!(this.passed > 19_000 && this.lost > 100, "{this:?}");
    assert!(this.rate_bps.is_some_and(|rate| rate.abs_diff(3_000_000) < 60_000), "{this:?}");
}

proptest! {
    /// Nothing panics or overflows, whatever is called in whatever order.
    #[test]
    fn any_calls(calls in proptest::collection::vec(
        (0..8_u8, any::<u64>(), any::<u32>(), any::<u32>(), any::<i64>()), 0..300)
    ) {
        let mut detector = PolicerDetector::default();
        for (what, from, length, headers, at) in calls {
            drive(&mut detector, what, from, length, headers, at);
        }
        detector.end_response(0);
    }

    /// The same, nearer to what happens: small steps forward and back.
    #[test]
    fn likely_calls(calls in proptest::collection::vec(
        (0..40_u8, 0..200_u64, 1..3000_u32, 20..60_u32, -1_000_000..30_000_000_i64), 0..800)
    ) {
        let mut detector = PolicerDetector::default();
        let (mut next, mut now) = (0_u64, 0_i64);
        for (what, back, length, headers, step) in calls {
            now = now.saturating_add(step);
            let kind = what.min(7);
            let from = if kind == 7 { next } else { next.saturating_sub(back * 1448) };
            drive(&mut detector, kind, from, length, headers, now);
            if kind == 7 {
                next += u64::from(length);
            }
        }
        if let Some(this) = detector.end_response(0) {
            prop_assert!(this.lost > 0 && this.first_loss <= this.last_loss);
            prop_assert!(this.rate_range_bps.0 <= this.rate_range_bps.1);
        }
    }
}

fn drive(detector: &mut PolicerDetector, what: u8, from: u64, length: u32, headers: u32, at: i64) {
    let from = Sequence(from);
    match what {
        0 => detector.acknowledged(from, at),
        1 => detector.selectively_acknowledged(
            Sequence(u64::from(headers)),
            from,
            from.plus(length),
            at,
        ),
        2 if length.is_multiple_of(16) => {
            detector.end_response(0);
        }
        3 => detector.sent(SegmentKind::FastRetransmission, from, length, headers, at),
        4 => detector.sent(SegmentKind::RtoRetransmission, from, length, headers, at),
        5 => detector.sent(SegmentKind::OriginalNotCaptured, from, length, headers, at),
        6 => detector.sent(SegmentKind::NoData, from, length, headers, at),
        _ => detector.sent(SegmentKind::New, from, length, headers, at),
    }
}
