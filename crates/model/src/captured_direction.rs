//! What one end of a captured stream sent, and what it waited for.

use serde::{Deserialize, Serialize};

use crate::time_breakdown::share_of;
use crate::{NetworkShare, TimeCategory, TimeShare};

/// What one end of a stream sent, and what it waited for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedDirection {
    /// Packets, without duplicate packets of the capture.
    pub packets: u64,
    /// Segments with data.
    pub data_segments: u64,
    /// New bytes.
    pub new_bytes: u64,
    /// Bytes that its peer acknowledged and that the capture does not have: it was filtered, or lost
    /// packets.
    #[serde(default)]
    pub not_captured_bytes: u64,
    /// Segments that were retransmitted after duplicate or selective acknowledgements.
    pub fast_retransmissions: u64,
    /// Segments that were retransmitted after a retransmission timeout.
    pub rto_retransmissions: u64,
    /// Retransmissions whose original was lost before the capture point.
    pub retransmissions_original_not_captured: u64,
    /// Other retransmissions: a tail-loss probe, or a sender that retransmitted without a loss.
    pub retransmissions_kind_unknown: u64,
    /// Most RTO retransmissions of one segment.
    pub max_timeouts_of_segment: u32,
    /// Bytes of that segment.
    pub max_timeouts_segment_bytes: u32,
    /// Segments that arrived late and were not retransmitted.
    pub reordered: u64,
    /// How late those were, together, microseconds.
    #[serde(default)]
    pub late_us: u64,
    /// Reordered segments whose retransmission arrived first: the retransmission was spurious, and is
    /// not counted among the retransmissions.
    #[serde(default)]
    pub late_originals: u64,
    /// Times that segments began to be missing at the capture point, after everything before them had
    /// been acknowledged: losses and reordering on the path before it.
    #[serde(default)]
    pub missing_began: u64,
    /// Retransmissions of segments that were not lost: the receiver had acknowledged them before, if
    /// only selectively; the acknowledgement was for the original; or the retransmission came sooner
    /// than its sender could miss the original. Counted among the retransmissions.
    #[serde(default)]
    pub already_acknowledged: u64,
    /// Retransmissions after the receiver's last packet: whether anything was lost is not known.
    /// Counted among the retransmissions.
    #[serde(default)]
    pub unanswered: u64,
    /// Time that the sender waited meanwhile, up to its last retransmission or its FIN,
    /// microseconds. Where no packet of the receiver was captured at all, only of a client that repeats
    /// one segment, otherwise 0.
    #[serde(default)]
    pub unanswered_us: u64,
    /// Segments that the receiver reported as duplicates (D-SACK).
    pub duplicate_sacks: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Packets with which this end closed its own window.
    pub zero_windows: u64,
    /// Packets with a congestion mark (ECN).
    pub ecn_ce_marks: u64,
    /// Largest segment that this end accepts, from its SYN, bytes.
    pub mss: Option<u16>,
    /// Window scale of this end, from its SYN, bits; `None`: it does not scale, or its SYN was not
    /// captured.
    pub window_scale: Option<u8>,
    /// Whether the capture truncated the options of its SYN, perhaps the window scale among them.
    #[serde(default)]
    pub options_truncated: bool,
    /// Largest window that this end advertised, bytes.
    pub max_window: u32,
    /// Time that this end waited for room in its peer's window since that window last grew by a
    /// quarter, microseconds. Not included is time in which the reader was behind or a queue delayed
    /// the window updates: the window was smaller than three quarters of what it had been, it opened
    /// half a round trip later than it could, or round trips were longer by as much.
    #[serde(default)]
    pub settled_window_us: Option<u64>,
    /// The time that `settled_window_us` does not include, microseconds.
    #[serde(default)]
    pub reader_behind_us: Option<u64>,
    /// Most bytes in flight, as seen at the capture point.
    pub max_in_flight: u64,
    /// Largest segment, bytes of data.
    pub max_segment_bytes: u32,
    /// Round trips, from data of this end to its acknowledgement.
    pub round_trip: Option<RoundTrips>,
    /// Where the time went in which this end was sending or its peer waited for it.
    pub time_breakdown: Vec<TimeShare>,
    /// What its round trips and transmission consist of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_breakdown: Vec<NetworkShare>,
    /// Times that its peer's window was closed.
    pub zero_window_stalls: Stalls,
    /// Times that it waited for a delayed acknowledgement.
    pub delayed_ack_stalls: Stalls,
    /// Small segments whose acknowledgement came as late as a delayed one.
    pub acknowledged_late: u64,
    /// Exchanges in which a policer dropped segments of this end; bounded.
    #[serde(default)]
    pub policed: Vec<PolicedExchange>,
    /// How its rate fell and its round trip rose when a token bucket with a queue limited it.
    #[serde(default)]
    pub shaped: Option<ShapedRate>,
    /// Rate at which the path delivers a flight of a transfer, bits of data a second: one in ten
    /// flights, or groups of 16 segments, was acknowledged as fast. The rate of the path, if the sender leaves pauses
    /// between its flights, and does not pace.
    #[serde(default)]
    pub flight_rate_bps: Option<u64>,
    /// How its flights stayed as large as they were, although the window and the path would have taken
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flight_plateau: Option<FlightPlateau>,
    /// An even pace that it kept by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even_pace: Option<EvenPace>,
    /// Transfers in slow start.
    #[serde(default)]
    pub slow_starts: SlowStarts,
    /// Whether a full-size segment ever arrived, as far as is known; `None`: none was sent.
    #[serde(default)]
    pub full_size_arrived: Option<bool>,
    /// Full-size segments in flight when a smaller one before them was acknowledged, where none of
    /// that size ever was.
    #[serde(default)]
    pub full_size_passed_over: u64,
    /// Segments that were retransmitted in smaller pieces.
    #[serde(default)]
    pub resegmented: u64,
    /// Segments whose checksum was verified: those after a retransmission that were captured whole.
    #[serde(default)]
    pub checksums_verified: u64,
    /// Segments among them with a bad checksum, but for the latest that were not acknowledged: the
    /// capture may have ended before their retransmission.
    #[serde(default)]
    pub bad_checksums: u64,
}

