//! Time of the emulator: whole nanoseconds since the link started.

use std::time::Duration;

/// Nanoseconds since the link started.
pub(super) type Nanos = u64;

/// Whole nanoseconds; a time that does not fit is the largest, 584 years.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
