//! How one clock differs from another, by what packets took in each direction.
//!
//! The shortest time that packets took in each direction is that of the empty path, plus or minus the
//! offset of the clocks: half of the difference is the offset, if both directions are equally long (as
//! in NTP). A clock that drifts tilts the lower edge of these times: of the lines below all of them,
//! the one nearest to all is an edge of their lower convex hull (Moon, Skelly and Towsley 1999). A
//! queue tilts one direction only, a clock both, one up and the other down.

use model::Side;

use crate::ends::Ends;
use crate::time::Nanos;

/// Intervals whose shortest time is kept; beyond that, two become one.
const MAX_INTERVALS: usize = 2048;
/// Length of an interval at first.
const FIRST_WIDTH: Nanos = 1_000_000;
/// Shortest capture, and fewest points, of which a drift is reported.
const MIN_DRIFT_TIME: Nanos = 5_000_000_000;
const MIN_DRIFT_POINTS: usize = 16;
/// A quartz is off by less than 100 µs each second, a clock that is being set by 500 (`adjtime`).
const MAX_DRIFT: f64 = 1e-3;

/// The shortest time of each interval, for packets of one direction.
#[derive(Debug, Clone)]
pub(super) struct MinTransitTimes {
    intervals: Vec<Option<TransitTime>>,
    first: Option<Nanos>,
    width: Nanos,
}

/// A packet that left at this time took so long, by clocks that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TransitTime {
    left_at: Nanos,
    took: Nanos,
}

impl Default for MinTransitTimes {
    fn default() -> Self {
        MinTransitTimes { intervals: Vec::new(), first: None, width: FIRST_WIDTH }
    }
}

impl MinTransitTimes {
    /// A packet that left at this time took so long.
    pub(super) fn add(&mut self, left_at: Nanos, took: Nanos) {
        let first = *self.first.get_or_insert(left_at);
        let place = |width: Nanos| (left_at.saturating_sub(first).max(0) / width) as usize;
        while place(self.width) >= MAX_INTERVALS {
            self.width = self.width.saturating_mul(2);
            let pairs = self.intervals.chunks(2).map(|two| {
                let both = two.iter().flatten().copied();
                both.min_by_key(|time| time.took)
            });
            self.intervals = pairs.collect();
        }
        let place = place(self.width);
        if self.intervals.len() <= place {
            self.intervals.resize(place + 1, None);
        }
        if let Some(min) = self.intervals.get_mut(place)
            && min.is_none_or(|min| took < min.took)
        {
            *min = Some(TransitTime { left_at, took });
        }
    }

    fn points(&self) -> impl Iterator<Item = TransitTime> + '_ {
        self.intervals.iter().flatten().copied()
    }

    /// The shortest time of all, if the clock gains `slope` since `from`.
    fn min(&self, from: Nanos, slope: f64) -> Option<f64> {
        let corrected = |time: TransitTime| time.took as f64 - slope * between(from, time.left_at);
        self.points().map(corrected).min_by(f64::total_cmp)
    }

    /// How much these times grow each second, by the edge of the lower hull below their middle.
    fn slope(&self) -> Option<f64> {
        let mut points: Vec<TransitTime> = self.points().collect();
        points.sort_unstable();
        let (first, last) = (points.first()?.left_at, points.last()?.left_at);
        if last.saturating_sub(first) < MIN_DRIFT_TIME || points.len() < MIN_DRIFT_POINTS {
            return None;
        }
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for point in &points {
            let next = (between(first, point.left_at), point.took as f64);
            while let [.., a, b] = hull.as_slice()
                && (b.0 - a.0) * (next.1 - a.1) <= (next.0 - a.0) * (b.1 - a.1)
            {
                hull.pop();
            }
            hull.push(next);
        }
        let middle = points.iter().map(|point| between(first, point.left_at)).sum::<f64>();
        let middle = middle / points.len() as f64;
        let mut edges = hull.iter().zip(hull.iter().skip(1));
        let (a, b) = edges.find(|(a, b)| a.0 <= middle && middle <= b.0)?;
        (b.0 > a.0).then(|| (b.1 - a.1) / (b.0 - a.0))
    }
}

fn between(from: Nanos, to: Nanos) -> f64 {
    to.saturating_sub(from) as f64
}

/// How the clock of the server's capture differs from that of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ClockDifference {
    /// From this time of the client's clock on.
    pub(super) from: Nanos,
    /// How far the server's clock was ahead then, nanoseconds.
    pub(super) offset: f64,
    /// How much of each second it gains: 1e-6 is 1 µs.
    pub(super) slope: f64,
    /// Shortest times of packets that left at each capture, nanoseconds of the client's clock, by
    /// this estimate.
    pub(super) min: Ends<f64>,
    /// Whether packets of both directions were in both captures.
    pub(super) has_both_directions: bool,
    /// Whether the clock drifts, and how far both directions disagree on it.
    pub(super) drifts: bool,
    pub(super) disagreement: Option<f64>,
}

