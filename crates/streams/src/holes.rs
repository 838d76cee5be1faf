//! Holes: ranges of a direction that were not seen, while what follows them was.

use crate::Nanos;
use crate::sequence::Sequence;

/// Holes that are remembered: beyond that the oldest is taken for lost before the capture.
const HOLES: usize = 8;

/// Ranges that have not been seen, oldest first, and when what follows them was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holes {
    all: [Hole; HOLES],
    used: u8,
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
        if usize::from(self.used) == HOLES {
            self.all.copy_within(1.., 0);
            self.used -= 1;
        }
        self.all[usize::from(self.used)] = hole;
        self.used += 1;
    }

    /// Takes a range out of the holes, when it was in one.
    pub(crate) fn fill(&mut self, from: Sequence, to: Sequence) -> Option<Filled> {
        let used = usize::from(self.used);
        let number = self.all[..used].iter().position(|hole| from < hole.to && to > hole.from)?;
        let hole = self.all[number];
        let missing = to.min(hole.to).since(from.max(hole.from));
        let (before, after) = (from > hole.from, to < hole.to);
        match (before, after) {
            (false, false) => {
                self.all.copy_within(number + 1..used, number);
                self.used -= 1;
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
        for number in 1..20 {
            holes.open(hole(1000 * number, 1000 * number + 1));
        }
        assert_eq!(holes.fill(at(1000), at(1001)), None, "the oldest were given up");
        assert_eq!(holes.fill(at(19_000), at(19_001)), filled(1));
    }
}
