//! What each end sent over time, in steps that grow with the stream: its memory is bounded, however
//! long the stream is.

use model::{Curve, CurveStep, Side};

use crate::ends::Ends;
use crate::time::Nanos;

/// Most steps; then two become one.
const MAX_STEPS: usize = 1024;
/// Length of a step at first, 100 µs.
const FIRST_STEP: Nanos = 100_000;
/// Retransmissions whose place is kept.
const MAX_RETRANSMISSIONS: usize = 4096;

/// What both ends sent over time.
#[derive(Debug, Clone)]
pub(super) struct Curves {
    step: Nanos,
    ends: Ends<EndCurve>,
}

#[derive(Debug, Clone, Default)]
struct EndCurve {
    steps: Vec<Option<CurveStep>>,
    retransmissions: Retransmissions,
}

/// One in so many retransmissions: when, and their first byte.
#[derive(Debug, Clone)]
struct Retransmissions {
    kept: Vec<(Nanos, u64)>,
    /// One of so many is kept.
    interval: usize,
    count: usize,
}

impl Default for Retransmissions {
    fn default() -> Self {
        Retransmissions { kept: Vec::new(), interval: 1, count: 0 }
    }
}

impl Default for Curves {
    fn default() -> Self {
        Curves { step: FIRST_STEP, ends: Ends::default() }
    }
}

impl Curves {
    /// How far an end has sent at a moment, counted from the first packet of the stream.
    pub(super) fn add(&mut self, side: Side, at: Nanos, now: CurveStep) {
        let at = at.max(0);
        while at / self.step >= MAX_STEPS as Nanos {
            self.step = self.step.saturating_mul(2);
            self.ends.iter_mut().for_each(|end| halve(&mut end.steps));
        }
        let place = (at / self.step) as usize;
        let steps = &mut self.ends.get_mut(side).steps;
        if steps.len() <= place {
            steps.resize(place + 1, None);
        }
        if let Some(step) = steps.get_mut(place) {
            let step = step.get_or_insert_default();
            *step = furthest(*step, now);
        }
    }

    /// A segment was retransmitted.
    pub(super) fn add_retransmission(&mut self, side: Side, at: Nanos, byte: u64) {
        let retransmissions = &mut self.ends.get_mut(side).retransmissions;
        if retransmissions.count.is_multiple_of(retransmissions.interval) {
            if retransmissions.kept.len() >= MAX_RETRANSMISSIONS {
                let mut is_kept = false;
                retransmissions.kept.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
                retransmissions.interval = retransmissions.interval.saturating_mul(2);
            }
            retransmissions.kept.push((at.max(0), byte));
        }
        retransmissions.count += 1;
    }

    /// The curve of one end, which is reported as `role`, until the stream has lasted this long.
    pub(super) fn finish(mut self, side: Side, role: Side, until: Nanos) -> Curve {
        let EndCurve { steps, retransmissions } = std::mem::take(self.ends.get_mut(side));
        let last = (until.max(0) / self.step) as usize;
        let count = last.saturating_add(1).clamp(steps.len(), MAX_STEPS);
        let mut now = CurveStep::default();
        let steps = steps.into_iter().chain(std::iter::repeat(None)).take(count).map(|step| {
            now = step.map_or(now, |step| furthest(now, step));
            now
        });
        Curve {
            side: Some(role),
            step_ns: self.step,
            steps: steps.collect(),
            retransmitted: retransmissions.kept,
        }
    }
}

fn furthest(a: CurveStep, b: CurveStep) -> CurveStep {
    CurveStep {
        sent: a.sent.max(b.sent),
        acknowledged: a.acknowledged.max(b.acknowledged),
        right_edge: a.right_edge.max(b.right_edge),
    }
}

/// Two steps become one.
fn halve(steps: &mut Vec<Option<CurveStep>>) {
    let halves = steps.chunks(2).map(|pair| pair.iter().flatten().copied().reduce(furthest));
    *steps = halves.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_nothing_is_forgotten() {
        let mut curves = Curves::default();
        for second in 0..100_000 {
            let sent = second as u64 * 10;
            let step = CurveStep { sent, acknowledged: sent / 2, right_edge: Some(sent + 100) };
            curves.add(Side::Server, second * 1_000_000_000, step);
            curves.add_retransmission(Side::Server, second * 1_000_000_000, sent);
        }
        let curve = curves.finish(Side::Server, Side::Server, 100_000_000_000_000);
        assert!(curve.steps.len() <= MAX_STEPS && curve.steps.len() > MAX_STEPS / 2 - 2);
        assert!(curve.steps.is_sorted_by_key(|step| step.sent));
        let last = curve.steps.last().unwrap();
        assert_eq!(
            (last.sent, last.acknowledged, last.right_edge),
            (999_990, 499_995, Some(1_000_090))
        );
        let kept = curve.retransmitted.len();
        assert!(kept <= MAX_RETRANSMISSIONS && kept > MAX_RETRANSMISSIONS / 4);
        assert_eq!(curve.retransmitted[0], (0, 0));
    }

    #[test]
    fn impossible_times_do_no_harm() {
        let mut curves = Curves::default();
        curves.add(Side::Client, Nanos::MIN, CurveStep::default());
        curves.add(Side::Client, Nanos::MAX, CurveStep { sent: 5, ..CurveStep::default() });
        let curve = curves.finish(Side::Client, Side::Client, Nanos::MAX);
        assert_eq!(curve.steps.last().unwrap().sent, 5);
    }
}
