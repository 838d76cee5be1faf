//! Holes: ranges of a direction that were not seen, while what follows them was.

use crate::Nanos;
use crate::sequence::Sequence;

/// Holes that are remembered: beyond that what fills the oldest is taken for sent again. A path that
/// lets one segment in twenty overtake others by 15 ms has a dozen open at 200 Mbit/s; a stranger's
/// packets shall not fill the memory.
const HOLES: usize = 256;

/// Ranges that have not been seen, oldest first, and when what follows them was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holes {
    all: Vec<Hole>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hole {
    pub(crate) from: Sequence,
    pub(crate) to: Sequence,
    pub(crate) since: Nanos,
    /// Time stamp of what follows it.
    pub(crate) stamp: Option<u32>,
}

/// What a segment filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Since when the hole was there.
    pub(crate) since: Nanos,
    /// Time stamp of what follows it.
    pub(crate) stamp: Option<u32>,
    /// Bytes of the segment that were missing.
    pub(crate) missing: u64,
}

impl Holes {
    pub(crate) fn open(&mut self, hole: Hole) {
        if self.all.len() == HOLES {
            self.all.remove(0);
        }
        self.all.push(hole);
    }

    /// A hole that may go on where the last one ends: where half of the packets are not captured, there
    /// is one with each acknowledgement.
    pub(crate) fn widen(&mut self, hole: Hole) {
        match self.all.last_mut().filter(|last| last.to == hole.from && last.stamp.is_none()) {
            Some(last) => (last.to, last.since) = (hole.to, hole.since),
            None => self.open(hole),
        }
    }

    /// Takes a range out of the holes, when it was in one.
    pub(crate) fn fill(&mut self, from: Sequence, to: Sequence) -> Option<Filled> {
        let number = self.all.iter().position(|hole| from < hole.to && to > hole.from)?;
        let hole = self.all[number];
        let missing = to.min(hole.to).since(from.max(hole.from));
        let (before, after) = (from > hole.from, to < hole.to);
        match (before, after) {
            (false, false) => {
                self.all.remove(number);
            }
            (true, false) => self.all[number].to = from,
            (false, true) => self.all[number].from = to,
            (true, true) => {
                self.all[number].to = from;
                self.open(Hole { from: to, ..hole });
            }
        }
        Some(Filled { since: hole.since, stamp: hole.stamp, missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_filled_from_any_side() {
        let (at, hole) = (Sequence, |from, to| Hole {
            from: Sequence(from),
            to: Sequence(to),
            since: 7,
            stamp: None,
        });
        let filled = |missing| Some(Filled { since: 7, stamp: None, missing });
        let mut holes = Holes::default();
        holes.open(hole(100, 200));
        assert_eq!(holes.fill(at(0), at(100)), None);
        assert_eq!(holes.fill(at(140), at(150)), filled(10));
        assert_eq!(holes.fill(at(90), at(140)), filled(40));
        assert_eq!(holes.fill(at(150), at(300)), filled(50));
        assert_eq!(holes.fill(at(100), at(200)), None);
        holes.widen(hole(10, 20));
        holes.widen(Hole { since: 9, ..hole(20, 30) });
        assert_eq!(holes.fill(at(10), at(30)), Some(Filled { since: 9, stamp: None, missing: 20 }));
        let many = HOLES as u64 + 2;
        for number in 1..=many {
            holes.open(hole(1000 * number, 1000 * number + 1));
        }
        assert_eq!(holes.all.len(), HOLES, "the memory is bounded");
        assert_eq!(holes.fill(at(1000), at(1001)), None, "the oldest were given up");
        assert_eq!(holes.fill(at(3000), at(3001)), filled(1));
        assert_eq!(holes.fill(at(1000 * many), at(1000 * many + 1)), filled(1));
    }
}
