//! Whether there was a queue: round trips against the level that a queue would have had.

use super::bucket::{BucketFit, Step};
use super::statistics::quantile;

/// Share of the expected delay from which on there is a queue. A queue gives 1, a policer 0.
const MIN_QUEUE_SHARE: f64 = 0.35;
/// A smaller difference, seconds, shows in no round trip.
const MIN_VISIBLE_DELAY: f64 = 0.002;
/// Nor does a queue that drains in less than this time, seconds.
const MIN_VISIBLE_QUEUE: f64 = 0.005;
/// Each end of the comparison is one of so many parts of the round trips.
const COMPARED_PARTS: usize = 4;
/// Fewest round trips.
const MIN_ROUND_TRIPS: usize = 8;
/// Before losses, round trips longer than the shortest by this factor, and by so many seconds, are
/// those of a queue, whatever its length (Flach et al. 2016).
const MIN_FULL_QUEUE_FACTOR: f64 = 1.3;
const MIN_FULL_QUEUE_DELAY: f64 = 0.02;

/// Round trips at high levels against those at low ones, seconds.
#[derive(Debug, Clone, Copy)]
struct Delay {
    /// By how much they would be longer with a queue.
    expected: f64,
    /// By how much they are longer.
    measured: f64,
    /// By how much they differ anyway.
    noise: f64,
}

/// A round trip, seconds, and the delay that a queue would have caused.
#[derive(Debug, Clone, Copy)]
struct Sample {
    expected: f64,
    round_trip: f64,
}

/// Whether what passed waited in a queue, or might have, as far as can be seen. `min_round_trip` is
/// the shortest of the stream, seconds.
pub(super) fn is_queued(steps: &[Step], fit: &BucketFit, min_round_trip: f64) -> bool {
    let Some(delay) = compare(steps, fit) else { return true };
    let whole = round_trip_before_losses(steps);
    let before_losses = whole - min_round_trip;
    // Where the bucket is always nearly empty, levels hardly differ; but nobody waits in a queue for
    // longer than the whole round trip.
    let is_shorter = whole > 0.0 && whole <= MIN_QUEUE_SHARE * fit.level / fit.rate;
    let is_compared = delay.expected >= MIN_VISIBLE_DELAY.max(2.0 * delay.noise);
    let is_in_doubt = delay.measured > MIN_QUEUE_SHARE * delay.expected || !is_compared;
    let is_in_doubt = is_in_doubt && (!is_shorter || delay.measured > MIN_VISIBLE_DELAY);
    is_in_doubt
        || fit.level < MIN_VISIBLE_QUEUE * fit.rate
        || before_losses > MIN_QUEUE_SHARE * fit.level / fit.rate
        || (before_losses > (MIN_FULL_QUEUE_FACTOR - 1.0) * min_round_trip
            && before_losses > MIN_FULL_QUEUE_DELAY)
}

fn compare(steps: &[Step], fit: &BucketFit) -> Option<Delay> {
    let (mut deficit, mut before) = (fit.initial, 0.0);
    let mut samples = Vec::new();
    for step in steps {
        deficit = (deficit - fit.rate * (step.at - before)).max(0.0) + step.passed;
        before = step.at;
        if step.round_trip > 0.0 {
            samples.push(Sample { expected: deficit / fit.rate, round_trip: step.round_trip });
        }
    }
    if samples.len() < MIN_ROUND_TRIPS {
        return None;
    }
    samples.sort_unstable_by(|a, b| a.expected.total_cmp(&b.expected));
    let part = samples.len() / COMPARED_PARTS;
    let low = middle(samples.iter().take(part));
    let high = middle(samples.iter().skip(samples.len() - part));
    Some(Delay {
        expected: high.expected - low.expected,
        measured: high.round_trip - low.round_trip,
        noise: low.round_trip - low.lower_quarter,
    })
}

/// Medians of some samples, and the lower quarter of their round trips.
struct Middle {
    expected: f64,
    round_trip: f64,
    lower_quarter: f64,
}

fn middle<'a>(samples: impl ExactSizeIterator<Item = &'a Sample> + Clone) -> Middle {
    let mut round_trips: Vec<f64> = samples.clone().map(|sample| sample.round_trip).collect();
    round_trips.sort_unstable_by(f64::total_cmp);
    let (mut samples, half) = (samples.clone(), samples.len() / 2);
    let expected = samples.nth(half).map_or(0.0, |sample| sample.expected);
    let (round_trip, lower_quarter) = (quantile(&round_trips, 0.5), quantile(&round_trips, 0.25));
    Middle { expected, round_trip, lower_quarter }
}

/// The lower quarter of the last round trips before losses began: a full queue is before them all.
/// Of two, the shorter: the last may have waited for a delayed acknowledgement, as what should have
/// followed it was lost.
fn round_trip_before_losses(steps: &[Step]) -> f64 {
    let (mut before_losses, mut last, mut is_new) = (Vec::new(), [0.0; 2], false);
    for step in steps {
        if step.round_trip > 0.0 {
            last = [last[1], step.round_trip];
            is_new = true;
        }
        if step.lost > 0 && is_new && last[0] > 0.0 {
            before_losses.push(last[0].min(last[1]));
            is_new = false;
        }
    }
    before_losses.sort_unstable_by(f64::total_cmp);
    quantile(&before_losses, 0.25)
}
