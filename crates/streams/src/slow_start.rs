//! Slow start, seen from anywhere on the path: what one end sends in each round trip of a transfer,
//! and whether that doubles.
//!
//! A round is over when its first data is acknowledged, which is seen near the sender; elsewhere,
//! when most of a round trip has passed since it began. In slow start, rounds follow each other
//! without a pause, and each has one and a half times to twice the segments of the one before (RFC
//! 5681; 1.5 where the receiver acknowledges every second segment). An application that writes
//! little at first does not keep to round trips; and what waits for the window leaves in full
//! segments, however small the writes were.

use std::ops::RangeInclusive;

use crate::sequence::Sequence;
use crate::time::Nanos;

/// Round trips for which slow start matters: shorter paths lose nothing by it, and a round trip
/// longer than a minute is none.
pub(crate) const RELEVANT_ROUND_TRIPS: RangeInclusive<Nanos> = 3_000_000..=60_000_000_000;
/// Quarters of a round trip after which a round is over, away from the sender.
const ROUND_QUARTERS: Nanos = 3;
/// Growth of a round over the one before in slow start, in tenths: at most double, but rounds have no
/// sharp boundaries.
const GROWTH_TENTHS: RangeInclusive<u64> = 13..=25;
/// Where the window held data back, a round has at least one in so many of the bytes of full segments.
const FULL_ONE_IN: u64 = 2;
/// Segments of this length, bytes, are full: a path may carry less than both ends do.
const FULL_SEGMENT: u32 = 1448;
/// Rounds that must grow in a row before a restart counts as one.
const MIN_RESTART_STEPS: u32 = 2;
/// Segments that may have been sent before the first transfer.
const MAX_GREETING_SEGMENTS: u64 = 3;
/// Initial window of Linux, segments (RFC 6928), and the same with a little room.
const INITIAL_WINDOW: u64 = 10;
const MAX_INITIAL_WINDOW: u64 = 12;

/// Transfers of one direction that began with slow start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlowStarts {
    /// Transfers whose slow start was captured.
    pub transfers: u32,
    /// Bytes of the first flight of the stream; 0: its slow start was not captured, or data was lost before
    /// that flight was over, so that it does not show the initial window.
    pub first_flight: u64,
    /// The same, segments.
    pub first_segments: u32,
    /// Round trips of the first transfer.
    pub first_rounds: u32,
    /// Bytes of that transfer.
    pub first_bytes: u64,
    /// Round trips of it that an initial window of ten segments would have saved.
    pub first_saved: u32,
    /// Round trips of it that flights as large as its largest would have saved: all but one, where
    /// nothing but slow start limited it.
    pub first_growing: u32,
    /// Transfers that began with few bytes after an idle time, though more had been in flight
    /// before.
    pub restarts: u32,
    /// Time that those cost, nanoseconds.
    pub restart_time: Nanos,
    /// The restart that cost most.
    pub worst: SlowRestart,
}

/// A transfer that began with few bytes after an idle time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlowRestart {
    /// Time that it cost, nanoseconds.
    pub cost: Nanos,
    /// The idle time before it, nanoseconds.
    pub idle: Nanos,
    /// Bytes of its first round.
    pub flight: u64,
    /// Most bytes of a round before the idle time.
    pub before: u64,
    /// Number of its first packet in the capture.
    pub packet: u64,
}

/// The beginning of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferStart {
    pub(crate) at: Nanos,
    pub(crate) packet: u64,
    /// Round trip of the whole path.
    pub(crate) round_trip: Nanos,
    /// Time since its sender last sent data; `None`: it never did.
    pub(crate) idle: Option<Nanos>,
    /// Idle time after which a sender gives up its congestion window.
    pub(crate) timeout: Nanos,
    /// Bytes of a segment.
    pub(crate) mss: u32,
}

/// New data of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferData {
    pub(crate) bytes: u64,
    pub(crate) at: Nanos,
    /// Its end, and that of what was sent just before it in the same transfer, where that is in flight.
    pub(crate) end: Sequence,
    pub(crate) header_end: Option<Sequence>,
    /// Whether its sender had nothing in flight, and paused nevertheless.
    pub(crate) paused: bool,
    /// Whether any data of its sender was lost before it.
    pub(crate) is_after_loss: bool,
}

