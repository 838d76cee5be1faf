//! What follows from the class of a segment: counts, gaps, retransmissions.

use wire::packet::tcp::{Flags, Tcp};

use super::classify::{Segment, SegmentClass};
use super::state::{Direction, IpFields};
use crate::loss_recovery::LastRetransmission;
use crate::segment::SegmentKind;
use crate::sequence::Sequence;
use crate::sequence_gaps::Gap;
use crate::time::Nanos;

/// Most data of a SYN, bytes: one segment of Ethernet.
const MAX_SYN_DATA: u32 = 1460;
/// The largest shift of a window (RFC 7323, 2.3).
const MAX_WINDOW_SCALE: u32 = 14;

impl Direction {
    /// Takes the data of a packet. Returns what it is.
    #[inline]
    pub(super) fn take_data(
        &mut self,
        tcp: &Tcp<'_>,
        at: Nanos,
        ip: IpFields,
        peer: &Direction,
    ) -> SegmentKind {
        let segment = self.segment(tcp, at, ip);
        if tcp.length > 0 {
            self.counts.data_packets += 1;
            self.counts.bytes = self.counts.bytes.saturating_add(tcp.length.into());
            self.max_segment = self.max_segment.max(tcp.length);
        }
        let class = self.classify(&segment, peer);
        if class == SegmentClass::AfterGap && !self.can_be_sent(&segment, peer) {
            return SegmentKind::NoData;
        }
        match class {
            SegmentClass::NoData | SegmentClass::KeepAlive => {}
            SegmentClass::Copy => self.take_copy(tcp),
            SegmentClass::WindowProbe => self.last_data_at = at.into(),
            SegmentClass::New | SegmentClass::AfterGap => {
                if class == SegmentClass::AfterGap {
                    self.open_gap(&segment);
                }
                self.take_new(&segment, peer);
                if class == SegmentClass::New {
                    self.round_trip.sent(segment.to, at);
                }
            }
            _ => self.take_old(class, &segment, peer),
        }
        class.kind()
    }

    /// Places a packet in the sequence, which the first one begins.
    #[inline]
    fn segment<'a>(&mut self, tcp: &'a Tcp<'a>, at: Nanos, ip: IpFields) -> Segment<'a> {
        if self.first.known().is_none() {
            let first = Sequence::first(tcp.sequence);
            (self.first, self.next, self.acknowledged) = (first, first, first);
        }
        let flags = u32::from(tcp.flags.all(Flags::SYN)) + u32::from(tcp.flags.all(Flags::FIN));
        // What a SYN carries fits in one segment (RFC 7413): more is a damaged length.
        let is_damaged = tcp.flags.all(Flags::SYN) && tcp.length > MAX_SYN_DATA;
        let length = if is_damaged { flags } else { tcp.length.saturating_add(flags) };
        let mut from = self.next.near(tcp.sequence);
        if self.counts.new_bytes == 0 && from != self.first && length > 0 {
            from = self.begin_again(tcp, from);
        }
        Segment { tcp, at, ip, from, to: from.plus(length), length }
    }

    /// Before any data: another SYN with another number, or data from before that of the SYN.
    /// Another host than the one that answered first sends it, or something on the path changes the
    /// numbers. Returns where the segment begins.
    #[cold]
    fn begin_again(&mut self, tcp: &Tcp<'_>, from: Sequence) -> Sequence {
        let is_before_syn = self.mss_option.is_some() && from < self.first;
        if !tcp.flags.all(Flags::SYN) && !is_before_syn {
            return from;
        }
        let first = Sequence::first(tcp.sequence);
        (self.first, self.next, self.acknowledged) = (first, first, first);
        self.right_edge = Sequence::default();
        (self.gaps, self.right_edges) = (None, None);
        first
    }

    /// Whether this segment, which leaves a gap behind it, can have been sent: no sender goes
    /// beyond all that its receiver ever offered. Damaged headers, and those of other streams, do;
    /// where more follows, the capture lacks what was before it.
    fn can_be_sent(&mut self, segment: &Segment<'_>, peer: &Direction) -> bool {
        let Some(edge) = self.right_edge.known() else { return true };
        let max_window = match peer.is_scale_known() {
            true => u64::from(peer.max_window),
            false => u64::from(peer.max_window) << MAX_WINDOW_SCALE,
        };
        let beyond = segment.from.since(edge);
        beyond <= max_window
            || self.loss_recovery.get_or_insert_default().confirm_stray(segment.from, max_window)
    }

    /// Data before this segment was not captured.
    #[cold]
    fn open_gap(&mut self, segment: &Segment<'_>) {
        let (from, to, timestamp) = (self.next, segment.from, segment.timestamp());
        let gap = Gap { from, to, since: segment.at, timestamp, id: segment.ip.id };
        let gaps = self.gaps.get_or_insert_default();
        if !gaps.any_after(self.acknowledged) {
            self.counts.missing_began = self.counts.missing_began.saturating_add(1);
        }
        gaps.open(gap);
    }

    /// New data: its bytes, and where it ends.
    #[inline]
    fn take_new(&mut self, segment: &Segment<'_>, peer: &Direction) {
        let Segment { tcp, at, from, to, .. } = *segment;
        self.note_beyond_window(from, to, peer);
        self.path_mtu.sent(from, to, tcp.length, self.mss());
        self.counts.new_bytes = self.counts.new_bytes.saturating_add(tcp.length.into());
        self.advance(to, at);
    }

