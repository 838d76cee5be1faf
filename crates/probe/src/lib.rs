//! Active measurements: packets and requests that netwhy sends itself, and the replies to them.
//!
//! - [`target`]: the host, port and address to probe
//! - [`ping`]: round-trip times of single packets: ICMP, TCP SYN, UDP
//! - [`trace`]: the hops of a route
//! - [`http`]: HTTP load, closed and open loop
//! - [`transfer`]: bulk and request-response transfers, compared with theory
//! - [`file`]: bounded reading of files that the user names
//!
//! Shared by these: `socket`, packets with sequence numbers; `rtt`, distributions of round-trip times;
//! `route`, the local address towards a target; `random`; `error`.
//!
//! A probe sends to its target and nowhere else, is bounded in count and time, and ends when its
//! [`Stop`](sys::Stop) is set. It measures; causes are named by `diagnose`.

mod error;
pub mod file;
pub mod http;
pub mod ping;
mod random;
mod route;
mod rtt;
mod socket;
pub mod target;
pub mod trace;
pub mod transfer;

pub use error::{Error, os_error_text};