/// What was sent in a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    bytes: u64,
    /// A congestion window counts segments, small ones too.
    segments: u64,
}

/// Watches the transfers of one direction for slow start.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlowStartDetector {
    /// The current transfer.
    start: Option<TransferStart>,
    /// When the current round began.
    round_began: Nanos,
    /// End of its first data.
    round_mark: Sequence,
    /// Rounds that are over.
    rounds: u32,
    /// Rounds that grew.
    steps: u32,
    /// Whether slow start is over.
    left_slow_start: bool,
    /// Whether data was lost before the first round, or in it: the congestion window is smaller then.
    lost_first: bool,
    first: Round,
    previous: Round,
    current: Round,
    /// Bytes of the transfer.
    bytes: u64,
    /// Most bytes of a round of this transfer.
    max_round: u64,
    /// Most bytes of a round of earlier transfers.
    max_round_before: u64,
    /// Bytes that the window had grown to allow, at least, where it was not reset.
    window_before: u64,
    /// Bytes of earlier transfers.
    bytes_before: u64,
    /// Round trips in which flights grew, in all.
    pub(crate) growth_time: Nanos,
    pub(crate) found: SlowStarts,
}

impl SlowStartDetector {
    /// A transfer begins; the one before is over.
    pub(crate) fn begin(&mut self, start: TransferStart) {
        self.end();
        *self = SlowStartDetector {
            start: Some(start),
            round_began: start.at,
            max_round_before: self.max_round_before,
            window_before: self.window_before,
            bytes_before: self.bytes_before.saturating_add(self.bytes),
            growth_time: self.growth_time,
            found: self.found,
            ..SlowStartDetector::default()
        };
    }

