//! The lines of `--json-lines` of probes: JSON objects, one for each event, and the document of `--json`
//! at the end.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{PingReport, ReplyKind, Route, TraceReport};

/// A line of `netwhy ping --json-lines`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PingLine {
    /// A reply, or an ICMP error, to a packet.
    Reply {
        /// When it was read, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The target as it was given.
        target: String,
        /// Sequence number of the packet, from 1.
        sequence: u64,
        /// Kind of reply.
        kind: ReplyKind,
        /// Its sender.
        from: IpAddr,
        /// Time to live, or hop limit, with which it arrived.
        ttl: Option<u8>,
        /// Bytes of the message: of ICMP with its header, of UDP the payload.
        bytes: Option<u32>,
        /// Round-trip time, milliseconds; `None` for a router's ICMP error and for duplicates.
        round_trip_ms: Option<f64>,
        /// MTU of the next link, bytes, if the packet was too large for it.
        mtu: Option<u32>,
        /// Whether it came after the timeout: the packet counts as lost.
        late: bool,
        /// Whether the packet already had a reply.
        duplicate: bool,
    },
    /// A packet had no reply within the timeout.
    NoReply {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The target as it was given.
        target: String,
        /// Sequence number of the packet, from 1.
        sequence: u64,
    },
    /// This host could not send a packet.
    NotSent {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The target as it was given.
        target: String,
        /// Sequence number of the packet, from 1.
        sequence: u64,
        /// Why.
        error: String,
    },
    /// The last line: all of it.
    Summary {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The document of `netwhy ping --json`.
        #[serde(flatten)]
        report: PingReport,
    },
}

impl PingLine {
    /// Version of these lines. It grows when a reader of the older version would misread the newer
    /// one; new types of lines and new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// A line of `netwhy trace --json-lines`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum TraceLine {
    /// A round of packets to all hops.
    Round {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// Its number, from 1.
        round: u64,
        /// The route, with the statistics of all rounds so far.
        route: Route,
    },
    /// The last line: all of it.
    Summary {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The document of `netwhy trace --json`.
        #[serde(flatten)]
        report: TraceReport,
    },
}

impl TraceLine {
    /// Version of these lines. It grows when a reader of the older version would misread the newer
    /// one; new types of lines and new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}
