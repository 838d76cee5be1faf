//! Active measurements: what netwhy sends itself, and what comes back when.
//!
//! - [`target`]: the host, port and address that is probed
//! - [`ping`]: round trips of single packets: ICMP, TCP SYN, UDP
//! - [`trace`]: the hops on the way
//! - [`http`]: HTTP load: closed and open loop
//! - [`transfer`]: bulk and request-answer transfers beside what theory says
//!
//! A probe sends to what it was told to and to nothing else, is bounded in count and time, and ends
//! when its [`Stop`] is set. It measures and judges nothing: causes are named by `diagnose`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub mod http;
mod numbered;
pub mod ping;
pub mod target;
pub mod trace;
pub mod transfer;

/// Ends a probe from another thread: what was measured so far is its result.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The probe is to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A probe could not run: what was tried, on what, what happened, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: a bad name, a limit that is too small.
    #[error("{0}")]
    Usage(String),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
}
