//! What each end sent over time, in steps that grow with the stream: bounded memory, however long it
//! is.

use model::{Curve, CurveStep, Side};

use crate::Nanos;

/// Most steps; then two become one.
const STEPS: usize = 1024;
/// The first length of a step: 100 µs.
const STEP: Nanos = 100_000;
/// Segments that were sent again, of which the place is kept.
const REPEATED: usize = 4096;

/// What both ends sent over time.
#[derive(Debug, Clone)]
pub(super) struct Curves {
    step: Nanos,
    sides: [Vec<Option<CurveStep>>; 2],
    repeated: [Repeated; 2],
}

/// Each so many segments that were sent again.
#[derive(Debug, Clone)]
struct Repeated {
    kept: Vec<(Nanos, u64)>,
    every: usize,
    seen: usize,
}

impl Default for Repeated {
    fn default() -> Self {
        Repeated { kept: Vec::new(), every: 1, seen: 0 }
    }
}

impl Default for Curves {
    fn default() -> Self {
        Curves { step: STEP, sides: Default::default(), repeated: Default::default() }
    }
}

impl Curves {
    /// How far an end has sent at a moment, counted from the first packet of the stream.
    pub(super) fn add(&mut self, side: usize, at: Nanos, now: CurveStep) {
        let at = at.max(0);
        while at / self.step >= STEPS as Nanos {
            self.step = self.step.saturating_mul(2);
            self.sides.iter_mut().for_each(halve);
        }
        let place = (at / self.step) as usize;
        let steps = &mut self.sides[side];
        if steps.len() <= place {
            steps.resize(place + 1, None);
        }
        let step = steps[place].get_or_insert_default();
        step.sent = step.sent.max(now.sent);
        step.acknowledged = step.acknowledged.max(now.acknowledged);
        step.right_edge = step.right_edge.max(now.right_edge);
    }

    /// A segment that was sent again.
    pub(super) fn again(&mut self, side: usize, at: Nanos, byte: u64) {
        let repeated = &mut self.repeated[side];
        if repeated.seen.is_multiple_of(repeated.every) {
            if repeated.kept.len() >= REPEATED {
                let mut place = 0;
                repeated.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                repeated.every *= 2;
            }
            repeated.kept.push((at.max(0), byte));
        }
        repeated.seen += 1;
    }

    /// What one side sent, until the stream was so old.
    pub(super) fn told(self, side: usize, name: Side, until: Nanos) -> Curve {
        let [a, b] = self.sides;
        let steps = if side == 0 { a } else { b };
        let places = ((until.max(0) / self.step) as usize + 1).clamp(steps.len(), STEPS);
        let mut now = CurveStep::default();
        let steps = (0..places).map(|place| {
            if let Some(step) = steps.get(place).copied().flatten() {
                now.sent = now.sent.max(step.sent);
                now.acknowledged = now.acknowledged.max(step.acknowledged);
                now.right_edge = now.right_edge.max(step.right_edge);
            }
            now
        });
        let [a, b] = self.repeated;
        Curve {
            side: Some(name),
            step_ns: self.step,
            steps: steps.collect(),
            retransmitted: if side == 0 { a.kept } else { b.kept },
        }
    }
}

/// Two steps become one.
fn halve(steps: &mut Vec<Option<CurveStep>>) {
    let halves = steps.chunks(2).map(|pair| {
        pair.iter().flatten().copied().reduce(|a, b| CurveStep {
            sent: a.sent.max(b.sent),
            acknowledged: a.acknowledged.max(b.acknowledged),
            right_edge: a.right_edge.max(b.right_edge),
        })
    });
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
            curves.add(1, second * 1_000_000_000, step);
            curves.again(1, second * 1_000_000_000, sent);
        }
        let curve = curves.told(1, Side::Server, 100_000_000_000_000);
        assert!(curve.steps.len() <= STEPS && curve.steps.len() > STEPS / 2 - 2);
        assert!(curve.steps.is_sorted_by_key(|step| step.sent));
        let last = curve.steps.last().unwrap();
        assert_eq!(
            (last.sent, last.acknowledged, last.right_edge),
            (999_990, 499_995, Some(1_000_090))
        );
        assert!(curve.retransmitted.len() <= REPEATED && curve.retransmitted.len() > REPEATED / 4);
        assert_eq!(curve.retransmitted[0], (0, 0));
    }

    #[test]
    fn times_that_cannot_be_harm_nothing() {
        let mut curves = Curves::default();
        curves.add(0, Nanos::MIN, CurveStep::default());
        curves.add(0, Nanos::MAX, CurveStep { sent: 5, ..CurveStep::default() });
        let curve = curves.told(0, Side::Client, Nanos::MAX);
        assert_eq!(curve.steps.last().unwrap().sent, 5);
    }
}
