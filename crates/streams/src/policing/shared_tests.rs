//! Several small senders in virtual time, over one path.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use super::tests::{DATA, HEADERS, Link, MEGABIT, Path, Random, seeds};
use super::{Losses, PolicedResponse, PolicerDetector, shared_bucket};
use crate::segment::SegmentKind;
use crate::sequence::Sequence;

/// One of the senders: slow start, congestion avoidance, fast retransmission, timeouts.
struct Sender {
    detector: PolicerDetector,
    /// Way that its packets have beside the shared one, there and back, seconds.
    way: f64,
    window: f64,
    threshold: f64,
    next: u64,
    end: u64,
    /// Transmissions in flight: order and packet.
    in_flight: BTreeMap<u64, u64>,
    missing: BTreeSet<u64>,
    again: VecDeque<u64>,
    /// Transmissions so far.
    order: u64,
    recovered: u64,
    /// Acknowledgements on their way.
    coming: u32,
    wait: f64,
}

/// Nanoseconds, sender, packet, order; a timeout has order `u64::MAX`.
type Event = Reverse<(i64, usize, u64, u64)>;

impl Sender {
    fn send(&mut self, number: usize, now: f64, link: &mut Link) -> Vec<Event> {
        let (mut events, mut at) = (Vec::new(), now);
        while (self.in_flight.len() as f64) < self.window
            && (self.next < self.end || !self.again.is_empty())
        {
            at += 0.000_001;
            let (packet, kind) = match self.again.pop_front() {
                Some(packet) => (packet, SegmentKind::FastRetransmission),
                None => (self.next, SegmentKind::New),
            };
            self.next += u64::from(kind == SegmentKind::New);
            let from = Sequence(packet * u64::from(DATA));
            self.detector.sent(kind, from, DATA, HEADERS, (at * 1e9) as i64);
            self.in_flight.insert(self.order, packet);
            if let Some(arrived) = link.carry(at) {
                let back = ((arrived + link.half + self.way) * 1e9) as i64;
                events.push(Reverse((back, number, packet, self.order)));
                self.coming += 1;
            }
            self.order += 1;
        }
        if self.coming == 0 && !self.missing.is_empty() {
            let at = ((at + self.wait) * 1e9) as i64;
            events.push(Reverse((at, number, 0, u64::MAX)));
            self.wait = (self.wait * 2.0).min(3.0);
        }
        events
    }

    fn time_out(&mut self) {
        self.again.extend(std::mem::take(&mut self.in_flight).into_values());
        self.again.retain(|packet| self.missing.contains(packet));
        (self.threshold, self.window) = ((self.window / 2.0).max(2.0), 1.0);
    }

    fn acknowledged(&mut self, at: i64, packet: u64, number: u64) {
        self.coming -= 1;
        self.wait = 0.3;
        self.in_flight.remove(&number);
        self.missing.remove(&packet);
        let first = self.missing.first().copied().unwrap_or(self.end).min(self.next);
        let here = Sequence(packet * u64::from(DATA));
        let all = Sequence(first * u64::from(DATA));
        self.detector.acknowledged(all, at);
        if packet > first {
            self.detector.selectively_acknowledged(all, here, here.plus(DATA), at);
        }
        self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        while let Some((&oldest, &packet)) = self.in_flight.first_key_value() {
            // Three later ones have arrived: lost.
            if oldest + 3 > number {
                break;
            }
            self.in_flight.remove(&oldest);
            if self.missing.contains(&packet) {
                self.again.push_back(packet);
                if oldest >= self.recovered {
                    self.recovered = self.order;
                    self.threshold = (self.window * 0.7).max(2.0);
                    self.window = self.threshold;
                }
            }
        }
    }
}

