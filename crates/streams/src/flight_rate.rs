//! The rate at which the path delivers a flight: segments that are sent together arrive as far apart as
//! the slowest link sends them, and their acknowledgements show it at the sender too (packet trains:
//! Dovrolis, Ramanathan, Moore: What do packet dispersion techniques measure?, INFOCOM 2001).
//!
//! A sender whose window is small, or that paces, leaves pauses between its flights: the few groups of
//! segments that were delivered fastest show the path, unless something compressed their
//! acknowledgements.

use crate::histogram::TimeHistogram;
use crate::sequence::Sequence;
use crate::time::Nanos;

/// New bytes of a direction from which on its flights are watched.
pub(crate) const TRANSFER_BYTES: u64 = 1 << 17;
/// Bytes of a group: 16 segments.
const GROUP_BYTES: u64 = 16 * 1448;
/// Fewest acknowledgements of a group.
const GROUP_ACKS: u32 = 4;
/// An acknowledgement of more bytes fills a hole.
const MAX_ACK_BYTES: u64 = 1 << 16;
/// Groups that show a rate.
const MIN_GROUPS: u64 = 8;
/// Share of the groups that were as fast, and the fewest of them: one alone may be chance.
const FASTEST: f64 = 0.05;
const MIN_FASTEST: u64 = 2;
/// What durations are scaled to: the time that a mebibyte would take.
const SCALE_BYTES: i64 = 1 << 20;

/// How fast acknowledgements of a transfer move on, in groups of segments.
#[derive(Debug, Clone)]
pub(crate) struct FlightRate {
    times: TimeHistogram,
    groups: u64,
    /// The group: when it began, how far it had been acknowledged before the last one, its bytes and
    /// acknowledgements.
    began: Nanos,
    acknowledged: Sequence,
    bytes: u64,
    acks: u32,
}

impl FlightRate {
    pub(crate) fn new(acknowledged: Sequence, at: Nanos) -> Self {
        FlightRate {
            times: TimeHistogram::default(),
            groups: 0,
            began: at,
            acknowledged,
            bytes: 0,
            acks: 0,
        }
    }

    /// Everything up to here is acknowledged.
    #[inline]
    pub(crate) fn acknowledged(&mut self, until: Sequence, at: Nanos) {
        if until <= self.acknowledged {
            return;
        }
        let bytes = until.since(self.acknowledged);
        self.acknowledged = until;
        self.acks += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > MAX_ACK_BYTES {
            self.begin(at);
        } else if self.bytes >= GROUP_BYTES && self.acks >= GROUP_ACKS {
            self.end_group(at);
        }
    }

    fn begin(&mut self, at: Nanos) {
        (self.began, self.bytes, self.acks) = (at, 0, 0);
    }

    fn end_group(&mut self, at: Nanos) {
        let time = at.saturating_sub(self.began);
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX).max(1);
        if time > 0 {
            self.times.add(time.saturating_mul(SCALE_BYTES) / bytes);
            self.groups += 1;
        }
        self.begin(at);
    }

    /// How long so many bytes take: as long as in half of the groups, where the fastest are not much
    /// faster, as on a link that is always busy; otherwise as long as in the fastest.
    pub(crate) fn transmission_time(&self, bytes: u64) -> Option<Nanos> {
        let fastest = self.bits_per_second()?.max(1);
        let us = self.times.quantile(0.5).filter(|us| *us > 0)?;
        let median = (SCALE_BYTES.cast_unsigned() * 8_000_000 / us).max(1);
        let rate = if median >= fastest / 2 { median } else { fastest };
        Nanos::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate)).ok()
    }

    /// Bits of data a second that one group in twenty reached.
    pub(crate) fn bits_per_second(&self) -> Option<u64> {
        if self.groups < MIN_GROUPS {
            return None;
        }
        let fastest = FASTEST.max(MIN_FASTEST as f64 / self.groups as f64);
        let us = self.times.quantile(fastest).filter(|us| *us > 0)?;
        Some(SCALE_BYTES.cast_unsigned() * 8_000_000 / us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledgements of two segments each, in flights of so many; times in microseconds.
    fn rate(flights: u32, acks: u32, spacing_us: i64, round_trip_us: i64) -> Option<u64> {
        let mut rate = FlightRate::new(Sequence(0), 0);
        let mut sequence = 0u64;
        for flight in 0..flights {
            for ack in 0..acks {
                sequence += 2 * 1448;
                let at_us = i64::from(flight) * round_trip_us + i64::from(ack) * spacing_us;
                rate.acknowledged(Sequence(sequence), at_us * 1_000);
            }
        }
        rate.bits_per_second()
    }

    #[test]
    fn a_flight_is_delivered_at_the_rate_of_the_path() {
        // 2,896 bytes each 231 µs are 100 Mbit/s; 64 KB each 100 ms are 5.
        let found = rate(30, 22, 231, 100_000).expect("a rate") as f64;
        assert!((found / 100e6 - 1.0).abs() < 0.15, "{found}");
        // Paced evenly over the round trip: the path is not seen.
        let found = rate(30, 22, 4_545, 100_000).expect("a rate") as f64;
        assert!((found / 5.1e6 - 1.0).abs() < 0.15, "{found}");
    }

    #[test]
    fn few_groups_and_holes_that_are_filled_show_nothing() {
        assert_eq!(rate(2, 22, 231, 100_000), None);
        let mut rate = FlightRate::new(Sequence(0), 0);
        for at in 1..100u64 {
            rate.acknowledged(Sequence(at * 100_000), at.cast_signed() * 1_000);
        }
        assert_eq!(rate.bits_per_second(), None);
    }

    #[test]
    fn clocks_that_jump_do_no_harm() {
        let mut rate = FlightRate::new(Sequence(u64::MAX), i64::MAX);
        for at in [i64::MIN, 0, i64::MAX, -5] {
            for step in 0..40u64 {
                rate.acknowledged(Sequence(step * 20_000), at);
            }
        }
        rate.bits_per_second();
    }
}
