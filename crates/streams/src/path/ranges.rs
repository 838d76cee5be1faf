//! Ranges of sequence numbers.

use crate::sequence::Sequence;

/// Ranges that are kept: beyond that the two lowest become one.
const MOST: usize = 1024;

/// Ranges of bytes that do not touch, lowest first. Bounded: of too many, the two lowest become one.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges(Vec<(Sequence, Sequence)>);

impl Ranges {
    /// One range.
    pub(super) fn of(from: Sequence, to: Sequence) -> Self {
        Ranges(vec![(from, to)])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Sequence, Sequence)> + '_ {
        self.0.iter().copied()
    }

    /// The lowest.
    pub(super) fn first(&self) -> Option<(Sequence, Sequence)> {
        self.0.first().copied()
    }

    /// Bytes of them.
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
        let (mut low, mut high) = (from, to);
        if first < end {
            low = low.min(self.0[first].0);
            high = high.max(self.0[end - 1].1);
        }
        self.0.splice(first..end, [(low, high)]);
        if self.0.len() > MOST {
            let (_, second) = self.0[1];
            self.0[0].1 = second;
            self.0.remove(1);
        }
    }

    /// Takes a range away; whether any of it was there.
    pub(super) fn remove(&mut self, from: Sequence, to: Sequence) -> bool {
        let first = self.0.partition_point(|known| known.1 <= from);
        let end = self.0.partition_point(|known| known.0 < to);
        if first >= end || from >= to {
            return false;
        }
        let before = (self.0[first].0, from);
        let after = (to, self.0[end - 1].1);
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
    pub(super) fn touches(&self, from: Sequence, to: Sequence) -> bool {
        let first = self.0.partition_point(|known| known.1 <= from);
        self.0.get(first).is_some_and(|known| known.0 < to && from < to)
    }

    /// Forgets all below a number.
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
    fn ranges_grow_together_and_come_apart() {
        let mut ranges = Ranges::of(at(10), at(20));
        ranges.add(at(30), at(40));
        ranges.add(at(20), at(30));
        assert!(ranges.covers(at(10), at(40)) && ranges.iter().count() == 1);
        assert!(ranges.remove(at(15), at(18)) && !ranges.remove(at(15), at(18)));
        assert!(ranges.touches(at(17), at(19)) && !ranges.covers(at(17), at(19)));
        assert_eq!(ranges.bytes(), 27);
        ranges.forget_below(at(15));
        assert_eq!(ranges.bytes(), 22);
        ranges.add(at(40), at(40));
        assert_eq!(ranges.bytes(), 22);
    }

    #[test]
    fn as_slowly_done_byte_by_byte() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut ranges, mut bytes) = (Ranges::default(), [false; 100]);
        for _ in 0..2_000 {
            let (from, length, adds) = (next(90), next(10), next(2) == 0);
            let to = from + length;
            let (low, high) = (from as usize, to as usize);
            let any = bytes[low..high].contains(&true);
            let all = !bytes[low..high].contains(&false);
            assert_eq!(ranges.touches(at(from), at(to)), any);
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
