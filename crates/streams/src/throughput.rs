//! The throughput of a bulk transfer over time, and its round trip: a token bucket with a queue (a
//! shaper) lets a burst pass, then holds the throughput to its rate, and everything above it waits.
//!
//! The sign is a step: from one moment on, the throughput is a third of what it was or less, and
//! even; and the round trip, which was short, is long. A throughput that falls because other
//! traffic came is not even, and a link that was always the bottleneck had its queue before, too.

use crate::time::Nanos;

/// New bytes from which on a direction counts as a bulk transfer.
pub(crate) const BULK_BYTES: u64 = 1 << 20;
/// Intervals that are kept.
const MAX_INTERVALS: usize = 64;
/// Length of an interval at first.
const FIRST_WIDTH: Nanos = 20_000_000;
/// Fewest intervals before the step, and after it.
const MIN_INTERVALS_BEFORE: usize = 3;
const MIN_INTERVALS_AFTER: usize = 8;
/// The throughput falls by this factor at least.
const MIN_FALL: f64 = 3.0;
/// The round trip grows by this factor, and by so many microseconds, at least.
const MIN_ROUND_TRIP_GROWTH: f64 = 5.0;
const MIN_QUEUE_DELAY_US: f64 = 20_000.0;
/// An even throughput deviates by no more than this share of it (standard deviation).
const MAX_DEVIATION: f64 = 0.2;

/// A throughput that fell to the rate of a token bucket with a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapedThroughput {
    /// Throughput before, bytes a second.
    pub before: f64,
    /// Rate that it was held to, bytes a second.
    pub rate: f64,
    /// Bytes above that rate that passed before: the burst.
    pub burst: u64,
    /// Median round trip before, microseconds.
    pub round_trip_before_us: u64,
    /// Median round trip after, microseconds.
    pub round_trip_after_us: u64,
    /// Time from the first megabyte to the step.
    pub after: Nanos,
    /// Time from the step to the end.
    pub duration: Nanos,
}

#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    bytes: u64,
    round_trip_us: u32,
}

/// Throughput of one direction.
#[derive(Debug, Clone)]
pub(crate) struct Throughput {
    intervals: [Interval; MAX_INTERVALS],
    /// How many of them are in use; at least one.
    used: usize,
    width: Nanos,
    /// When the last of them began.
    began: Nanos,
}

impl Throughput {
    pub(crate) fn new(at: Nanos) -> Self {
        let intervals = [Interval::default(); MAX_INTERVALS];
        Throughput { intervals, used: 1, width: FIRST_WIDTH, began: at }
    }

    /// New data passes, while the round trip is this long.
    #[inline]
    pub(crate) fn data(&mut self, bytes: u64, at: Nanos, round_trip: Nanos) {
        while at.saturating_sub(self.began) >= self.width {
            self.next_interval(at);
        }
        if let Some(interval) = self.intervals.get_mut(self.used.saturating_sub(1)) {
            interval.bytes = interval.bytes.saturating_add(bytes);
            interval.round_trip_us = u32::try_from(round_trip / 1_000).unwrap_or(0);
        }
    }

    fn next_interval(&mut self, at: Nanos) {
        // An idle time longer than all that is kept: it starts again.
        if at.saturating_sub(self.began) / self.width > MAX_INTERVALS as Nanos {
            *self = Throughput::new(at);
            return;
        }
        if self.used == MAX_INTERVALS {
            let (all, _) = self.intervals.as_chunks::<2>();
            let mut merged = [Interval::default(); MAX_INTERVALS];
            for (merged, [a, b]) in merged.iter_mut().zip(all) {
                let bytes = a.bytes.saturating_add(b.bytes);
                let round_trip_us = b.round_trip_us.max(a.round_trip_us);
                *merged = Interval { bytes, round_trip_us };
            }
            self.intervals = merged;
            self.used = MAX_INTERVALS / 2;
            self.width = self.width.saturating_mul(2);
            // The last one goes on for its second half.
            self.began = self.began.saturating_sub(self.width / 2);
            return;
        }
        self.began = self.began.saturating_add(self.width);
        self.used += 1;
    }

