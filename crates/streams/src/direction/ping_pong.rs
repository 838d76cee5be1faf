//! One direction of a stream in ping-pong: see `stream::ping_pong`.

use wire::packet::PlainSegment;

use super::packet::ECN_CE;
use super::state::{Direction, IpFields, Newest};
use crate::path_mtu::PathMtu;
use crate::right_edge::RightEdges;
use crate::round_trip::RoundTripTimes;
use crate::sequence::Sequence;
use crate::time::{Nanos, OptionalTime};
use crate::timestamp_echo::TimestampEcho;

/// What the next messages of one end need and change.
#[derive(Debug, Clone)]
pub(crate) struct MessageDirection {
    /// End of what was sent, and the bytes of the message in flight.
    pub(crate) next: Sequence,
    pub(crate) in_flight: u32,
    /// Most bytes of a message.
    max_length: u32,
    /// Right edge of the window that the peer advertises, and the latest of them.
    right_edge: Sequence,
    right_edges: Option<Box<RightEdges>>,
    /// Windows that this end advertises, as in the header: the last one, the least, how much more is the
    /// largest, and their scale.
    window: u16,
    min_window: u16,
    window_range: u16,
    window_shift: u8,
    /// When the last message was sent, and when one was acknowledged.
    pub(crate) sent_at: Nanos,
    pub(crate) acknowledged_at: OptionalTime,
    /// At the last message: the window of the peer as in the header, and its right edge as this end knew it;
    /// unknown: it knew none.
    peer_window: u16,
    known_edge: Sequence,
    /// Bytes of that message, and of the headers of its packet.
    pub(crate) length: u32,
    pub(crate) header_bytes: u32,
    newest: Newest,
    timestamp_echo: TimestampEcho,
    path_mtu: PathMtu,
    pub(crate) round_trip: RoundTripTimes,
    /// Where it began, and its packets without data since then.
    first: Sequence,
    acknowledgements: u64,
}

impl MessageDirection {
    /// Whether a packet is the next in sequence, acknowledges all that the peer has sent, and leaves it
    /// room.
    #[inline(always)]
    pub(crate) fn expects(&self, segment: &PlainSegment<'_>, peer: &MessageDirection) -> bool {
        segment.flags().is_ack_alone()
            & (segment.sequence() == self.next.header())
            & (segment.acknowledgement() == peer.next.header())
            & (segment.length() <= self.max_length)
            & (self.next.0.wrapping_add(segment.length().into()) <= self.right_edge.0)
            & (segment.window().wrapping_sub(self.min_window) <= self.window_range)
            & (segment.ecn() != ECN_CE)
    }

    /// The bytes that were sent since the time stamp that the next message, so long, echoes: this measures a
    /// round trip of a transfer, where they are several segments.
    #[inline(always)]
    pub(crate) fn echoed_bytes(&self, segment: &PlainSegment<'_>, peer: &MessageDirection) -> u64 {
        match segment.time_stamps() {
            Some((_, echo)) if peer.timestamp_echo.is_echoed(echo) => {
                peer.timestamp_echo.bytes_since(self.next.plus(segment.length()))
            }
            _ => 0,
        }
    }

    /// Takes a message that is expected; so far is the way from the capture point to its sender and back.
    #[inline(always)]
    pub(crate) fn take_message(
        &mut self,
        segment: &PlainSegment<'_>,
        at: Nanos,
        loop_time: Option<Nanos>,
        peer: &mut MessageDirection,
    ) {
        let (from, length) = (self.next, segment.length());
        self.next = from.plus(length);
        (self.in_flight, self.length) = (length, length);
        self.header_bytes = segment.header_bytes();
        self.path_mtu.sent_small(from, self.next, length);
        self.sent_at = at;
        self.peer_window = peer.window;
        self.known_edge = match &self.right_edges {
            None => self.right_edge,
            Some(edges) => {
                let then = at.saturating_sub(loop_time.unwrap_or(0));
                edges.known_at(then).unwrap_or(self.right_edge)
            }
        };
        let ip = IpFields { ecn: segment.ecn(), hops: segment.ttl(), id: segment.id() };
        let timestamp = segment.time_stamps().map_or(0, |(value, _)| value);
        self.newest = Newest { timestamp, ip };
        self.take(segment, at, peer);
    }

    /// Takes an acknowledgement that is expected.
    #[inline(always)]
    pub(crate) fn take_acknowledgement(
        &mut self,
        segment: &PlainSegment<'_>,
        at: Nanos,
        peer: &mut MessageDirection,
    ) {
        self.acknowledgements += 1;
        self.take(segment, at, peer);
    }

