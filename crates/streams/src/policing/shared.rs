//! A bucket that several streams pass: what they sent, put together.

use super::bucket::{self, Step};
use super::delay;
use super::response::{PolicedResponse, bits, is_one_rate};
use super::statistics::seconds_between;
use crate::time::Nanos;

/// Fewest transmissions of a stream with losses, for it to tell something of a bucket.
const MIN_LOSSES: usize = 3;

/// What a response sent of which something was lost.
#[derive(Debug, Clone)]
pub(crate) struct Losses {
    /// Number of the exchange.
    pub(crate) exchange: Option<u32>,
    /// Packets that were lost.
    pub(crate) lost: u32,
    /// Whether a bucket of its own explains that.
    pub(crate) is_explained: bool,
    steps: Box<[Step]>,
    /// When the first step was.
    start: Nanos,
    /// Whether it has all from the beginning of the response, and up to its end.
    is_whole: [bool; 2],
    /// Shortest round trip, seconds.
    min_round_trip: f64,
}

impl Losses {
    /// `is_whole`: whether there was nothing before, and nothing after.
    pub(super) fn of(
        steps: Vec<Step>,
        start: Nanos,
        is_whole: [bool; 2],
        min_round_trip: f64,
        is_explained: bool,
    ) -> Option<Box<Self>> {
        if steps.iter().filter(|step| step.lost > 0).count() < MIN_LOSSES {
            return None;
        }
        let lost = steps.iter().map(|step| step.lost).fold(0, u32::saturating_add);
        let steps = steps.into_boxed_slice();
        Some(Box::new(Self {
            exchange: None,
            lost,
            is_explained,
            steps,
            start,
            is_whole,
            min_round_trip,
        }))
    }

    fn end(&self) -> Nanos {
        self.at(self.steps.last().map_or(0.0, |step| step.at))
    }

    fn at(&self, seconds: f64) -> Nanos {
        self.start.saturating_add((seconds * 1e9) as Nanos)
    }

    /// Its own figures of a bucket that it shares.
    fn response(&self, shared: &PolicedResponse, times: (Nanos, Nanos)) -> Option<PolicedResponse> {
        let (mut lost, mut passed, mut bursts, mut is_dropping) = (0_u32, 0_u32, 0_u32, false);
        let (mut first_loss, mut last_loss) = (None, 0);
        for step in &self.steps {
            let at = self.at(step.at);
            if at < times.0 || at > times.1 {
                continue;
            }
            passed = passed.saturating_add(step.packets);
            lost = lost.saturating_add(step.lost);
            if step.lost > 0 {
                bursts = bursts.saturating_add(u32::from(!(is_dropping && step.passed == 0.0)));
                first_loss.get_or_insert(at);
                last_loss = at;
            }
            is_dropping = step.lost > 0;
        }
        Some(PolicedResponse {
            lost,
            passed,
            bursts,
            first_loss: first_loss?,
            last_loss,
            ..*shared
        })
    }
}

/// The bucket that explains the losses of all these streams together: for each its own figures, with the
/// rate and the size of the bucket.
pub(crate) fn shared_bucket(streams: &[&Losses]) -> Option<Vec<PolicedResponse>> {
    // Where something of one stream is missing, tokens are.
    let before = streams.iter().filter(|one| !one.is_whole[0]).map(|one| one.start);
    let after = streams.iter().filter(|one| !one.is_whole[1]).map(|one| one.end());
    let all_began = streams.iter().map(|one| one.start).min()?;
    let times = (before.max().unwrap_or(all_began), after.min().unwrap_or(Nanos::MAX));
    let min_round_trip = streams.iter().map(|one| one.min_round_trip).fold(f64::INFINITY, f64::min);
    let mut steps = Vec::with_capacity(streams.iter().map(|one| one.steps.len()).sum());
    for one in streams {
        let offset = seconds_between(all_began, one.start);
        let mut losses = 0;
        for step in &one.steps {
            let at = one.at(step.at);
            if at < times.0 || at > times.1 {
                continue;
            }
            losses += usize::from(step.lost > 0);
            // A longer way is no queue.
            let round_trip = match step.round_trip {
                0.0 => 0.0,
                known => known - one.min_round_trip + min_round_trip,
            };
            steps.push(Step { at: offset + step.at, round_trip, ..*step });
        }
        if losses < MIN_LOSSES {
            return None;
        }
    }
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    let began = steps.first()?.at;
    steps.iter_mut().for_each(|step| step.at -= began);
    let fit = bucket::fit(&steps, 0.0, None)?;
    if delay::is_queued(&steps, &fit, min_round_trip) {
        return None;
    }
    let shared = PolicedResponse {
        rate_bps: is_one_rate(fit.low, fit.high).then(|| bits(fit.rate)),
        rate_range_bps: (bits(fit.low), bits(fit.high)),
        bucket_bytes: fit.bucket.max(0.0) as u64,
        lost: 0,
        passed: 0,
        bursts: 0,
        first_loss: 0,
        last_loss: 0,
    };
    streams.iter().map(|one| one.response(&shared, times)).collect()
}
