//! One packet of a direction: its options, data, time stamps, acknowledgement and window.

use wire::packet::tcp::{Flags, Tcp};

use super::state::{Direction, IpFields, Newest};
use crate::loss_recovery::Unanswered;
use crate::segment::SegmentKind;
use crate::time::{Nanos, OptionalTime};

/// Congestion Experienced (RFC 3168, 5).
pub(super) const ECN_CE: u8 = 3;
/// Segments in flight from which on a time stamp's echo is one of a transfer.
pub(crate) const MIN_TRANSFER_SEGMENTS: u64 = 4;
/// A pause that is at most one in so many parts of a round trip after it does not matter.
const MAX_PAUSE_PART: Nanos = 8;

impl Direction {
    /// Takes a packet of this direction. Returns what it is.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        tcp: &Tcp<'_>,
        timestamps: Option<(u32, u32)>,
        at: Nanos,
        ip: IpFields,
        peer: &mut Direction,
    ) -> SegmentKind {
        self.count_packet(ip.ecn);
        if tcp.flags.all(Flags::SYN) {
            self.read_options(tcp);
            self.negotiate_mss(peer);
        }
        let last_data_at = self.last_data_at;
        let kind = self.take_data(tcp, at, ip, peer);
        if tcp.length > 0 || kind == SegmentKind::KeepAlive {
            self.counts.add(kind);
        }
        if let Some(recovery) = &mut peer.loss_recovery {
            recovery.unanswered = Unanswered::default();
        }
        if kind == SegmentKind::New {
            self.newest = Newest { timestamp: timestamps.map_or(0, |(value, _)| value), ip };
        }
        if let Some(timestamps) = timestamps {
            if self.options_truncated && !self.timestamps {
                self.timestamps = true;
                self.negotiate_mss(peer);
            }
            self.take_time_stamps(tcp.length, timestamps, last_data_at, at, peer);
        }
        if tcp.flags.all(Flags::ACK) {
            self.take_acknowledgement(tcp, at, kind, peer);
        }
        self.take_window(tcp, at, peer);
        kind
    }

    #[inline(always)]
    pub(super) fn count_packet(&mut self, ecn: u8) {
        self.counts.packets += 1;
        if ecn == ECN_CE {
            self.counts.ecn_ce_marks = self.counts.ecn_ce_marks.saturating_add(1);
        }
    }

    /// Takes the time stamps of a packet with so much data; this end had sent data before at
    /// `last_data_at`.
    #[inline(always)]
    pub(super) fn take_time_stamps(
        &mut self,
        length: u32,
        (value, echo): (u32, u32),
        last_data_at: OptionalTime,
        at: Nanos,
        peer: &mut Direction,
    ) {
        self.timestamp_echo.sent(value, at, peer.next);
        if let Some((sample, in_flight)) = peer.timestamp_echo.echoed(echo, at, self.next) {
            if length == 0 {
                peer.round_trip.timestamp_echoed(sample, peer.in_flight());
            } else if in_flight >= MIN_TRANSFER_SEGMENTS * u64::from(length) {
                peer.add_timestamp_round_trip(sample, in_flight, last_data_at, at);
            }
        }
    }

    /// Data of the peer's transfer echoes a time stamp of this end. What the peer sent before it had not: the
    /// round trip is longer than the time since then. Before the first data after a pause, the peer had waited
    /// for its own reasons: such a time counts only if it is no longer than usual, and what is long without
    /// the pause counts so.
    #[inline]
    fn add_timestamp_round_trip(
        &mut self,
        sample: Nanos,
        in_flight: u64,
        peer_last_data_at: OptionalTime,
        at: Nanos,
    ) {
        let pause = peer_last_data_at.get().map_or(0, |last| at.saturating_sub(last));
        let times = self.timestamp_round_trips.get_or_insert_default();
        let min = times.min().or(self.round_trip.min());
        let is_usual = |sample| min.is_none_or(|min| sample <= min.saturating_mul(2));
        let at_least = sample.saturating_sub(pause);
        if is_usual(sample) || pause <= sample / MAX_PAUSE_PART {
            times.add(sample, in_flight);
        } else if !is_usual(at_least) {
            times.add(at_least, in_flight);
        }
    }
}
