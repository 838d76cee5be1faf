//! What packets tell: captured streams, and where the time of each went.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{CapturedTls, Resolver, SlowRequest, StatusCount, TimeCategory, TimeShare};

/// The packets of one observation: capture files, or a capture of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// Files or interfaces that they come from.
    pub sources: Vec<String>,
    /// Packets of any kind.
    pub packets: u64,
    /// TCP segments, those that were captured twice included.
    pub segments: u64,
    /// Segments that were captured twice.
    pub duplicate_packets: u64,
    /// Packets that the capture itself lost, where that was told.
    pub dropped_by_capture: u64,
    /// TCP streams.
    pub streams: u64,
    /// Those of them that a filter selected, which all below is of; `None`: no filter was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<u64>,
    /// The filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// First packet, microseconds since 1970-01-01 UTC.
    pub first_unix_us: i64,
    /// From the first packet to the last, microseconds.
    pub span_us: u64,
    /// All streams added up, by the end that serves, those with most lost time first; bounded.
    pub services: Vec<Service>,
    /// Name servers that were asked, those for which clients waited longest first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Resolver>,
    /// The streams that lost most time; bounded, see `streams` for how many there were.
    pub worst: Vec<CapturedStream>,
}

impl Packets {
    /// What stands in `from` before the name of an interface whose packets were not written.
    pub const INTERFACE_PREFIX: &str = "interface ";

    /// The interfaces that they come from, when no file has them.
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
    /// The end that serves; where no handshake was seen, the end with the lower port.
    pub server: SocketAddr,
    /// Streams.
    pub streams: u64,
    /// Turns: requests, or what looks like them.
    pub exchanges: u64,
    /// New bytes, both ways.
    pub bytes: u64,
    /// Segments with data, both ways.
    pub data_segments: u64,
    /// Segments that were sent again, both ways.
    pub retransmitted: u64,
    /// Median time of a turn, from the first byte of the request to the last of the answer,
    /// microseconds; `None` without turns that were answered.
    pub exchange_p50_us: Option<u64>,
    /// The same, 99th percentile.
    pub exchange_p99_us: Option<u64>,
    /// Where time went; parts without any are left out.
    pub time_breakdown: Vec<TimeShare>,
    /// Answers of HTTP/1 by their status, where it was captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<StatusCount>,
    /// What HTTP/1 asked for and what was answered slowly, those that took most time first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_requests: Vec<SlowRequest>,
}

impl Service {
    /// Time of one part, microseconds.
    pub fn time_us(&self, part: TimeCategory) -> u64 {
        of(&self.time_breakdown, part).map_or(0, |share| share.time_us)
    }

    /// Turns in which a part took time.
    pub fn exchanges_with(&self, part: TimeCategory) -> u64 {
        of(&self.time_breakdown, part).map_or(0, |share| share.exchanges)
    }
}

fn of(budget: &[TimeShare], part: TimeCategory) -> Option<&TimeShare> {
    budget.iter().find(|share| share.category == part)
}

/// How a stream ended, as far as was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StreamEnd {
    /// It has not.
    Open,
    /// One end has sent all that it has.
    HalfClosed,
    /// Both have.
    Closed,
    /// One end broke it off.
    Reset,
    /// Its SYN was answered with a reset.
    Refused,
}

/// One stream of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedStream {
    /// Number in the capture, from 0, in the order of first packets.
    pub number: u64,
    /// Who asked for it; where no handshake was seen, the end with the higher port.
    pub client: SocketAddr,
    /// Who was asked.
    pub server: SocketAddr,
    /// Whether the handshake told which end is which.
    pub roles_known: bool,
    /// First packet, microseconds since the first of the capture.
    pub first_us: u64,
    /// From its first packet to its last, microseconds.
    pub span_us: u64,
    /// From the first SYN to the end of the handshake, microseconds; `None`: not seen.
    pub handshake_us: Option<u64>,
    /// SYNs beyond the first.
    pub syn_retransmissions: u32,
    /// Answers to a SYN beyond the first.
    pub syn_ack_retransmissions: u32,
    /// Whether a SYN was answered, as far as was seen.
    pub syn_answered: bool,
    /// How it ended.
    pub end: StreamEnd,
    /// Turns.
    pub exchanges: u64,
    /// Shortest time from the place of capture to the client and back, microseconds.
    pub to_client_us: Option<u64>,
    /// The same, to the server and back.
    pub to_server_us: Option<u64>,
    /// The longest silence after which both ends spoke, from 3 s on, microseconds.
    #[serde(default)]
    pub longest_survived_idle_us: u64,
    /// The silence after which it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_after_idle: Option<LostAfterIdle>,
    /// TLS, if it is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<CapturedTls>,
    /// Answers of HTTP/1 by their status, where it was captured.
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

    /// Time of one part, microseconds.
    pub fn time_us(&self, part: TimeCategory) -> u64 {
        self.directions()
            .iter()
            .map(|direction| direction.time_us(part))
            .fold(0, u64::saturating_add)
    }

    /// Time lost in it, microseconds.
    pub fn lost_us(&self) -> u64 {
        TimeCategory::ALL
            .into_iter()
            .filter(|part| part.is_lost())
            .map(|part| self.time_us(part))
            .fold(0, u64::saturating_add)
    }

    /// Time in which it had something to do, microseconds: all but idle time.
    pub fn busy_us(&self) -> u64 {
        let all = TimeCategory::ALL.into_iter().filter(|part| *part != TimeCategory::ClientIdle);
        all.map(|part| self.time_us(part)).fold(0, u64::saturating_add)
    }
}