    #[inline(always)]
    fn take(&mut self, segment: &PlainSegment<'_>, at: Nanos, peer: &mut MessageDirection) {
        if let Some((value, echo)) = segment.time_stamps() {
            self.timestamp_echo.sent(value, at, peer.next);
            // It measures nothing: see `echoed_bytes`; before an acknowledgement, the message is timed.
            if peer.timestamp_echo.is_echoed(echo) {
                peer.timestamp_echo.forget();
            }
        }
        if peer.in_flight > 0 {
            peer.acknowledged_at = OptionalTime::of_clock(at);
            peer.round_trip.add(at - peer.sent_at, peer.in_flight.into());
            peer.in_flight = 0;
        }
        self.window = segment.window();
        let window = u32::from(self.window).wrapping_shl(self.window_shift.into());
        let edge = peer.next.plus(window);
        if peer.right_edge < edge {
            peer.right_edge = edge;
            if let Some(edges) = &mut peer.right_edges {
                edges.advance(edge, at);
            }
        }
    }

    /// The shortest round trip, if the message in flight is acknowledged now; [`Nanos::MAX`]: there is none.
    pub(crate) fn shortest_round_trip(&self, at: Nanos) -> Nanos {
        let now = if self.in_flight > 0 { at - self.sent_at } else { Nanos::MAX };
        self.round_trip.min().map_or(now, |min| min.min(now))
    }

    /// End of what was acknowledged.
    pub(crate) fn acknowledged(&self) -> Sequence {
        Sequence(self.next.0.saturating_sub(self.in_flight.into()))
    }
}

impl Direction {
    /// Whether its next messages can be taken in ping-pong, while both directions are calm; the
    /// last one may be in flight.
    pub(crate) fn can_ping_pong(&self) -> bool {
        let last = self.last_data_at.get();
        let in_flight = (self.in_flight() > 0).then_some((self.next, last.unwrap_or(0)));
        self.first.known().is_some()
            && last.is_some()
            && self.duplicate_acks == 0
            && self.window.is_some()
            && self.message_windows().is_some()
            && self.policer.is_idle()
            && !self.path_mtu.is_in_flight()
            && u32::try_from(self.in_flight()).is_ok()
            && self.round_trip.is_timing_only(in_flight)
    }

    /// The least window that it may advertise, as in the header, and how much more the largest so far is.
    fn message_windows(&self) -> Option<(u16, u16)> {
        let unit = 1u32.checked_shl(self.window_shift.into())?;
        let min = u16::try_from(self.calm_window.div_ceil(unit)).ok()?;
        let max = u16::try_from(self.max_window / unit).unwrap_or(u16::MAX);
        Some((min, max.checked_sub(min)?))
    }

    /// Hands over what the next messages change; no more than so many bytes of each.
    pub(crate) fn begin_ping_pong(&mut self, max_length: u32) -> MessageDirection {
        let mss = self.mss();
        let max_in_flight = u32::try_from(self.max_in_flight).unwrap_or(u32::MAX);
        let (min_window, window_range) = self.message_windows().unwrap_or_default();
        let max_length = [mss.saturating_sub(1), self.max_segment, self.path_mtu.max_small(mss)]
            .into_iter()
            .fold(max_length.min(max_in_flight), u32::min);
        MessageDirection {
            next: self.next,
            in_flight: self.in_flight() as u32,
            max_length,
            right_edge: self.right_edge,
            right_edges: self.right_edges.take(),
            window: self.last_window_field,
            min_window,
            window_range,
            window_shift: self.window_shift,
            sent_at: self.last_data_at.get().unwrap_or(0),
            acknowledged_at: self.drained_at,
            peer_window: 0,
            known_edge: Sequence::default(),
            length: 0,
            header_bytes: 0,
            newest: self.newest,
            timestamp_echo: self.timestamp_echo,
            path_mtu: self.path_mtu,
            round_trip: self.round_trip.take_times(),
            first: self.next,
            acknowledgements: 0,
        }
    }

    /// Takes back what so many messages have changed.
    pub(crate) fn end_ping_pong(&mut self, end: MessageDirection, messages: u64, peer: &Direction) {
        let counts = &mut self.counts;
        counts.packets += messages + end.acknowledgements;
        counts.data_packets += messages;
        let bytes = end.next.since(end.first);
        counts.bytes = counts.bytes.saturating_add(bytes);
        counts.new_bytes = counts.new_bytes.saturating_add(bytes);
        (self.next, self.acknowledged) = (end.next, end.acknowledged());
        (self.right_edge, self.right_edges) = (end.right_edge, end.right_edges);
        self.last_data_at = end.sent_at.into();
        (self.newest, self.path_mtu) = (end.newest, end.path_mtu);
        self.timestamp_echo = end.timestamp_echo;
        let is_in_flight = end.in_flight > 0;
        if messages + end.acknowledgements > 0 {
            let window = u32::from(end.window).wrapping_shl(self.window_shift.into());
            (self.window, self.last_window_field) = (Some(window), end.window);
        }
        let sent = (messages > 0).then_some((end.next, end.sent_at));
        self.round_trip.end_ping_pong(end.round_trip, sent, is_in_flight);
        if messages > 0 {
            let room = end.known_edge.known().map(|edge| edge.since(end.next));
            let window = u32::from(end.peer_window).wrapping_shl(peer.window_shift.into());
            self.set_window_use(end.length, room, Some(window), peer);
        }
        self.drained_at = if is_in_flight { OptionalTime::default() } else { end.acknowledged_at };
    }
}