    /// Whether the throughput fell to the rate of a token bucket with a queue.
    pub(crate) fn shaped(&self) -> Option<ShapedThroughput> {
        // The last interval is not over.
        let intervals = self.intervals.get(..self.used.saturating_sub(1))?;
        let (_, busy) = split_after(intervals, |interval| interval.bytes == 0);
        let max_step = busy.len().checked_sub(MIN_INTERVALS_AFTER)?;
        let explained = |step: &usize| {
            let (before, after) = busy.split_at_checked(*step).unwrap_or((busy, &[]));
            // How much of the variance the step explains.
            let weight = before.len() as f64 * after.len() as f64;
            (mean_bytes(before) - mean_bytes(after)).max(0.0).powi(2) * weight
        };
        let step = (MIN_INTERVALS_BEFORE..=max_step)
            .max_by(|a, b| explained(a).total_cmp(&explained(b)))?;
        // The queue fills while the throughput falls: that interval belongs to neither side.
        let (before, [_, after @ ..]) = busy.split_at_checked(step)? else { return None };
        let (fast, slow) = (mean_bytes(before), mean_bytes(after));
        let is_even = {
            let squares =
                after.iter().map(|interval| (interval.bytes as f64 - slow).powi(2)).sum::<f64>();
            (squares / after.len().max(1) as f64).sqrt() <= MAX_DEVIATION * slow
        };
        let (short, long) = (median_round_trip_us(before), median_round_trip_us(after));
        let is_longer = long >= MIN_ROUND_TRIP_GROWTH * short
            && long >= short + MIN_QUEUE_DELAY_US
            && short > 0.0;
        if slow <= 0.0 || fast < MIN_FALL * slow || !is_even || !is_longer {
            return None;
        }
        let intervals_a_second = 1e9 / self.width as f64;
        Some(ShapedThroughput {
            before: fast * intervals_a_second,
            rate: slow * intervals_a_second,
            burst: BULK_BYTES.saturating_add(((fast - slow) * step as f64) as u64),
            round_trip_before_us: short as u64,
            round_trip_after_us: long as u64,
            after: self.width.saturating_mul(step as Nanos),
            duration: self.width.saturating_mul((busy.len() - step) as Nanos),
        })
    }
}

/// The part up to the last interval for which this is true, that one included, and the rest.
fn split_after(
    intervals: &[Interval],
    holds: impl Fn(&Interval) -> bool,
) -> (&[Interval], &[Interval]) {
    let place = intervals.iter().rposition(holds).map_or(0, |place| place + 1);
    intervals.split_at_checked(place).unwrap_or((intervals, &[]))
}

fn mean_bytes(intervals: &[Interval]) -> f64 {
    let bytes = intervals.iter().map(|interval| interval.bytes).fold(0, u64::saturating_add);
    bytes as f64 / intervals.len().max(1) as f64
}

fn median_round_trip_us(intervals: &[Interval]) -> f64 {
    let times = intervals.iter().map(|interval| interval.round_trip_us);
    let mut times: Vec<u32> = times.filter(|us| *us > 0).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer that sends each millisecond the bytes that `of` gives, with a round trip in ms.
    fn transfer(millis: i64, of: impl Fn(i64) -> (u64, i64)) -> Option<ShapedThroughput> {
        let mut throughput = Throughput::new(0);
        for milli in 0..millis {
            let (bytes, round_trip) = of(milli);
            throughput.data(bytes, milli * 1_000_000, round_trip * 1_000_000);
        }
        throughput.shaped()
    }

    #[test]
    fn a_burst_that_ends_in_a_queue_is_a_shaper() {
        let shaped = transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 60) });
        let shaped = shaped.expect("a step");
        assert!((shaped.rate / 5e6 - 1.0).abs() < 0.02, "{shaped:?}");
        assert!((shaped.before / 25e6 - 1.0).abs() < 0.1, "{shaped:?}");
        // 20 MB a second for 1.5 s, and the megabyte before.
        assert!((shaped.burst as f64 / 31e6 - 1.0).abs() < 0.1, "{shaped:?}");
        let (before, after) = (shaped.round_trip_before_us, shaped.round_trip_after_us);
        assert!(before <= 1_000 && after == 60_000, "{shaped:?}");
    }

    #[test]
    fn no_shaper_without_a_step_of_both_and_an_even_throughput() {
        assert_eq!(transfer(6_000, |_| (5_000, 60)), None, "a link with a queue");
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 1) }), None);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (8_000, 1) } else { (5_000, 60) }), None);
        let uneven = |at| (if at / 400 % 2 == 0 { 8_000 } else { 2_000 }, 60);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { uneven(at) }), None);
        assert_eq!(transfer(200, |at| if at < 100 { (25_000, 1) } else { (5_000, 60) }), None);
    }

    #[test]
    fn idle_times_and_clocks_that_jump_do_no_harm() {
        let mut throughput = Throughput::new(0);
        for at in [0, 1, i64::MAX / 2, -5, i64::MIN / 2, 7, i64::MAX / 2] {
            throughput.data(u64::MAX, at, i64::MAX);
        }
        throughput.shaped();
    }
}
