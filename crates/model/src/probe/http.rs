//! The results of an HTTP load test.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::StatusCount;

/// The result of an HTTP load test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpLoad {
    /// The requested URLs, the first 100.
    pub urls: Vec<String>,
    /// Addresses of the servers.
    pub addresses: Vec<String>,
    /// Version of HTTP: `1.1` or `2`.
    pub version: String,
    /// Concurrent connections.
    pub connections: u32,
    /// Threads of this client.
    pub threads: u32,
    /// Whether each request opened a new connection.
    pub new_connections: bool,
    /// Open loop: the scheduled requests a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Duration of the load, seconds.
    pub duration_s: f64,
    /// Requests with a complete response, whatever its status.
    pub requests: u64,
    /// The same a second.
    pub requests_per_s: f64,
    /// Requests in flight when the load ended; they are counted nowhere else.
    pub unfinished: u64,
    /// Open loop: requests that were due and were not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Bytes of responses: heads and bodies with HTTP/1.1, bodies with HTTP/2; decrypted with TLS.
    pub received_bytes: u64,
    /// Connections that were established.
    pub connections_opened: u64,
    /// Connections whose SYN was retransmitted, by server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syn_retransmissions: Vec<SynRetransmissions>,
    /// Responses by status.
    pub statuses: Vec<StatusCount>,
    /// Failed requests, by kind of error.
    pub errors: HttpErrors,
    /// Time from when a request could be sent, on a new connection from the start of the connection,
    /// to the last byte of its response. In an open loop from when it was sent.
    pub latency_us: Latency,
    /// Open loop: time from when the request was due to the last byte of its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_latency_us: Option<Latency>,
    /// The phases of a request.
    pub phases_us: HttpPhases,
    /// Responses over time, by seconds; adjacent intervals are merged when there are many.
    pub over_time: Vec<HttpInterval>,
    /// What this client contributes to the figures.
    pub client: HttpClient,
}

/// Connections to one server whose SYN was retransmitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SynRetransmissions {
    /// The server.
    pub server: SocketAddr,
    /// All connection attempts to this server.
    pub attempted: u64,
    /// Connections that were established after all, by the number of SYN retransmissions: one, two, …
    /// The last is for seven and more.
    pub opened: Vec<u64>,
    /// Attempts that timed out (`--timeout`).
    pub timed_out: u64,
    /// Attempts still in progress when the load ended.
    pub still_connecting: u64,
    /// How long all these attempts waited, microseconds.
    pub waited_us: u64,
}

/// A distribution of times, microseconds; percentiles are exact to three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Longest.
    pub max: u64,
}

/// The phases of a request; a phase that did not occur is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpPhases {
    /// Name look-ups, once before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_lookup: Option<Latency>,
    /// TCP handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Latency>,
    /// TLS handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Latency>,
    /// From the request's first byte to its last, as handed to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<Latency>,
    /// From the request's last byte to the response's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Latency>,
    /// From the response's first byte to its last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<Latency>,
}

/// Failed requests, by kind of error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpErrors {
    /// Connections that could not be established, by errno (`ECONNREFUSED`).
    pub connect: BTreeMap<String, u64>,
    /// Failed TLS handshakes, by reason.
    pub tls: BTreeMap<String, u64>,
    /// Write errors, by errno.
    pub write: BTreeMap<String, u64>,
    /// Read errors, by errno.
    pub read: BTreeMap<String, u64>,
    /// Connections that the server closed before the first byte of a response.
    pub closed_before_response: u64,
    /// Connections that the server closed in the middle of a response.
    pub closed_mid_response: u64,
    /// Requests whose connection was not established in time.
    pub timeout_connect: u64,
    /// Requests without a complete response in time.
    pub timeout_response: u64,
    /// Malformed responses, by reason.
    pub malformed: BTreeMap<String, u64>,
}

impl HttpErrors {
    /// All of them.
    pub fn total(&self) -> u64 {
        [&self.connect, &self.tls, &self.write, &self.read, &self.malformed]
            .into_iter()
            .flat_map(BTreeMap::values)
            .chain([
                &self.closed_before_response,
                &self.closed_mid_response,
                &self.timeout_connect,
                &self.timeout_response,
            ])
            .fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Responses in one interval of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpInterval {
    /// Its start, seconds since the start of the load.
    pub from_s: f64,
    /// Its length, seconds.
    pub duration_s: f64,
    /// Complete responses.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Errors.
    pub errors: u64,
}

/// What this client contributes to the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpClient {
    /// CPU time of the load's threads, seconds.
    pub cpu_s: f64,
    /// The same for each response, microseconds.
    pub cpu_us_per_request: f64,
    /// Share of the time that the busiest thread spent on a CPU, 0 to 1.
    pub busiest_thread_share: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Rate times mean latency: equals `in_flight` by Little's law.
    pub rate_times_latency: f64,
    /// Open loop: how long responses lay in the socket until this client read them. Not part of the
    /// latencies, which end when the kernel received the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_delay_us: Option<Latency>,
    /// Why the client itself may be the limit, one sentence each; empty when it is not.
    pub limits: Vec<String>,
}
