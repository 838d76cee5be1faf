//! Packets too large for the path: whether full-size segments arrive, and which segments were
//! retransmitted in smaller pieces, as a sender does that learns of a smaller path MTU (RFC 1191,
//! RFC 8201) or searches for it (RFC 4821, `tcp_mtu_probing`).

use crate::sequence::Sequence;

/// Path MTU discovery of one direction, as far as its segments show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathMtu {
    full_size: FullSize,
    /// Where the one ends that is in flight.
    full_size_end: Sequence,
    /// The last run of segments that were larger than the one before them.
    run: Run,
    /// Bytes of the last new segment.
    last_length: u32,
    resegmented: u32,
    passed_over: u32,
}

/// What became of the first full-size segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum FullSize {
    /// None was sent, or the one that was sent has been retransmitted in smaller pieces.
    #[default]
    NotSent,
    /// One is in flight.
    InFlight,
    /// One was acknowledged: full-size segments arrive.
    Arrived,
}

/// Segments of equal length that follow each other.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    from: Sequence,
    to: Sequence,
    /// Bytes of each segment.
    length: u32,
}

impl Run {
    fn contains_end(&self, end: Sequence) -> bool {
        end > self.from && end <= self.to
    }
}

impl PathMtu {
    /// New data passes; no packet may have more than `mss` bytes of it.
    #[inline(always)]
    pub(crate) fn sent(&mut self, from: Sequence, to: Sequence, length: u32, mss: u32) {
        if length <= mss {
            self.sent_small(from, to, length);
        } else {
            if length == self.run.length && from == self.run.to {
                self.run.to = to;
            }
            self.last_length = length;
        }
        if let FullSize::NotSent = self.full_size
            && length >= mss / 10 * 9
        {
            self.full_size = FullSize::InFlight;
            self.full_size_end = from.plus(mss.min(length));
        }
    }

    /// The same for no more than [`PathMtu::max_small`] bytes.
    #[inline(always)]
    pub(crate) fn sent_small(&mut self, from: Sequence, to: Sequence, length: u32) {
        if length == self.run.length && from == self.run.to {
            self.run.to = to;
        } else if length > self.last_length {
            self.run = Run { from, to, length };
        }
        self.last_length = length;
    }

    /// Everything before `to` was acknowledged, for the first time; `in_flight` bytes after it were sent.
    #[inline]
    pub(crate) fn acknowledged(&mut self, to: Sequence, in_flight: u64, mss: u32) {
        if self.is_in_flight() {
            if self.full_size_end <= to {
                self.full_size = FullSize::Arrived;
            } else {
                let full = in_flight / u64::from(mss.max(1));
                self.passed_over = u32::try_from(full).unwrap_or(u32::MAX);
            }
        }
    }

    /// Whether a full-size segment is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.full_size == FullSize::InFlight
    }

    /// Most bytes of a segment that shows nothing new of full-size ones.
    pub(crate) fn max_small(&self, mss: u32) -> u32 {
        match self.full_size {
            FullSize::NotSent => (mss / 10 * 9).saturating_sub(1),
            FullSize::InFlight => 0,
            FullSize::Arrived => u32::MAX,
        }
    }

    /// Data is retransmitted: in smaller pieces, if its segment was too large for the path.
    pub(crate) fn retransmitted(&mut self, from: Sequence, to: Sequence) {
        let run = self.run;
        let smaller = to.since(from) < u64::from(run.length);
        if !smaller || from < run.from || to > run.to {
            return;
        }
        self.resegmented = self.resegmented.saturating_add(1);
        if self.is_in_flight() && run.contains_end(self.full_size_end) {
            self.full_size = FullSize::NotSent;
        }
    }

    /// Pieces in which larger segments were retransmitted.
    pub fn resegmented(&self) -> u32 {
        self.resegmented
    }

    /// Full-size segments in flight when the last segment before them, a smaller one, was acknowledged:
    /// the receiver was there. None where full-size segments arrive.
    pub fn passed_over(&self) -> u32 {
        if let FullSize::Arrived = self.full_size { 0 } else { self.passed_over }
    }

    /// Whether a full-size segment was ever acknowledged; `None`: none was sent.
    pub fn full_size_arrived(&self) -> Option<bool> {
        match self.full_size {
            FullSize::NotSent => None,
            FullSize::InFlight => Some(false),
            FullSize::Arrived => Some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Sequence = Sequence;

    #[test]
    fn a_segment_retransmitted_in_pieces_was_too_large() {
        let mut path_mtu = PathMtu::default();
        path_mtu.sent(AT(1), AT(201), 200, 1448);
        path_mtu.acknowledged(AT(201), 0, 1448);
        assert_eq!(path_mtu.full_size_arrived(), None);
        path_mtu.sent(AT(201), AT(1649), 1448, 1448);
        path_mtu.sent(AT(1649), AT(3097), 1448, 1448);
        path_mtu.retransmitted(AT(201), AT(1649));
        assert_eq!((path_mtu.resegmented(), path_mtu.full_size_arrived()), (0, Some(false)));
        path_mtu.retransmitted(AT(201), AT(1225));
        path_mtu.retransmitted(AT(1225), AT(2249));
        path_mtu.acknowledged(AT(2249), 848, 1448);
        assert_eq!((path_mtu.resegmented(), path_mtu.full_size_arrived()), (2, None));
    }

    #[test]
    fn a_smaller_segment_is_acknowledged_and_the_full_ones_after_it_are_not() {
        let mut path_mtu = PathMtu::default();
        path_mtu.sent(AT(1), AT(243), 242, 1448);
        path_mtu.sent(AT(243), AT(1_691), 1448, 1448);
        path_mtu.sent(AT(1_691), AT(7_483), 5_792, 1448);
        assert_eq!(path_mtu.passed_over(), 0);
        path_mtu.acknowledged(AT(243), 7_240, 1448);
        assert_eq!((path_mtu.passed_over(), path_mtu.full_size_arrived()), (5, Some(false)));
        path_mtu.acknowledged(AT(1_691), 5_792, 1448);
        assert_eq!((path_mtu.passed_over(), path_mtu.full_size_arrived()), (0, Some(true)));
    }

    #[test]
    fn segments_put_together_by_an_offload_arrive_too() {
        let mut path_mtu = PathMtu::default();
        path_mtu.sent(AT(1), AT(14_481), 14_480, 1448);
        path_mtu.acknowledged(AT(1_449), 13_032, 1448);
        assert_eq!(path_mtu.full_size_arrived(), Some(true));
        path_mtu.retransmitted(AT(1_449), AT(2_897));
        assert_eq!(path_mtu.resegmented(), 0, "put together for the capture alone");
    }
}
