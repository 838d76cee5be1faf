//! What a packet acknowledges of its peer's data, and the window that it advertises.

use wire::packet::tcp::{Flags, Tcp, TcpOption};

use super::state::Direction;
use crate::segment::SegmentKind;
use crate::sequence::Sequence;
use crate::sequence_gaps::Gap;
use crate::time::{Nanos, OptionalTime};

/// Round trips after which the shortest is known.
const MIN_SAMPLES_FOR_SHORTEST: u64 = 3;
/// A shorter time to an acknowledgement varies by as much.
const MIN_SHORTEST_ROUND_TRIP: Nanos = 1_000_000;

impl Direction {
    /// Takes the acknowledgement of a packet of this end.
    #[inline]
    pub(super) fn take_acknowledgement(
        &mut self,
        tcp: &Tcp<'_>,
        at: Nanos,
        kind: SegmentKind,
        peer: &mut Direction,
    ) {
        if peer.first.known().is_none() {
            // The capture began later, or has one direction only.
            let next = Sequence::first(tcp.acknowledgement);
            (peer.next, peer.acknowledged) = (next, next);
            return;
        }
        let to = peer.acknowledged.near(tcp.acknowledgement);
        if to > peer.acknowledged {
            peer.decide_retransmissions(to, at, tcp);
            peer.acknowledged_by_peer(to, at);
        } else if to == peer.acknowledged && self.is_duplicate_ack(tcp, kind, peer) {
            peer.duplicate_acks = peer.duplicate_acks.saturating_add(1);
            self.counts.duplicate_acks = self.counts.duplicate_acks.saturating_add(1);
        }
        self.take_sack(tcp, at, to, peer);
    }

    /// Everything of this direction before `to` is about to be acknowledged by this packet: it
    /// shows whether what was retransmitted of it had arrived before.
    #[inline]
    fn decide_retransmissions(&mut self, to: Sequence, at: Nanos, tcp: &Tcp<'_>) {
        let Some(recovery) = &mut self.loss_recovery else { return };
        let times = &self.round_trip;
        let min = times.min().filter(|min| {
            times.samples >= MIN_SAMPLES_FOR_SHORTEST && *min >= MIN_SHORTEST_ROUND_TRIP
        });
        let echo = tcp.time_stamps().map(|(_, echo)| echo);
        let spurious = recovery.decide(self.acknowledged, to, at, echo, min);
        let count = &mut self.counts.already_acknowledged;
        *count = count.saturating_add(spurious);
    }

    /// Everything of this direction before `to` is acknowledged.
    #[inline]
    pub(super) fn acknowledged_by_peer(&mut self, to: Sequence, at: Nanos) {
        let in_flight = self.in_flight();
        self.acknowledged = to;
        if self.next < to {
            self.acknowledged_before_captured(to, at);
        }
        self.duplicate_acks = 0;
        self.path_mtu.acknowledged(to, self.in_flight(), self.mss());
        self.round_trip.acknowledged(to, at, in_flight);
        self.policer.acknowledged(to, at);
        if let Some(recovery) = &mut self.loss_recovery
            && let Some(sent_at) = recovery.acknowledged(to)
        {
            let sample = at.saturating_sub(sent_at);
            self.round_trip.fast_retransmission_acknowledged(sample, in_flight);
        }
        if self.in_flight() == 0 {
            self.drained_at = at.into();
        }
    }

    /// Data is acknowledged that was not captured: the capture lost it, or has it behind the
    /// acknowledgement.
    #[cold]
    fn acknowledged_before_captured(&mut self, to: Sequence, at: Nanos) {
        let gap = Gap { from: self.next, to, since: at, timestamp: None, id: 0 };
        self.gaps.get_or_insert_default().extend(gap);
        self.next = to;
    }

    /// Whether a packet that acknowledges no more than the one before is a duplicate
    /// acknowledgement (RFC 5681, 2).
    #[inline]
    fn is_duplicate_ack(&self, tcp: &Tcp<'_>, kind: SegmentKind, peer: &Direction) -> bool {
        kind == SegmentKind::NoData
            && !tcp.flags.all(Flags::SYN)
            && !tcp.flags.all(Flags::RST)
            && peer.in_flight() > 0
            && tcp.window == self.last_window_field
    }

