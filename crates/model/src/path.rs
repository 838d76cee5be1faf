//! A path seen from both of its ends: two captures of the same streams, what passed both of them, how
//! long it took, and where the rest was lost.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Side;

/// What two captures of one path tell together. Of two values the first is that of the client's
/// capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// The two captures.
    pub captures: [PathCapture; 2],
    /// Streams that are in both.
    pub streams_in_both: u64,
    /// Those of them whose addresses or ports differ: they were rewritten on the way.
    pub streams_rewritten: u64,
    /// Streams for which there was no room: they are in no figure here.
    pub streams_not_followed: u64,
    /// Streams that were opened from the server's place: the captures may have been exchanged.
    pub streams_opened_at_server: u64,
    /// Streams of which each capture has nothing but a SYN that is not in the other one, though that
    /// went on: it was lost between both.
    pub syns_never_arrived: [u64; 2],
    /// The two clocks.
    pub clock: PathClock,
    /// What left at the client's place.
    pub to_server: PathDirection,
    /// What left at the server's place.
    pub to_client: PathDirection,
    /// What was changed between both; bounded.
    pub changes: Vec<PathChange>,
    /// Streams in both by the end that serves, those with most losses first; bounded.
    pub services: Vec<PathService>,
    /// The streams that lost most, then those that were delayed most; bounded.
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
    /// How far it is ahead at the first packet of the client's capture, microseconds, if both ways
    /// are equally long; `None`: packets of one way only were in both captures.
    pub offset_us: Option<f64>,
    /// How wrong that may be, microseconds: half of the shortest round trip between both places.
    pub uncertainty_us: Option<f64>,
    /// The shortest round trip between both places, microseconds; no clock is needed for it.
    pub min_round_trip_us: Option<f64>,
    /// How much it gains, microseconds each second; `None`: too short a capture, or nothing to be seen.
    pub drift_ppm: Option<f64>,
    /// By how much both ways disagree on that; also told where no drift was seen.
    pub drift_uncertainty_ppm: Option<f64>,
    /// Packets that seem to arrive before they leave: one of the clocks was set meanwhile.
    pub before_they_left: u64,
}

/// What left at one of the places and was to arrive at the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDirection {
    /// Segments with data, SYN or FIN that were seen leaving; a large packet of an offload counts as
    /// the segments that it becomes.
    pub segments: u64,
    /// Bytes of data of them, repeated ones too.
    pub bytes: u64,
    /// Packets that were seen arriving and are known to have left.
    pub matched: u64,
    /// How long they took.
    pub delay: Option<PathDelay>,
    /// Seen leaving, never arriving. Packet numbers are those of the capture at which they left.
    pub lost_between: PathLoss,
    /// Sent again, and the first was never seen leaving: lost in the sender, or between it and its
    /// capture. Packet numbers are those of the capture at which they left.
    pub lost_before: PathLoss,
    /// Arrived, were not acknowledged, and arrived again: lost in the receiver, or between the capture
    /// and it. Packet numbers are those of the capture at which they arrived.
    pub lost_after: PathLoss,
    /// Losses between the two of two and more segments in a row.
    pub bursts: u64,
    /// Segments lost in those.
    pub lost_in_bursts: u64,
    /// The longest of them, segments.
    pub longest_burst: u64,
    /// Packets that were overtaken between the two.
    pub reordered: u64,
    /// Packets that left once and arrived twice (or were captured twice there).
    pub duplicated: u64,
    /// Segments that arrived again after their receiver had told that it has them: what it told came
    /// late or was lost.
    pub spurious: u64,
    /// Packets without data that never arrived; what they say is said again by the next one.
    pub pure_acks_lost: u64,
    /// Segments that were acknowledged and never seen arriving: the capture there missed them.
    pub not_captured_arriving: u64,
    /// Segments that arrived and were never seen leaving: the capture at the sender missed them, or
    /// they left another way.
    pub not_captured_leaving: u64,
}

/// Delays from one place to the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDelay {
    /// Packets that were timed: those that were sent once.
    pub samples: u64,
    /// The shortest, microseconds, if both ways are equally long; `None` where the clocks are not known.
    pub min_us: Option<f64>,
    /// Median beyond the shortest, microseconds: no clock's offset is in it. Histograms are exact
    /// to 6 %.
    pub p50_us: f64,
    /// 99th percentile beyond the shortest, microseconds.
    pub p99_us: f64,
    /// The longest beyond the shortest, microseconds.
    pub max_us: f64,
}

/// What was lost on one part of the path.
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
    /// Who asked for it, as the client's capture has it.
    pub client: SocketAddr,
    /// Who was asked.
    pub server: SocketAddr,
    /// The same two as the server's capture has them, where they differ.
    pub rewritten: Option<[SocketAddr; 2]>,
    /// What left at the client's place.
    pub to_server: PathDirection,
    /// What left at the server's place.
    pub to_client: PathDirection,
}

impl PathStream {
    /// What left at each place, the client's first.
    pub fn directions(&self) -> [&PathDirection; 2] {
        [&self.to_server, &self.to_client]
    }
}

/// All streams in both captures that one end serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathService {
    /// The end that serves, as each capture has it.
    pub servers: [SocketAddr; 2],
    /// Streams.
    pub streams: u64,
    /// Lost towards the server's place: before its first capture, between both, behind the second.
    pub to_server: [u64; 3],
    /// The same towards the client's place.
    pub to_client: [u64; 3],
}

/// What a device between the two changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChangedField {
    /// The largest segment that a SYN allows.
    SegmentSize,
    /// The window scale of a SYN.
    WindowScale,
    /// The offer of selective acknowledgements.
    SelectiveAcknowledgements,
    /// Time stamps.
    TimeStamps,
    /// Options of a SYN that are none of these.
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

/// One thing that left otherwise than it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathChange {
    /// What.
    pub field: ChangedField,
    /// At which place it left.
    pub left_at: Side,
    /// What it was when it left; `None`: the option was not there.
    pub before: Option<u64>,
    /// What it was when it arrived.
    pub after: Option<u64>,
    /// The first packet of which this is known, by its number in each capture, from 1.
    pub packets: [u64; 2],
    /// Streams of which it is known.
    pub streams: u64,
}
