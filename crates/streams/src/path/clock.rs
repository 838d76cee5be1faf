//! How one clock differs from another, by what packets took one way and the other.
//!
//! The shortest time that packets took each way is that of the empty path, plus or minus the offset of
//! the clocks: half of the difference is the offset, if both ways are equally long (as NTP has it). A
//! clock that drifts tilts the lower edge of these times: the line under all of them that is nearest
//! to all is an edge of their lower convex hull (Moon, Skelly and Towsley 1999). A queue tilts one way
//! only, a clock both, the one up and the other down.

use crate::Nanos;

/// Intervals of which the shortest time is kept; beyond that, two become one.
const BINS: usize = 2048;
/// Length of the first of them.
const FIRST: Nanos = 1_000_000;
/// Shortest capture of which a drift is told.
const SHORTEST: Nanos = 5_000_000_000;
/// A quartz is off by less than 100 µs each second, a clock that is being set by 500 (`adjtime`).
const DRIFT: f64 = 1e-3;

/// The shortest time of each interval.
#[derive(Debug, Clone)]
pub(super) struct Minima {
    bins: Vec<Option<(Nanos, Nanos)>>,
    first: Option<Nanos>,
    width: Nanos,
    samples: u64,
}

impl Default for Minima {
    fn default() -> Self {
        Minima { bins: Vec::new(), first: None, width: FIRST, samples: 0 }
    }
}

impl Minima {
    /// A packet that left at this time took so long.
    pub(super) fn add(&mut self, at: Nanos, took: Nanos) {
        let first = *self.first.get_or_insert(at);
        self.samples += 1;
        let place = |width: Nanos| (at.saturating_sub(first).max(0) / width) as usize;
        while place(self.width) >= BINS {
            self.width *= 2;
            let pairs = self.bins.chunks(2).map(|two| {
                let both = two.iter().flatten().copied();
                both.min_by_key(|(_, took)| *took)
            });
            self.bins = pairs.collect();
        }
        let place = place(self.width);
        if self.bins.len() <= place {
            self.bins.resize(place + 1, None);
        }
        let bin = &mut self.bins[place];
        if bin.is_none_or(|(_, least)| took < least) {
            *bin = Some((at, took));
        }
    }

    fn points(&self) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        self.bins.iter().flatten().copied()
    }

    /// The shortest time of all, where the clock gains `slope` since `from`.
    fn least(&self, from: Nanos, slope: f64) -> Option<f64> {
        let level = |(at, took)| took as f64 - slope * since(at, from);
        self.points().map(level).min_by(f64::total_cmp)
    }

    /// How much these times grow a second of time, by the edge of the lower hull under their middle.
    fn slope(&self) -> Option<f64> {
        let mut points: Vec<(Nanos, Nanos)> = self.points().collect();
        points.sort_unstable();
        let (first, last) = (points.first()?.0, points.last()?.0);
        if last.saturating_sub(first) < SHORTEST || points.len() < 16 {
            return None;
        }
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for (at, took) in &points {
            let next = (since(*at, first), *took as f64);
            while let [.., a, b] = hull[..]
                && (b.0 - a.0) * (next.1 - a.1) <= (next.0 - a.0) * (b.1 - a.1)
            {
                hull.pop();
            }
            hull.push(next);
        }
        let middle = points.iter().map(|(at, _)| since(*at, first)).sum::<f64>();
        let middle = middle / points.len() as f64;
        let mut edges = hull.iter().zip(hull.iter().skip(1));
        let (a, b) = edges.find(|(a, b)| a.0 <= middle && middle <= b.0)?;
        (b.0 > a.0).then(|| (b.1 - a.1) / (b.0 - a.0))
    }
}

fn since(at: Nanos, from: Nanos) -> f64 {
    at.saturating_sub(from) as f64
}

/// How the clock of the second capture differs from that of the first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Clock {
    /// From this time of the first clock on.
    pub(super) from: Nanos,
    /// How far it was ahead then.
    pub(super) offset: f64,
    /// How much of each second it gains: 1e-6 is 1 µs.
    pub(super) slope: f64,
    /// Shortest times each way, in the first clock's time, by this estimate.
    pub(super) least: [f64; 2],
    /// Whether packets of both ways were seen.
    pub(super) both: bool,
    /// Whether a drift was seen, and how far both ways disagree on it.
    pub(super) drifts: bool,
    pub(super) disagree: Option<f64>,
}

