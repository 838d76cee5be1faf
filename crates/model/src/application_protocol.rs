//! What packets say in clear: HTTP/1, TLS, names that were looked up.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Answers of HTTP with one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusCount {
    /// From 100 to 599.
    pub status: u16,
    /// How often it came.
    pub count: u64,
}

/// What was asked for by HTTP and slowly answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRequest {
    /// Method and path; what stands behind a `?` is left out.
    pub request: String,
    /// Turns whose answer began 10 ms after the request and later, the way not counted.
    pub exchanges: u64,
    /// From those requests to the first bytes of their answers, the way not counted, microseconds.
    pub think_time_us: u64,
}

/// TLS of a stream, as far as it is in clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedTls {
    /// The host that the ClientHello asks for; `None`: none, or it was not captured.
    pub server_name: Option<String>,
    /// From the ClientHello until both ends encrypt, as seen at the place of capture, microseconds;
    /// `None`: that was not seen.
    pub handshake_us: Option<u64>,
    /// Number of the alert that ended the handshake (RFC 8446, 6.2).
    pub alert: Option<u8>,
}

/// A name server, as its clients had it (DNS over UDP and TCP).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolver {
    /// Its address and port.
    pub server: SocketAddr,
    /// Queries that clients sent to it.
    pub queries: u64,
    /// Those that it answered before they were repeated.
    pub answers: u64,
    /// Answers that it failed or refused (SERVFAIL, REFUSED).
    pub failures: u64,
    /// Queries that were repeated, there or at another server, or waited for 1 s and more at the end.
    pub unanswered: u64,
    /// Answers that took 1 s and more.
    pub slow: u64,
    /// Median time of its answers, microseconds.
    pub answer_p50_us: Option<u64>,
    /// The same, 99th percentile.
    pub answer_p99_us: Option<u64>,
    /// Time that clients lost with queries unanswered and slow answers, microseconds; several that one
    /// client waits for at once for the same name count once.
    pub lost_us: u64,
    /// The look-up that waited longest for it.
    pub worst: Option<SlowLookup>,
}

/// A name for which somebody waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowLookup {
    /// The name.
    pub name: String,
    /// Who asked.
    pub client: IpAddr,
    /// For how long, microseconds.
    pub waited_us: u64,
}
