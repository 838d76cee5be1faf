//! The budget: every interval of a stream belongs to one part, and the parts add up to its length.
//!
//! The hands of the clock move when data passes, when the handshake goes on, and when a stall ends:
//! what passed since then is given to who was waited for. Acknowledgements alone move nothing, they
//! only tell when there was nothing left to wait for.

use model::TimeCategory;

use crate::{Maybe, Nanos};

/// How many parts there are.
pub const PARTS: usize = TimeCategory::ALL.len();

/// Time by part, nanoseconds, in the order of [`Part::ALL`].
pub type Parts = [Nanos; PARTS];

/// The budget of a stream.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// By who spent it, or was waited for: 0 is the client.
    pub sides: [Parts; 2],
    /// The same of the turn that goes on, microseconds.
    turn: [u32; PARTS],
    /// All before this moment has been given to a part.
    given: Maybe,
}

impl Budget {
    /// The stream begins.
    pub(crate) fn begin(&mut self, at: Nanos) {
        self.given.or_set(at);
    }

    /// Since when time has not been given to a part.
    #[inline]
    pub(crate) fn since(&self, at: Nanos) -> Nanos {
        at.saturating_sub(self.given.get().unwrap_or(at)).max(0)
    }

    /// All time up to this moment.
    #[inline]
    pub(crate) fn until(&mut self, at: Nanos, side: usize, part: TimeCategory) {
        let time = self.since(at);
        if time > 0 {
            self.sides[side][part as usize] += time;
            if part != TimeCategory::ClientIdle {
                let sum = &mut self.turn[part as usize];
                *sum = sum.saturating_add(u32::try_from(time / 1_000).unwrap_or(u32::MAX));
            }
        }
        self.given = self.given.get().map_or(at, |given| given.max(at)).into();
    }

    /// All time up to this moment: the first of it, at most so long, to one part, the rest to another.
    #[inline]
    pub(crate) fn split(
        &mut self,
        at: Nanos,
        side: usize,
        first: (Nanos, TimeCategory),
        rest: TimeCategory,
    ) {
        let time = self.since(at).min(first.0.max(0));
        let between = self.given.get().unwrap_or(at).saturating_add(time);
        self.until(between, side, first.1);
        self.until(at, side, rest);
    }

    /// A turn begins; what the one before took, microseconds.
    pub(crate) fn turn_over(&mut self) -> [u32; PARTS] {
        std::mem::take(&mut self.turn)
    }
}

/// The peer's window when it last grew by a quarter, and the time that was spent on it until then,
/// microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    window: u32,
    spent: u32,
    /// Time that was the reader's since, microseconds.
    behind: u32,
}

impl Settled {
    /// The window is so large now, and so much time was spent on it, microseconds.
    #[inline]
    pub(crate) fn grown(&mut self, window: u32, spent: Nanos) {
        if window / 5 * 4 > self.window {
            *self = Settled { window, spent: micros(spent), behind: 0 };
        }
    }

    /// Time that does not count: the window was small, or opened late, because its reader was behind.
    #[cold]
    pub(crate) fn leave_out(&mut self, spent: Nanos) {
        self.spent = self.spent.saturating_add(micros(spent));
        self.behind = self.behind.saturating_add(micros(spent));
    }

    /// Time that was the reader's since the window last grew, microseconds.
    pub(crate) fn behind(&self) -> u64 {
        self.behind.into()
    }

    /// Time spent since, microseconds.
    pub(crate) fn since(&self, spent: Nanos) -> u64 {
        micros(spent).saturating_sub(self.spent).into()
    }
}

fn micros(time: Nanos) -> u32 {
    u32::try_from(time / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_whatever_the_order() {
        let mut budget = Budget::default();
        budget.begin(100_000);
        budget.until(150_000, 0, TimeCategory::Connect);
        budget.until(120_000, 0, TimeCategory::Loss);
        budget.split(400_000, 1, (30_000, TimeCategory::Network), TimeCategory::ServerThink);
        budget.split(450_000, 1, (90_000, TimeCategory::Network), TimeCategory::ServerThink);
        budget.until(500_000, 0, TimeCategory::ClientIdle);
        let all: Nanos = budget.sides.iter().flatten().sum();
        assert_eq!(all, 400_000);
        assert_eq!(budget.sides[1][TimeCategory::Network as usize], 80_000);
        assert_eq!(budget.sides[1][TimeCategory::ServerThink as usize], 220_000);
        let turn = budget.turn_over();
        assert_eq!(turn[TimeCategory::ClientIdle as usize], 0);
        assert_eq!(turn.iter().sum::<u32>(), 350);
        assert_eq!(budget.turn.iter().sum::<u32>(), 0);
    }

    #[test]
    fn numbers_of_parts_are_their_places() {
        for (place, part) in TimeCategory::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place);
        }
    }
}
