//! How long packets took, as a histogram.

use model::PathDelay;

use crate::time::Nanos;

/// Steps of an octave.
const STEPS_PER_OCTAVE: usize = 8;
/// The first step ends at 2^10 ns; the last begins at 69 s.
const FIRST_OCTAVE: u32 = 10;
const STEPS: usize = 27 * STEPS_PER_OCTAVE;

/// Delays beyond a shortest one that is known approximately before.
#[derive(Debug, Clone, Default)]
pub(super) struct DelayHistogram {
    counts: Vec<u32>,
    samples: u64,
    /// The shortest and the longest, exactly.
    min: Nanos,
    max: Nanos,
}

impl DelayHistogram {
    /// Adds a delay; it is negative if it is shorter than the shortest known before.
    pub(super) fn add(&mut self, delay: Nanos) {
        if self.samples == 0 {
            (self.min, self.max) = (delay, delay);
            self.counts = vec![0; STEPS];
        }
        self.samples += 1;
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        if let Some(count) = self.counts.get_mut(step_of(delay)) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds all delays of another histogram.
    pub(super) fn merge(&mut self, other: &DelayHistogram) {
        if other.samples == 0 {
            return;
        }
        if self.samples == 0 {
            *self = other.clone();
            return;
        }
        self.samples += other.samples;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The shortest, if there is one.
    pub(super) fn min(&self) -> Option<Nanos> {
        (self.samples > 0).then_some(self.min)
    }

    /// The longest.
    pub(super) fn max(&self) -> Nanos {
        self.max
    }

    /// The delays as they are reported: beyond the shortest of all, which took this long.
    pub(super) fn report(&self, shortest: Nanos, shortest_took: Option<f64>) -> Option<PathDelay> {
        if self.samples == 0 {
            return None;
        }
        let beyond_us = |delay: Nanos| (delay.saturating_sub(shortest) as f64 / 1e3).max(0.0);
        let quantile = |share: f64| {
            let wanted = (self.samples as f64 * share).ceil().max(1.0) as u64;
            let mut below = 0u64;
            let found = self.counts.iter().position(|count| {
                below += u64::from(*count);
                below >= wanted
            });
            beyond_us(found.map_or(self.max, middle_of).clamp(self.min, self.max))
        };
        Some(PathDelay {
            samples: self.samples,
            min_us: shortest_took
                .map(|took| (took + self.min.saturating_sub(shortest) as f64) / 1e3),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: beyond_us(self.max),
        })
    }
}

fn step_of(delay: Nanos) -> usize {
    let delay = delay.max(0).cast_unsigned();
    if delay < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = delay.ilog2();
    let part = (delay >> (octave - 3)) & 7;
    ((octave - FIRST_OCTAVE) as usize * STEPS_PER_OCTAVE + part as usize + 1).min(STEPS - 1)
}

/// The middle of a step.
fn middle_of(step: usize) -> Nanos {
    let Some(step) = step.checked_sub(1) else { return 512 };
    let octave = step / STEPS_PER_OCTAVE + FIRST_OCTAVE as usize;
    let part = (step % STEPS_PER_OCTAVE) as i64;
    let width = 1 << (octave - 3);
    (8 + part) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_six_per_cent() {
        let mut delays = DelayHistogram::default();
        assert_eq!(delays.report(0, None), None);
        (1..=10_000).for_each(|micros| delays.add(micros * 1_000));
        let report = delays.report(0, Some(5e6)).expect("delays");
        for (found, exact) in [(report.p50_us, 5_000.0), (report.p99_us, 9_900.0)] {
            assert!((found / exact - 1.0).abs() < 0.07, "{found} for {exact}");
        }
        assert_eq!((report.max_us, report.samples), (10_000.0, 10_000));
        assert_eq!(report.min_us, Some(5_001.0));
        for odd in [Nanos::MIN / 4, Nanos::MAX / 4] {
            delays.add(odd);
        }
        assert!(delays.report(0, None).is_some_and(|report| report.p50_us < 6_000.0));
        for time in (10..36).map(|power| 1i64 << power) {
            let found = middle_of(step_of(time)) as f64;
            assert!((found / time as f64 - 1.0).abs() < 0.07, "{time}: {found}");
        }
    }
}
