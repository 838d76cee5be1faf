//! Whether there was a queue: round trips beside the level that a queue would have had.

use super::bucket::{Fit, Step};
use super::quantile;

/// Part of the expected delay from which it is taken for one. A queue gives 1, a policer 0.
const FOLLOWS: f64 = 0.35;
/// A difference smaller than this, seconds, shows in no round trip.
const LEAST: f64 = 0.002;
/// Nor does a queue that is empty after this time, for certain.
const SHORT: f64 = 0.005;
/// Part of the round trips that make one end of the comparison.
const END: usize = 4;
/// Round trips that are needed.
const TRIPS: usize = 8;
/// Before losses, round trips longer than the shortest by this factor, and by so many seconds, are
/// those of a queue, whatever its length (Flach et al. 2016).
const LONGER: f64 = 1.3;
const LONGER_BY: f64 = 0.02;

/// Round trips at high levels beside those at low ones, seconds.
#[derive(Debug, Clone, Copy)]
struct Delay {
    /// By how much they would be longer with a queue.
    expected: f64,
    /// By how much they are.
    seen: f64,
    /// How much they differ anyway.
    noise: f64,
}

/// Whether what passed waited in a queue, or might have, for all that can be seen. `least` is the
/// shortest round trip of the stream, seconds.
pub(super) fn queued(steps: &[Step], fit: &Fit, least: f64) -> bool {
    let Some(delay) = compare(steps, fit) else { return true };
    let full = before_losses(steps) - least;
    delay.expected < LEAST.max(2.0 * delay.noise)
        || fit.level < SHORT * fit.rate
        || delay.seen > FOLLOWS * delay.expected
        || full > FOLLOWS * fit.level / fit.rate
        || (full > (LONGER - 1.0) * least && full > LONGER_BY)
}

fn compare(steps: &[Step], fit: &Fit) -> Option<Delay> {
    let (mut lacking, mut before) = (fit.initial, 0.0);
    let mut samples = Vec::new();
    for step in steps {
        lacking = (lacking - fit.rate * (step.at - before)).max(0.0) + step.passed;
        before = step.at;
        if step.trip > 0.0 {
            samples.push((lacking / fit.rate, step.trip));
        }
    }
    if samples.len() < TRIPS {
        return None;
    }
    samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let end = samples.len() / END;
    let low = middle(&samples[..end]);
    let high = middle(&samples[samples.len() - end..]);
    Some(Delay { expected: high.0 - low.0, seen: high.1 - low.1, noise: low.1 - low.2 })
}

/// The middle of the expected delays, of the round trips, and the lower quarter of these.
fn middle(samples: &[(f64, f64)]) -> (f64, f64, f64) {
    let mut trips: Vec<f64> = samples.iter().map(|(_, trip)| *trip).collect();
    trips.sort_unstable_by(f64::total_cmp);
    let expected = samples.get(samples.len() / 2).map_or(0.0, |(expected, _)| *expected);
    (expected, quantile(&trips, 0.5), quantile(&trips, 0.25))
}

/// The lower quarter of the last round trips before losses began: a full queue is before them all.
/// Of two, the shorter: the last may have waited for a delayed acknowledgement, as what should have
/// followed it was lost.
fn before_losses(steps: &[Step]) -> f64 {
    let (mut trips, mut last, mut new) = (Vec::new(), [0.0; 2], false);
    for step in steps {
        if step.trip > 0.0 {
            last = [last[1], step.trip];
            new = true;
        }
        if step.lost > 0 && new && last[0] > 0.0 {
            trips.push(last[0].min(last[1]));
            new = false;
        }
    }
    trips.sort_unstable_by(f64::total_cmp);
    quantile(&trips, 0.25)
}
