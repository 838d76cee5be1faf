//! Times, counted by their size: quantiles of millions in the room of 128 numbers.

use crate::Nanos;

/// How many times there were in each step: four steps an octave, from 16 µs to 19 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Histogram(pub(crate) [u32; STEPS]);

const STEPS: usize = 128;
/// 2^14 ns, 16 µs.
const SHORTEST: u32 = 14;

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; STEPS])
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Nanos) {
        let time = time.max(1 << SHORTEST).cast_unsigned();
        let octave = time.ilog2();
        let step = (octave - SHORTEST) * 4 + ((time >> (octave - 2)) & 3) as u32;
        let count = &mut self.0[(step as usize).min(STEPS - 1)];
        *count = count.saturating_add(1);
    }

    /// Adds those of another.
    pub(crate) fn join(&mut self, other: &Histogram) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// The time below which this share of the turns is, microseconds: the middle of its step.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let step = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        let (octave, quarter) = (step as u32 / 4 + SHORTEST, step as u64 % 4);
        let from = (4 + quarter) << (octave - 2);
        Some((from + (1 << (octave - 3))) / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step() {
        let mut times = Histogram::default();
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
        assert!(times.quantile(1.0).is_some_and(|most| most > 60_000_000_000));
    }
}
