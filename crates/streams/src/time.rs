//! Moments and durations in nanoseconds, and one that may be unknown in the room of a number.

/// A moment since 1970-01-01 UTC, or a duration, in nanoseconds: enough for 292 years either way.
pub type Nanos = i64;

/// Packet times beyond this one, the year 2116, come from no clock. Times between this and its
/// negative can be subtracted from each other without overflow.
pub(crate) const LATEST: Nanos = Nanos::MAX / 2;

/// Whole microseconds of a duration; 0 if it is negative.
pub(crate) fn micros(nanos: Nanos) -> u64 {
    u64::try_from(nanos / 1_000).unwrap_or(0)
}

/// Whole microseconds from one moment to a later one; 0 if it is earlier.
pub(crate) fn micros_between(from: Nanos, to: Nanos) -> u64 {
    micros(to.saturating_sub(from))
}

/// `Option<Nanos>` in eight bytes: a million streams have many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalTime(Nanos);

/// Stands for an unknown time: no clock shows it.
const UNKNOWN: Nanos = Nanos::MIN;

impl Default for OptionalTime {
    fn default() -> Self {
        OptionalTime(UNKNOWN)
    }
}

impl From<Nanos> for OptionalTime {
    #[inline]
    fn from(time: Nanos) -> Self {
        OptionalTime(time.max(UNKNOWN + 1))
    }
}

impl From<Option<Nanos>> for OptionalTime {
    #[inline]
    fn from(time: Option<Nanos>) -> Self {
        time.map_or(OptionalTime(UNKNOWN), OptionalTime::from)
    }
}

impl OptionalTime {
    /// A time that a clock showed.
    #[inline]
    pub(crate) fn of_clock(time: Nanos) -> Self {
        OptionalTime(time)
    }

    /// The time, if it is known.
    #[inline]
    pub fn get(self) -> Option<Nanos> {
        (self.0 != UNKNOWN).then_some(self.0)
    }

    /// Whether the time is known.
    #[inline]
    pub fn is_known(self) -> bool {
        self.0 != UNKNOWN
    }

    /// Returns the time and forgets it.
    pub(crate) fn take(&mut self) -> Option<Nanos> {
        std::mem::take(self).get()
    }

    /// The shorter one of both durations, of which none is negative.
    #[inline]
    pub(crate) fn shorten_to(&mut self, duration: Nanos) {
        // As a number without a sign, an unknown time is longer than all others.
        let shortest = self.0.cast_unsigned().min(duration.cast_unsigned());
        *self = OptionalTime(shortest.cast_signed());
    }

    /// The longer one of both durations.
    #[inline]
    pub(crate) fn lengthen_to(&mut self, duration: Nanos) {
        *self = OptionalTime(self.0.max(duration));
    }

    /// Sets the time unless it is known already.
    #[inline]
    pub(crate) fn get_or_set(&mut self, time: Nanos) {
        if !self.is_known() {
            *self = time.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_but_one_is_known() {
        assert_eq!(size_of::<OptionalTime>(), 8);
        assert_eq!(OptionalTime::default().get(), None);
        assert_eq!(OptionalTime::from(0).get(), Some(0));
        assert_eq!(OptionalTime::from(Nanos::MIN).get(), Some(Nanos::MIN + 1));
        let mut time = OptionalTime::from(Some(7));
        time.get_or_set(8);
        assert_eq!((time.take(), time.get()), (Some(7), None));
        for (duration, shortest, longest) in [(5, 5, 5), (9, 5, 9), (3, 3, 9), (0, 0, 9)] {
            let (mut short, mut long) = (time, time);
            for earlier in [5, 9, 3, 0].into_iter().take_while(|one| *one != duration) {
                short.shorten_to(earlier);
                long.lengthen_to(earlier);
            }
            short.shorten_to(duration);
            long.lengthen_to(duration);
            assert_eq!((short.get(), long.get()), (Some(shortest), Some(longest)));
        }
    }
}