impl ClockDifference {
    /// From what packets took that left at each capture: the time of their arrival by the other clock
    /// less that of leaving; both at the client's time. `None` without packets.
    pub(super) fn of(times: &Ends<MinTransitTimes>) -> Option<Self> {
        let from = times.iter().filter_map(|direction| direction.first).min()?;
        let mut clock = ClockDifference { from, ..ClockDifference::default() };
        let slopes = Ends { client: times.client.slope(), server: times.server.slope() };
        if let Some(slopes) = slopes.both() {
            let (there, back) = (slopes.client, -slopes.server);
            let (slope, disagreement) = (f64::midpoint(there, back), (there - back).abs() / 2.0);
            clock.disagreement = Some(disagreement);
            if slope.abs() > 2.0 * disagreement && slope.abs() < MAX_DRIFT {
                (clock.slope, clock.drifts) = (slope, true);
            }
        }
        let there = times.client.min(from, clock.slope);
        let back = times.server.min(from, -clock.slope);
        clock.has_both_directions = there.is_some() && back.is_some();
        clock.offset = match (there, back) {
            (Some(there), Some(back)) => (there - back) / 2.0,
            (Some(there), None) => there,
            (None, Some(back)) => -back,
            (None, None) => return None,
        };
        clock.min = Ends {
            client: there.map_or(0.0, |there| there - clock.offset),
            server: back.map_or(0.0, |back| back + clock.offset),
        };
        Some(clock)
    }

    /// A time of one capture's clock by the client's.
    pub(super) fn to_client(self, vantage: Side, at: Nanos) -> Nanos {
        match vantage {
            Side::Client => at,
            Side::Server => {
                let rough = between(self.from, at) - self.offset;
                at.saturating_sub((self.offset + self.slope * rough) as Nanos)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Times of 12 ms in one direction and of 8 in the other, a clock that is 1 hour ahead and gains
    /// `ppm`, and queues now and then.
    fn times(seconds: i64, ppm: f64, queue: impl Fn(i64) -> Nanos) -> Ends<MinTransitTimes> {
        let mut times: Ends<MinTransitTimes> = Ends::default();
        for step in 0..seconds * 100 {
            let at = step * 10 * MS;
            let ahead = 3_600_000 * MS + (at as f64 * ppm * 1e-6) as Nanos;
            times.client.add(at, 12 * MS + ahead + queue(step));
            // This one left by the server's clock.
            times.server.add(at, 8 * MS - ahead + queue(step * 7 + 3));
        }
        times
    }

    #[test]
    fn an_offset_within_half_of_the_round_trip_and_a_drift() {
        let queue = |step: i64| (step * 7919 % 97) * MS / 5;
        let clock = ClockDifference::of(&times(60, 40.0, queue)).expect("packets");
        assert!((clock.offset - 3_600_002e6).abs() < 0.3e6, "{clock:?}");
        assert!((clock.min.client + clock.min.server - 20e6).abs() < 1e6, "{clock:?}");
        assert!(clock.drifts && (clock.slope * 1e6 - 40.0).abs() < 4.0, "{clock:?}");
        let clock = ClockDifference::of(&times(60, 0.0, queue)).expect("packets");
        assert!(!clock.drifts && (clock.offset - 3_600_002e6).abs() < 0.1e6, "{clock:?}");
        let clock = ClockDifference::of(&times(3, 40.0, queue)).expect("packets");
        assert!(!clock.drifts && clock.disagreement.is_none(), "too short: {clock:?}");
    }

    #[test]
    fn a_queue_that_fills_in_one_direction_is_no_drift() {
        let mut both = times(60, 0.0, |_| 0);
        both.client = MinTransitTimes::default();
        for step in 0..6_000 {
            both.client.add(step * 10 * MS, 3_600_012 * MS + step * 20_000);
        }
        let clock = ClockDifference::of(&both).expect("packets");
        assert!(!clock.drifts, "{clock:?}");
        assert!((clock.offset - 3_600_002e6).abs() < 0.1e6, "{clock:?}");
    }

    #[test]
    fn times_of_the_servers_clock_are_converted_to_the_clients() {
        let clock = ClockDifference { from: 1_000, offset: 5e9, slope: 1e-4, ..Default::default() };
        let at = 100_000_000_000;
        let second = at + 5_000_000_000 + ((at - 1_000) as f64 * 1e-4) as Nanos;
        let converted = clock.to_client(Side::Server, second);
        assert!((converted - at).abs() < 2_000, "{}", converted - at);
        let same = ClockDifference::default().to_client(Side::Server, Nanos::MIN);
        assert_eq!(same, Nanos::MIN);
    }
}
