//! Which tests run at the same time: up to [`MAX_TOGETHER`] that mostly wait, or one alone.

use std::sync::{Condvar, Mutex, MutexGuard};

/// Tests that mostly wait: together they leave most of two CPUs idle.
const MAX_TOGETHER: u32 = 4;

static PERMITS: Mutex<Permits> =
    Mutex::new(Permits { together: 0, waiting_together: 0, alone: false });
static CHANGED: Condvar = Condvar::new();

struct Permits {
    /// Tests that run at the same time, and those that could.
    together: u32,
    waiting_together: u32,
    /// A test runs alone.
    alone: bool,
}

/// The right to run, until it is dropped.
pub(crate) struct Permit {
    alone: bool,
}

/// Waits until no other test runs. Tests that run together come first: where all tests are started at
/// once, as `cargo xtask test` does, these are done before the first one runs alone.
pub(crate) fn alone() -> Permit {
    let permits = permits();
    let waits =
        |permits: &mut Permits| permits.alone || permits.together + permits.waiting_together > 0;
    let mut permits =
        CHANGED.wait_while(permits, waits).unwrap_or_else(|broken| broken.into_inner());
    permits.alone = true;
    Permit { alone: true }
}

/// Waits until no test runs alone, and not too many run.
pub(crate) fn together() -> Permit {
    let mut permits = permits();
    permits.waiting_together += 1;
    let waits = |permits: &mut Permits| permits.alone || permits.together == MAX_TOGETHER;
    let mut permits =
        CHANGED.wait_while(permits, waits).unwrap_or_else(|broken| broken.into_inner());
    permits.waiting_together -= 1;
    permits.together += 1;
    Permit { alone: false }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut permits = permits();
        if self.alone {
            permits.alone = false;
        } else {
            permits.together -= 1;
        }
        CHANGED.notify_all();
    }
}

/// A test that failed while it had a permit has given it back.
fn permits() -> MutexGuard<'static, Permits> {
    PERMITS.lock().unwrap_or_else(|broken| broken.into_inner())
}
