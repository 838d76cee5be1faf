//! A captured stream in depth: its phases, turns, events and packets.

use serde::{Deserialize, Serialize};

use crate::{CapturedStream, TimeCategory, TimeShare};

/// One of the two ends of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The one that asked for it.
    Client,
    /// The one that was asked.
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

/// One turn: a request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedExchange {
    /// Number of its stream.
    pub stream: u64,
    /// Number in the stream, from 0.
    pub exchange: u64,
    /// Who asked.
    pub requester: Side,
    /// First byte of the request, microseconds since the first packet of the capture.
    pub at_us: u64,
    /// New bytes of the request.
    pub request_bytes: u64,
    /// From the first byte of the request to its last, microseconds.
    pub request_us: u64,
    /// From the last byte of the request to the first of the answer, as seen at the place of
    /// capture, microseconds; `None`: there was no answer.
    pub response_wait_us: Option<u64>,
    /// New bytes of the answer.
    pub response_bytes: u64,
    /// From the first byte of the request to the last of the answer, microseconds; `None`: there
    /// was no answer.
    pub total_us: Option<u64>,
    /// Method of HTTP/1, where it was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// What it asked for, up to 160 bytes with the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Where its time went, up to the next request; idle time is left out.
    pub time_breakdown: Vec<TimeShare>,
}

impl CapturedExchange {
    /// Time of one part, microseconds.
    pub fn time_us(&self, part: TimeCategory) -> u64 {
        self.time_breakdown
            .iter()
            .find(|share| share.category == part)
            .map_or(0, |share| share.time_us)
    }

    /// Its time up to the next request, without idle time, microseconds: longer than from request to
    /// answer when the answer was not all.
    pub fn spent_us(&self) -> u64 {
        self.time_breakdown.iter().map(|share| share.time_us).sum()
    }

    /// The part that took most of it.
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
    /// A SYN, or the answer to one, was sent again.
    SynRetransmission,
    /// Data was sent again after duplicate or selective acknowledgements.
    FastRetransmission,
    /// The same, after a retransmission timeout.
    RtoRetransmission,
    /// The same, lost before the place of capture.
    RetransmissionOriginalNotCaptured,
    /// The same, for another reason: a tail-loss probe, a sender that was mistaken.
    RetransmissionKindUnknown,
    /// A segment arrived late and was not sent again.
    Reordered,
    /// An end closed its window.
    ZeroWindow,
    /// A probe of a closed window.
    WindowProbe,
    /// The window that was closed has opened: so long the other end could not send.
    WindowStall,
    /// Nagle's algorithm held a segment until a delayed acknowledgement came.
    DelayedAckStall,
    /// The connection was broken off.
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
    /// Number in the capture of the packet with which it was seen, from 1; `None`: with the end of
    /// the stream or of the capture.
    pub packet: Option<u64>,
    /// When, microseconds since the first packet of the capture.
    pub at_us: u64,
    /// Whose packet it was; of a stall: who could not send.
    pub side: Side,
    /// What happened.
    pub event: EventKind,
    /// Bytes of data of the packet.
    pub bytes: u64,
    /// What it cost, microseconds: how long the stall lasted, how long was waited for the repeated
    /// segment; `None`: it has no length.
    pub waited_us: Option<u64>,
}

/// A part of the life of a stream. Phases follow each other without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which.
    pub phase: PhaseKind,
    /// When it began, microseconds since the first packet of the stream.
    pub at_us: u64,
    /// How long it was, microseconds.
    pub duration_us: u64,
}

/// Which part of the life of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// From the first SYN to the end of the handshake.
    Handshake,
    /// From there to the first byte of data.
    BeforeData,
    /// The first request and its answer.
    FirstExchange,
    /// All others, to the last byte of data.
    LaterExchanges,
    /// From there to the last packet.
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
    /// When it passed, nanoseconds since the first packet of the stream.
    pub at_ns: i64,
    /// The same, since the packet before it in the stream; `None`: it is the first.
    pub since_ns: Option<i64>,
    /// Who sent it.
    pub side: Side,
    /// Flags: `SYN`, `ACK`, `PSH`.
    pub flags: Vec<String>,
    /// Its first byte in what its end sent: 0 is the SYN, 1 the first byte of data; where no SYN was
    /// seen, the first packet has 1.
    pub sequence: i64,
    /// Bytes of data.
    pub length: u32,
    /// Next byte that its sender expects, counted in the same way; `None`: without the flag.
    pub acknowledgement: Option<i64>,
    /// Window that it offers, bytes, scaled where the scale is known.
    pub window: u32,
    /// What there is to say of it.
    pub comments: Vec<String>,
}

/// One stream for programs: as in the report, and in depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamInDepth {
    /// [`StreamInDepth::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// As in the report.
    #[serde(flatten)]
    pub stream: CapturedStream,
    /// In depth; `None`: its packets were not recorded.
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
    /// The parts of its life.
    pub phases: Vec<Phase>,
    /// The turns that took longest, the slowest first; bounded.
    pub slowest_exchanges: Vec<CapturedExchange>,
    /// Packets of it, those that were captured twice included.
    pub packets: u64,
    /// Some of them: the first, the last, and those around the worst stalls.
    pub ladder: Vec<CapturedPacket>,
    /// What it sent over time, of the end that sent more.
    pub curve: Curve,
}

/// What one end sent over time, in steps that are equally long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Who sent it; `None`: nobody sent data.
    pub side: Option<Side>,
    /// Length of a step, nanoseconds.
    pub step_ns: i64,
    /// The steps, from the first packet of the stream.
    pub steps: Vec<CurveStep>,
    /// Segments that were sent again: when, nanoseconds since the first packet of the stream, and
    /// their first byte. Bounded: of very many, each so many is left out.
    pub retransmitted: Vec<(i64, u64)>,
}

/// One step of a curve; bytes are counted from the first of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveStep {
    /// Bytes sent at its end.
    pub sent: u64,
    /// Bytes acknowledged at its end.
    pub acknowledged: u64,
    /// How far the peer's window reaches at its end; `None`: not known.
    pub right_edge: Option<u64>,
}