/// What one end of a stream sent, and what it waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedDirection {
    /// Packets, copies left out.
    pub packets: u64,
    /// Segments with data.
    pub data_segments: u64,
    /// New bytes.
    pub new_bytes: u64,
    /// Segments that were sent again after duplicate or selective acknowledgements.
    pub fast_retransmissions: u64,
    /// The same, after a retransmission timeout.
    pub rto_retransmissions: u64,
    /// The same, lost before the place of capture.
    pub retransmissions_original_not_captured: u64,
    /// The same, for another reason: a tail-loss probe, a sender that was mistaken.
    pub retransmissions_kind_unknown: u64,
    /// Most times that one segment was sent again after a timeout.
    pub max_timeouts_of_segment: u32,
    /// Bytes of that segment.
    pub max_timeouts_segment_bytes: u32,
    /// Segments that arrived late and were not sent again.
    pub reordered: u64,
    /// Those of them that were sent again meanwhile for nothing: what was sent again came first, and
    /// is not counted among the repeated.
    #[serde(default)]
    pub late_originals: u64,
    /// Those that were sent again though they had been acknowledged before, as seen at the place of
    /// capture: the acknowledgement was late, or lost behind it. Counted among the repeated.
    #[serde(default)]
    pub already_acknowledged: u64,
    /// Data that its receiver told to have had twice (D-SACK).
    pub duplicate_sacks: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Acknowledgements of the same byte again.
    pub duplicate_acks: u64,
    /// Packets that closed this end's own window.
    pub zero_windows: u64,
    /// Packets with a congestion mark (ECN).
    pub ecn_ce_marks: u64,
    /// Largest segment that this end takes, by its SYN, bytes.
    pub mss: Option<u16>,
    /// Bits by which this end's windows are shifted, by its SYN; `None`: it does not scale, or its
    /// SYN was not seen.
    pub window_scale: Option<u8>,
    /// Whether the capture cut off options of its SYN, and perhaps that one.
    #[serde(default)]
    pub options_truncated: bool,
    /// Largest window that this end offered, bytes.
    pub max_window: u32,
    /// Time that this end waited for room in its peer's window since that window last grew by a
    /// quarter, microseconds; without times in which the window was smaller than three quarters of
    /// what it had been, or opened half a round trip later than it could, or round trips were longer by
    /// as much: then its reader was behind, or a queue held what it let out.
    #[serde(default)]
    pub settled_window_us: Option<u64>,
    /// Those times, microseconds.
    #[serde(default)]
    pub reader_behind_us: Option<u64>,
    /// Most bytes that it had out at once, as seen at the place of capture.
    pub max_in_flight: u64,
    /// Largest packet, bytes of data.
    pub max_segment_bytes: u32,
    /// Times from data of this end to its acknowledgement.
    pub round_trip: Option<RoundTrips>,
    /// Where the time went that this end, or who waited for it, spent.
    pub time_breakdown: Vec<TimeShare>,
    /// Times that its peer's window was closed to it.
    pub zero_window_stalls: Stalls,
    /// Times that it waited for a delayed acknowledgement.
    pub delayed_ack_stalls: Stalls,
    /// Small segments of which the acknowledgement came as late as a delayed one.
    pub acknowledged_late: u64,
    /// Turns of which a policer dropped a part of what this end sent; bounded.
    #[serde(default)]
    pub policed: Vec<PolicedExchange>,
    /// The step of its rate and round trip, where a token bucket with a queue held it.
    #[serde(default)]
    pub shaped: Option<ShapedRate>,
    /// Transfers that began slowly.
    #[serde(default)]
    pub slow_starts: SlowStarts,
    /// Whether a segment of a full size ever arrived, as far as is known; `None`: none was sent.
    #[serde(default)]
    pub full_size_arrived: Option<bool>,
    /// Segments that were cut smaller when they were sent again.
    #[serde(default)]
    pub resegmented: u64,
    /// Segments whose checksum was looked at: those after something was sent again, as far as they
    /// were captured whole.
    #[serde(default)]
    pub checksums_verified: u64,
    /// Those of them that were damaged.
    #[serde(default)]
    pub bad_checksums: u64,
}

