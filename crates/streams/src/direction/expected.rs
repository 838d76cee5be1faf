//! The packet that is expected of an end: in order, with an acknowledgement of more than before.

use wire::packet::Tcp;

use super::state::{Direction, IpFields, Newest};
use crate::sequence::Sequence;
use crate::time::Nanos;

/// A packet that is as expected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The number after its last byte.
    to: Sequence,
    /// What it acknowledges.
    acknowledged: Sequence,
    /// The window that it advertises, bytes.
    window: u32,
}

impl Direction {
    /// Whether the next packets of this end may be as expected: nothing of what it sent is lost or
    /// late, its numbers are known, and it neither has closed nor lacks room. Notes what tells them.
    pub(crate) fn is_calm(&mut self, peer: &Direction) -> bool {
        self.window_shift = self.scale(peer);
        self.calm_window = if self.is_scale_known() { peer.mss() } else { 1 };
        self.first.known().is_some()
            && self.gaps.is_none()
            && self.loss_recovery.is_none()
            && !self.round_trip.is_retransmitting()
            && !(self.finished || self.is_reset || self.is_unwanted)
            && (self.timestamps || !self.options_truncated)
            && self.window.is_some_and(|window| window >= self.calm_window)
    }

    /// The packet, if it is as expected, while both directions are calm.
    #[inline(always)]
    pub(crate) fn expects(&self, tcp: &Tcp<'_>, peer: &Direction) -> Option<Expected> {
        let acknowledged = peer.acknowledged.near(tcp.acknowledgement);
        let window = u32::from(tcp.window) << self.window_shift;
        let to = self.next.plus(tcp.length);
        let has_data = tcp.length > 0;
        let is_expected = tcp.flags.is_ack_alone()
            & (tcp.sequence == self.next.header())
            & (tcp.length <= self.max_segment)
            & (to <= self.right_edge)
            & (acknowledged <= peer.next)
            & (acknowledged > peer.acknowledged
                || (has_data & (acknowledged == peer.acknowledged)))
            & (window >= self.calm_window)
            & tcp.has_plain_options();
        is_expected.then_some(Expected { to, acknowledged, window })
    }

    /// Takes a packet that is as expected.
    #[inline(always)]
    pub(crate) fn take_expected(
        &mut self,
        expected: &Expected,
        tcp: &Tcp<'_>,
        timestamps: Option<(u32, u32)>,
        at: Nanos,
        ip: IpFields,
        peer: &mut Direction,
    ) {
        let Expected { to, acknowledged, window } = *expected;
        self.count_packet(ip.ecn);
        let last_data_at = self.last_data_at;
        if tcp.length > 0 {
            let length = u64::from(tcp.length);
            let counts = &mut self.counts;
            counts.data_packets += 1;
            counts.bytes = counts.bytes.saturating_add(length);
            counts.new_bytes = counts.new_bytes.saturating_add(length);
            self.path_mtu.sent(self.next, to, tcp.length, self.mss());
            self.advance(to, at);
            self.round_trip.sent(to, at);
            self.newest = Newest { timestamp: timestamps.map_or(0, |(value, _)| value), ip };
        }
        if let Some(timestamps) = timestamps {
            self.take_time_stamps(tcp.length, timestamps, last_data_at, at, peer);
        }
        if acknowledged > peer.acknowledged {
            peer.acknowledged_by_peer(acknowledged, at);
        }
        self.window = Some(window);
        self.last_window_field = tcp.window;
        self.max_window = self.max_window.max(window);
        peer.advance_right_edge(acknowledged.plus(window), at);
    }
}
