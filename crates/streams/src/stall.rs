//! Stalls: times in which one end had data for the other and could not send it, each with its
//! reason.
//!
//! - a closed window: the other end does not read;
//! - a delayed acknowledgement for which Nagle's algorithm waits.

use std::ops::RangeInclusive;

use model::Side;
use wire::packet::tcp::{Flags, Tcp};

use crate::direction::Direction;
use crate::segment::SegmentKind;
use crate::time::{Nanos, OptionalTime};

/// Why an end could not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StallReason {
    /// The other end's window was closed, or too small to be worth a segment.
    ClosedWindow,
    /// A small segment was in flight, another was held until the first was acknowledged (RFC 896),
    /// and the other end delayed that acknowledgement (RFC 1122, 4.2.3.2).
    DelayedAck,
}

/// A time in which an end could not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Why.
    pub reason: StallReason,
    /// The end that could not send.
    pub side: Side,
    /// When it began.
    pub began: Nanos,
    /// How long it lasted. A delayed acknowledgement: without the round trip that it would have
    /// taken anyway.
    pub duration: Nanos,
}

/// A stall of an end that is known from the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnStall {
    reason: StallReason,
    began: Nanos,
    duration: Nanos,
}

impl OwnStall {
    /// The stall of this end.
    pub(crate) fn of(self, side: Side) -> Stall {
        let OwnStall { reason, began, duration } = self;
        Stall { reason, side, began, duration }
    }
}

/// Stalls of one end.
#[derive(Debug, Clone, Copy, Default)]
pub struct StallTotals {
    /// Closed windows.
    pub closed_window: StallSum,
    /// Delayed acknowledgements.
    pub delayed_ack: StallSum,
}

/// Stalls for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallSum {
    /// How many.
    pub count: u64,
    /// Their total, nanoseconds.
    pub total: Nanos,
    /// The longest, nanoseconds.
    pub longest: Nanos,
    /// Number in the capture of the packet that ended the longest.
    pub longest_ended_at: u64,
}

impl StallSum {
    /// Adds a stall.
    pub fn add(&mut self, duration: Nanos, packet: u64) {
        let duration = duration.max(0);
        self.count += 1;
        self.total = self.total.saturating_add(duration);
        if duration > self.longest || self.count == 1 {
            (self.longest, self.longest_ended_at) = (duration, packet);
        }
    }
}

/// No delayed acknowledgement comes sooner.
pub(crate) const MIN_ACK_DELAY: Nanos = 30_000_000;
/// How late a delayed acknowledgement comes, beyond the round trip: 40 ms of Linux and newer
/// Windows, 100 ms of the BSDs and macOS, 200 ms of older Windows.
const ACK_DELAYS: [RangeInclusive<Nanos>; 3] =
    [MIN_ACK_DELAY..=60_000_000, 85_000_000..=115_000_000, 150_000_000..=215_000_000];
/// The same where the round trip is a small part of it: no path explains such a time, and ticks of
/// the timer stretch it.
const ACK_DELAYS_NEAR: RangeInclusive<Nanos> = MIN_ACK_DELAY..=260_000_000;
/// That part of the delay.
const NEAR_PART: Nanos = 4;
/// An end with Nagle's algorithm has so many segments released for each that is captured as sent at once.
const MIN_RELEASED: u32 = 10;
/// How soon after the acknowledgement the held segment leaves, at least allowed: clocks of captures
/// are coarse.
const MIN_RELEASE_TIME: Nanos = 2_000_000;

/// Finds the stalls of one end.
#[derive(Debug, Clone, Default)]
pub(crate) struct StallDetector {
    /// Since when the peer's window is closed.
    closed_since: OptionalTime,
    /// When a small segment left after which this end sent nothing.
    small_sent_at: OptionalTime,
    /// Whether that segment is so small that it is below any MSS that the path may leave.
    is_tiny: bool,
    /// Small segments that this end sent while another was in flight, and those that a delayed
    /// acknowledgement seemed to release.
    sent_at_once: u32,
    released: u32,
    /// When a pure acknowledgement covered that segment.
    small_acknowledged_at: OptionalTime,
    /// Small segments whose acknowledgement came as late as a delayed one, whether or not this end
    /// waited for it.
    pub(crate) acknowledged_late: u32,
}

/// Whether an acknowledgement after this time was delayed; if so, by how much, beyond the round trip.
/// The shortest time of all is a round trip, however long it is: only the handshake can show less.
fn ack_delay(own: &Direction, path: Option<Nanos>, after: Nanos) -> Option<Nanos> {
    let round_trip = [own.round_trip.min(), path].into_iter().flatten().min()?;
    let delay = after.saturating_sub(round_trip);
    let is_near = round_trip.saturating_mul(NEAR_PART) <= delay;
    let is_delayed = ACK_DELAYS.iter().any(|range| range.contains(&delay))
        || (is_near && ACK_DELAYS_NEAR.contains(&delay));
    is_delayed.then_some(delay)
}

impl StallDetector {
    /// Whether the last data of this end was a message, sent then and not acknowledged alone; `None`: data of
    /// the peer followed.
    pub(crate) fn is_of_message(&self, sent_at: Option<Nanos>) -> bool {
        self.small_sent_at.get() == sent_at && !self.small_acknowledged_at.is_known()
    }

    /// The last data of this end was a message.
    pub(crate) fn set_message(&mut self, is_tiny: bool) {
        self.is_tiny = is_tiny;
    }

    /// That message was sent then, and acknowledged without data; unknown: data of the peer followed.
    pub(crate) fn set_message_times(
        &mut self,
        sent_at: OptionalTime,
        acknowledged_at: OptionalTime,
    ) {
        (self.small_sent_at, self.small_acknowledged_at) = (sent_at, acknowledged_at);
    }

