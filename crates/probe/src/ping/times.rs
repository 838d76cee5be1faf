//! Round trips as they come: their spread in bounded memory, however long it takes.

use std::time::Duration;

use hdrhistogram::Histogram;
use model::{HopTimes, PingTimes};

/// Shortest round trip that is told from others, and the longest; nanoseconds.
const LEAST_NS: u64 = 16;
const MOST_NS: u64 = 3_600_000_000_000;
/// Digits of a percentile that are right.
const DIGITS: u8 = 3;

/// Round trips, or other times.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Option<Histogram<u32>>,
    samples: u64,
    sum_ns: u128,
    least_ns: u64,
    most_ns: u64,
    last_ns: u64,
    /// Sum of the differences between each and the one before.
    changes_ns: u128,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            histogram: Histogram::new_with_bounds(LEAST_NS, MOST_NS, DIGITS).ok(),
            samples: 0,
            sum_ns: 0,
            least_ns: 0,
            most_ns: 0,
            last_ns: 0,
            changes_ns: 0,
        }
    }
}

impl Times {
    /// Takes one; what is longer than an hour counts as an hour.
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MOST_NS);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
        if self.samples > 0 {
            self.changes_ns += u128::from(ns.abs_diff(self.last_ns));
            self.least_ns = self.least_ns.min(ns);
        } else {
            self.least_ns = ns;
        }
        self.most_ns = self.most_ns.max(ns);
        self.last_ns = ns;
        self.sum_ns += u128::from(ns);
        self.samples += 1;
    }

    /// How many there are.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// A percentile, milliseconds; `None` without any.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let histogram = self.histogram.as_ref().filter(|_| self.samples > 0)?;
        let ns = histogram.value_at_percentile(percent);
        // A bucket may reach beyond what was seen.
        Some(ms(ns.clamp(self.least_ns, self.most_ns).into()))
    }

    fn mean_ms(&self) -> f64 {
        ms(self.sum_ns) / self.samples.max(1) as f64
    }

    fn jitter_ms(&self) -> Option<f64> {
        (self.samples > 1).then(|| ms(self.changes_ns) / (self.samples - 1) as f64)
    }

    /// All of it; `None` without any.
    pub fn spread(&self) -> Option<PingTimes> {
        Some(PingTimes {
            samples: self.samples,
            min_ms: ms(self.least_ns.into()),
            mean_ms: self.mean_ms(),
            max_ms: ms(self.most_ns.into()),
            p50_ms: self.percentile_ms(50.0)?,
            p90_ms: self.percentile_ms(90.0)?,
            p99_ms: self.percentile_ms(99.0)?,
            jitter_ms: self.jitter_ms(),
        })
    }

    /// The same as for a hop; `None` without any.
    pub fn of_hop(&self) -> Option<HopTimes> {
        Some(HopTimes {
            last_ms: ms(self.last_ns.into()),
            min_ms: ms(self.least_ns.into()),
            mean_ms: self.mean_ms(),
            p50_ms: self.percentile_ms(50.0)?,
            max_ms: ms(self.most_ns.into()),
            jitter_ms: self.jitter_ms(),
        })
    }
}

fn ms(ns: u128) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_exact_to_a_thousandth() {
        let mut times = Times::default();
        assert_eq!(times.spread(), None);
        for micros in 1..=1000 {
            times.record(Duration::from_micros(micros));
        }
        let spread = times.spread().unwrap();
        assert_eq!((spread.samples, spread.min_ms, spread.max_ms), (1000, 0.001, 1.0));
        assert!((spread.mean_ms - 0.5005).abs() < 1e-9);
        assert!((spread.p50_ms - 0.5).abs() < 0.001, "{}", spread.p50_ms);
        assert!((spread.p99_ms - 0.99).abs() < 0.001, "{}", spread.p99_ms);
        assert!((spread.jitter_ms.unwrap() - 0.001).abs() < 1e-9);
        assert_eq!(times.of_hop().unwrap().last_ms, 1.0);
    }

    #[test]
    fn one_has_no_jitter_and_hours_are_survived() {
        let mut times = Times::default();
        times.record(Duration::MAX);
        let spread = times.spread().unwrap();
        assert_eq!((spread.jitter_ms, spread.p99_ms), (None, 3_600_000.0));
    }
}
