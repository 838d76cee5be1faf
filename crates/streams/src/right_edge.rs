//! The right edge of the window that one end advertises, and when: the other end learns of it later
//! than a capture point near the first.

use crate::sequence::Sequence;
use crate::time::Nanos;

/// Edges kept: enough for a round trip, in intervals.
const MAX_EDGES: usize = 8;
/// Edges closer together than this, half a millisecond, count as one.
const MIN_INTERVAL: Nanos = 500_000;

/// The latest right edges, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RightEdges {
    edges: [(Nanos, Sequence); MAX_EDGES],
    used: u8,
    /// Time between two edges that are kept: long enough that all of them span a round trip.
    interval: Nanos,
}

impl RightEdges {
    /// The right edge moved forward.
    #[inline]
    pub(crate) fn advance(&mut self, edge: Sequence, at: Nanos) {
        let interval = self.interval.max(MIN_INTERVAL);
        let [newest, second, ..] = self.edges;
        // The newest edge may be less than an interval after the one before: then it is replaced.
        let close = self.used >= 2 && newest.0.saturating_sub(second.0) < interval;
        if !close {
            self.edges.copy_within(..MAX_EDGES - 1, 1);
            self.used = (self.used + 1).min(MAX_EDGES as u8);
        }
        if let Some(newest) = self.edges.first_mut() {
            *newest = (at, edge);
        }
    }

    /// The edge that was known at that moment; `None`: none was.
    #[inline]
    pub(crate) fn known_at(&self, moment: Nanos) -> Option<Sequence> {
        let mut edges = self.edges.iter().take(usize::from(self.used));
        // Before all that are kept, the oldest is the best guess.
        let known = edges.clone().find(|(at, _)| *at <= moment).or(edges.next_back());
        known.map(|(_, edge)| *edge)
    }

    /// Keeps edges for this time.
    pub(crate) fn keep_for(&mut self, time: Nanos) {
        self.interval = time / (MAX_EDGES as Nanos - 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_known_a_while_ago() {
        let mut edges = RightEdges::default();
        assert_eq!(edges.known_at(5), None);
        edges.keep_for(60_000_000);
        for step in 0..20 {
            edges.advance(Sequence(step * 100), step as Nanos * 10_000_000);
        }
        assert_eq!(edges.known_at(190_000_000), Some(Sequence(1900)));
        assert_eq!(edges.known_at(155_000_000), Some(Sequence(1500)));
        assert_eq!(edges.known_at(0), Some(Sequence(1200)), "the oldest that is kept");
    }

    #[test]
    fn many_edges_in_a_moment_count_as_one() {
        let mut edges = RightEdges::default();
        for step in 0..100 {
            edges.advance(Sequence(step), step as Nanos * 1_000);
        }
        assert_eq!(edges.known_at(99_000), Some(Sequence(99)));
        assert!(edges.used <= 2);
    }
}