impl Clock {
    /// From what packets took, as `second - first` clock: those that left at the first place; and
    /// those that left at the second, as `first - second`. `None` without packets.
    pub(super) fn of(ways: &[Minima; 2]) -> Option<Self> {
        let from = ways.iter().filter_map(|way| way.first).min()?;
        let slopes = [ways[0].slope(), ways[1].slope().map(|slope| -slope)];
        let mut clock = Clock { from, ..Clock::default() };
        if let [Some(there), Some(back)] = slopes {
            let (slope, disagree) = (f64::midpoint(there, back), (there - back).abs() / 2.0);
            clock.disagree = Some(disagree);
            if slope.abs() > 2.0 * disagree && slope.abs() < DRIFT {
                (clock.slope, clock.drifts) = (slope, true);
            }
        }
        let least = [ways[0].least(from, clock.slope), ways[1].least(from, -clock.slope)];
        clock.both = least.iter().all(Option::is_some);
        clock.offset = match least {
            [Some(there), Some(back)] => (there - back) / 2.0,
            [Some(there), None] => there,
            [None, Some(back)] => -back,
            [None, None] => return None,
        };
        let least =
            [least[0].map(|way| way - clock.offset), least[1].map(|way| way + clock.offset)];
        clock.least = least.map(Option::unwrap_or_default);
        Some(clock)
    }

    /// A time of the second clock in that of the first.
    pub(super) fn to_first(self, at: Nanos) -> Nanos {
        let rough = since(at, self.from) - self.offset;
        at.saturating_sub((self.offset + self.slope * rough) as Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Times one way of 12 ms and the other of 8, a clock that is 1 hour ahead and gains `ppm`, and
    /// queues now and then.
    fn ways(seconds: i64, ppm: f64, queue: impl Fn(i64) -> Nanos) -> [Minima; 2] {
        let mut ways = [Minima::default(), Minima::default()];
        for step in 0..seconds * 100 {
            let at = step * 10 * MS;
            let ahead = 3_600_000 * MS + (at as f64 * ppm * 1e-6) as Nanos;
            ways[0].add(at, 12 * MS + ahead + queue(step));
            // This one left by the second clock.
            ways[1].add(at, 8 * MS - ahead + queue(step * 7 + 3));
        }
        ways
    }

    #[test]
    fn an_offset_within_half_of_the_round_trip_and_a_drift() {
        let queue = |step: i64| (step * 7919 % 97) * MS / 5;
        let clock = Clock::of(&ways(60, 40.0, queue)).expect("packets");
        assert!((clock.offset - 3_600_002e6).abs() < 0.3e6, "{clock:?}");
        assert!((clock.least[0] + clock.least[1] - 20e6).abs() < 1e6, "{clock:?}");
        assert!(clock.drifts && (clock.slope * 1e6 - 40.0).abs() < 4.0, "{clock:?}");
        let clock = Clock::of(&ways(60, 0.0, queue)).expect("packets");
        assert!(!clock.drifts && (clock.offset - 3_600_002e6).abs() < 0.1e6, "{clock:?}");
        let clock = Clock::of(&ways(3, 40.0, queue)).expect("packets");
        assert!(!clock.drifts && clock.disagree.is_none(), "too short: {clock:?}");
    }

    #[test]
    fn a_queue_that_fills_one_way_is_no_drift() {
        let mut both = ways(60, 0.0, |_| 0);
        both[0] = Minima::default();
        for step in 0..6_000 {
            both[0].add(step * 10 * MS, 3_600_012 * MS + step * 20_000);
        }
        let clock = Clock::of(&both).expect("packets");
        assert!(!clock.drifts, "{clock:?}");
        assert!((clock.offset - 3_600_002e6).abs() < 0.1e6, "{clock:?}");
    }

    #[test]
    fn times_of_the_second_clock_are_told_in_the_first() {
        let clock = Clock { from: 1_000, offset: 5e9, slope: 1e-4, ..Clock::default() };
        let at = 100_000_000_000;
        let second = at + 5_000_000_000 + ((at - 1_000) as f64 * 1e-4) as Nanos;
        assert!((clock.to_first(second) - at).abs() < 2_000, "{}", clock.to_first(second) - at);
        assert_eq!(Clock::default().to_first(Nanos::MIN), Nanos::MIN);
    }
}
