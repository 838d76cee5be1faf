//! What the threads of a load start from and share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sys::Stop;

use super::first_connections::FirstConnections;
use super::non_empty::NonEmpty;
use super::origin::Origin;
use super::plan::{Plan, RequestLimit};
use super::stats::Stats;

/// Open loop: how long responses are waited for after the end of the load.
const MAX_LINGER: Duration = Duration::from_secs(1);

/// Counts of a running load.
#[derive(Debug, Default)]
pub struct LiveCounts {
    /// Complete responses so far.
    pub requests: AtomicU64,
    /// Bytes received so far.
    pub bytes: AtomicU64,
    /// Failed requests so far.
    pub errors: AtomicU64,
}

/// What a thread needs.
pub(super) struct ThreadSetup {
    /// Number of the thread, from 0.
    pub(super) number: u32,
    pub(super) plan: Plan,
    pub(super) origins: Arc<NonEmpty<Origin>>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) limit: RequestLimit,
    /// Start of the load.
    pub(super) start: Instant,
    pub(super) stop: Stop,
    pub(super) live: Arc<LiveCounts>,
    pub(super) first: Arc<FirstConnections>,
}

impl ThreadSetup {
    /// Numbers of this thread's connections among those of all threads.
    pub(super) fn connections(&self) -> impl Iterator<Item = usize> + use<> {
        let (number, threads) = (self.number as usize, self.plan.threads as usize);
        (number..self.plan.connections as usize).step_by(threads.max(1))
    }

    /// How long responses are waited for after the end of the load.
    pub(super) fn linger(&self) -> Duration {
        match self.plan.rate {
            Some(_) => MAX_LINGER.min(self.plan.timeout),
            None => Duration::ZERO,
        }
    }
}

/// Adds what a thread has counted to the live counts.
#[derive(Debug, Default)]
pub(super) struct LiveReporter {
    requests: u64,
    bytes: u64,
    errors: u64,
}

impl LiveReporter {
    /// Adds what was counted since the last call.
    pub(super) fn report(&mut self, stats: &Stats, live: &LiveCounts) {
        let add = |reported: &mut u64, now: u64, to: &AtomicU64| {
            to.fetch_add(now - *reported, Ordering::Relaxed);
            *reported = now;
        };
        add(&mut self.requests, stats.requests, &live.requests);
        add(&mut self.bytes, stats.bytes, &live.bytes);
        add(&mut self.errors, stats.failed_requests, &live.errors);
    }
}

/// A duration in nanoseconds.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread.
pub(super) fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