    /// Data before the end of what was sent: late, retransmitted, or both.
    fn take_old(&mut self, class: SegmentClass, segment: &Segment<'_>, peer: &Direction) {
        let Segment { tcp, at, from, to, .. } = *segment;
        self.note_beyond_window(from, to, peer);
        self.is_spurious = to <= self.acknowledged;
        if let Some(recovery) = &mut self.loss_recovery {
            recovery.note_last(match class.is_spurious() {
                true => LastRetransmission::Spurious,
                false => LastRetransmission::Needed,
            });
        }
        if let (SegmentClass::Reordered { gap }, Some(gaps)) = (class, &self.gaps) {
            self.counts.late = self.counts.late.saturating_add(gaps.age(gap, at));
        }
        let missing = match class {
            SegmentClass::CapturedOutOfOrder { gap }
            | SegmentClass::Reordered { gap }
            | SegmentClass::OriginalNotCaptured { gap, .. } => {
                self.gaps.as_mut().map_or(0, |gaps| gaps.fill(gap, from, to))
            }
            _ => 0,
        };
        match class {
            SegmentClass::OriginalNotCaptured { is_spurious: false, .. } => {
                self.round_trip.retransmitted(to, peer.timestamp_round_trips.as_deref());
                let recovery = self.loss_recovery.get_or_insert_default();
                recovery.gap_filled((from, to), at, segment.timestamp());
            }
            SegmentClass::LateOriginal { retransmission } => {
                if let Some(recovery) = &mut self.loss_recovery {
                    recovery.original_arrived(retransmission);
                }
                let counts = &mut self.counts;
                counts.originals_not_captured = counts.originals_not_captured.saturating_sub(1);
                counts.late_originals = counts.late_originals.saturating_add(1);
            }
            SegmentClass::OriginalNotCaptured { is_spurious: true, .. }
            | SegmentClass::RtoRetransmission { is_spurious: true }
            | SegmentClass::RetransmissionKindUnknown { is_spurious: true } => {
                self.count_spurious(tcp);
            }
            SegmentClass::TooSoon => {
                self.count_spurious(tcp);
                self.take_retransmission(class, segment);
            }
            SegmentClass::BeyondWindow
            | SegmentClass::FastRetransmission
            | SegmentClass::RtoRetransmission { is_spurious: false }
            | SegmentClass::RetransmissionKindUnknown { is_spurious: false } => {
                self.take_retransmission(class, segment);
            }
            _ => {}
        }
        // Some of its bytes may be new: a retransmission can be put together anew.
        let new = missing.saturating_add(to.since(self.next)).min(tcp.length.into());
        self.counts.new_bytes = self.counts.new_bytes.saturating_add(new);
        self.advance(to, at);
    }

    /// The capture has this data twice, in other pieces.
    #[cold]
    fn take_copy(&mut self, tcp: &Tcp<'_>) {
        let counts = &mut self.counts;
        counts.packets = counts.packets.saturating_sub(1);
        counts.data_packets = counts.data_packets.saturating_sub(1);
        counts.bytes = counts.bytes.saturating_sub(tcp.length.into());
        counts.duplicate_packets = counts.duplicate_packets.saturating_add(1);
        counts.duplicate_bytes = counts.duplicate_bytes.saturating_add(tcp.length.into());
    }

    /// A retransmission was not for a loss.
    fn count_spurious(&mut self, tcp: &Tcp<'_>) {
        let count = &mut self.counts.already_acknowledged;
        *count = count.saturating_add(u32::from(tcp.length > 0));
    }

    /// A retransmission of unacknowledged data whose original was captured.
    fn take_retransmission(&mut self, class: SegmentClass, segment: &Segment<'_>) {
        let Segment { at, from, to, .. } = *segment;
        self.round_trip.retransmitted(to, None);
        self.path_mtu.retransmitted(from, to);
        let recovery = self.loss_recovery.get_or_insert_default();
        if class == SegmentClass::TooSoon {
            recovery.note_last(LastRetransmission::Spurious);
        } else if segment.tcp.length > 0 && class != SegmentClass::BeyondWindow {
            recovery.retransmitted((from, to), at, segment.timestamp());
        }
        match class {
            // Not for a loss.
            SegmentClass::BeyondWindow | SegmentClass::TooSoon => {}
            SegmentClass::FastRetransmission => recovery.fast_retransmission(to, at),
            SegmentClass::RtoRetransmission { .. } => {
                recovery.other_retransmission();
                recovery.timeout(from, to);
            }
            _ => recovery.other_retransmission(),
        }
    }

    /// Notes data for which the receiver has no room: it may drop it.
    #[inline]
    fn note_beyond_window(&mut self, from: Sequence, to: Sequence, peer: &Direction) {
        if self.is_beyond_window(to, peer) {
            self.loss_recovery.get_or_insert_default().refuse(from, to);
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, to: Sequence, at: Nanos) {
        self.next = self.next.max(to);
        self.max_in_flight = self.max_in_flight.max(self.in_flight());
        self.last_data_at = at.into();
    }
}
