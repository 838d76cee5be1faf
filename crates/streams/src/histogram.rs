//! Durations counted by their size: quantiles of millions in the room of 128 numbers.

use crate::time::Nanos;

/// How many durations fell into each step: four steps an octave, from 16 µs to 19 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeHistogram {
    counts: [u32; STEPS],
}

const STEPS: usize = 128;
/// Octave of the first step: 2^14 ns, 16 µs.
const FIRST_OCTAVE: u32 = 14;

impl Default for TimeHistogram {
    fn default() -> Self {
        TimeHistogram { counts: [0; STEPS] }
    }
}

impl TimeHistogram {
    /// The step into which a duration falls.
    pub(crate) fn step_of(time: Nanos) -> u8 {
        let time = time.max(1 << FIRST_OCTAVE).cast_unsigned();
        let octave = time.ilog2();
        let step = (octave - FIRST_OCTAVE) * 4 + ((time >> (octave - 2)) & 3) as u32;
        step.min(STEPS as u32 - 1) as u8
    }

    /// Counts a duration.
    pub(crate) fn add(&mut self, time: Nanos) {
        self.add_to_step(Self::step_of(time), 1);
    }

    /// Counts so many durations of one step.
    pub(crate) fn add_to_step(&mut self, step: u8, more: u32) {
        if let Some(count) = self.counts.get_mut(usize::from(step)) {
            *count = count.saturating_add(more);
        }
    }

    /// Adds the durations of another histogram.
    pub(crate) fn merge(&mut self, other: &TimeHistogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// The duration below which this share of all lies, microseconds: the middle of its step.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        // Neither sum can overflow: there are a few dozen numbers of 32 bits.
        let sum = |sum: u64, count: &u32| sum.wrapping_add(u64::from(*count));
        let all = self.counts.iter().fold(0, sum);
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0u64;
        let step = self.counts.iter().position(|count| {
            below = sum(below, count);
            below >= wanted
        })?;
        let (octave, quarter) = (step as u32 / 4 + FIRST_OCTAVE, step as u64 % 4);
        let from = (4 + quarter) << (octave - 2);
        Some((from + (1 << (octave - 3))) / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step() {
        let mut times = TimeHistogram::default();
        assert_eq!(times.quantile(0.5), None);
        for millis in 1..=1000 {
            times.add(millis * 1_000_000);
        }
        for (share, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.01, 10_000.0)] {
            let found = times.quantile(share).expect("a time") as f64;
            assert!((found / exact - 1.0).abs() < 0.15, "{share}: {found} for {exact}");
        }
        times.add(Nanos::MIN);
        times.add(Nanos::MAX);
        assert!(times.quantile(1.0).is_some_and(|longest| longest > 60_000_000_000));
    }
}
