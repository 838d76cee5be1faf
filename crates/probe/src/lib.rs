//! Active measurements: what netwhy sends itself, and what comes back when.
//!
//! - [`target`]: the host, port and address that is probed
//! - [`ping`]: round trips of single packets: ICMP, TCP SYN, UDP
//! - [`trace`]: the hops on the way
//! - [`http`]: HTTP load: closed and open loop
//! - [`transfer`]: bulk and request-answer transfers beside what theory says
//!
//! A probe sends to what it was told to and to nothing else, is bounded in count and time, and ends
//! when its [`Stop`](sys::Stop) is set. It measures and judges nothing: causes are named by `diagnose`.

pub mod http;
mod numbered;
pub mod ping;
pub mod target;
pub mod trace;
pub mod transfer;

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
