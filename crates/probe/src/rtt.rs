//! Distributions of round-trip times in bounded memory.

use std::time::Duration;

use hdrhistogram::Histogram;
use model::{HopTimes, PingTimes};

/// Resolution of the histogram, nanoseconds.
const RESOLUTION_NS: u64 = 16;
/// Longest time that is recorded as it is, nanoseconds: an hour.
const MAX_NS: u64 = 3_600_000_000_000;
/// Significant digits of a percentile.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of round-trip times, or of other times.
#[derive(Debug, Clone)]
pub(crate) struct RttStats {
    histogram: Option<Histogram<u32>>,
    samples: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    last_ns: u64,
    /// Sum of the absolute differences between consecutive times.
    differences_ns: u128,
}

impl Default for RttStats {
    fn default() -> Self {
        RttStats {
            histogram: Histogram::new_with_bounds(RESOLUTION_NS, MAX_NS, SIGNIFICANT_DIGITS).ok(),
            samples: 0,
            sum_ns: 0,
            min_ns: 0,
            max_ns: 0,
            last_ns: 0,
            differences_ns: 0,
        }
    }
}

impl RttStats {
    /// Adds one; longer than an hour counts as an hour.
    pub(crate) fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MAX_NS);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
        if self.samples > 0 {
            self.differences_ns += u128::from(ns.abs_diff(self.last_ns));
            self.min_ns = self.min_ns.min(ns);
        } else {
            self.min_ns = ns;
        }
        self.max_ns = self.max_ns.max(ns);
        self.last_ns = ns;
        self.sum_ns += u128::from(ns);
        self.samples += 1;
    }

    /// A percentile, milliseconds; `None` without a sample.
    pub(crate) fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let histogram = self.histogram.as_ref().filter(|_| self.samples > 0)?;
        let ns = histogram.value_at_percentile(percent);
        // A bucket may extend beyond the observed values.
        Some(ms(ns.clamp(self.min_ns, self.max_ns).into()))
    }

    fn mean_ms(&self) -> f64 {
        ms(self.sum_ns) / self.samples.max(1) as f64
    }

    fn jitter_ms(&self) -> Option<f64> {
        (self.samples > 1).then(|| ms(self.differences_ns) / (self.samples - 1) as f64)
    }

    /// The distribution; `None` without a sample.
    pub(crate) fn summary(&self) -> Option<PingTimes> {
        Some(PingTimes {
            samples: self.samples,
            min_ms: ms(self.min_ns.into()),
            mean_ms: self.mean_ms(),
            max_ms: ms(self.max_ns.into()),
            p50_ms: self.percentile_ms(50.0)?,
            p90_ms: self.percentile_ms(90.0)?,
            p99_ms: self.percentile_ms(99.0)?,
            jitter_ms: self.jitter_ms(),
        })
    }

    /// The figures of a hop; `None` without a sample.
    pub(crate) fn hop_summary(&self) -> Option<HopTimes> {
        Some(HopTimes {
            last_ms: ms(self.last_ns.into()),
            min_ms: ms(self.min_ns.into()),
            mean_ms: self.mean_ms(),
            p50_ms: self.percentile_ms(50.0)?,
            max_ms: ms(self.max_ns.into()),
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
    fn percentiles_are_exact_to_a_thousandth() {
        let mut times = RttStats::default();
        assert_eq!(times.summary(), None);
        for micros in 1..=1000 {
            times.record(Duration::from_micros(micros));
        }
        let spread = times.summary().unwrap();
        assert_eq!((spread.samples, spread.min_ms, spread.max_ms), (1000, 0.001, 1.0));
        assert!((spread.mean_ms - 0.5005).abs() < 1e-9);
        assert!((spread.p50_ms - 0.5).abs() < 0.001, "{}", spread.p50_ms);
        assert!((spread.p99_ms - 0.99).abs() < 0.001, "{}", spread.p99_ms);
        assert!((spread.jitter_ms.unwrap() - 0.001).abs() < 1e-9);
        assert_eq!(times.hop_summary().unwrap().last_ms, 1.0);
    }

    #[test]
    fn one_sample_has_no_jitter_and_long_times_count_as_an_hour() {
        let mut times = RttStats::default();
        times.record(Duration::MAX);
        let spread = times.summary().unwrap();
        assert_eq!((spread.jitter_ms, spread.p99_ms), (None, 3_600_000.0));
    }
}