/// Round trips in which a sender sent as much as before, waited until it was acknowledged, and went on at
/// once, with room in the window and nothing lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlightPlateau {
    /// Bytes in flight, the mean of the largest flight of each round trip.
    pub flight_bytes: u64,
    /// Round trips.
    pub round_trips: u64,
    /// How long they took, microseconds.
    pub duration_us: u64,
    /// How long the sender waited meanwhile, microseconds.
    pub waited_us: u64,
}

/// A pace that a sender kept by itself, as seen near it: each interval of a round trip or more held as much
/// as the others, no acknowledgement released what was sent, and its segments were full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EvenPace {
    /// The rate, bits of data a second.
    pub rate_bps: u64,
    /// Bytes that were sent so.
    pub bytes: u64,
    /// How long it was kept, microseconds.
    pub duration_us: u64,
    /// Intervals.
    pub intervals: u64,
    /// Departures after a pause, and those of them that an acknowledgement released.
    pub departures: u64,
    /// See `departures`.
    pub released: u64,
}

/// Slow start of one end's transfers: what is sent doubles with every round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowStarts {
    /// Transfers whose slow start was captured.
    pub transfers: u64,
    /// First flight of the stream, bytes; 0: its slow start was not captured, or data was lost before that
    /// flight was over, so that it does not show the initial window.
    pub first_flight: u64,
    /// The same in segments.
    pub first_segments: u64,
    /// Round trips of the first transfer.
    pub first_rounds: u64,
    /// Bytes of that transfer.
    pub first_bytes: u64,
    /// Round trips of it that flights as large as its largest would have saved: all but one, where
    /// nothing but slow start limited it.
    #[serde(default)]
    pub first_growing: u64,
    /// Round trips that an initial window of ten segments would have saved in it.
    pub first_saved: u64,
    /// Transfers that began with few bytes after an idle period, though more had been in flight before.
    pub restarts: u64,
    /// Time that these restarts cost, microseconds.
    pub restart_us: u64,
    /// Idle period before the restart that cost most, microseconds.
    pub worst_idle_us: u64,
    /// Bytes of the first flight after it.
    pub worst_flight: u64,
    /// Most bytes of a round trip before it.
    pub worst_before: u64,
    /// Number in the capture, from 1, of the first packet after it; 0: there is none.
    pub worst_at: u64,
}

