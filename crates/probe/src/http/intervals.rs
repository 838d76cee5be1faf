//! Responses over time, in a bounded number of intervals of equal length.

use model::HttpInterval;

/// Most intervals; with more, adjacent ones are merged.
const MAX_INTERVALS: usize = 600;

/// Intervals of a load.
#[derive(Debug)]
pub(super) struct Intervals {
    /// Length of each, nanoseconds.
    width_ns: u64,
    all: Vec<HttpInterval>,
}

impl Default for Intervals {
    fn default() -> Self {
        Intervals { width_ns: 1_000_000_000, all: Vec::new() }
    }
}

impl Intervals {
    /// Counts in the interval of this time, nanoseconds since the start of the load.
    pub(super) fn count(&mut self, at: u64, count: impl FnOnce(&mut HttpInterval)) {
        while (at / self.width_ns) as usize >= MAX_INTERVALS {
            self.double_width();
        }
        let index = (at / self.width_ns) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, HttpInterval::default());
        }
        if let Some(interval) = self.all.get_mut(index) {
            count(interval);
        }
    }

    fn double_width(&mut self) {
        let pairs = self.all.chunks(2).map(|pair| {
            let mut sum = HttpInterval::default();
            pair.iter().for_each(|interval| add(&mut sum, interval));
            sum
        });
        self.all = pairs.collect();
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// Adds those of another thread.
    pub(super) fn add(&mut self, mut other: Intervals) {
        while self.width_ns < other.width_ns {
            self.double_width();
        }
        while other.width_ns < self.width_ns {
            other.double_width();
        }
        if self.all.len() < other.all.len() {
            self.all.resize(other.all.len(), HttpInterval::default());
        }
        for (sum, interval) in self.all.iter_mut().zip(&other.all) {
            add(sum, interval);
        }
    }

    /// The intervals with their times, for a load of this duration.
    pub(super) fn into_result(mut self, duration_s: f64) -> Vec<HttpInterval> {
        let width_s = self.width_ns as f64 / 1e9;
        for (index, interval) in self.all.iter_mut().enumerate() {
            interval.from_s = index as f64 * width_s;
            interval.duration_s = width_s.min((duration_s - interval.from_s).max(0.0));
        }
        self.all
    }
}

fn add(sum: &mut HttpInterval, interval: &HttpInterval) {
    sum.requests += interval.requests;
    sum.bytes += interval.bytes;
    sum.errors += interval.errors;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_fit_into_a_bounded_number_of_intervals() {
        let mut intervals = Intervals::default();
        for second in 0..10_000_u64 {
            intervals.count(second * 1_000_000_000, |interval| interval.requests += 1);
        }
        let all = intervals.into_result(10_000.0);
        assert!(all.len() <= MAX_INTERVALS, "{}", all.len());
        assert_eq!(all.iter().map(|interval| interval.requests).sum::<u64>(), 10_000);
        assert_eq!(all[1].from_s, all[0].duration_s);
    }

    #[test]
    fn intervals_of_different_width_are_added() {
        let (mut long, mut short) = (Intervals::default(), Intervals::default());
        long.count(700 * 1_000_000_000, |interval| interval.requests += 1);
        short.count(3_000_000_000, |interval| interval.requests += 1);
        short.add(long);
        let all = short.into_result(701.0);
        assert_eq!(all[1].requests, 1, "second 3 is in the second pair");
        assert_eq!(all.last().unwrap().requests, 1);
    }
}
