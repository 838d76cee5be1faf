//! Packets that are too large for the path: whether segments of full size arrive, and which were sent
//! again in smaller pieces.

use crate::sequence::Sequence;

/// What became of large segments of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sizes {
    /// The end of the first segment of full size, until it is acknowledged.
    full: Sequence,
    /// The last segments of one length, larger than the one before them: where they began and ended.
    probe: (Sequence, Sequence),
    /// That length, and that of the last segment.
    probed: u32,
    before: u32,
    cut: u32,
    arrived: bool,
}

impl Sizes {
    /// New data passes, in packets of which none may have more than `segment` bytes of it.
    #[inline]
    pub(crate) fn sent(&mut self, from: Sequence, to: Sequence, length: u32, segment: u32) {
        if length == self.probed && from == self.probe.1 {
            self.probe.1 = to;
        } else if length > self.before && length <= segment {
            (self.probe, self.probed) = ((from, to), length);
        }
        self.before = length;
        if !self.arrived && self.full.known().is_none() && length >= segment / 10 * 9 {
            self.full = from.plus(segment.min(length));
        }
    }

    /// All before `to` was acknowledged.
    #[inline]
    pub(crate) fn acknowledged(&mut self, to: Sequence) {
        if self.full.known().is_some_and(|full| full <= to) {
            (self.full, self.arrived) = (Sequence::default(), true);
        }
    }

    /// Old data passes again: in smaller pieces, when the first packet was too large.
    pub(crate) fn again(&mut self, from: Sequence, to: Sequence) {
        let (first, last) = self.probe;
        if to.since(from) < u64::from(self.probed) && from >= first && to <= last {
            self.cut = self.cut.saturating_add(1);
            if self.full > first && self.full <= last {
                self.full = Sequence::default();
            }
        }
    }

    /// Segments that were sent again in smaller pieces, the pieces.
    pub fn cut_smaller(&self) -> u32 {
        self.cut
    }

    /// Whether a segment of full size was ever acknowledged; `None`: none was sent.
    pub fn full_size_arrived(&self) -> Option<bool> {
        (self.arrived || self.full.known().is_some()).then_some(self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Sequence = Sequence;

    #[test]
    fn what_is_sent_again_in_pieces_was_too_large() {
        let mut sizes = Sizes::default();
        sizes.sent(AT(1), AT(201), 200, 1448);
        sizes.acknowledged(AT(201));
        assert_eq!(sizes.full_size_arrived(), None);
        sizes.sent(AT(201), AT(1649), 1448, 1448);
        sizes.sent(AT(1649), AT(3097), 1448, 1448);
        sizes.again(AT(201), AT(1649));
        assert_eq!((sizes.cut_smaller(), sizes.full_size_arrived()), (0, Some(false)));
        sizes.again(AT(201), AT(1225));
        sizes.again(AT(1225), AT(2249));
        sizes.acknowledged(AT(2249));
        assert_eq!((sizes.cut_smaller(), sizes.full_size_arrived()), (2, None));
    }

    #[test]
    fn what_arrives_is_told_of_super_segments_too() {
        let mut sizes = Sizes::default();
        sizes.sent(AT(1), AT(14_481), 14_480, 1448);
        sizes.acknowledged(AT(1_449));
        assert_eq!(sizes.full_size_arrived(), Some(true));
        sizes.again(AT(1_449), AT(2_897));
        assert_eq!(sizes.cut_smaller(), 0, "it was put together for the capture only");
    }
}
