//! The door to this process: what it costs, its ids, and the units of the machine that it runs on.

use std::time::Duration;

/// This process.
pub trait OwnProcess: Send + Sync {
    /// CPU time (user and system) and largest resident set.
    fn cost(&self) -> OwnCost;

    /// Effective user id.
    fn user(&self) -> u32;

    /// Process id.
    fn pid(&self) -> u32;

    /// Bytes of one page of memory.
    fn page_bytes(&self) -> u64;

    /// Clock ticks a second: the unit of the CPU times in `/proc/PID/stat`.
    fn clock_ticks(&self) -> u64;
}

/// What this process has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnCost {
    /// User and system CPU time.
    pub cpu: Duration,
    /// Largest resident set, bytes.
    pub max_resident_bytes: u64,
}
