//! Gaps in the sequence numbers of a direction: data that was not captured, while later data was.

use crate::sequence::Sequence;
use crate::time::Nanos;

/// Gaps kept: what fills an older one counts as retransmitted. A path that lets one segment in
/// twenty overtake others by 15 ms has a dozen open at 200 Mbit/s; hostile packets shall not fill
/// the memory.
const MAX_GAPS: usize = 256;

/// The open gaps, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceGaps {
    gaps: Vec<Gap>,
}

/// A range of sequence numbers that was not captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: Sequence,
    pub(crate) to: Sequence,
    /// When the data after it passed.
    pub(crate) since: Nanos,
    /// Time stamp of the data after it.
    pub(crate) timestamp: Option<u32>,
    /// IP identification of the data after it; 0 for none.
    pub(crate) id: u16,
}

/// Place of a gap among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapIndex(usize);

impl SequenceGaps {
    /// A new gap.
    pub(crate) fn open(&mut self, gap: Gap) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.remove(0);
        }
        self.gaps.push(gap);
    }

    /// Whether any data after this is missing.
    pub(crate) fn any_after(&self, acknowledged: Sequence) -> bool {
        self.gaps.iter().any(|gap| gap.to > acknowledged)
    }

    /// A gap that may continue the last one: where half of the packets are not captured, each
    /// acknowledgement adds to it.
    pub(crate) fn extend(&mut self, gap: Gap) {
        match self.gaps.last_mut().filter(|last| last.to == gap.from && last.timestamp.is_none()) {
            Some(last) => (last.to, last.since) = (gap.to, gap.since),
            None => self.open(gap),
        }
    }

    /// The oldest gap that overlaps with a range.
    pub(crate) fn find(&self, from: Sequence, to: Sequence) -> Option<(GapIndex, &Gap)> {
        let mut gaps = self.gaps.iter().enumerate();
        let (index, gap) = gaps.find(|(_, gap)| from < gap.to && to > gap.from)?;
        Some((GapIndex(index), gap))
    }

    /// For how long this gap has been open.
    pub(crate) fn age(&self, GapIndex(index): GapIndex, at: Nanos) -> Nanos {
        self.gaps.get(index).map_or(0, |gap| at.saturating_sub(gap.since).max(0))
    }

    /// Takes a range out of a gap. Returns how many of its bytes were missing.
    pub(crate) fn fill(&mut self, GapIndex(index): GapIndex, from: Sequence, to: Sequence) -> u64 {
        let Some(gap) = self.gaps.get_mut(index) else { return 0 };
        let whole = *gap;
        match (from > gap.from, to < gap.to) {
            (false, false) => {
                self.gaps.remove(index);
            }
            (true, false) => gap.to = from,
            (false, true) => gap.from = to,
            (true, true) => {
                gap.to = from;
                self.open(Gap { from: to, ..whole });
            }
        }
        to.min(whole.to).since(from.max(whole.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_filled_from_any_side() {
        let at = Sequence;
        let gap = |from, to| Gap { from: at(from), to: at(to), since: 7, timestamp: None, id: 0 };
        let fill = |gaps: &mut SequenceGaps, from, to| {
            let (index, found) = gaps.find(at(from), at(to))?;
            let since = found.since;
            Some((since, gaps.fill(index, at(from), at(to))))
        };
        let mut gaps = SequenceGaps::default();
        gaps.open(gap(100, 200));
        assert_eq!(fill(&mut gaps, 0, 100), None);
        assert_eq!(fill(&mut gaps, 140, 150), Some((7, 10)));
        assert_eq!(fill(&mut gaps, 90, 140), Some((7, 40)));
        assert_eq!(fill(&mut gaps, 150, 300), Some((7, 50)));
        assert_eq!(fill(&mut gaps, 100, 200), None);
        gaps.extend(gap(10, 20));
        gaps.extend(Gap { since: 9, ..gap(20, 30) });
        assert_eq!(fill(&mut gaps, 10, 30), Some((9, 20)));
        let many = MAX_GAPS as u64 + 2;
        for number in 1..=many {
            gaps.open(gap(1000 * number, 1000 * number + 1));
        }
        assert_eq!(gaps.gaps.len(), MAX_GAPS, "memory is bounded");
        assert_eq!(fill(&mut gaps, 1000, 1001), None, "the oldest were given up");
        assert_eq!(fill(&mut gaps, 3000, 3001), Some((7, 1)));
        assert_eq!(fill(&mut gaps, 1000 * many, 1000 * many + 1), Some((7, 1)));
    }
}
