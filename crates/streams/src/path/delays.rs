//! How long packets took, as a histogram.

use model::PathDelay;

use crate::Nanos;

/// Steps of an octave.
const PARTS: usize = 8;
/// The first step ends at 1.024 µs, the last begins at 69 s.
const SHORTEST: u32 = 10;
const STEPS: usize = 27 * PARTS;

/// Times beyond a shortest one that is known beforehand, nearly.
#[derive(Debug, Clone, Default)]
pub(super) struct Delays {
    steps: Vec<u32>,
    samples: u64,
    /// The shortest and the longest, exactly.
    least: Nanos,
    most: Nanos,
}

impl Delays {
    /// One more; it is negative when it is shorter than what was known.
    pub(super) fn add(&mut self, beyond: Nanos) {
        if self.samples == 0 {
            (self.least, self.most) = (beyond, beyond);
            self.steps = vec![0; STEPS];
        }
        self.samples += 1;
        self.least = self.least.min(beyond);
        self.most = self.most.max(beyond);
        let step = &mut self.steps[step(beyond)];
        *step = step.saturating_add(1);
    }

    /// All of another one too.
    pub(super) fn merge(&mut self, other: &Delays) {
        if other.samples == 0 {
            return;
        }
        if self.samples == 0 {
            *self = other.clone();
            return;
        }
        self.samples += other.samples;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        for (step, more) in self.steps.iter_mut().zip(&other.steps) {
            *step = step.saturating_add(*more);
        }
    }

    /// The shortest, if there is one.
    pub(super) fn shortest(&self) -> Option<Nanos> {
        (self.samples > 0).then_some(self.least)
    }

    /// The longest.
    pub(super) fn longest(&self) -> Nanos {
        self.most
    }

    /// What there is to tell, where the shortest of all is this, and took so long.
    pub(super) fn told(&self, shortest: Nanos, took: Option<f64>) -> Option<PathDelay> {
        if self.samples == 0 {
            return None;
        }
        let us = |nanos: f64| (nanos / 1e3).max(0.0);
        let quantile = |share: f64| {
            let wanted = (self.samples as f64 * share).ceil().max(1.0) as u64;
            let mut seen = 0;
            let found = self.steps.iter().position(|count| {
                seen += u64::from(*count);
                seen >= wanted
            });
            let time = found.map_or(self.most, middle).clamp(self.least, self.most);
            us(time.saturating_sub(shortest) as f64)
        };
        Some(PathDelay {
            samples: self.samples,
            min_us: took.map(|took| (took + self.least.saturating_sub(shortest) as f64) / 1e3),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: us(self.most.saturating_sub(shortest) as f64),
        })
    }
}

fn step(beyond: Nanos) -> usize {
    let time = beyond.max(0).cast_unsigned();
    if time < 1 << SHORTEST {
        return 0;
    }
    let octave = time.ilog2();
    let part = (time >> (octave - 3)) & 7;
    ((octave - SHORTEST) as usize * PARTS + part as usize + 1).min(STEPS - 1)
}

/// The middle of a step.
fn middle(step: usize) -> Nanos {
    let Some(step) = step.checked_sub(1) else { return 512 };
    let (octave, part) = (step / PARTS + SHORTEST as usize, (step % PARTS) as i64);
    let width = 1 << (octave - 3);
    (8 + part) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_six_per_cent() {
        let mut delays = Delays::default();
        assert_eq!(delays.told(0, None), None);
        (1..=10_000).for_each(|micros| delays.add(micros * 1_000));
        let told = delays.told(0, Some(5e6)).expect("delays");
        for (found, exact) in [(told.p50_us, 5_000.0), (told.p99_us, 9_900.0)] {
            assert!((found / exact - 1.0).abs() < 0.07, "{found} for {exact}");
        }
        assert_eq!((told.max_us, told.samples, told.min_us), (10_000.0, 10_000, Some(5_001.0)));
        for odd in [Nanos::MIN / 4, Nanos::MAX / 4] {
            delays.add(odd);
        }
        assert!(delays.told(0, None).is_some_and(|told| told.p50_us < 6_000.0));
        for time in (10..36).map(|power| 1i64 << power) {
            let found = middle(step(time)) as f64;
            assert!((found / time as f64 - 1.0).abs() < 0.07, "{time}: {found}");
        }
    }
}
