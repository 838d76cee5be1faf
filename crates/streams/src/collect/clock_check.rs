//! Whether the times of a capture can be true. A generated capture, or one whose times were cut, has
//! packets at whole seconds, or all at one moment: what seems to have taken time in it is not known.

use crate::time::Nanos;

/// Packets that are compared, the first ones.
pub(super) const COMPARED: u64 = 64;
/// Fewest packets that say something.
const MIN_COMPARED: u64 = 10;
const SECOND: Nanos = 1_000_000_000;

/// The times of the first packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClockCheck {
    first: Option<Nanos>,
    compared: u64,
    /// Packets that are not whole seconds after the first.
    between: u64,
    /// Packets that are not at the moment of the first.
    apart: u64,
}

impl ClockCheck {
    #[cold]
    pub(super) fn take(&mut self, at: Nanos) {
        let after = at.saturating_sub(*self.first.get_or_insert(at));
        self.compared += 1;
        self.between += u64::from(after % SECOND != 0);
        self.apart += u64::from(after != 0);
    }

    /// Whether no clock shows such times; the capture ended at `last`.
    pub(super) fn is_untrue(&self, last: Nanos) -> bool {
        let is_moment = self.first == Some(last);
        self.compared >= MIN_COMPARED && self.between == 0 && (self.apart > 0 || is_moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_untrue(step: Nanos, packets: Nanos, last: Nanos) -> bool {
        let mut check = ClockCheck::default();
        (0..packets).for_each(|number| check.take(777 + number * step));
        check.is_untrue(777 + last)
    }

    #[test]
    fn whole_seconds_and_one_moment_are_untrue() {
        assert!(is_untrue(SECOND, 12, 11 * SECOND));
        assert!(is_untrue(0, 12, 0));
        assert!(!is_untrue(0, 64, 5 * SECOND), "a coarse clock, a burst at first");
        assert!(!is_untrue(SECOND + 1000, 12, 12 * SECOND), "every second, by a clock");
        assert!(!is_untrue(SECOND, 5, 4 * SECOND), "too few");
    }
}
