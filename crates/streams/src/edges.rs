//! The right edge of the window that one end offers, and when: the other end learns of it later than
//! a place of capture that is nearer to the first.

use crate::Nanos;
use crate::sequence::Sequence;

/// How many are remembered: enough for a round trip, in steps.
const REMEMBERED: usize = 8;
/// Edges that are closer together than this are one: half a millisecond.
const STEP: Nanos = 500_000;

/// The last edges, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Edges {
    all: [(Nanos, Sequence); REMEMBERED],
    used: u8,
    /// Distance at which they are kept: grows until they last for a round trip.
    step: Nanos,
}

impl Edges {
    /// An edge was offered that is further than those before.
    #[inline]
    pub(crate) fn moved(&mut self, edge: Sequence, at: Nanos) {
        let step = self.step.max(STEP);
        let used = usize::from(self.used);
        // The newest may not be a step away from the one before it: it is replaced then.
        let close = used >= 2 && self.all[0].0.saturating_sub(self.all[1].0) < step;
        if !close {
            let kept = used.min(REMEMBERED - 1);
            self.all.copy_within(..kept, 1);
            self.used = kept as u8 + 1;
        }
        self.all[0] = (at, edge);
    }

    /// The edge as it was known at that moment; `None`: none was.
    #[inline]
    pub(crate) fn at(&self, moment: Nanos) -> Option<Sequence> {
        let all = &self.all[..usize::from(self.used)];
        let known = all.iter().find(|(at, _)| *at <= moment);
        // Further back than is remembered: the oldest is the best guess.
        known.or(all.last()).map(|(_, edge)| *edge)
    }

    /// How long ago the farthest question will be: edges are kept that long.
    pub(crate) fn last_for(&mut self, time: Nanos) {
        self.step = time / (REMEMBERED as Nanos - 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_that_was_known_a_while_ago() {
        let mut edges = Edges::default();
        assert_eq!(edges.at(5), None);
        edges.last_for(60_000_000);
        for step in 0..20 {
            edges.moved(Sequence(step * 100), step as Nanos * 10_000_000);
        }
        assert_eq!(edges.at(190_000_000), Some(Sequence(1900)));
        assert_eq!(edges.at(155_000_000), Some(Sequence(1500)));
        assert_eq!(edges.at(0), Some(Sequence(1200)), "the oldest that is left");
    }

    #[test]
    fn many_edges_in_a_moment_are_one() {
        let mut edges = Edges::default();
        for step in 0..100 {
            edges.moved(Sequence(step), step as Nanos * 1_000);
        }
        assert_eq!(edges.at(99_000), Some(Sequence(99)));
        assert!(edges.used <= 2);
    }
}
