//! What packets carry in clear: HTTP/1, TLS metadata, DNS.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// HTTP responses with one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusCount {
    /// From 100 to 599.
    pub status: u16,
    /// Responses.
    pub count: u64,
}

/// An HTTP request with slow responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRequest {
    /// Method and path, without the query (from `?` on).
    pub request: String,
    /// Exchanges with a server think time of at least 10 ms, the round trip subtracted.
    pub exchanges: u64,
    /// Server think time of these exchanges, the round trip subtracted, microseconds.
    pub think_time_us: u64,
    /// Exchanges with the same request whose response began sooner.
    #[serde(default)]
    pub quick: u64,
    /// Slow exchanges among `exchanges` with 100 ms of think time or more.
    #[serde(default)]
    pub noticed: u64,
    /// Think time of those, microseconds.
    #[serde(default)]
    pub noticed_us: u64,
    /// Tenths of a second in which those were answered, up to four; `None`: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<u64>,
}

/// TLS metadata of a stream, as far as it is in clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedTls {
    /// Server name (SNI) of the ClientHello; `None`: it has none, or was not captured.
    pub server_name: Option<String>,
    /// From the ClientHello until both ends encrypt, as seen at the capture point, microseconds;
    /// `None`: not captured.
    pub handshake_us: Option<u64>,
    /// Number of the alert that ended the handshake (RFC 8446, 6.2).
    pub alert: Option<u8>,
}

/// A name server, as its clients saw it (DNS over UDP and TCP).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolver {
    /// Its address and port.
    pub server: SocketAddr,
    /// Queries from clients.
    pub queries: u64,
    /// Queries that it answered before the client retried.
    pub answers: u64,
    /// Answers with SERVFAIL or REFUSED, and errors of ICMP that the port is unreachable.
    pub failures: u64,
    /// Queries that the client retried, here or at another server, or that had been open for 1 s or
    /// more at the end of the capture.
    pub unanswered: u64,
    /// Answers that took 1 s or more.
    pub slow: u64,
    /// Answers that took 300 ms to a second.
    #[serde(default)]
    pub late: u64,
    /// Answers that took 100 to 300 ms, to a question that it had answered in the 20 s before.
    #[serde(default)]
    pub late_again: u64,
    /// Median time of its answers, microseconds.
    pub answer_p50_us: Option<u64>,
    /// The same, 99th percentile.
    pub answer_p99_us: Option<u64>,
    /// Time that clients lost to unanswered queries and slow answers, microseconds; concurrent queries
    /// of one client count once.
    pub lost_us: u64,
    /// The same for `late` and `late_again`.
    #[serde(default)]
    pub lost_late_us: u64,
    /// The slowest look-up.
    pub worst: Option<SlowLookup>,
}

/// A slow look-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowLookup {
    /// The name.
    pub name: String,
    /// The client.
    pub client: IpAddr,
    /// How long it waited, microseconds.
    pub waited_us: u64,
}
