//! The expected gain in words.

use model::{CombinedGain, ExpectedGain, GainFigure, PredictedGain};
use text::{bit_rate, micros, number, percent, sanitize};

/// A time differs from another if it is at least so much longer, share.
const MIN_DIFFERENCE: f64 = 0.05;

/// What fixing one finding gives.
pub(crate) fn of_finding(gain: &ExpectedGain) -> String {
    match gain {
        ExpectedGain::Predicted(gain) => predicted(gain),
        ExpectedGain::NotPredictable { why } => {
            format!("not predictable: {}", sanitize::line(why))
        }
    }
}

/// What fixing several together gives.
pub(crate) fn of_all(all: &CombinedGain) -> String {
    let causes: Vec<_> = all.causes.iter().map(|cause| sanitize::line(cause)).collect();
    format!(
        "Fixing {} for {}: {}.",
        causes.join(" and "),
        sanitize::line(&all.service),
        predicted(&all.gain)
    )
}

fn predicted(gain: &PredictedGain) -> String {
    let ms = |value: f64| micros((value * 1e3).round() as u64);
    let per_second = |value: f64| number(value.round() as u64);
    let (change, unit): (&str, &dyn Fn(f64) -> String) = match gain.figure {
        GainFigure::ExchangeTime => ("an exchange takes", &ms),
        GainFigure::RoundTripTime => ("a round trip takes", &ms),
        GainFigure::TransferRate => ("transfers reach", &bit_rate),
        GainFigure::RequestRate => ("requests answered a second:", &per_second),
        GainFigure::OpeningDelay => {
            return format!("connections that it hits open up to {} sooner", ms(saved(gain)));
        }
        GainFigure::LookupDelay => {
            return format!("lookups that it hits end up to {} sooner", ms(saved(gain)));
        }
        GainFigure::FailedConnections => {
            return format!("the {} of connections that fail succeed", percent(saved(gain)));
        }
        GainFigure::FailedRequests => {
            return format!("the {} of requests that fail succeed", percent(saved(gain)));
        }
    };
    if saved(gain).abs() < gain.now * MIN_DIFFERENCE {
        return format!("little: {change} {} now", unit(gain.now));
    }
    format!(
        "{change} about {} instead of {} ({} to {})",
        unit(gain.expected),
        unit(gain.now),
        unit(gain.lowest),
        unit(gain.highest)
    )
}

fn saved(gain: &PredictedGain) -> f64 {
    gain.now - gain.expected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(figure: GainFigure, now: f64, expected: f64) -> String {
        let (lowest, highest) = (expected * 0.75, expected * 1.25);
        let gain = PredictedGain { figure, now, expected, lowest, highest };
        of_finding(&ExpectedGain::Predicted(gain))
    }

    #[test]
    fn each_figure_has_its_words() {
        for (figure, now, expected, text) in [
            (
                GainFigure::ExchangeTime,
                44.0,
                4.0,
                "an exchange takes about 4.0 ms instead of 44 ms (3.0 ms to 5.0 ms)",
            ),
            (GainFigure::ExchangeTime, 44.0, 43.0, "little: an exchange takes 44 ms now"),
            (
                GainFigure::TransferRate,
                5e6,
                80e6,
                "transfers reach about 80 Mbit/s instead of 5 Mbit/s (60 Mbit/s to 100 Mbit/s)",
            ),
            (
                GainFigure::RequestRate,
                400.0,
                1_600.0,
                "requests answered a second: about 1,600 instead of 400 (1,200 to 2,000)",
            ),
            (
                GainFigure::OpeningDelay,
                1_430.0,
                0.0,
                "connections that it hits open up to 1.4 s sooner",
            ),
            (GainFigure::FailedRequests, 0.3, 0.0, "the 30 % of requests that fail succeed"),
        ] {
            assert_eq!(words(figure, now, expected), text);
        }
    }

    #[test]
    fn what_is_not_predictable_says_why() {
        let why = "nothing\nlogs it".to_string();
        let text = of_finding(&ExpectedGain::NotPredictable { why });
        assert!(text.starts_with("not predictable: nothing") && !text.contains('\n'), "{text}");
    }
}
