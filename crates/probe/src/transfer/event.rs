//! What a server reports.

use std::net::SocketAddr;
use std::time::Duration;

/// Something that happened at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session of this client began; what it requested.
    Began(SocketAddr, String),
    /// A session of this client ended; the bytes sent and received.
    Ended(SocketAddr, u64),
    /// This client was refused, and why.
    Refused(SocketAddr, String),
    /// So many more refusals, since they began this long ago, are not reported one by one.
    RefusedMore(u64, Duration),
}
