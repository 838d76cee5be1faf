//! What a segment is: one list of questions, in order. The first that is answered with yes decides.
//!
//! | question | answer |
//! |---|---|
//! | Is it a reset, or does it repeat data after one? | no data: a reset has no place in the sequence (RFC 9293, 3.10.7), and what follows it was not lost |
//! | Does it have one byte or none, just before the next one, with no other byte in flight and the window open? | keep-alive (RFC 9293, 3.8.4; `tcp_write_wakeup`) |
//! | Does it have neither data nor SYN nor FIN? | no data |
//! | Is the window closed, and does it have the first byte beyond it? | window probe (RFC 9293, 3.8.6.1; `tcp_send_probe0`) |
//! | Does it begin where the data before it ended? | new |
//! | Does it begin later? | new, after a gap |
//! | Does it fill a gap, and passed before the packet that showed the gap, by its time? | new, captured out of order |
//! | Does it fill a gap, was sent no later than the data after it, and is acknowledged already? | new, captured out of order |
//! | Does it fill a gap, and was sent no later than the data after it? | reordered |
//! | Does it fill a gap? | retransmission, original not captured |
//! | Has its own retransmission filled a gap? | late original: reordered, and the retransmission was spurious |
//! | Was it sent before the newest data, by its time stamp? Or has it another hop limit, and the same time stamp or, without time stamps, no later identification? | copy: the capture has it twice, in other pieces |
//! | Was it acknowledged already, and nothing sent for a retransmission timeout? | RTO retransmission, spurious |
//! | Was it acknowledged already, or selectively (RFC 2018)? | retransmission of unknown kind, spurious |
//! | Was it beyond the window of its receiver, now or when it was first sent? | window probe: nothing was lost on the path |
//! | Did its original pass less than the shortest round trip ago, or a millisecond, and did no duplicate acknowledgement ask for it? (None does before data beyond it was sent.) | retransmission of unknown kind, spurious: nobody could miss the original yet |
//! | Is it the first unacknowledged data, after three duplicate acknowledgements? | fast retransmission (RFC 5681, 3.2) |
//! | Was nothing sent for a retransmission timeout? | RTO retransmission (RFC 6298, 5.4; `tcp_retransmit_timer`) |
//! | Otherwise | retransmission of unknown kind: a tail-loss probe (RFC 8985, 7), or a sender that retransmitted without a loss |
//!
//! Time stamps (RFC 7323) show which of two segments was sent first. Where both have the same one and the
//! gap is older than the way from the capture point to the sender and back, the newest time stamp that
//! passed since shows it: a retransmission has none that is older. Where time stamps do not show it, the
//! IP identification does, if the sender counts its packets with it; where it does not either, a
//! segment that follows soon and without three duplicate acknowledgements was reordered.
//! The acknowledgement of a retransmission may still show that its original had arrived: see
//! `loss_recovery`. Duplicate packets of the
//! capture never get here: see `duplicates`.

use wire::packet::tcp::{Flags, Tcp};

use super::state::{Direction, IpFields};
use crate::loss_recovery::GapFillIndex;
use crate::round_trip::INITIAL_TIMEOUT;
use crate::segment::SegmentKind;
use crate::sequence::{Sequence, timestamp_ticks_after};
use crate::sequence_gaps::{Gap, GapIndex};
use crate::time::Nanos;

/// Duplicate acknowledgements after which a sender retransmits (RFC 5681, 3.2).
const DUPLICATE_ACK_THRESHOLD: u32 = 3;
/// Shortest time after which a retransmission can come: below, the network or the capture has
/// reordered segments.
const MIN_RETRANSMISSION_TIME: Nanos = 3_000_000;
/// Shorter than any timer of a sender: those of Linux have ticks of a millisecond or more.
const MIN_TIMER: Nanos = 1_000_000;

/// A segment in the sequence of its direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) tcp: &'a Tcp<'a>,
    pub(super) at: Nanos,
    pub(super) ip: IpFields,
    /// First sequence number.
    pub(super) from: Sequence,
    /// The number after the last one, SYN and FIN included.
    pub(super) to: Sequence,
    /// Sequence numbers that it takes: its data, SYN and FIN.
    pub(super) length: u32,
}

impl Segment<'_> {
    pub(super) fn timestamp(&self) -> Option<u32> {
        self.tcp.time_stamps().map(|(value, _)| value)
    }

    fn has(&self, flag: Flags) -> bool {
        self.tcp.flags.all(flag)
    }
}

