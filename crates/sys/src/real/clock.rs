//! Clocks of this machine.

use std::time::Duration;

use rustix::time::{ClockId, Timespec};

use crate::machine::Clock;

pub(super) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Duration {
        time(ClockId::Monotonic)
    }

    fn unix_time(&self) -> Duration {
        time(ClockId::Realtime)
    }

    fn sleep_until(&self, until: Duration) {
        let left = until.saturating_sub(self.now());
        if left.is_zero() {
            return;
        }
        let request = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // Interrupted by a signal: the caller asks for the time again.
        let _ = rustix::thread::nanosleep(&request);
    }
}

/// The time of a clock.
pub(super) fn time(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