    /// Whether the peer's window is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_since.is_known()
    }

    /// Whether this end sends small segments while others are in flight: Nagle's algorithm is off
    /// (`TCP_NODELAY`). Now and then a capture has an acknowledgement behind what it released.
    fn sends_at_once(&self) -> bool {
        self.sent_at_once.saturating_mul(MIN_RELEASED) > self.released
    }

    /// This end sent a packet. `loop_time` is the time from the capture point to this end and
    /// back, where it is known; `path` the same to its peer.
    #[inline(always)]
    pub(crate) fn own_packet(
        &mut self,
        own: &Direction,
        kind: SegmentKind,
        tcp: &Tcp<'_>,
        at: Nanos,
        loop_time: Option<Nanos>,
        path: Option<Nanos>,
    ) -> Option<OwnStall> {
        if tcp.length == 0 {
            return None;
        }
        if self.small_sent_at.is_known() {
            return self.own_after_small(own, kind, (tcp.length, tcp.flags), at, loop_time, path);
        }
        let mss = own.mss();
        self.small_acknowledged_at = OptionalTime::default();
        self.small_sent_at = (kind == SegmentKind::New && tcp.length < mss).then_some(at).into();
        self.is_tiny = kind == SegmentKind::New && tcp.length < mss / 2;
        None
    }

    /// The same, where a small segment of it was the last packet with data.
    fn own_after_small(
        &mut self,
        own: &Direction,
        kind: SegmentKind,
        (length, flags): (u32, Flags),
        at: Nanos,
        loop_time: Option<Nanos>,
        path: Option<Nanos>,
    ) -> Option<OwnStall> {
        let small = length < own.mss();
        let is_tiny = kind == SegmentKind::New && length < own.mss() / 2;
        // The last segment of a stream is never held, and a window may cut segments.
        let is_at_once = is_tiny
            && self.is_tiny
            && self.small_sent_at.is_known()
            && !self.small_acknowledged_at.is_known()
            && !own.window_full
            && !flags.all(Flags::FIN);
        self.sent_at_once = self.sent_at_once.saturating_add(is_at_once.into());
        let held = self
            .small_sent_at
            .get()
            .zip(self.small_acknowledged_at.get())
            .filter(|_| kind == SegmentKind::New && small && !own.window_full);
        let stall = held.and_then(|(began, acknowledged)| {
            // Where the distance is not known, anything that comes soon after would seem released.
            let loop_time = loop_time?;
            let duration = ack_delay(own, path, acknowledged.saturating_sub(began))?;
            // Away from the sender, the acknowledgement travels to it, and the released segment
            // back: what passes sooner left before the acknowledgement came. The way may be shorter
            // than measured, but not by half.
            let max_time = loop_time.saturating_add(MIN_RELEASE_TIME.max(loop_time / 4));
            let min_time = loop_time.saturating_sub(MIN_RELEASE_TIME) / 2;
            let released = (min_time..=max_time).contains(&at.saturating_sub(acknowledged));
            let reason = StallReason::DelayedAck;
            released.then_some(OwnStall { reason, began, duration })
        });
        self.released = self.released.saturating_add(stall.is_some().into());
        let stall = stall.filter(|_| !self.sends_at_once());
        self.small_acknowledged_at = OptionalTime::default();
        // Nagle's algorithm holds data back behind a small new segment only.
        self.small_sent_at = (kind == SegmentKind::New && small).then_some(at).into();
        self.is_tiny = is_tiny;
        stall
    }

    /// The peer sent a packet: it acknowledges data of this end.
    #[inline(always)]
    pub(crate) fn peer_packet(
        &mut self,
        own: &Direction,
        tcp: &Tcp<'_>,
        at: Nanos,
        path: Option<Nanos>,
    ) {
        if tcp.length > 0 || tcp.flags.all(Flags::FIN) || tcp.flags.all(Flags::SYN) {
            // The peer had something to send: its acknowledgement came along.
            self.small_sent_at = OptionalTime::default();
            self.small_acknowledged_at = OptionalTime::default();
        } else if let Some(sent_at) = self.small_sent_at.get()
            && !self.small_acknowledged_at.is_known()
            && own.in_flight() == 0
        {
            self.small_acknowledged_at = at.into();
            let late = ack_delay(own, path, at.saturating_sub(sent_at));
            self.acknowledged_late =
                self.acknowledged_late.saturating_add(u32::from(late.is_some()));
        }
    }

    /// The peer's window closes or opens.
    pub(crate) fn peer_window(
        &mut self,
        own: &Direction,
        peer: &Direction,
        tcp: &Tcp<'_>,
        at: Nanos,
    ) -> Option<OwnStall> {
        if own.counts.data_packets == 0 || tcp.flags.all(Flags::SYN) {
            return None;
        }
        if tcp.flags.all(Flags::RST) {
            return self.end(at);
        }
        let window = peer.window?;
        // Without the SYN the scale is not known: only a closed window is known to be small.
        let min_window =
            if peer.is_scale_known() { own.mss().min(peer.max_window / 2).max(1) } else { 1 };
        if !self.closed_since.is_known() && window < min_window {
            self.closed_since = at.into();
        } else if self.closed_since.is_known() && window >= min_window {
            return self.end(at);
        }
        None
    }

    /// The stall behind a closed window ends: the window opens, or the stream is over.
    pub(crate) fn end(&mut self, at: Nanos) -> Option<OwnStall> {
        let began = self.closed_since.take()?;
        let duration = at.saturating_sub(began);
        Some(OwnStall { reason: StallReason::ClosedWindow, began, duration })
    }
}
