//! The expected gain of a finding, compared with what its fix gave.
//!
//! Both are changes of one figure: times saved, in milliseconds; rates as a multiple of what they were;
//! failures avoided, as a share.

use std::collections::BTreeSet;

use model::{ExpectedGain, GainFigure, PredictedGain};
use serde::Serialize;

use crate::figures::{self, Figures};
use crate::judge::{NamedCause, Observation};

/// Predictions within this factor of the measured change are good.
pub const GOOD_FACTOR: f64 = 1.5;

/// A prediction, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GainError {
    /// Id of the cause.
    pub cause: String,
    /// On which host it was named.
    pub host: String,
    /// The prediction, or why there is none.
    pub gain: ExpectedGain,
    /// The predicted change and the measured one; `None`: nothing was predicted, or the workload does
    /// not measure this figure.
    pub change: Option<Change>,
}

/// A change, predicted and measured, in the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Of what.
    pub unit: &'static str,
    /// Predicted.
    pub predicted: f64,
    /// Measured.
    pub measured: f64,
}

impl Change {
    /// How many times the one is the other, the larger over the smaller; infinite where one of them is
    /// none.
    pub fn factor(&self) -> f64 {
        let (smaller, larger) =
            (self.predicted.min(self.measured), self.predicted.max(self.measured));
        if smaller > 0.0 { larger / smaller } else { f64::INFINITY }
    }
}

/// The gains of the causes that were named as expected, and what their fix gave: of each cause the
/// prediction of one host. `figure` is the workload's.
pub(crate) fn of_fix(
    named: &[String],
    observations: &[Observation],
    figure: &str,
    (before, after): (&Figures, &Figures),
) -> Vec<GainError> {
    let findings: Vec<(&str, &NamedCause)> = observations
        .iter()
        .flat_map(|one| one.findings.iter().map(move |finding| (one.host.as_str(), finding)))
        .collect();
    let of_cause = |cause: &String| {
        let own = findings.iter().filter(|(_, finding)| finding.cause == *cause);
        let (host, finding) = own.max_by_key(|(_, finding)| finding.gain.predicted().is_some())?;
        let predicted = finding.gain.predicted();
        let change = predicted.and_then(|gain| compare(gain, figure, before, after));
        let host = host.to_string();
        Some(GainError { cause: cause.clone(), host, gain: finding.gain.clone(), change })
    };
    named.iter().collect::<BTreeSet<_>>().into_iter().filter_map(of_cause).collect()
}

/// Compares a prediction with the figures before and after the fix; `figure` is the workload's.
pub(crate) fn compare(
    gain: &PredictedGain,
    figure: &str,
    before: &Figures,
    after: &Figures,
) -> Option<Change> {
    let pair = |name: &str| Some((*before.get(name)?, *after.get(name)?));
    let times_better =
        |name: &str| pair(name).map(|(before, after)| figures::improvement(name, before, after));
    let is_rate = !figures::lower_is_better(figure);
    match gain.figure {
        GainFigure::ExchangeTime if is_rate => Some(Change {
            unit: "times as many",
            predicted: gain.now / gain.expected,
            measured: times_better(figure)?,
        }),
        one if one.is_time() => {
            let mean = (one == GainFigure::ExchangeTime).then(|| pair("mean_ms")).flatten();
            // A connection that waits for a SYN's timeout is among the slowest.
            let slowest = one == GainFigure::OpeningDelay && !is_rate;
            let slowest = slowest.then(|| pair("p99_ms")).flatten();
            let own = pair(figure).filter(|_| figure.ends_with("_ms"));
            let seconds = pair(figure).filter(|_| figure == "seconds");
            let seconds = seconds.map(|(before, after)| (before * 1e3, after * 1e3));
            let (before, after) = mean.or(slowest).or(own).or(seconds)?;
            let predicted = gain.now - gain.expected;
            Some(Change { unit: "ms saved", predicted, measured: before - after })
        }
        GainFigure::TransferRate | GainFigure::RequestRate => Some(Change {
            unit: "times as fast",
            predicted: gain.expected / gain.now,
            measured: times_better(figure)?,
        }),
        _ => {
            let (before, after) = pair(figure)?;
            Some(Change {
                unit: "of the failures avoided",
                predicted: if is_rate {
                    gain.now - gain.expected
                } else {
                    1.0 - gain.expected / gain.now
                },
                measured: if is_rate { 1.0 - before / after } else { 1.0 - after / before },
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(all: &[(&str, f64)]) -> Figures {
        all.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    fn factor(gain: (GainFigure, f64, f64), figure: &str, before: f64, after: f64) -> Option<f64> {
        let (of, now, expected) = gain;
        let gain = PredictedGain { figure: of, now, expected, lowest: expected, highest: expected };
        let (before, after) = (figures(&[(figure, before)]), figures(&[(figure, after)]));
        compare(&gain, figure, &before, &after).map(|change| change.factor())
    }

    #[test]
    fn times_rates_and_failures_are_compared_as_changes() {
        let exchange = (GainFigure::ExchangeTime, 44.0, 4.0);
        assert_eq!(factor(exchange, "p50_ms", 43.0, 3.0), Some(1.0));
        assert_eq!(factor(exchange, "requests_per_second", 100.0, 1_100.0), Some(1.0));
        assert_eq!(factor(exchange, "p50_ms", 43.0, 43.0), Some(f64::INFINITY), "no effect");
        let rate = (GainFigure::TransferRate, 5e6, 50e6);
        assert_eq!(factor(rate, "mbit_per_second", 5.0, 25.0), Some(2.0));
        assert_eq!(factor(rate, "p50_ms", 1_000.0, 200.0), Some(2.0));
        let failed = (GainFigure::FailedConnections, 0.5, 0.0);
        assert_eq!(factor(failed, "errors", 300.0, 0.0), Some(1.0));
        assert_eq!(factor(failed, "done", 10.0, 20.0), Some(1.0));
        let lookup = (GainFigure::LookupDelay, 5_000.0, 0.0);
        assert_eq!(factor(lookup, "seconds", 5.2, 0.2), Some(1.0));
        assert_eq!(factor(lookup, "errors", 5.0, 0.0), None, "another figure");
    }

    #[test]
    fn the_mean_time_of_an_exchange_is_compared_where_it_was_measured() {
        let gain = PredictedGain {
            figure: GainFigure::ExchangeTime,
            now: 50.0,
            expected: 10.0,
            lowest: 5.0,
            highest: 15.0,
        };
        let before = figures(&[("p50_ms", 90.0), ("mean_ms", 50.0)]);
        let after = figures(&[("p50_ms", 10.0), ("mean_ms", 10.0)]);
        assert_eq!(compare(&gain, "p50_ms", &before, &after).map(|one| one.factor()), Some(1.0));
    }
}
