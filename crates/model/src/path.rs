//! A path captured at both of its ends: which packets passed both captures, how long they took, and
//! where the others were lost.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Side;

/// Two captures of one path, compared. Of two values, the first is that of the client's capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// The two captures.
    pub captures: [PathCapture; 2],
    /// Streams that are in both.
    pub streams_in_both: u64,
    /// Streams whose addresses or ports differ: NAT or a proxy rewrote them.
    pub streams_rewritten: u64,
    /// Streams beyond the limit of those that are compared: no figure here includes them.
    pub streams_not_followed: u64,
    /// Streams that were opened from the server's side: the captures may have been swapped.
    pub streams_opened_at_server: u64,
    /// Streams of each capture with only a SYN, which the other capture does not have although it was
    /// still running: the SYN was lost between the two.
    pub syns_never_arrived: [u64; 2],
    /// The two clocks.
    pub clock: PathClock,
    /// Packets from the client's capture point to the server's.
    pub to_server: PathDirection,
    /// Packets from the server's capture point to the client's.
    pub to_client: PathDirection,
    /// What was changed between the two; bounded.
    pub changes: Vec<PathChange>,
    /// Streams in both by server, most losses first; bounded.
    pub services: Vec<PathService>,
    /// The streams with most losses, then those with the longest delays; bounded.
    pub worst: Vec<PathStream>,
}

/// One of the two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathCapture {
    /// Name of the file.
    pub file: String,
    /// Packets of any kind.
    pub packets: u64,
    /// TCP streams.
    pub streams: u64,
    /// First packet by this capture's clock, microseconds since 1970-01-01 UTC.
    pub first_unix_us: i64,
    /// From the first packet to the last, microseconds.
    pub span_us: u64,
}

/// How the clock of the server's capture differs from that of the client's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathClock {
    /// How far it is ahead at the first packet of the client's capture, microseconds, if both
    /// directions have the same delay; `None`: the captures share packets of one direction only.
    pub offset_us: Option<f64>,
    /// Error of the offset, microseconds: half of the shortest round trip between the capture points.
    pub uncertainty_us: Option<f64>,
    /// Shortest round trip between the capture points, microseconds; does not depend on the clocks.
    pub min_round_trip_us: Option<f64>,
    /// How much it gains, microseconds each second; `None`: the captures are too short, or show no
    /// drift.
    pub drift_ppm: Option<f64>,
    /// By how much the two directions disagree about the drift; also given where there is no drift.
    pub drift_uncertainty_ppm: Option<f64>,
    /// Packets that seem to arrive before they leave: one of the clocks was set meanwhile.
    pub before_they_left: u64,
}

/// Packets from one capture point to the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDirection {
    /// Segments with data, SYN or FIN in the capture at the sender; a large packet of an offload counts
    /// as the segments that it becomes.
    pub segments: u64,
    /// Their bytes of data, retransmissions included.
    pub bytes: u64,
    /// Packets that are in both captures.
    pub matched: u64,
    /// Their delay.
    pub delay: Option<PathDelay>,
    /// Lost between the capture points. Packet numbers are those of the capture at the sender.
    pub lost_between: PathLoss,
    /// Retransmitted, with the original in neither capture: lost in the sender, or between it and its
    /// capture point. Packet numbers are those of the capture at the sender.
    pub lost_before: PathLoss,
    /// Arrived, were not acknowledged, and arrived again: lost in the receiver, or between its capture
    /// point and it. Packet numbers are those of the capture at the receiver.
    pub lost_after: PathLoss,
    /// Losses of two or more segments in a row between the capture points.
    pub bursts: u64,
    /// Segments lost in these bursts.
    pub lost_in_bursts: u64,
    /// The longest burst, segments.
    pub longest_burst: u64,
    /// Packets that were overtaken between the capture points.
    pub reordered: u64,
    /// Packets that left once and arrived more than once, or that the capture at the receiver has more
    /// than once.
    pub duplicated: u64,
    /// Segments that arrived again after the receiver had acknowledged them: the acknowledgement was
    /// late or lost.
    pub spurious: u64,
    /// Packets without data that never arrived; the next acknowledgement replaces them.
    pub pure_acks_lost: u64,
    /// Segments that were acknowledged and are not in the capture at the receiver: it missed them.
    pub not_captured_arriving: u64,
    /// Segments that arrived and are not in the capture at the sender: it missed them, or they took
    /// another route.
    pub not_captured_leaving: u64,
}

/// Delays from one capture point to the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDelay {
    /// Packets that were timed: those that were sent once.
    pub samples: u64,
    /// Shortest delay, microseconds, if both directions have the same; `None`: the offset of the clocks
    /// is not known.
    pub min_us: Option<f64>,
    /// Median in excess of the shortest, microseconds: does not depend on the offset of the clocks.
    /// Histograms are exact to 6 %.
    pub p50_us: f64,
    /// 99th percentile in excess of the shortest, microseconds.
    pub p99_us: f64,
    /// Longest in excess of the shortest, microseconds.
    pub max_us: f64,
}

/// Losses on one section of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathLoss {
    /// Segments.
    pub segments: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Number in its capture, from 1, of the first; 0: there is none.
    pub first_packet: u64,
    /// The same of the last.
    pub last_packet: u64,
}

/// One stream that is in both captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStream {
    /// Its number in each capture, from 0.
    pub numbers: [u64; 2],
    /// The client, as in the client's capture.
    pub client: SocketAddr,
    /// The server, as in the client's capture.
    pub server: SocketAddr,
    /// Client and server as in the server's capture, where they differ.
    pub rewritten: Option<[SocketAddr; 2]>,
    /// Packets from the client's capture point to the server's.
    pub to_server: PathDirection,
    /// Packets from the server's capture point to the client's.
    pub to_client: PathDirection,
}

impl PathStream {
    /// Both directions, the one to the server first.
    pub fn directions(&self) -> [&PathDirection; 2] {
        [&self.to_server, &self.to_client]
    }
}

/// All streams of one server in both captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathService {
    /// The server, as in each capture.
    pub servers: [SocketAddr; 2],
    /// Streams.
    pub streams: u64,
    /// Segments lost towards the server: before the first capture point, between the two, after the
    /// second.
    pub to_server: [u64; 3],
    /// The same towards the client.
    pub to_client: [u64; 3],
}

/// What a device between the capture points changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChangedField {
    /// The MSS option of a SYN.
    SegmentSize,
    /// The window scale option of a SYN.
    WindowScale,
    /// The SACK-permitted option of a SYN.
    SelectiveAcknowledgements,
    /// The time stamps option of a SYN.
    TimeStamps,
    /// Other options of a SYN.
    OtherOptions,
    /// The window of a packet.
    Window,
}

impl ChangedField {
    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            ChangedField::SegmentSize => "the MSS of the SYN",
            ChangedField::WindowScale => "the window scale of the SYN",
            ChangedField::SelectiveAcknowledgements => "the SACK option of the SYN",
            ChangedField::TimeStamps => "the time stamps option of the SYN",
            ChangedField::OtherOptions => "other options of the SYN",
            ChangedField::Window => "the window",
        }
    }
}

/// A field that a device on the path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathChange {
    /// Which field.
    pub field: ChangedField,
    /// The end that sent it.
    pub left_at: Side,
    /// Its value when it left; `None`: the option was absent.
    pub before: Option<u64>,
    /// Its value when it arrived; `None`: the option was absent.
    pub after: Option<u64>,
    /// The first changed packet, by its number in each capture, from 1.
    pub packets: [u64; 2],
    /// Streams with this change.
    pub streams: u64,
}
