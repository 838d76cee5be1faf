//! Captured streams, and where the time of each went.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::time_breakdown::share_of;
use crate::{
    CapturedDirection, CapturedTls, NetworkPart, NetworkShare, Resolver, SlowRequest, StatusCount,
    TimeCategory, TimeShare,
};

/// The packets of one observation: of capture files, or captured during the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// Files or interfaces that they come from.
    pub sources: Vec<String>,
    /// Packets of any kind.
    pub packets: u64,
    /// TCP segments, duplicate packets of the capture included.
    pub segments: u64,
    /// Duplicate packets: segments that the capture has more than once.
    pub duplicate_packets: u64,
    /// Packets that the capture itself dropped, where it reports them.
    pub dropped_by_capture: u64,
    /// TCP streams.
    pub streams: u64,
    /// Streams that the filter selected; everything below is about them. `None`: no filter was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<u64>,
    /// The filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// First packet, microseconds since 1970-01-01 UTC.
    pub first_unix_us: i64,
    /// From the first packet to the last, microseconds.
    pub span_us: u64,
    /// Whether no clock shows times as those of its first packets: whole seconds apart, or all at one
    /// moment.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untrue_times: bool,
    /// All streams summed by server address and port, most lost time first; bounded.
    pub services: Vec<Service>,
    /// Name servers that were queried, those that clients waited for longest first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Resolver>,
    /// The streams that lost most time; bounded, `streams` has the number of all.
    pub worst: Vec<CapturedStream>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Packets {
    /// Prefix in `sources` of an interface whose packets were not written to a file.
    pub const INTERFACE_PREFIX: &str = "interface ";

    /// The interfaces whose packets were not written to a file.
    pub fn interfaces(&self) -> Vec<&str> {
        self.sources.iter().filter_map(|name| name.strip_prefix(Self::INTERFACE_PREFIX)).collect()
    }

    /// What each end of the streams sent.
    pub fn directions(&self) -> impl Iterator<Item = &CapturedDirection> {
        self.worst.iter().flat_map(|stream| stream.directions())
    }

    /// The service at this end.
    pub fn service(&self, server: SocketAddr) -> Option<&Service> {
        self.services.iter().find(|service| service.server == server)
    }
}

/// All streams of one server's port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Service {
    /// The server's end; without a captured handshake, the end with the lower port.
    pub server: SocketAddr,
    /// Streams.
    pub streams: u64,
    /// Exchanges: a request, or data that looks like one, with its response. Those that only open or close
    /// TLS do not count.
    pub exchanges: u64,
    /// New bytes, both directions.
    pub bytes: u64,
    /// Segments with data, both directions.
    pub data_segments: u64,
    /// Retransmitted segments, both directions.
    pub retransmitted: u64,
    /// Median time of an exchange, from the first byte of the request to the last byte of the response,
    /// microseconds; `None` without responses.
    pub exchange_p50_us: Option<u64>,
    /// The same, 99th percentile.
    pub exchange_p99_us: Option<u64>,
    /// Where the time went; categories without any time are left out.
    pub time_breakdown: Vec<TimeShare>,
    /// What its round trips and transmission consist of; parts without any time are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_breakdown: Vec<NetworkShare>,
    /// HTTP/1 responses by status, where it was captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<StatusCount>,
    /// HTTP/1 requests with a slow response, those that took most time first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_requests: Vec<SlowRequest>,
}

impl Service {
    /// Time of one category, microseconds.
    pub fn time_us(&self, category: TimeCategory) -> u64 {
        share_of(&self.time_breakdown, category).map_or(0, |share| share.time_us)
    }

    /// Exchanges with time in a category.
    pub fn exchanges_with(&self, category: TimeCategory) -> u64 {
        share_of(&self.time_breakdown, category).map_or(0, |share| share.exchanges)
    }

    /// All time except idle time, microseconds.
    pub fn busy_us(&self) -> u64 {
        busy_us(|category| self.time_us(category))
    }
}

/// How a stream ended, as far as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StreamEnd {
    /// It had not ended.
    Open,
    /// One end sent a FIN.
    HalfClosed,
    /// Both ends sent a FIN.
    Closed,
    /// One end sent a reset.
    Reset,
    /// The SYN was answered with a reset.
    Refused,
}

