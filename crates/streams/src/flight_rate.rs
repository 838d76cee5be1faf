//! The rate at which the path delivers a flight: segments that are sent together arrive as far apart as
//! the slowest link sends them, and their acknowledgements show it at the sender too (packet trains:
//! Dovrolis, Ramanathan, Moore: What do packet dispersion techniques measure?, INFOCOM 2001).
//!
//! A sender whose window is small, or that paces, leaves pauses between its flights: the few groups of
//! segments that were delivered fastest show the path, unless something compressed their
//! acknowledgements. Flights smaller than a group end with a pause, and half of them are at least as fast
//! as the path.

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
/// A flight: its bytes, and how many times as long as between its acknowledgements is the pause after it.
const MIN_FLIGHT_BYTES: u64 = 8 * 1448;
const PAUSE: i64 = 8;
/// What durations are scaled to: the time that a mebibyte would take.
const SCALE_BYTES: i64 = 1 << 20;

/// How fast acknowledgements of a transfer move on, in groups of segments.
#[derive(Debug, Clone)]
pub(crate) struct FlightRate {
    times: TimeHistogram,
    groups: u64,
    /// Flights that ended with a pause before they were a group.
    flight_times: TimeHistogram,
    flights: u64,
    /// The group: when it began, and its last acknowledgement; how far it had been acknowledged before
    /// that one, its bytes and acknowledgements.
    began: Nanos,
    last: Nanos,
    acknowledged: Sequence,
    bytes: u64,
    acks: u32,
}

impl FlightRate {
    pub(crate) fn new(acknowledged: Sequence, at: Nanos) -> Self {
        FlightRate {
            times: TimeHistogram::default(),
            groups: 0,
            flight_times: TimeHistogram::default(),
            flights: 0,
            began: at,
            last: at,
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
        if self.is_pause(at) {
            self.end_flight(at);
            return;
        }
        self.last = at;
        self.acks += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > MAX_ACK_BYTES {
            self.begin(at);
        } else if self.bytes >= GROUP_BYTES && self.acks >= GROUP_ACKS {
            self.end_group(at);
        }
    }

    /// The same for what is no part of a transfer: no flight goes on over it.
    #[inline]
    pub(crate) fn pass_over(&mut self, until: Sequence, at: Nanos) {
        if until > self.acknowledged {
            self.acknowledged = until;
            self.begin(at);
        }
    }

    fn begin(&mut self, at: Nanos) {
        (self.began, self.last, self.bytes, self.acks) = (at, at, 0, 0);
    }

    /// Nothing was acknowledged for much longer than between the acknowledgements of the group so far.
    #[inline]
    fn is_pause(&self, at: Nanos) -> bool {
        let (pause, flight) = (at.saturating_sub(self.last), self.last.saturating_sub(self.began));
        self.acks >= GROUP_ACKS
            && pause.saturating_mul(self.acks.into()) > flight.saturating_mul(PAUSE)
    }

    /// The group has ended with the acknowledgement before this one.
    fn end_flight(&mut self, at: Nanos) {
        if self.bytes >= MIN_FLIGHT_BYTES
            && let Some(time) = self.scaled_time(self.last)
        {
            self.flight_times.add(time);
            self.flights += 1;
        }
        self.begin(at);
    }

    fn end_group(&mut self, at: Nanos) {
        if let Some(time) = self.scaled_time(at) {
            self.times.add(time);
            self.groups += 1;
        }
        self.begin(at);
    }

    /// How long the group took until then, as the time of [`SCALE_BYTES`].
    fn scaled_time(&self, until: Nanos) -> Option<Nanos> {
        let time = until.saturating_sub(self.began);
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX).max(1);
        (time > 0).then(|| time.saturating_mul(SCALE_BYTES) / bytes)
    }

    /// How long so many bytes take: as long as in half of the groups, where the fastest are not much
    /// faster, as on a link that is always busy; otherwise as long as in the fastest.
    pub(crate) fn transmission_time(&self, bytes: u64) -> Option<Nanos> {
        let fastest = self.bits_per_second()?.max(1);
        let median = rate(self.times.quantile(0.5)).unwrap_or(0).max(1);
        let rate = if median >= fastest / 2 { median } else { fastest };
        Nanos::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate)).ok()
    }

    /// Bits of data a second that half of the flights reached; where none were that small, one group in
    /// twenty.
    pub(crate) fn bits_per_second(&self) -> Option<u64> {
        if self.flights >= MIN_GROUPS {
            return rate(self.flight_times.quantile(0.5));
        } else if self.groups < MIN_GROUPS {
            return None;
        }
        let fastest = FASTEST.max(MIN_FASTEST as f64 / self.groups as f64);
        rate(self.times.quantile(fastest))
    }
}

/// Bits a second, by the time of [`SCALE_BYTES`] in microseconds.
fn rate(us: Option<u64>) -> Option<u64> {
    us.filter(|us| *us > 0).map(|us| SCALE_BYTES.cast_unsigned() * 8_000_000 / us)
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
    fn flights_of_a_few_segments_show_the_path_too() {
        // Five acknowledgements of two segments, 386 µs apart: 60 Mbit/s, each 100 ms.
        let found = rate(60, 6, 386, 100_000).expect("a rate") as f64;
        assert!((found / 60e6 - 1.0).abs() < 0.15, "{found}");
        // A few of them were held up and came at once: half of them were not.
        let mut rate = FlightRate::new(Sequence(0), 0);
        let mut sequence = 0u64;
        for flight in 0..60i64 {
            for ack in 0..6i64 {
                sequence += 2 * 1448;
                let spacing_us = if flight % 5 == 0 { 3 } else { 386 };
                rate.acknowledged(
                    Sequence(sequence),
                    (flight * 100_000 + ack * spacing_us) * 1_000,
                );
            }
        }
        let found = rate.bits_per_second().expect("a rate") as f64;
        assert!((found / 60e6 - 1.0).abs() < 0.15, "{found}");
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
