//! The rate at which the path delivers a flight: segments that are sent together arrive as far apart as
//! the slowest link sends them, and their acknowledgements show it at the sender too (packet trains:
//! Dovrolis, Ramanathan, Moore: What do packet dispersion techniques measure?, INFOCOM 2001).
//!
//! A sender whose window is small, or that paces, leaves pauses between its flights, and what an
//! acknowledgement released is as far apart as what was acknowledged: only some groups of segments show the
//! path, the fastest, and of the fastest something may have compressed the acknowledgements. Flights smaller
//! than a group end with a pause; a pause before a group is none of its time.

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
/// Groups and flights that show a rate.
const MIN_GROUPS: u64 = 8;
/// Share of them that were as fast, and the fewest of them: one alone may be chance. Over 60 links and shapers of known rate, most of them with losses, a fifth
/// gave a half of it or less where windows are small, a twentieth four times as much where something
/// compressed acknowledgements; a tenth did neither but in the smallest windows.
const FASTEST: f64 = 0.1;
const MIN_FASTEST: f64 = 2.0;
/// A flight: its bytes and acknowledgements, and how many times as long as between them is the pause before
/// or after it.
const MIN_FLIGHT_BYTES: u64 = 8 * 1448;
const MIN_FLIGHT_ACKS: u32 = 3;
const PAUSE: i64 = 8;
/// Acknowledgements after which a pause is longer than the time between them.
const MIN_ACKS_BEFORE_PAUSE: u32 = 2;
/// What durations are scaled to: the time that a mebibyte would take.
const SCALE_BYTES: i64 = 1 << 20;

/// How fast acknowledgements of a transfer move on, in groups of segments.
#[derive(Debug, Clone)]
pub(crate) struct FlightRate {
    /// Groups, and flights that ended with a pause before they were a group.
    times: TimeHistogram,
    groups: u64,
    /// The group: when it began, and its first and its last acknowledgement; how far it had been acknowledged
    /// before that one, its bytes, those of the first, and its acknowledgements.
    began: Nanos,
    first: Nanos,
    first_bytes: u64,
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
            began: at,
            first: at,
            first_bytes: 0,
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
        if self.acks == 0 {
            (self.first, self.first_bytes) = (at, bytes);
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
        self.acks >= MIN_ACKS_BEFORE_PAUSE
            && pause.saturating_mul(self.acks.into()) > flight.saturating_mul(PAUSE)
    }

    /// The group has ended with the acknowledgement before this one.
    fn end_flight(&mut self, at: Nanos) {
        self.leave_out_pause();
        if self.bytes >= MIN_FLIGHT_BYTES && self.acks >= MIN_FLIGHT_ACKS {
            self.add();
        }
        self.begin(at);
    }

    fn end_group(&mut self, at: Nanos) {
        self.leave_out_pause();
        self.add();
        self.begin(at);
    }

    /// Leaves out the first acknowledgement, if it came after a pause.
    fn leave_out_pause(&mut self) {
        let pause = self.first.saturating_sub(self.began);
        let rest = self.last.saturating_sub(self.first);
        if self.acks >= GROUP_ACKS
            && pause.saturating_mul(i64::from(self.acks - 1)) > rest.saturating_mul(PAUSE)
        {
            self.began = self.first;
            self.bytes = self.bytes.saturating_sub(self.first_bytes);
            self.acks -= 1;
        }
    }

    /// Adds the group: how long it took, as the time of [`SCALE_BYTES`].
    fn add(&mut self) {
        let time = self.last.saturating_sub(self.began);
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX).max(1);
        if time > 0 {
            self.times.add(time.saturating_mul(SCALE_BYTES) / bytes);
            self.groups += 1;
        }
    }

    /// How long so many bytes take: as long as in half of the groups, where the fastest are not much
    /// faster, as on a link that is always busy; otherwise as long as in the fastest.
    pub(crate) fn transmission_time(&self, bytes: u64) -> Option<Nanos> {
        let fastest = self.bits_per_second()?.max(1);
        let median = rate(self.times.quantile(0.5)).unwrap_or(0).max(1);
        let rate = if median >= fastest / 2 { median } else { fastest };
        Nanos::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate)).ok()
    }

    /// Bits of data a second that one group or flight in ten reached.
    pub(crate) fn bits_per_second(&self) -> Option<u64> {
        let fastest = FASTEST.max(MIN_FASTEST / self.groups as f64);
        (self.groups >= MIN_GROUPS).then(|| rate(self.times.quantile(fastest))).flatten()
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
        // A few of them were held up and came at once.
        let mut rate = FlightRate::new(Sequence(0), 0);
        let mut sequence = 0u64;
        for flight in 0..60i64 {
            for ack in 0..6i64 {
                sequence += 2 * 1448;
                let spacing_us = if flight % 12 == 0 { 3 } else { 386 };
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
    fn flights_that_acknowledgements_release_one_by_one_hide_the_path_but_not_in_all() {
        // Two in three round trips, 16 segments are spread over the round trip; in the third they are together,
        // behind a pause.
        let mut rate = FlightRate::new(Sequence(0), 0);
        let mut sequence = 0u64;
        for flight in 0..60i64 {
            for ack in 0..8i64 {
                sequence += 2 * 1448;
                let spacing_us = if flight % 3 == 0 { 386 } else { 10_000 };
                let at_us = flight * 100_000 + 10_000 + ack * spacing_us;
                rate.acknowledged(Sequence(sequence), at_us * 1_000);
            }
        }
        let found = rate.bits_per_second().expect("a rate") as f64;
        assert!((found / 60e6 - 1.0).abs() < 0.15, "{found}");
    }

    #[test]
    fn one_fast_group_of_a_few_may_be_chance() {
        let mut rate = FlightRate::new(Sequence(0), 0);
        let mut sequence = 0u64;
        for flight in 0..10i64 {
            for ack in 0..6i64 {
                sequence += 2 * 1448;
                let spacing_us = if flight == 4 { 3 } else { 386 };
                let at_us = flight * 100_000 + ack * spacing_us;
                rate.acknowledged(Sequence(sequence), at_us * 1_000);
            }
        }
        let found = rate.bits_per_second().expect("a rate") as f64;
        // The fast one alone: more than 1 Gbit/s.
        assert!((50e6..90e6).contains(&found), "{found}");
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