/// What a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentClass {
    /// No data, no SYN, no FIN; or a reset.
    NoData,
    KeepAlive,
    /// The capture has this data twice.
    Copy,
    /// The first data beyond a closed window.
    WindowProbe,
    /// New data in order.
    New,
    /// New data beyond a gap.
    AfterGap,
    /// Fills a gap: it passed before what follows it and was captured behind.
    CapturedOutOfOrder {
        gap: GapIndex,
    },
    /// Fills a gap: sent before what follows it.
    Reordered {
        gap: GapIndex,
    },
    /// Fills a gap: sent after what follows it.
    OriginalNotCaptured {
        gap: GapIndex,
        is_spurious: bool,
    },
    /// Arrives after its own retransmission, which filled a gap.
    LateOriginal {
        retransmission: GapFillIndex,
    },
    /// Its receiver had no room for it.
    BeyondWindow,
    /// Sooner than its sender could miss the original.
    TooSoon,
    FastRetransmission,
    RtoRetransmission {
        is_spurious: bool,
    },
    RetransmissionKindUnknown {
        is_spurious: bool,
    },
}

impl SegmentClass {
    /// Whether its receiver has the data already, or its sender cannot miss it yet.
    pub(super) fn is_spurious(self) -> bool {
        matches!(
            self,
            SegmentClass::OriginalNotCaptured { is_spurious: true, .. }
                | SegmentClass::RtoRetransmission { is_spurious: true }
                | SegmentClass::RetransmissionKindUnknown { is_spurious: true }
                | SegmentClass::TooSoon
        )
    }

    /// The class as others see it.
    pub(super) fn kind(self) -> SegmentKind {
        match self {
            SegmentClass::NoData => SegmentKind::NoData,
            SegmentClass::KeepAlive => SegmentKind::KeepAlive,
            SegmentClass::Copy => SegmentKind::DuplicatePacket,
            SegmentClass::WindowProbe | SegmentClass::BeyondWindow => SegmentKind::WindowProbe,
            SegmentClass::New | SegmentClass::CapturedOutOfOrder { .. } => SegmentKind::New,
            SegmentClass::AfterGap => SegmentKind::AfterGap,
            SegmentClass::Reordered { .. } | SegmentClass::LateOriginal { .. } => {
                SegmentKind::Reordered
            }
            SegmentClass::OriginalNotCaptured { .. } => SegmentKind::OriginalNotCaptured,
            SegmentClass::FastRetransmission => SegmentKind::FastRetransmission,
            SegmentClass::RtoRetransmission { .. } => SegmentKind::RtoRetransmission,
            SegmentClass::TooSoon | SegmentClass::RetransmissionKindUnknown { .. } => {
                SegmentKind::RetransmissionKindUnknown
            }
        }
    }
}

impl Direction {
    /// What a segment of this direction is.
    #[inline]
    pub(super) fn classify(&self, segment: &Segment<'_>, peer: &Direction) -> SegmentClass {
        let Segment { from, to, length, .. } = *segment;
        if segment.has(Flags::RST) {
            return SegmentClass::NoData;
        }
        let is_window_closed = peer.window == Some(0);
        let is_old_byte = length <= 1
            && to <= self.next
            && from.plus(1) == self.next
            && !segment.has(Flags::SYN)
            && !segment.has(Flags::FIN);
        if is_old_byte && self.in_flight() <= 1 && !is_window_closed {
            return SegmentClass::KeepAlive;
        }
        if length == 0 {
            return SegmentClass::NoData;
        }
        let is_first_unacknowledged = from <= self.acknowledged && to > self.acknowledged;
        if is_window_closed && is_first_unacknowledged && segment.tcp.length > 0 {
            return SegmentClass::WindowProbe;
        }
        if from == self.next {
            return SegmentClass::New;
        }
        if from > self.next {
            return SegmentClass::AfterGap;
        }
        if self.is_reset && to <= self.next {
            return SegmentClass::NoData;
        }
        self.classify_old(segment, peer)
    }

