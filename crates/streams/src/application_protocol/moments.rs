//! The moments at which something happened, as far as anybody asks how many there were.

use crate::time::Nanos;

/// What happens in one interval of this length is of one moment: it is the shortest wait that people notice.
/// (One moment may touch two intervals.)
const INTERVAL: Nanos = 100_000_000;
/// More are not counted apart: that many are no accident.
const MAX_MOMENTS: usize = 4;

/// Moments; bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    intervals: [Nanos; MAX_MOMENTS],
    used: u8,
}

impl Moments {
    /// Something happened.
    pub(crate) fn add(&mut self, at: Nanos) {
        self.add_interval(at.div_euclid(INTERVAL));
    }

    /// Adds those of another one.
    pub(crate) fn merge(&mut self, other: &Moments) {
        other.iter().for_each(|interval| self.add_interval(interval));
    }

    /// How many moments there were; as many as are counted stand for more.
    pub(crate) fn count(&self) -> u64 {
        self.used.into()
    }

    fn iter(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.intervals.iter().copied().take(self.used.into())
    }

    fn add_interval(&mut self, interval: Nanos) {
        if self.iter().any(|known| known == interval) {
            return;
        }
        if let Some(free) = self.intervals.get_mut(usize::from(self.used)) {
            *free = interval;
            self.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_happens_together_is_one_moment() {
        let mut moments = Moments::default();
        (0..75).for_each(|number| moments.add(1_720 * MS + number * MS / 10));
        assert_eq!(moments.count(), 1);
        moments.add(1_810 * MS);
        moments.add(-50 * MS);
        assert_eq!(moments.count(), 3);
        let mut others = Moments::default();
        (0..9).for_each(|second| others.add(second * 1_000 * MS));
        assert_eq!(others.count(), 4);
        moments.merge(&others);
        assert_eq!(moments.count(), 4);
    }
}
