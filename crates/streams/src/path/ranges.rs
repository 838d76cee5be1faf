//! Ranges of sequence numbers.

use crate::sequence::Sequence;

/// Ranges that are kept: of more, the two lowest become one.
const MAX_RANGES: usize = 1024;

/// From the first number to the one after the last.
pub(super) type Range = (Sequence, Sequence);

/// Ranges of bytes that do not touch each other, lowest first, in bounded memory.
#[derive(Debug, Clone, Default)]
pub(super) struct ByteRanges(Vec<Range>);

impl ByteRanges {
    /// One range.
    pub(super) fn of(from: Sequence, to: Sequence) -> Self {
        ByteRanges(vec![(from, to)])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.0.iter().copied()
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range> {
        self.0.first().copied()
    }

    /// The end of the highest range.
    pub(super) fn end(&self) -> Option<Sequence> {
        self.0.last().map(|(_, end)| *end)
    }

    /// Bytes of all ranges.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(from, to)| to.since(*from)).sum()
    }

    /// Adds a range.
    pub(super) fn add(&mut self, from: Sequence, to: Sequence) {
        if from >= to {
            return;
        }
        // Almost always at the end.
        if let Some(last) = self.0.last_mut()
            && from >= last.0
            && from <= last.1
        {
            last.1 = last.1.max(to);
            return;
        }
        let first = self.0.partition_point(|known| known.1 < from);
        let end = self.0.partition_point(|known| known.0 <= to);
        let touched = self.0.get(first..end).unwrap_or(&[]);
        let low = touched.first().map_or(from, |lowest| lowest.0.min(from));
        let high = touched.last().map_or(to, |highest| highest.1.max(to));
        self.0.splice(first..end.max(first), [(low, high)]);
        if self.0.len() > MAX_RANGES
            && let [lowest, second, ..] = self.0.as_mut_slice()
        {
            lowest.1 = second.1;
            self.0.remove(1);
        }
    }

    /// Takes a range away. Returns whether any of it was there.
    pub(super) fn remove(&mut self, from: Sequence, to: Sequence) -> bool {
        let first = self.0.partition_point(|known| known.1 <= from);
        let end = self.0.partition_point(|known| known.0 < to);
        let touched = self.0.get(first..end).unwrap_or(&[]);
        let (Some(lowest), Some(highest)) = (touched.first(), touched.last()) else {
            return false;
        };
        if from >= to {
            return false;
        }
        let (before, after) = ((lowest.0, from), (to, highest.1));
        let left = [before, after].into_iter().filter(|(from, to)| from < to);
        self.0.splice(first..end, left);
        true
    }

    /// Whether all of a range is there.
    pub(super) fn covers(&self, from: Sequence, to: Sequence) -> bool {
        let first = self.0.partition_point(|known| known.1 < to);
        self.0.get(first).is_some_and(|known| known.0 <= from && to <= known.1)
    }

    /// Whether any of a range is there.
    pub(super) fn overlaps(&self, from: Sequence, to: Sequence) -> bool {
        let first = self.0.partition_point(|known| known.1 <= from);
        self.0.get(first).is_some_and(|known| known.0 < to && from < to)
    }

    /// Forgets the ranges that end at this number or before.
    pub(super) fn forget_below(&mut self, floor: Sequence) {
        let gone = self.0.partition_point(|known| known.1 <= floor);
        if gone > 0 {
            self.0.drain(..gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Sequence {
        Sequence(number)
    }

    #[test]
    fn ranges_are_joined_and_split() {
        let mut ranges = ByteRanges::of(at(10), at(20));
        ranges.add(at(30), at(40));
        ranges.add(at(20), at(30));
        assert!(ranges.covers(at(10), at(40)) && ranges.iter().count() == 1);
        assert!(ranges.remove(at(15), at(18)) && !ranges.remove(at(15), at(18)));
        assert!(ranges.overlaps(at(17), at(19)) && !ranges.covers(at(17), at(19)));
        assert_eq!(ranges.bytes(), 27);
        ranges.forget_below(at(15));
        assert_eq!(ranges.bytes(), 22);
        ranges.add(at(40), at(40));
        assert_eq!(ranges.bytes(), 22);
    }

    #[test]
    fn they_agree_with_single_bytes() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut ranges, mut bytes) = (ByteRanges::default(), [false; 100]);
        for _ in 0..2_000 {
            let (from, length, adds) = (next(90), next(10), next(2) == 0);
            let to = from + length;
            let (low, high) = (from as usize, to as usize);
            let any = bytes[low..high].contains(&true);
            let all = !bytes[low..high].contains(&false);
            assert_eq!(ranges.overlaps(at(from), at(to)), any);
            assert!(length == 0 || ranges.covers(at(from), at(to)) == all);
            bytes[low..high].fill(adds);
            if adds {
                ranges.add(at(from), at(to));
            } else {
                assert_eq!(ranges.remove(at(from), at(to)), any);
            }
            assert_eq!(ranges.bytes(), bytes.iter().filter(|byte| **byte).count() as u64);
        }
    }
}