    /// New data of the transfer. Near the sender `is_acknowledged` says whether everything before a
    /// sequence number has been acknowledged.
    #[inline]
    pub(crate) fn data(
        &mut self,
        data: TransferData,
        is_acknowledged: Option<impl Fn(Sequence) -> bool>,
    ) {
        let TransferData { bytes, at, end, header_end, paused, is_after_loss } = data;
        let Some(start) = self.start else { return };
        let is_over = match (is_acknowledged, self.round_mark.known()) {
            (_, None) => {
                self.round_mark = header_end.unwrap_or(end);
                false
            }
            (Some(is_acknowledged), Some(mark)) => is_acknowledged(mark),
            (None, Some(_)) => {
                at.saturating_sub(self.round_began) >= start.round_trip / 4 * ROUND_QUARTERS
            }
        };
        if is_over {
            self.lost_first |= is_after_loss && self.rounds == 0;
            self.end_round(start.mss);
            self.left_slow_start |= paused;
            (self.round_began, self.round_mark) = (at, end);
        }
        self.current.bytes = self.current.bytes.saturating_add(bytes);
        let segments = bytes.div_ceil(u64::from(start.mss.max(1)));
        self.current.segments = self.current.segments.saturating_add(segments);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Something else limits the transfer from here on: a loss, a full window.
    #[inline]
    pub(crate) fn leave_slow_start(&mut self) {
        self.left_slow_start = true;
    }

    fn end_round(&mut self, mss: u32) {
        self.max_round = self.max_round.max(self.current.bytes);
        if self.rounds == 0 {
            self.first = self.current;
        } else if !self.left_slow_start {
            let tenths = self.current.segments.saturating_mul(10) / self.previous.segments.max(1);
            let full = u64::from(mss.min(FULL_SEGMENT)).saturating_mul(self.current.segments);
            let held_back = self.current.bytes.saturating_mul(FULL_ONE_IN) >= full;
            if held_back && GROWTH_TENTHS.contains(&tenths) {
                self.steps = self.steps.saturating_add(1);
            } else {
                self.left_slow_start = true;
            }
        }
        self.rounds = self.rounds.saturating_add(1);
        (self.previous, self.current) = (self.current, Round::default());
    }

    /// The transfer is over.
    pub(crate) fn end(&mut self) {
        let Some(start) = self.start.take() else { return };
        // The last round has what was left, so it need not grow.
        let (left_slow_start, steps) = (self.left_slow_start, self.steps);
        self.end_round(start.mss);
        (self.left_slow_start, self.steps) = (left_slow_start, steps.max(self.steps));
        if self.steps >= 1 {
            let growth = start.round_trip.saturating_mul(self.steps.into());
            self.growth_time = self.growth_time.saturating_add(growth);
            self.judge(&start);
        }
        self.max_round_before = self.max_round_before.max(self.max_round);
        // In slow start, the window grows by what is acknowledged, until the next such transfer fits.
        let allowed = if left_slow_start { self.max_round } else { self.bytes };
        self.window_before = self.window_before.max(allowed);
    }

    /// Rounds of this transfer that an initial window of ten segments would have saved.
    fn saved_by_ten_segments(&self, mss: u64) -> u32 {
        let first = self.first.segments;
        if !self.left_slow_start {
            return rounds_saved(first, self.bytes.div_ceil(mss), self.rounds);
        }
        // As many as doubling up to ten segments takes.
        let doublings = (INITIAL_WINDOW / first.max(1)).max(1).ilog2();
        doublings.min(self.steps).min(self.rounds.saturating_sub(1))
    }

    fn judge(&mut self, start: &TransferStart) {
        let mss = u64::from(start.mss.max(1));
        let saved = self.saved_by_ten_segments(mss);
        let found = &mut self.found;
        found.transfers = found.transfers.saturating_add(1);
        // The congestion window has not grown yet, but for a greeting.
        if self.bytes_before <= MAX_GREETING_SEGMENTS * mss && found.first_rounds == 0 {
            found.first_rounds = self.rounds;
            found.first_bytes = self.bytes;
            let needed = match self.left_slow_start {
                true => self.bytes.div_ceil(self.max_round.max(1)),
                false => 1,
            };
            let needed = u32::try_from(needed).unwrap_or(u32::MAX).max(1);
            found.first_growing = self.rounds.saturating_sub(needed);
            if !self.lost_first {
                found.first_flight = self.first.bytes;
                found.first_segments = u32::try_from(self.first.segments).unwrap_or(u32::MAX);
                found.first_saved = saved;
            }
            return;
        }
        let idle = start.idle.unwrap_or(0);
        let timeouts = (idle / start.timeout.max(1)).clamp(0, 63) as u32;
        // The next round would have had the double, or, while nothing was lost, all that was ever
        // acknowledged; Linux halves that with each timeout (`tcp_cwnd_restart`).
        let window =
            self.max_round_before.saturating_mul(2).max(self.bytes_before).saturating_mul(5) / 4;
        let max_flight = (MAX_INITIAL_WINDOW * mss).max(window >> timeouts);
        if timeouts == 0
            || self.steps < MIN_RESTART_STEPS
            || self.first.bytes > max_flight
            || self.first.bytes.saturating_mul(2) > self.max_round_before
        {
            return;
        }
        let needed = self.bytes.div_ceil(self.window_before.max(1)).max(1);
        let lost = u64::from(self.rounds).saturating_sub(needed).min(u64::from(self.steps) + 1);
        if lost == 0 {
            return;
        }
        let cost = start.round_trip.saturating_mul(lost.cast_signed());
        found.restarts = found.restarts.saturating_add(1);
        found.restart_time = found.restart_time.saturating_add(cost);
        if cost > found.worst.cost {
            let (flight, before) = (self.first.bytes, self.max_round_before);
            found.worst = SlowRestart { cost, idle, flight, before, packet: start.packet };
        }
    }
}

/// How many of these rounds an initial window of ten segments saves of a transfer of so many segments that is
/// all slow start, from this first flight on.
fn rounds_saved(first: u64, segments: u64, rounds: u32) -> u32 {
    let needed = |first: u64, growth_tenths: u64| {
        let (mut flight, mut sent, mut needed) = (first.max(1).saturating_mul(10), 0_u64, 0_u32);
        while sent < segments.saturating_mul(10) {
            sent = sent.saturating_add(flight);
            flight = flight.saturating_mul(growth_tenths) / 10;
            needed += 1;
        }
        needed
    };
    // Where more rounds than doubling takes were needed, flights grew by half (delayed acknowledgements).
    let growth = if rounds <= needed(first, 20) { 20 } else { 15 };
    rounds.saturating_sub(needed(INITIAL_WINDOW, growth))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Nanos = 20_000_000;

    /// Away from the sender.
    const NO_ACKNOWLEDGEMENTS: Option<fn(Sequence) -> bool> = None;

    fn sent(bytes: u64, at: Nanos) -> TransferData {
        let end = Sequence(7);
        TransferData { bytes, at, end, header_end: None, paused: false, is_after_loss: false }
    }

    fn start(at: Nanos, idle: Option<Nanos>) -> TransferStart {
        let (round_trip, timeout) = (ROUND_TRIP, 220_000_000);
        TransferStart { at, packet: 7, round_trip, idle, timeout, mss: 1448 }
    }

    /// A transfer with rounds of so many segments; returns when the next one could begin.
    fn transfer(
        detector: &mut SlowStartDetector,
        at: Nanos,
        idle: Option<Nanos>,
        rounds: &[u64],
    ) -> Nanos {
        detector.begin(start(at, idle));
        for (number, segments) in rounds.iter().enumerate() {
            for segment in 0..*segments {
                let round = at + ROUND_TRIP * number as Nanos;
                detector.data(sent(1448, round + segment as Nanos * 1_000), NO_ACKNOWLEDGEMENTS);
            }
        }
        detector.end();
        at + ROUND_TRIP * rounds.len() as Nanos
    }

    #[test]
    fn a_restart_after_an_idle_time_has_its_cost() {
        let mut detector = SlowStartDetector::default();
        let rounds = [10, 20, 40, 80, 160, 320, 300];
        let at = transfer(&mut detector, 0, None, &rounds);
        assert_eq!((detector.found.first_flight, detector.found.first_rounds), (14_480, 7));
        assert_eq!(detector.found.restarts, 0);
        let idle = 900_000_000;
        transfer(&mut detector, at + idle, Some(idle), &rounds);
        let worst = detector.found.worst;
        assert_eq!((detector.found.restarts, worst.flight, worst.before), (1, 14_480, 463_360));
        // Seven rounds, where one would do: nothing else limited the first transfer.
        assert_eq!((worst.cost, worst.packet), (6 * ROUND_TRIP, 7));
    }

    #[test]
    fn no_restart_without_idle_time_or_growth_or_with_as_much_as_before() {
        let mut detector = SlowStartDetector::default();
        let rounds = [10, 20, 40, 80, 160];
        transfer(&mut detector, 0, None, &rounds);
        transfer(&mut detector, 1_000_000_000, Some(100_000_000), &rounds);
        transfer(&mut detector, 3_000_000_000, Some(900_000_000), &[10]);
        transfer(&mut detector, 5_000_000_000, Some(900_000_000), &[10, 10, 10, 10]);
        transfer(&mut detector, 7_000_000_000, Some(900_000_000), &[160, 160]);
        assert_eq!(detector.found.restarts, 0);
        // A pause of the application in the middle.
        detector.begin(start(9_000_000_000, Some(900_000_000)));
        for (number, segments) in [10, 20, 40, 80].into_iter().enumerate() {
            let data = sent(segments * 1448, 9_000_000_000 + 60_000_000 * number as Nanos);
            detector.data(TransferData { paused: number > 0, ..data }, NO_ACKNOWLEDGEMENTS);
        }
        detector.end();
        assert_eq!(detector.found.restarts, 0);
    }

    #[test]
    fn near_the_sender_acknowledgements_end_rounds_however_late_they_are() {
        let mut detector = SlowStartDetector::default();
        detector.begin(start(0, None));
        let (mut next, mut at) = (1, 0);
        for segments in [10, 20, 40, 80] {
            let all = next;
            for segment in 0..segments {
                let end = Sequence(next + 1448);
                let data = TransferData { end, ..sent(1448, at + segment * 1_000) };
                detector.data(data, Some(|mark: Sequence| mark.0 < all + 1448));
                next += 1448;
            }
            at += 5 * ROUND_TRIP;
        }
        detector.end();
        assert_eq!((detector.found.first_rounds, detector.found.first_segments), (4, 10));
    }

    #[test]
    fn a_small_first_flight_has_its_cost() {
        let mut detector = SlowStartDetector::default();
        transfer(&mut detector, 0, None, &[3, 6, 12, 8]);
        // Ten and nineteen.
        assert_eq!((detector.found.first_flight, detector.found.first_saved), (4344, 2));
        let mut detector = SlowStartDetector::default();
        transfer(&mut detector, 0, None, &[10, 20, 8]);
        assert_eq!(detector.found.first_saved, 0);
    }

    #[test]
    fn a_first_flight_in_which_or_before_which_data_was_lost_shows_no_initial_window() {
        for (lost_before_round, segments) in [(0, 0), (1, 0), (2, 3)] {
            let mut detector = SlowStartDetector::default();
            detector.begin(start(0, None));
            for (number, segments) in [3, 6, 12, 8].into_iter().enumerate() {
                let data = sent(segments * 1448, ROUND_TRIP * number as Nanos);
                let is_after_loss = number >= lost_before_round;
                detector.data(TransferData { is_after_loss, ..data }, NO_ACKNOWLEDGEMENTS);
            }
            detector.end();
            let found = detector.found;
            assert_eq!((found.transfers, found.first_segments, found.restarts), (1, segments, 0));
            assert_eq!((found.first_rounds, found.first_saved > 0), (4, segments > 0));
        }
    }

    #[test]
    fn an_initial_window_of_ten_segments_saves_some_rounds() {
        let saved = |rounds: &[u64]| {
            let mut detector = SlowStartDetector::default();
            transfer(&mut detector, 0, None, rounds);
            detector.found.first_saved
        };
        // 40 segments: ten, twenty and ten. Six: one flight. By half: ten, fifteen and fifteen.
        assert_eq!(saved(&[3, 6, 12, 19]), 1);
        assert_eq!(saved(&[2, 4]), 1);
        assert_eq!(saved(&[4, 6, 9, 14, 7]), 2);
        assert_eq!(saved(&[9, 18, 13]), 0, "as many with ten");
        assert!(rounds_saved(0, u64::MAX, u32::MAX) > 0, "it ends");
    }

    #[test]
    fn small_messages_are_held_back_by_no_window() {
        for (bytes, found) in [(120, 0), (700, 0), (800, 4), (1_448, 4)] {
            let mut detector = SlowStartDetector::default();
            detector.begin(start(0, None));
            for (number, segments) in [4, 8, 16, 8].into_iter().enumerate() {
                for _ in 0..segments {
                    let data = sent(bytes, ROUND_TRIP * number as Nanos);
                    detector.data(data, NO_ACKNOWLEDGEMENTS);
                }
            }
            detector.end();
            assert_eq!(detector.found.first_segments, found, "{bytes}");
        }
    }

    #[test]
    fn the_acknowledgement_of_a_header_ends_the_first_round() {
        // A small segment with the header, which is acknowledged alone, and two full ones; then two for
        // each acknowledgement.
        for (header_end, segments) in [(Some(Sequence(238)), 3), (None, 5)] {
            let mut detector = SlowStartDetector::default();
            detector.begin(start(0, None));
            let mut send = |number: u64, acknowledged: u64| {
                let end = Sequence(238 + number * 1448);
                let bytes = if number == 1 { 237 + 1448 } else { 1448 };
                let at = number as Nanos * 1_000 + acknowledged as Nanos * 5 * ROUND_TRIP;
                let data = TransferData { end, header_end, ..sent(bytes, at) };
                detector.data(data, Some(|mark: Sequence| mark.0 <= acknowledged));
            };
            [1, 2].into_iter().for_each(|number| send(number, 1));
            [3, 4].into_iter().for_each(|number| send(number, 238));
            [5, 6].into_iter().for_each(|number| send(number, 1_686));
            [7, 8].into_iter().for_each(|number| send(number, 3_134));
            (9..12).for_each(|number| send(number, 4_582));
            detector.end();
            assert_eq!(detector.found.first_segments, segments, "{header_end:?}");
        }
    }
}