/// Transfers of one end that began slowly: slow start, which doubles what is sent in a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowStarts {
    /// Transfers whose growth was seen.
    pub transfers: u64,
    /// The first flight of the stream, bytes; 0: its growth was not seen.
    pub first_flight: u64,
    /// The same in segments.
    pub first_segments: u64,
    /// Round trips that the first transfer took.
    pub first_rounds: u64,
    /// Bytes of that transfer.
    pub first_bytes: u64,
    /// Round trips of it that a first flight of ten segments would have saved.
    pub first_saved: u64,
    /// Transfers that began with few bytes after a pause, though more had been out before.
    pub restarts: u64,
    /// Time that those cost, microseconds.
    pub restart_us: u64,
    /// The one that cost most: the pause before it, microseconds.
    pub worst_idle_us: u64,
    /// Bytes of its first flight.
    pub worst_flight: u64,
    /// Most bytes of a round trip before the pause.
    pub worst_before: u64,
    /// Number in the capture, from 1, of its first packet; 0: there is none.
    pub worst_at: u64,
}

/// A rate that fell to that of a token bucket with a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShapedRate {
    /// Rate before, bits of data a second.
    pub before_bps: u64,
    /// Rate that it was held to, bits of data a second.
    pub rate_bps: u64,
    /// Bytes above that rate that passed before.
    pub burst_bytes: u64,
    /// Median round trip before, microseconds.
    pub round_trip_before_us: u64,
    /// The same after.
    pub round_trip_after_us: u64,
    /// Time from the first megabyte to the step, microseconds.
    pub after_us: u64,
    /// Time from the step to the end of the transfer, microseconds.
    pub duration_us: u64,
}

/// A turn of which a token-bucket policer dropped a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicedExchange {
    /// Number of the turn in its stream, from 0.
    pub exchange: u64,
    /// The policer's rate, bits of IP packets a second; `None`: the losses do not tell it, only
    /// between which rates it is.
    pub rate_bps: Option<u64>,
    /// Least rate that the losses allow, bits a second.
    pub min_rate_bps: u64,
    /// Most rate that they allow, bits a second.
    pub max_rate_bps: u64,
    /// Bytes that passed at once before the first was dropped: the bucket, when it was full before.
    pub bucket_bytes: u64,
    /// Packets dropped.
    pub lost: u64,
    /// Packets passed.
    pub passed: u64,
    /// How often dropping began.
    pub bursts: u64,
    /// From the first loss to the last, microseconds.
    pub duration_us: u64,
}

impl CapturedDirection {
    /// Time of one part, microseconds.
    pub fn time_us(&self, part: TimeCategory) -> u64 {
        of(&self.time_breakdown, part).map_or(0, |share| share.time_us)
    }

    /// All segments that were sent again.
    pub fn retransmitted(&self) -> u64 {
        self.fast_retransmissions
            .saturating_add(self.rto_retransmissions)
            .saturating_add(self.retransmissions_original_not_captured)
            .saturating_add(self.retransmissions_kind_unknown)
    }

    /// Those of them that were needed: what arrived twice, or was acknowledged before, was not lost.
    /// Nor is a packet that was too large lost by accident.
    pub fn lost(&self) -> u64 {
        let needless = self.spurious().max(self.already_acknowledged);
        self.retransmitted().saturating_sub(needless).saturating_sub(self.resegmented)
    }

    /// Whether segments overtake each other so often that the few that seem lost may have been late:
    /// ten times as many were sent again for nothing.
    pub fn is_mostly_reordered(&self) -> bool {
        self.late_originals.saturating_add(self.spurious()) > self.lost().saturating_mul(10)
    }

    /// Those that were sent again for nothing, as their receiver told (D-SACK).
    pub fn spurious(&self) -> u64 {
        self.duplicate_sacks.saturating_sub(self.late_originals).min(self.retransmitted())
    }
}

/// Round trips of one direction, from data that passes the place of capture to its acknowledgement
/// that passes back; where the data is only seen as it arrives, from time stamps and their echo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// Samples.
    pub samples: u64,
    /// Shortest, microseconds.
    pub min_us: u64,
    /// Mean, microseconds.
    pub mean_us: u64,
    /// Longest, microseconds.
    pub max_us: u64,
    /// Share of the samples that were twice the shortest and 20 ms longer, 0 to 1.
    pub inflated: f64,
    /// How closely they follow the bytes that were out, -1 to 1 (correlation); `None`: neither
    /// changed.
    pub follows_flight: Option<f64>,
    /// Times that something was lost after all had gone well.
    pub losses: u64,
    /// Those of them at which the last round trip was twice the shortest and 20 ms longer: a queue was
    /// full.
    pub losses_after_long: u64,
}

/// A silence of both ends after which one spoke and was not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostAfterIdle {
    /// When it began, microseconds since the first packet of the capture.
    pub began_us: u64,
    /// How long it was, microseconds.
    pub idle_us: u64,
    /// Whether the client spoke first after it.
    pub client_sent_first: bool,
    /// Whether a reset was the answer; if not, there was none.
    pub reset: bool,
}

/// Stalls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// Time in all, microseconds.
    pub total_us: u64,
    /// The longest, microseconds.
    pub longest_us: u64,
    /// Number in the capture, from 1, of the packet with which the longest ended; 0: none.
    pub longest_ended_at: u64,
}