    /// The same for data before the end of what was sent.
    fn classify_old(&self, segment: &Segment<'_>, peer: &Direction) -> SegmentClass {
        let Segment { at, from, to, .. } = *segment;
        let is_spurious = to <= self.acknowledged;
        let gap = self.gaps.as_ref().and_then(|gaps| gaps.find(from, to));
        if let Some((index, gap)) = gap {
            let sent_in_order = self.was_sent_in_order(segment, gap, peer);
            return if at < gap.since || (sent_in_order && is_spurious) {
                SegmentClass::CapturedOutOfOrder { gap: index }
            } else if sent_in_order {
                SegmentClass::Reordered { gap: index }
            } else {
                SegmentClass::OriginalNotCaptured { gap: index, is_spurious }
            };
        }
        if let Some(recovery) = &self.loss_recovery
            && let Some(retransmission) = recovery.gap_fill_of((from, to), at, segment.timestamp())
        {
            return SegmentClass::LateOriginal { retransmission };
        }
        if self.is_copy(segment) {
            return SegmentClass::Copy;
        }
        let is_timeout = self.is_retransmission_timeout(at);
        if is_spurious && is_timeout {
            return SegmentClass::RtoRetransmission { is_spurious };
        }
        if is_spurious || self.loss_recovery.as_ref().is_some_and(|it| it.is_held(from, to)) {
            return SegmentClass::RetransmissionKindUnknown { is_spurious: true };
        }
        if self.is_beyond_window(to, peer) || self.was_refused(from) {
            return SegmentClass::BeyondWindow;
        }
        // Duplicate acknowledgements ask for data only once data beyond it has arrived.
        let is_asked_for = self.duplicate_acks > 0 && to < self.next;
        if !is_asked_for && self.is_too_soon(segment) {
            return SegmentClass::TooSoon;
        }
        if from <= self.acknowledged && self.duplicate_acks >= DUPLICATE_ACK_THRESHOLD {
            return SegmentClass::FastRetransmission;
        }
        if is_timeout {
            return SegmentClass::RtoRetransmission { is_spurious };
        }
        SegmentClass::RetransmissionKindUnknown { is_spurious }
    }

    /// Whether a segment that fills a gap was sent no later than the data after the gap.
    fn was_sent_in_order(&self, segment: &Segment<'_>, gap: &Gap, peer: &Direction) -> bool {
        let age = segment.at.saturating_sub(gap.since);
        if let Some((own, after)) = segment.timestamp().zip(gap.timestamp) {
            let later = timestamp_ticks_after(own, after);
            // Within one tick of its clock a sender retransmits too, once it can know of the gap.
            let from_timestamps = peer.timestamp_round_trips.as_ref().and_then(|it| it.min());
            let loop_time = peer.round_trip.min().or(from_timestamps);
            if later != 0 || loop_time.is_none_or(|time| age < time) {
                return later <= 0;
            }
            // What is retransmitted now has no older time stamp than what passed before it.
            if self.newest.timestamp != 0 && timestamp_ticks_after(own, self.newest.timestamp) < 0 {
                return true;
            }
        }
        if IpFields::follows(gap.id, segment.ip.id) {
            return true;
        } else if IpFields::follows(segment.ip.id, self.newest.ip.id) {
            return false;
        }
        let min_time = MIN_RETRANSMISSION_TIME.max(self.round_trip.min().unwrap_or(0) / 4);
        age < min_time && self.duplicate_acks < DUPLICATE_ACK_THRESHOLD
    }

    /// Whether data that passed before was sent before the newest data too, and so is no
    /// retransmission: by its time stamp, or, within one tick of that clock, by its hop limit. A
    /// capture on two interfaces of a router has it twice, in other pieces where one of them puts
    /// segments together (TSO, GRO). Without time stamps, a retransmission has a new identification.
    fn is_copy(&self, segment: &Segment<'_>) -> bool {
        let newest = &self.newest;
        let was_routed = segment.ip.hops != newest.ip.hops;
        let was_sent_before = match segment.timestamp() {
            Some(own) => {
                let later = timestamp_ticks_after(own, newest.timestamp);
                newest.timestamp != 0 && (later < 0 || (later == 0 && was_routed))
            }
            None => was_routed && segment.ip.has_no_later_id(newest.ip),
        };
        segment.tcp.length > 0 && was_sent_before
    }

    /// Whether the original passed so short a time ago that its sender cannot miss it yet.
    fn is_too_soon(&self, segment: &Segment<'_>) -> bool {
        let Some(original_at) = self.round_trip.sent_at(segment.to) else { return false };
        // No timer is as short as the second, but where something is retransmitted already, the
        // answers to that tell more.
        let min_timer = if self.round_trip.is_retransmitting() { 0 } else { MIN_TIMER };
        let min_time = self.round_trip.min().unwrap_or(0).max(min_timer);
        (0..min_time).contains(&segment.at.saturating_sub(original_at))
    }

    /// Whether this end has sent no data for a retransmission timeout.
    fn is_retransmission_timeout(&self, at: Nanos) -> bool {
        let idle = self.last_data_at.get().map_or(0, |last| at.saturating_sub(last));
        idle >= self.round_trip.timeout().min(INITIAL_TIMEOUT)
    }

    /// Whether data up to this number is beyond the peer's window; one byte beyond is a probe.
    #[inline]
    pub(super) fn is_beyond_window(&self, to: Sequence, peer: &Direction) -> bool {
        // A window is known to be closed even where its scale is not known.
        let is_window_known = peer.is_scale_known() || peer.window == Some(0);
        self.right_edge.known().is_some_and(|edge| to > edge.plus(1)) && is_window_known
    }

    fn was_refused(&self, from: Sequence) -> bool {
        self.loss_recovery.as_ref().is_some_and(|recovery| recovery.is_refused(from))
    }
}