/// One stream of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedStream {
    /// Number in the capture, from 0, in the order of first packets.
    pub number: u64,
    /// The end that opened it; without a captured handshake, the end with the higher port.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// Whether client and server are known from the handshake.
    pub roles_known: bool,
    /// First packet, microseconds since the first of the capture.
    pub first_us: u64,
    /// From its first packet to its last, microseconds.
    pub span_us: u64,
    /// From the first SYN to the end of the handshake, microseconds; `None`: not captured.
    pub handshake_us: Option<u64>,
    /// How long a server that speaks first (SMTP, SSH, MySQL) let its client wait for its greeting after the
    /// handshake, microseconds; `None`: it does not, or the handshake was not captured.
    #[serde(default)]
    pub greeting_us: Option<u64>,
    /// Retransmitted SYNs.
    pub syn_retransmissions: u32,
    /// Retransmitted SYN-ACKs.
    pub syn_ack_retransmissions: u32,
    /// Whether a SYN was answered, as far as it was captured.
    pub syn_answered: bool,
    /// How it ended.
    pub end: StreamEnd,
    /// Exchanges, those that only open or close TLS aside.
    pub exchanges: u64,
    /// New bytes of the last exchange, both directions: where the stream had not ended, there may be
    /// more to come.
    #[serde(default)]
    pub last_exchange_bytes: u64,
    /// Exchanges in which the server took 100 ms or more to answer, those that open TLS included. One whose
    /// request may only have acknowledged a message of the server does not count.
    #[serde(default)]
    pub late_answers: u64,
    /// How often an end that had asked did not wait for the answer: it sent on after a pause of 100 ms or more
    /// in which all that it had sent was acknowledged and nothing answered.
    #[serde(default)]
    pub unwaited_requests: u64,
    /// Shortest round trip between the capture point and the client, microseconds.
    pub to_client_us: Option<u64>,
    /// The same between the capture point and the server.
    pub to_server_us: Option<u64>,
    /// The longest idle period of at least 3 s after which both ends sent packets, microseconds.
    #[serde(default)]
    pub longest_survived_idle_us: u64,
    /// The idle period after which the connection was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_after_idle: Option<LostAfterIdle>,
    /// Its TLS metadata, if it carries TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<CapturedTls>,
    /// HTTP/1 responses by status, where it was captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<StatusCount>,
    /// What the client sent.
    pub from_client: CapturedDirection,
    /// What the server sent.
    pub from_server: CapturedDirection,
}

impl CapturedStream {
    /// What each end sent, the client first.
    pub fn directions(&self) -> [&CapturedDirection; 2] {
        [&self.from_client, &self.from_server]
    }

    /// Shortest round trip of the whole path, microseconds.
    pub fn round_trip_us(&self) -> Option<u64> {
        Some(self.to_client_us?.saturating_add(self.to_server_us?))
    }

    /// Time of one category, microseconds.
    pub fn time_us(&self, category: TimeCategory) -> u64 {
        self.directions()
            .iter()
            .map(|direction| direction.time_us(category))
            .fold(0, u64::saturating_add)
    }

    /// What its round trips and transmission consist of.
    pub fn network_breakdown(&self) -> Vec<NetworkShare> {
        let of = |part| {
            let shares = self.directions().into_iter().flat_map(|one| &one.network_breakdown);
            let times = shares.filter(|share| share.part == part).map(|share| share.time_us);
            NetworkShare { part, time_us: times.fold(0, u64::saturating_add) }
        };
        NetworkPart::ALL.map(of).into_iter().filter(|share| share.time_us > 0).collect()
    }

    /// Lost time, microseconds.
    pub fn lost_us(&self) -> u64 {
        TimeCategory::ALL
            .into_iter()
            .filter(|category| category.is_lost())
            .map(|category| self.time_us(category))
            .fold(0, u64::saturating_add)
    }

    /// All time except idle time, microseconds.
    pub fn busy_us(&self) -> u64 {
        busy_us(|category| self.time_us(category))
    }
}

fn busy_us(time_us: impl Fn(TimeCategory) -> u64) -> u64 {
    let busy = TimeCategory::ALL.into_iter().filter(|one| *one != TimeCategory::ClientIdle);
    busy.map(time_us).fold(0, u64::saturating_add)
}

/// An idle period after which one end sent and got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostAfterIdle {
    /// When it began, microseconds since the first packet of the capture.
    pub began_us: u64,
    /// Its length, microseconds.
    pub idle_us: u64,
    /// Whether the client was the first to send after it.
    pub client_sent_first: bool,
    /// Whether the response was a reset; if not, there was none.
    pub reset: bool,
}
