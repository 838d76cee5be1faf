//! A captured stream in depth: its phases, exchanges, events and packets.

use serde::{Deserialize, Serialize};

use crate::{CapturedStream, TimeCategory, TimeShare};

/// One of the two ends of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The end that opened the connection.
    Client,
    /// The end that it was opened to.
    Server,
}

impl Side {
    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// One exchange: a request and its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedExchange {
    /// Number of its stream.
    pub stream: u64,
    /// Number in the stream, from 0.
    pub exchange: u64,
    /// The end that sent the request.
    pub requester: Side,
    /// First byte of the request, microseconds since the first packet of the capture.
    pub at_us: u64,
    /// New bytes of the request.
    pub request_bytes: u64,
    /// From the first byte of the request to its last, microseconds.
    pub request_us: u64,
    /// From the last byte of the request to the first byte of the response, as seen at the capture
    /// point, microseconds; `None`: there was no response.
    pub response_wait_us: Option<u64>,
    /// New bytes of the response.
    pub response_bytes: u64,
    /// From the first byte of the request to the last byte of the response, microseconds; `None`:
    /// there was no response.
    pub total_us: Option<u64>,
    /// HTTP/1 method, where it was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Request target, up to 160 bytes with the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Where its time went, up to the next request; idle time is left out.
    pub time_breakdown: Vec<TimeShare>,
}

impl CapturedExchange {
    /// Time of one category, microseconds.
    pub fn time_us(&self, category: TimeCategory) -> u64 {
        self.time_breakdown
            .iter()
            .find(|share| share.category == category)
            .map_or(0, |share| share.time_us)
    }

    /// Its time up to the next request, without idle time, microseconds: may be longer than from the
    /// request to the response.
    pub fn spent_us(&self) -> u64 {
        self.time_breakdown.iter().map(|share| share.time_us).sum()
    }

    /// The category with most time.
    pub fn largest(&self) -> Option<TimeShare> {
        self.time_breakdown
            .iter()
            .max_by_key(|share| share.time_us)
            .copied()
            .filter(|share| share.time_us > 0)
    }
}

/// Something that happened in a stream and may cost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A SYN or SYN-ACK was retransmitted.
    SynRetransmission,
    /// Data was retransmitted after duplicate or selective acknowledgements.
    FastRetransmission,
    /// Data was retransmitted after a retransmission timeout.
    RtoRetransmission,
    /// Data was retransmitted whose original was lost before the capture point.
    RetransmissionOriginalNotCaptured,
    /// Another retransmission: a tail-loss probe, or a sender that retransmitted without a loss.
    RetransmissionKindUnknown,
    /// A segment arrived late and was not retransmitted.
    Reordered,
    /// An end closed its window.
    ZeroWindow,
    /// A probe of a closed window.
    WindowProbe,
    /// A closed window opened: until then the other end could not send.
    WindowStall,
    /// Nagle's algorithm held a segment until a delayed acknowledgement came.
    DelayedAckStall,
    /// An end sent a reset.
    Reset,
}

impl EventKind {
    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::SynRetransmission => "syn-retransmission",
            EventKind::FastRetransmission => "fast-retransmission",
            EventKind::RtoRetransmission => "rto-retransmission",
            EventKind::RetransmissionOriginalNotCaptured => "retransmission-original-not-captured",
            EventKind::RetransmissionKindUnknown => "retransmission-kind-unknown",
            EventKind::Reordered => "reordered",
            EventKind::ZeroWindow => "zero-window",
            EventKind::WindowProbe => "window-probe",
            EventKind::WindowStall => "window-stall",
            EventKind::DelayedAckStall => "delayed-ack-stall",
            EventKind::Reset => "reset",
        }
    }
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedEvent {
    /// Number of its stream.
    pub stream: u64,
    /// Number in the capture, from 1, of the packet that shows it; `None`: the end of the stream or of
    /// the capture shows it.
    pub packet: Option<u64>,
    /// When, microseconds since the first packet of the capture.
    pub at_us: u64,
    /// The end that sent the packet; of a stall, the end that could not send.
    pub side: Side,
    /// What happened.
    pub event: EventKind,
    /// Bytes of data of the packet.
    pub bytes: u64,
    /// What it cost, microseconds: the length of the stall, or the wait for the retransmitted segment;
    /// `None`: it has no length.
    pub waited_us: Option<u64>,
}

/// A phase of a stream. Each begins where the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which phase.
    pub phase: PhaseKind,
    /// When it began, microseconds since the first packet of the stream.
    pub at_us: u64,
    /// Its length, microseconds.
    pub duration_us: u64,
}

/// The phases of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// From the first SYN to the end of the handshake.
    Handshake,
    /// From the handshake to the first byte of data.
    BeforeData,
    /// The first request and its response.
    FirstExchange,
    /// All other exchanges, to the last byte of data.
    LaterExchanges,
    /// From the last byte of data to the last packet.
    AfterData,
}

/// One packet of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedPacket {
    /// Number in the capture, from 1.
    pub packet: u64,
    /// Number in the stream, from 0.
    pub place: u64,
    /// When it was captured, nanoseconds since the first packet of the stream.
    pub at_ns: i64,
    /// The same since the previous packet of the stream; `None`: it is the first.
    pub since_ns: Option<i64>,
    /// The end that sent it.
    pub side: Side,
    /// Flags: `SYN`, `ACK`, `PSH`.
    pub flags: Vec<String>,
    /// Relative sequence number: 0 is the SYN, 1 the first byte of data; without a captured SYN, the
    /// first packet has 1.
    pub sequence: i64,
    /// Bytes of data.
    pub length: u32,
    /// Relative acknowledgement number; `None`: the ACK flag is not set.
    pub acknowledgement: Option<i64>,
    /// Advertised window, bytes, scaled where the scale is known.
    pub window: u32,
    /// Remarks about it.
    pub comments: Vec<String>,
}

/// The document of `netwhy pcap --stream --json`: one stream as in the report, and in depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamInDepth {
    /// [`StreamInDepth::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// As in the report.
    #[serde(flatten)]
    pub stream: CapturedStream,
    /// In depth; `None`: its packets were not kept.
    pub depth: Option<StreamDepth>,
}

impl StreamInDepth {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// A stream in depth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamDepth {
    /// Its phases.
    pub phases: Vec<Phase>,
    /// The slowest exchanges, slowest first; bounded.
    pub slowest_exchanges: Vec<CapturedExchange>,
    /// Its packets, duplicate packets of the capture included.
    pub packets: u64,
    /// Some of its packets: the first, the last, and those around the worst stalls.
    pub ladder: Vec<CapturedPacket>,
    /// What the end that sent more sent over time.
    pub curve: Curve,
}

/// What one end sent over time, in steps of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The end that sent it; `None`: neither end sent data.
    pub side: Option<Side>,
    /// Length of a step, nanoseconds.
    pub step_ns: i64,
    /// The steps, from the first packet of the stream.
    pub steps: Vec<CurveStep>,
    /// Retransmitted segments: when, nanoseconds since the first packet of the stream, and their first
    /// byte. Bounded: of very many, only every n-th is kept.
    pub retransmitted: Vec<(i64, u64)>,
}

/// One step of a curve; bytes count from the first byte of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveStep {
    /// Bytes sent at its end.
    pub sent: u64,
    /// Bytes acknowledged at its end.
    pub acknowledged: u64,
    /// Right edge of the peer's window at its end; `None`: not known.
    pub right_edge: Option<u64>,
}
