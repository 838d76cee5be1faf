//! The door to time.

use std::time::Duration;

/// Clocks of a machine.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary moment, never going back (CLOCK_MONOTONIC).
    fn now(&self) -> Duration;

    /// Time since 1970-01-01 UTC.
    fn unix_time(&self) -> Duration;

    /// Sleeps until [`Clock::now`] is at least `until`, or a signal arrives.
    fn sleep_until(&self, until: Duration);
}
