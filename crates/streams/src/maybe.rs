//! A time that may not be known, in the room of one: a million streams have many of them.

use crate::Nanos;

/// A moment or a duration that may not be known: `Option<Nanos>` in eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Maybe(Nanos);

/// No clock shows it.
const UNKNOWN: Nanos = Nanos::MIN;

impl Default for Maybe {
    fn default() -> Self {
        Maybe(UNKNOWN)
    }
}

impl From<Nanos> for Maybe {
    #[inline]
    fn from(time: Nanos) -> Self {
        Maybe(time.max(UNKNOWN + 1))
    }
}

impl From<Option<Nanos>> for Maybe {
    #[inline]
    fn from(time: Option<Nanos>) -> Self {
        time.map_or(Maybe(UNKNOWN), Maybe::from)
    }
}

impl Maybe {
    /// The time, if it is known.
    #[inline]
    pub fn get(self) -> Option<Nanos> {
        (self.0 != UNKNOWN).then_some(self.0)
    }

    /// Whether it is.
    #[inline]
    pub fn is_known(self) -> bool {
        self.0 != UNKNOWN
    }

    /// The time, and none is known any more.
    pub(crate) fn take(&mut self) -> Option<Nanos> {
        std::mem::take(self).get()
    }

    /// The time if it is known, else this one from now on.
    #[inline]
    pub(crate) fn or_set(&mut self, time: Nanos) {
        if !self.is_known() {
            *self = time.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_is_known_but_none() {
        assert_eq!(size_of::<Maybe>(), 8);
        assert_eq!(Maybe::default().get(), None);
        assert_eq!(Maybe::from(0).get(), Some(0));
        assert_eq!(Maybe::from(Nanos::MIN).get(), Some(Nanos::MIN + 1));
        let mut time = Maybe::from(Some(7));
        time.or_set(8);
        assert_eq!((time.take(), time.get()), (Some(7), None));
    }
}
