//! HTTP load.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::StatusCount;

/// What a load of HTTP requests measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpLoad {
    /// What was asked for.
    pub urls: Vec<String>,
    /// Addresses that were connected to.
    pub addresses: Vec<String>,
    /// Version of HTTP: `1.1` or `2`.
    pub version: String,
    /// Connections at once.
    pub connections: u32,
    /// Threads of this client.
    pub threads: u32,
    /// Whether every request had a connection of its own.
    pub new_connections: bool,
    /// Requests a second that were intended; absent in a closed loop.
    pub rate_per_s: Option<f64>,
    /// How long it lasted, seconds.
    pub duration_s: f64,
    /// Requests with a whole answer, whatever its status.
    pub requests: u64,
    /// The same a second.
    pub requests_per_s: f64,
    /// Requests that were under way when the time was up; they are counted nowhere else.
    pub unfinished: u64,
    /// Open loop: requests that were due and could not be sent in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Bytes of answers: with HTTP/1.1 heads included, with HTTP/2 bodies; of TLS, what is inside.
    pub received_bytes: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections whose SYN had to be repeated, by server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syn_retransmissions: Vec<SynRetransmissions>,
    /// Answers by status.
    pub statuses: Vec<StatusCount>,
    /// What failed, by kind.
    pub errors: HttpErrors,
    /// From the moment a request could be sent, or with a new connection from the beginning of
    /// that, to the last byte of its answer. In an open loop from the moment it was sent.
    pub latency_us: Latency,
    /// Open loop: from the moment the request was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_latency_us: Option<Latency>,
    /// The same time in parts.
    pub phases_us: HttpPhases,
    /// What was answered when. Seconds are joined in pairs when there are many.
    pub over_time: Vec<HttpInterval>,
    /// The client's own share in what was measured.
    pub client: HttpClient,
}

/// Connections to one server whose SYN had to be repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SynRetransmissions {
    /// The server.
    pub server: SocketAddr,
    /// Connections that were tried, these among them.
    pub attempted: u64,
    /// Those that opened in the end, by how often their SYN was repeated: once, twice, … The last
    /// is for seven times and more.
    pub opened: Vec<u64>,
    /// Those that were given up (`--timeout`).
    pub given_up: u64,
    /// Those that were not open when the load ended.
    pub unopened: u64,
    /// How long all these waited to be open, microseconds.
    pub waited_us: u64,
}

/// Times in microseconds: percentiles by a histogram of three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Half of them took no longer.
    pub p50: u64,
    /// 75 %.
    pub p75: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// Longest.
    pub max: u64,
}

/// Parts of the time of a request. A part that nobody needed is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpPhases {
    /// Looking up the names, once before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Latency>,
    /// TCP handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Latency>,
    /// TLS handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Latency>,
    /// Handing the request to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<Latency>,
    /// From the request's last byte to the answer's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Latency>,
    /// From the answer's first byte to its last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Latency>,
}

/// What failed, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpErrors {
    /// Connections that could not be made, by the system's word for it (`ECONNREFUSED`).
    pub connect: BTreeMap<String, u64>,
    /// TLS handshakes that failed, by reason.
    pub tls: BTreeMap<String, u64>,
    /// Errors of writing, by the system's word.
    pub write: BTreeMap<String, u64>,
    /// Errors of reading, by the system's word.
    pub read: BTreeMap<String, u64>,
    /// Connections that the server closed before the answer's first byte.
    pub closed_before_response: u64,
    /// Connections that the server closed in the middle of an answer.
    pub closed_mid_response: u64,
    /// Requests that had no connection in time.
    pub timeout_connect: u64,
    /// Requests that had no whole answer in time.
    pub timeout_response: u64,
    /// Answers that are not HTTP, by what is wrong.
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

/// What was answered in one stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpInterval {
    /// Its beginning, seconds since the load began.
    pub from_s: f64,
    /// How long it is, seconds.
    pub duration_s: f64,
    /// Answers.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Errors.
    pub errors: u64,
}

/// The client's own share in what was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpClient {
    /// CPU time of the threads that made the load, seconds.
    pub cpu_s: f64,
    /// The same in microseconds for each answer.
    pub cpu_us_per_request: f64,
    /// Share of the time that the busiest of its threads had a CPU, 0 to 1.
    pub busiest_thread: f64,
    /// Requests under way, on average over time.
    pub in_flight: f64,
    /// Rate times mean latency: by Little's law the same as `in_flight`, if all was measured right.
    pub rate_times_latency: f64,
    /// Open loop: how long answers lay in the kernel until this client read them. It is no part of
    /// the latencies, which end with the arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_late_us: Option<Latency>,
    /// What limits this client, in words; nothing when it does not.
    pub limits: Vec<String>,
}