/// What is found of senders that begin one after the other, so many seconds apart: of each alone, and
/// of all of them together.
fn transfers(
    path: Path,
    ways: &[f64],
    apart: f64,
    packets: u64,
    seed: u64,
) -> (Vec<Option<PolicedResponse>>, Option<Vec<PolicedResponse>>) {
    let half = if seed.is_multiple_of(2) { 0.004 } else { 0.03 };
    let mut link = Link::new(path, half, Random(seed * 2 + 1));
    let sender = |way: &f64| Sender {
        detector: PolicerDetector::default(),
        way: *way,
        window: 10.0,
        threshold: f64::INFINITY,
        next: 0,
        end: packets,
        in_flight: BTreeMap::new(),
        missing: (0..packets).collect(),
        again: VecDeque::new(),
        order: 0,
        recovered: 0,
        coming: 0,
        wait: 0.3,
    };
    let mut senders: Vec<Sender> = ways.iter().map(sender).collect();
    let start = |number| ((1.0 + apart * number as f64) * 1e9) as i64;
    let mut events: BinaryHeap<Event> =
        (0..ways.len()).map(|number| Reverse((start(number), number, 0, u64::MAX))).collect();
    while let Some(Reverse((at, number, packet, sent))) = events.pop() {
        let sender = &mut senders[number];
        match sent {
            u64::MAX if sender.next == 0 => {}
            u64::MAX => sender.time_out(),
            sent => sender.acknowledged(at, packet, sent),
        }
        events.extend(sender.send(number, at as f64 * 1e-9, &mut link));
    }
    let alone = senders.iter_mut().map(|sender| sender.detector.end_response(0)).collect();
    let losses: Vec<Box<Losses>> =
        senders.iter_mut().filter_map(|sender| sender.detector.take_losses()).collect();
    let losses: Vec<&Losses> = losses.iter().map(|losses| &**losses).collect();
    (alone, (losses.len() == ways.len()).then(|| shared_bucket(&losses)).flatten())
}

#[test]
fn senders_that_share_a_policer_find_its_rate_together() {
    for (rate, packets) in [(0.256, 300), (1.5, 1_000), (10.0, 3_000), (100.0, 8_000)] {
        for bucket in [30e3, 200e3] {
            let path = Path::Policer { rate: rate * MEGABIT, bucket };
            let (mut named, mut of) = (0, 0);
            for (ways, apart) in [(&[0.0, 0.0][..], 0.1), (&[0.0, 0.03], 0.4), (&[0.0; 3], 0.05)] {
                for seed in 1..=4 {
                    let (alone, together) = transfers(path, ways, apart, packets, seed);
                    let is_named = together.is_some() || alone.iter().all(Option::is_some);
                    (named, of) = (named + u32::from(is_named), of + 1);
                    for found in together.iter().flatten() {
                        assert!(found.lost > 0 && found.first_loss <= found.last_loss, "{found:?}");
                        let (low, high) = found.rate_range_bps;
                        assert!(
                            (low as f64) < rate * 1.03e6 && high as f64 > rate * 0.97e6,
                            "{path:?}: {found:?}"
                        );
                    }
                }
            }
            println!("{rate} Mbit/s, {bucket} bytes: {named} of {of}");
            // A bucket that 2.4 ms empty is no deeper than queues that nobody sees.
            assert!(named * 10 >= of * 9 || bucket < 0.005 * rate * MEGABIT, "{path:?}: {named}");
        }
    }
}

#[test]
fn queues_and_random_losses_of_several_senders_are_no_policer() {
    let rate = 3.0 * MEGABIT;
    let paths = [
        Path::Shaper { rate, bucket: 0.0, queue: 20e3, loss: 0.0 },
        Path::Shaper { rate, bucket: 100e3, queue: 100e3, loss: 0.0 },
        Path::Shaper { rate: 40.0 * MEGABIT, bucket: 0.0, queue: 100e3, loss: 0.01 },
        Path::EarlyDrop { rate, queue: 100e3 },
        Path::SharedQueue { rate: 10.0 * MEGABIT, queue: 100e3 },
        Path::RandomLoss { loss: 0.01 },
        Path::RandomLoss { loss: 0.05 },
        Path::Outages { mean: 0.5, duration: 0.05 },
        Path::LossRuns { begin: 0.0025, end: 0.2, loss: 0.8 },
        Path::LossRuns { begin: 0.001, end: 0.03, loss: 0.5 },
    ];
    for path in paths {
        for seed in 1..=seeds(6) {
            let (_, together) = transfers(path, &[0.0, 0.02], 0.1, 1_000, seed);
            assert_eq!(together, None, "{path:?} seed {seed}");
        }
    }
}
