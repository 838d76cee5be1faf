//! Time stamps and their echo (RFC 7323): the round trip as seen near the receiver of data, which
//! sends nothing that an acknowledgement could time.

use crate::sequence::{Sequence, timestamp_ticks_after};
use crate::time::{Nanos, OptionalTime};

/// A time stamp of one end, until the other end echoes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimestampEcho {
    /// When the pending time stamp first passed.
    sent_at: OptionalTime,
    /// How far the other end had sent by then.
    peer_next: Sequence,
    /// The pending time stamp.
    pending: u32,
    /// The last time stamp that passed: the same one does not start another measurement.
    last: u32,
}

impl TimestampEcho {
    /// A packet of this end with its time stamp; `peer_next` is how far the other end has sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, timestamp: u32, at: Nanos, peer_next: Sequence) {
        if !self.sent_at.is_known() && timestamp != self.last {
            self.sent_at = OptionalTime::of_clock(at);
            (self.peer_next, self.pending) = (peer_next, timestamp);
        }
        self.last = timestamp;
    }

    /// Whether this is the echo of the pending time stamp, or of a later one.
    #[inline(always)]
    pub(crate) fn is_echoed(&self, echo: u32) -> bool {
        self.sent_at.is_known() && timestamp_ticks_after(echo, self.pending) >= 0
    }

    /// How much the other end has sent since the pending time stamp passed.
    #[inline(always)]
    pub(crate) fn bytes_since(&self, peer_next: Sequence) -> u64 {
        peer_next.since(self.peer_next)
    }

    /// No time stamp is pending any more.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.sent_at = OptionalTime::default();
    }

    /// A packet of the other end that echoes a time stamp: the time since that time stamp passed,
    /// and the bytes that the other end has sent meanwhile, its data in flight.
    #[inline(always)]
    pub(crate) fn echoed(
        &mut self,
        echo: u32,
        at: Nanos,
        peer_next: Sequence,
    ) -> Option<(Nanos, u64)> {
        let sent_at = self.sent_at.get().filter(|_| self.is_echoed(echo))?;
        // A later echo counts too: the packet with the pending one was not sent, and the next one
        // confirms it a little later.
        self.forget();
        Some((at.saturating_sub(sent_at), self.bytes_since(peer_next)))
    }
}