    /// Takes the selective acknowledgements of a packet that acknowledges everything before `to`.
    #[inline]
    fn take_sack(&mut self, tcp: &Tcp<'_>, at: Nanos, to: Sequence, peer: &mut Direction) {
        if tcp.has_only_time_stamps() {
            return;
        }
        let in_flight = peer.in_flight();
        for option in tcp.options() {
            let TcpOption::Sack(sack) = option else { continue };
            for (number, (first, last)) in sack.blocks().enumerate() {
                let (first, last) = (to.near(first), to.near(last));
                if number == 0 {
                    peer.policer.selectively_acknowledged(to, first, last, at);
                }
                if number == 0 && last <= to {
                    // D-SACK: received twice (RFC 2883).
                    self.counts.duplicate_sacks = self.counts.duplicate_sacks.saturating_add(1);
                } else {
                    peer.round_trip.selectively_acknowledged(first, last, at, in_flight);
                    if first < last && last <= peer.next {
                        peer.loss_recovery.get_or_insert_default().hold(first, last);
                    }
                }
            }
        }
    }

    /// Takes the window that a packet of this end advertises.
    #[inline]
    pub(super) fn take_window(&mut self, tcp: &Tcp<'_>, at: Nanos, peer: &mut Direction) {
        if tcp.flags.all(Flags::RST) {
            return;
        }
        let window = self.advertised_window(tcp, peer);
        if window == 0 && !tcp.flags.all(Flags::SYN) {
            self.counts.zero_windows = self.counts.zero_windows.saturating_add(1);
        }
        self.window = Some(window);
        self.last_window_field = tcp.window;
        self.max_window = self.max_window.max(window);
        if !tcp.flags.all(Flags::ACK) || peer.first.known().is_none() {
            return;
        }
        let edge = peer.acknowledged.plus(window);
        if window == 0 && peer.next > edge.plus(1) && !self.is_scale_known() {
            // Until now it was not known how far the window reached.
            peer.loss_recovery.get_or_insert_default().refuse(edge, peer.next);
        }
        peer.advance_right_edge(edge, at);
    }

    /// The peer advertises a window up to here: a right edge does not move back (RFC 9293, 3.8.6).
    #[inline(always)]
    pub(super) fn advance_right_edge(&mut self, edge: Sequence, at: Nanos) {
        if self.right_edge < edge {
            self.right_edge = edge;
            if let Some(edges) = &mut self.right_edges {
                edges.advance(edge, at);
            }
        }
    }

    /// Notes what the last data of this end left of its peer's window. `loop_time` is the time from
    /// the capture point to this end and back: so old is the window that this end knew.
    #[inline(always)]
    pub(crate) fn note_window_use(
        &mut self,
        length: u32,
        peer: &Direction,
        at: Nanos,
        loop_time: Nanos,
    ) {
        self.drained_at = OptionalTime::default();
        let then = at.saturating_sub(loop_time);
        let known_edge = self
            .right_edges
            .as_ref()
            .and_then(|edges| edges.known_at(then))
            .or(self.right_edge.known());
        let room = known_edge.map(|edge| edge.since(self.next));
        self.set_window_use(length, room, peer.window, peer);
    }

    /// The same, where its peer's window was this, and had so much room left for it.
    #[inline(always)]
    pub(super) fn set_window_use(
        &mut self,
        length: u32,
        room: Option<u64>,
        window: Option<u32>,
        peer: &Direction,
    ) {
        // On loopback a segment may be as large as the window: half of it is sent at once
        // (`tcp_bound_to_half_wnd`).
        let mss = self.mss().min(peer.max_window / 2).max(1);
        self.is_small = length < mss;
        // A sender that puts segments together (TSO) waits for room for several.
        let needed = self.max_segment.min(window.unwrap_or(0) / 4).max(mss);
        self.reader_behind = window.is_some_and(|window| window < peer.max_window / 4 * 3);
        // Without the SYN the size of the window is not known.
        self.window_full =
            peer.is_scale_known() && room.is_some_and(|room| room < u64::from(needed));
    }
}