/// A rate that fell to that of a shaper: a token bucket with a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShapedRate {
    /// Rate before, bits of data a second.
    pub before_bps: u64,
    /// Rate of the shaper, bits of data a second.
    pub rate_bps: u64,
    /// Bytes in excess of that rate that passed before.
    pub burst_bytes: u64,
    /// Median round trip before, microseconds.
    pub round_trip_before_us: u64,
    /// The same after.
    pub round_trip_after_us: u64,
    /// Time from the first megabyte until the rate fell, microseconds.
    pub after_us: u64,
    /// Time from then to the end of the transfer, microseconds.
    pub duration_us: u64,
    /// Other streams that passed the same shaper: the rates are those of all of them together.
    #[serde(default)]
    pub other_streams: u64,
}

/// An exchange in which a token-bucket policer dropped segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicedExchange {
    /// Number of the exchange in its stream, from 0.
    pub exchange: u64,
    /// The policer's rate, bits of IP packets a second; `None`: only its bounds are known.
    pub rate_bps: Option<u64>,
    /// Lowest rate that fits the losses, bits a second.
    pub min_rate_bps: u64,
    /// Highest rate that fits the losses, bits a second.
    pub max_rate_bps: u64,
    /// Bytes that passed at once before the first drop: the size of the bucket, if it was full before.
    pub bucket_bytes: u64,
    /// Packets dropped.
    pub lost: u64,
    /// Packets passed.
    pub passed: u64,
    /// How often dropping began.
    pub bursts: u64,
    /// From the first loss to the last, microseconds.
    pub duration_us: u64,
    /// Other streams whose packets the same bucket dropped: the rate is that of all of them together.
    #[serde(default)]
    pub other_streams: u64,
}

impl CapturedDirection {
    /// Whether the capture lacks so much of its data (one byte in a hundred) that its times and rates
    /// are those of another stream.
    pub fn lacks_data(&self) -> bool {
        self.not_captured_bytes > self.new_bytes / 100
    }

    /// Time of one category, microseconds.
    pub fn time_us(&self, category: TimeCategory) -> u64 {
        share_of(&self.time_breakdown, category).map_or(0, |share| share.time_us)
    }

    /// All retransmitted segments.
    pub fn retransmitted(&self) -> u64 {
        self.fast_retransmissions
            .saturating_add(self.rto_retransmissions)
            .saturating_add(self.retransmissions_original_not_captured)
            .saturating_add(self.retransmissions_kind_unknown)
    }

    /// Lost segments: retransmissions that were needed, as an answer of the receiver shows. A packet
    /// that was too large for the path does not count.
    pub fn lost(&self) -> u64 {
        let not_lost = self.spurious().max(self.already_acknowledged);
        self.retransmitted()
            .saturating_sub(self.unanswered)
            .saturating_sub(not_lost)
            .saturating_sub(self.resegmented)
    }

    /// Whether reordering is so frequent that the few segments that seem lost may have been late: ten
    /// times as many retransmissions were spurious.
    pub fn is_mostly_reordered(&self) -> bool {
        self.late_originals.saturating_add(self.spurious()) > self.lost().saturating_mul(10)
    }

    /// Spurious retransmissions, as the receiver reported them (D-SACK).
    pub fn spurious(&self) -> u64 {
        self.duplicate_sacks.saturating_sub(self.late_originals).min(self.retransmitted())
    }
}

/// Round trips of one direction: from data passing the capture point to its acknowledgement passing
/// back. Where the capture point is at the receiver, from time stamps and their echo.
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
    /// Share of the samples that were at least twice the shortest and 20 ms longer, 0 to 1.
    pub inflated: f64,
    /// Correlation with the bytes in flight, -1 to 1; `None`: neither changed.
    pub follows_flight: Option<f64>,
    /// Times that loss began after a time without loss.
    pub losses: u64,
    /// Of these: times that the last round trip was twice the shortest and 20 ms longer, so that a
    /// queue was full.
    pub losses_after_long: u64,
    /// Of these: times that the last round trip was a sixteenth longer than the shortest, so that there was
    /// a queue; `None`: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses_after_longer: Option<u64>,
}

/// Stalls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// Total time, microseconds.
    pub total_us: u64,
    /// The longest, microseconds.
    pub longest_us: u64,
    /// Number in the capture, from 1, of the packet that ended the longest; 0: there is none.
    pub longest_ended_at: u64,
}
