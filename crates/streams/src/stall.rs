//! Stalls: times in which one end had data for the other and could not send it, each with its name.
//!
//! - a closed window: the other end does not read;
//! - a delayed acknowledgement that Nagle's algorithm waits for.

use wire::packet::tcp::{Flags, Tcp};

use crate::direction::{Direction, Kind};
use crate::{Maybe, Nanos};

/// Why an end could not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The other end's window was closed, or too small to be worth a segment.
    Window,
    /// A small segment was out, another was held until the first was acknowledged (RFC 896), and
    /// the other end delayed that acknowledgement (RFC 1122, 4.2.3.2).
    DelayedAck,
}

/// A time in which an end could not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Why.
    pub reason: Reason,
    /// Who could not send: 0 is the client.
    pub side: usize,
    /// When it began.
    pub began: Nanos,
    /// How long it lasted. Of a delayed acknowledgement: without the round trip that it would have
    /// taken anyway.
    pub lasted: Nanos,
}

/// Stalls of one end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stalled {
    /// Closed windows.
    pub window: Sum,
    /// Delayed acknowledgements.
    pub delayed_ack: Sum,
}

/// Times added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// All of them, nanoseconds.
    pub total: Nanos,
    /// The longest, nanoseconds.
    pub longest: Nanos,
    /// Number in the capture of the packet that ended the longest.
    pub longest_ended_at: u64,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, time: Nanos, packet: u64) {
        let time = time.max(0);
        self.count += 1;
        self.total = self.total.saturating_add(time);
        if time > self.longest || self.count == 1 {
            (self.longest, self.longest_ended_at) = (time, packet);
        }
    }
}

/// How late a delayed acknowledgement comes, beyond the round trip: 40 ms of Linux and newer
/// Windows, 100 ms of the BSDs and macOS, 200 ms of older Windows.
const DELAYS: [std::ops::RangeInclusive<Nanos>; 3] =
    [30_000_000..=60_000_000, 85_000_000..=115_000_000, 150_000_000..=215_000_000];
/// How soon after it the held segment leaves, at least allowed: clocks of captures are coarse.
const RELEASE: Nanos = 2_000_000;

/// What may become a stall of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    /// Since when the other end's window is closed.
    closed: Maybe,
    /// When a small segment left after which its sender was silent.
    small: Maybe,
    /// When a pure acknowledgement covered it.
    acknowledged: Maybe,
    /// Small segments of which the acknowledgement came as late as a delayed one, whether somebody
    /// waited for it or not.
    pub(crate) late: u32,
}

/// By how much an acknowledgement was delayed, beyond the way.
fn delay(own: &Direction, after: Nanos) -> Nanos {
    let least = own.round_trip.least().unwrap_or(0);
    // The acknowledgement of the segment itself may be the least there was.
    if least + RELEASE >= after { after } else { after - least }
}

fn is_late(delay: Nanos) -> bool {
    DELAYS.iter().any(|range| range.contains(&delay))
}

impl Waiting {
    /// A packet of this direction. `way` is the time from here to its sender and back, where it is
    /// known.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        own: &Direction,
        kind: Kind,
        tcp: &Tcp<'_>,
        at: Nanos,
        way: Option<Nanos>,
    ) -> Option<(Reason, Nanos, Nanos)> {
        if tcp.length == 0 {
            return None;
        }
        let small = tcp.length < own.segment();
        let held = self
            .small
            .get()
            .zip(self.acknowledged.get())
            .filter(|_| kind == Kind::New && small && !own.filled);
        let stall = held.and_then(|(began, acknowledged)| {
            // Where the way is not known, anything that comes soon after would seem released.
            let way = way?;
            let delay = delay(own, acknowledged - began);
            // Far from the sender, the acknowledgement has its way to it, and what it releases the
            // way back.
            let released = at - acknowledged <= way + RELEASE.max(way / 4);
            (released && is_late(delay)).then_some((Reason::DelayedAck, began, delay))
        });
        self.acknowledged = Maybe::default();
        // Only what is small and new can hold something back.
        self.small = (kind == Kind::New && small).then_some(at).into();
        stall
    }

    /// A packet of the other direction: what it says of this one's data and of its own window.
    #[inline]
    pub(crate) fn heard(
        &mut self,
        own: &Direction,
        peer: &Direction,
        tcp: &Tcp<'_>,
        at: Nanos,
    ) -> Option<(Reason, Nanos, Nanos)> {
        if tcp.length > 0 || tcp.flags.all(Flags::FIN) || tcp.flags.all(Flags::SYN) {
            // The other end had something to say: nobody waited for its acknowledgement alone.
            (self.small, self.acknowledged) = (Maybe::default(), Maybe::default());
        } else if let Some(began) = self.small.get()
            && !self.acknowledged.is_known()
            && own.flight() == 0
        {
            self.acknowledged = at.into();
            self.late += u32::from(is_late(delay(own, at - began)));
        }
        self.window(own, peer, tcp, at)
    }

    /// Whether the window closed or opened.
    fn window(
        &mut self,
        own: &Direction,
        peer: &Direction,
        tcp: &Tcp<'_>,
        at: Nanos,
    ) -> Option<(Reason, Nanos, Nanos)> {
        if own.counts.data == 0 || tcp.flags.all(Flags::SYN) {
            return None;
        }
        if tcp.flags.all(Flags::RST) {
            return self.over(at);
        }
        let window = peer.window?;
        // Without the SYN nobody knows how small a window is, unless it is closed.
        let enough =
            if peer.scale_known() { own.segment().min(peer.largest_window / 2).max(1) } else { 1 };
        match self.closed.get() {
            None if window < enough => {
                self.closed = at.into();
                None
            }
            Some(began) if window >= enough => {
                self.closed = Maybe::default();
                Some((Reason::Window, began, at - began))
            }
            _ => None,
        }
    }

    /// The stream or the capture is over: a window that is still closed.
    pub(crate) fn over(&mut self, at: Nanos) -> Option<(Reason, Nanos, Nanos)> {
        self.closed.take().map(|began| (Reason::Window, began, at - began))
    }
}
