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
    /// When it first passed.
    last_at: OptionalTime,
}

impl TimestampEcho {
    /// A packet of this end with its time stamp; `peer_next` is how far the other end has sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, timestamp: u32, at: Nanos, peer_next: Sequence) {
        if timestamp == self.last {
            return;
        }
        (self.last, self.last_at) = (timestamp, OptionalTime::of_clock(at));
        if !self.sent_at.is_known() {
            self.sent_at = self.last_at;
            (self.peer_next, self.pending) = (peer_next, timestamp);
        }
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
        let since = at.saturating_sub(sent_at);
        let flight = self.bytes_since(peer_next);
        let later = if echo == self.pending { 0 } else { self.passed_later(echo, sent_at) };
        self.forget();
        if later == 0 {
            return Some((since, flight));
        }
        // The bytes of that part of the time, as if they had been sent evenly.
        let sample = since.saturating_sub(later).max(0);
        let flight = flight as f64 * sample as f64 / since.max(1) as f64;
        Some((sample, flight as u64))
    }

    /// How much later than the pending time stamp a later one passed, which is echoed in its place: nothing was
    /// sent with the pending one, or it came with data whose acknowledgement was delayed (RFC 7323, 4.3). Time
    /// stamps are those of a clock, so it is known by the last one.
    fn passed_later(&self, echo: u32, sent_at: Nanos) -> Nanos {
        let ticks = i64::from(timestamp_ticks_after(echo, self.pending));
        let all = i64::from(timestamp_ticks_after(self.last, self.pending));
        let time = self.last_at.get().map_or(0, |last| last.saturating_sub(sent_at));
        // An echo of what was never sent is one of the last.
        match ticks.min(all) {
            ticks @ 1.. => (i128::from(time.max(0)) * i128::from(ticks) / i128::from(all)) as Nanos,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Time stamps of a clock of milliseconds, sent at 10, 12, 20 and 30 ms; the echo of one comes at 50 ms, when
    /// the other end has sent 4,000 bytes since the first.
    fn echoed(echo: u32) -> Option<(Nanos, u64)> {
        let mut times = TimestampEcho::default();
        for ms in [10_u32, 12, 20, 30] {
            times.sent(1_000 + ms, Nanos::from(ms) * MS, Sequence::first(100));
        }
        times.echoed(echo, 50 * MS, Sequence::first(4_100))
    }

    #[test]
    fn an_echo_is_timed_from_when_its_time_stamp_passed() {
        assert_eq!(echoed(1_009), None, "of an earlier one");
        assert_eq!(echoed(1_010), Some((40 * MS, 4_000)));
        // In place of the pending one, and between those that are known.
        assert_eq!(echoed(1_020), Some((30 * MS, 3_000)));
        assert_eq!(echoed(1_030), Some((20 * MS, 2_000)));
    }

    #[test]
    fn an_echo_of_what_was_never_sent_is_that_of_the_last() {
        assert_eq!(echoed(1_000_000), Some((20 * MS, 2_000)));
        // A clock that goes backwards.
        let mut times = TimestampEcho::default();
        times.sent(1_010, 10 * MS, Sequence::first(100));
        times.sent(5, 20 * MS, Sequence::first(100));
        assert_eq!(times.echoed(1_020, 50 * MS, Sequence::first(4_100)), Some((40 * MS, 4_000)));
    }
}
