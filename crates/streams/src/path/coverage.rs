//! What both captures must have seen of a direction.

use crate::time::Nanos;

/// A packet that left less than this before the other capture ended may have arrived after it.
pub(super) const END_MARGIN: Nanos = 1_000_000_000;
/// The same, if something that left later had arrived before the end.
const OVERTAKEN_MARGIN: Nanos = 100_000_000;

/// When both captures ran, for packets of one direction, by the client's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coverage {
    /// First and last packet of the capture at which they leave.
    pub(super) leaving: (Nanos, Nanos),
    /// The same of the capture at which they arrive.
    pub(super) arriving: (Nanos, Nanos),
    /// Shortest time from one to the other.
    pub(super) min_delay: Nanos,
}

impl Coverage {
    /// Whether the other capture must have seen a packet that left then, if it arrived.
    pub(super) fn must_see_arriving(&self, left_at: Nanos, is_overtaken: bool) -> bool {
        let (first, last) = self.arriving;
        let arrives_at = left_at.saturating_add(self.min_delay);
        let margin = if is_overtaken { OVERTAKEN_MARGIN } else { END_MARGIN };
        arrives_at >= first && arrives_at.saturating_add(margin) <= last
    }

    /// Whether the capture at the sender must have seen a packet that arrived then.
    pub(super) fn must_see_leaving(&self, arrived_at: Nanos) -> bool {
        let (first, last) = self.leaving;
        let left_at = arrived_at.saturating_sub(self.min_delay);
        left_at.saturating_sub(END_MARGIN) >= first && left_at <= last
    }
}
