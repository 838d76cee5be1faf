//! Slow start, seen from anywhere on the path: what one end sends in each round trip of a transfer,
//! and whether that doubles.
//!
//! A round is over when its first data is acknowledged, which is seen near the sender; elsewhere, when
//! most of a round trip has passed since it began.
//! In slow start rounds follow each other without a pause, and each has half as much again or twice
//! what the one before had (RFC 5681; a receiver that acknowledges every second segment makes it
//! 1.5). An application that writes little at first does not keep to round trips.

use crate::Nanos;
use crate::sequence::Sequence;

/// Paths that are shorter than this lose nothing by slow start; a round trip of a minute is none.
pub(crate) const FAR: std::ops::RangeInclusive<Nanos> = 3_000_000..=60_000_000_000;
/// A round is over after so many quarters of a round trip.
const ROUND: Nanos = 3;
/// Each round has so many tenths of the one before: slow start never does more than double, but
/// rounds are not cut sharply.
const GROWS: std::ops::RangeInclusive<u64> = 13..=25;
/// Growth that is no accident, in steps from round to round.
const STEPS: u32 = 2;
/// What may have been sent before the first transfer, in segments.
const GREETING: u64 = 3;
/// The first flight of Linux, in segments (RFC 6928), and with a little room.
const USUAL: u64 = 10;
const INITIAL: u64 = 12;

/// Transfers of one direction that began slowly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Starts {
    /// Transfers whose growth was seen.
    pub transfers: u32,
    /// The first flight of a stream, bytes; 0: none was seen.
    pub first_flight: u64,
    /// The same in segments.
    pub first_segments: u32,
    /// Round trips that its first transfer took.
    pub first_rounds: u32,
    /// Bytes of that transfer.
    pub first_bytes: u64,
    /// Round trips of it that an initial window of ten segments would have saved.
    pub first_saved: u32,
    /// Transfers that began with few bytes after a pause, though more had been out before.
    pub restarts: u32,
    /// Time that those cost, nanoseconds.
    pub restart_time: Nanos,
    /// The one that cost most: its cost, the pause before it, its first flight, the most that had
    /// been out in a round trip before, and the number of its first packet.
    pub worst: Restart,
}

/// A transfer that began with few bytes after a pause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restart {
    /// Time that it cost, nanoseconds.
    pub cost: Nanos,
    /// The pause before it, nanoseconds.
    pub idle: Nanos,
    /// Bytes of its first round.
    pub flight: u64,
    /// Most bytes of a round before the pause.
    pub before: u64,
    /// Number of its first packet in the capture.
    pub packet: u64,
}

/// How a transfer begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) at: Nanos,
    pub(crate) packet: u64,
    /// Round trip of the whole path.
    pub(crate) trip: Nanos,
    /// Since its end last sent data; `None`: never.
    pub(crate) idle: Option<Nanos>,
    /// After so long a pause the congestion window is given up.
    pub(crate) timeout: Nanos,
    /// Bytes of a segment.
    pub(crate) segment: u32,
}

/// New data of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Data {
    pub(crate) bytes: u64,
    pub(crate) at: Nanos,
    /// Its end.
    pub(crate) end: Sequence,
    /// Whether its sender had nothing on its way, and waited nevertheless.
    pub(crate) paused: bool,
}

/// What was sent in a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    bytes: u64,
    /// A congestion window counts segments, small ones too.
    segments: u64,
}

/// The transfer of one direction that goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growth {
    begin: Option<Begin>,
    /// When this round began, and the end of its first data.
    round: Nanos,
    mark: Sequence,
    rounds: u32,
    steps: u32,
    grown: bool,
    /// Of the first round, the one before, this one.
    first: Round,
    last: Round,
    now: Round,
    /// All bytes.
    bytes: u64,
    /// Most bytes of a round, in this transfer and in those before.
    peak: u64,
    best: u64,
    /// Bytes of the transfers before.
    before: u64,
    pub(crate) starts: Starts,
}

impl Growth {
    /// A transfer begins; the one before is over.
    pub(crate) fn begin(&mut self, begin: Begin) {
        self.end();
        *self = Growth {
            begin: Some(begin),
            round: begin.at,
            best: self.best,
            before: self.before.saturating_add(self.bytes),
            starts: self.starts,
            ..Growth::default()
        };
    }

    /// New data of it. `acknowledged` tells whether what was sent up to a place has been acknowledged,
    /// near the sender.
    #[inline]
    pub(crate) fn data(&mut self, data: Data, acknowledged: Option<impl Fn(Sequence) -> bool>) {
        let Data { bytes, at, end, paused } = data;
        let Some(begin) = self.begin else { return };
        let over = match (acknowledged, self.mark.known()) {
            (_, None) => {
                self.mark = end;
                false
            }
            (Some(acknowledged), Some(mark)) => acknowledged(mark),
            (None, Some(_)) => at.saturating_sub(self.round) >= begin.trip / 4 * ROUND,
        };
        if over {
            self.round_over();
            self.grown |= paused;
            (self.round, self.mark) = (at, end);
        }
        self.now.bytes = self.now.bytes.saturating_add(bytes);
        let segments = bytes.div_ceil(u64::from(begin.segment.max(1)));
        self.now.segments = self.now.segments.saturating_add(segments);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Something else than slow start rules from here on: a loss, a full window.
    #[inline]
    pub(crate) fn ruled(&mut self) {
        self.grown = true;
    }

    fn round_over(&mut self) {
        self.peak = self.peak.max(self.now.bytes);
        if self.rounds == 0 {
            self.first = self.now;
        } else if !self.grown {
            let tenths = self.now.segments.saturating_mul(10) / self.last.segments.max(1);
            if GROWS.contains(&tenths) {
                self.steps += 1;
            } else {
                self.grown = true;
            }
        }
        self.rounds = self.rounds.saturating_add(1);
        (self.last, self.now) = (self.now, Round::default());
    }

    /// The transfer is over.
    pub(crate) fn end(&mut self) {
        let Some(begin) = self.begin.take() else { return };
        // The last round has what was left.
        let grown = self.grown;
        let steps = self.steps;
        self.round_over();
        (self.grown, self.steps) = (grown, steps.max(self.steps));
        if self.steps >= 1 {
            self.judge(&begin);
        }
        self.best = self.best.max(self.peak);
    }

    fn judge(&mut self, begin: &Begin) {
        let segment = u64::from(begin.segment.max(1));
        let starts = &mut self.starts;
        starts.transfers = starts.transfers.saturating_add(1);
        // The window has not grown yet, but for a greeting.
        if self.before <= GREETING * segment && starts.first_flight == 0 {
            starts.first_flight = self.first.bytes;
            starts.first_segments = u32::try_from(self.first.segments).unwrap_or(u32::MAX);
            starts.first_rounds = self.rounds;
            starts.first_bytes = self.bytes;
            // As many rounds less as it takes to double up to ten segments.
            let doubled = (USUAL / self.first.segments.max(1)).max(1).ilog2();
            starts.first_saved = doubled.min(self.steps).min(self.rounds.saturating_sub(1));
            return;
        }
        let idle = begin.idle.unwrap_or(0);
        let timeouts = (idle / begin.timeout.max(1)).clamp(0, 63) as u32;
        // The next round would have had the double, or, while nothing was lost, all that was ever
        // acknowledged; Linux halves that with each timeout.
        let window = self.best.saturating_mul(2).max(self.before).saturating_mul(5) / 4;
        let few = (INITIAL * segment).max(window >> timeouts);
        if timeouts == 0
            || self.steps < STEPS
            || self.first.bytes > few
            || self.first.bytes.saturating_mul(2) > self.best
        {
            return;
        }
        let needed = self.bytes.div_ceil(self.best.max(1)).max(1);
        let lost = u64::from(self.rounds).saturating_sub(needed).min(u64::from(self.steps) + 1);
        if lost == 0 {
            return;
        }
        let cost = begin.trip.saturating_mul(lost.cast_signed());
        starts.restarts = starts.restarts.saturating_add(1);
        starts.restart_time = starts.restart_time.saturating_add(cost);
        if cost > starts.worst.cost {
            let (flight, before) = (self.first.bytes, self.best);
            starts.worst = Restart { cost, idle, flight, before, packet: begin.packet };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Nanos = 20_000_000;

    /// Acknowledgements tell nothing.
    const FAR_AWAY: Option<fn(Sequence) -> bool> = None;

    fn sent(bytes: u64, at: Nanos) -> Data {
        Data { bytes, at, end: Sequence(7), paused: false }
    }

    fn begin(at: Nanos, idle: Option<Nanos>) -> Begin {
        Begin { at, packet: 7, trip: TRIP, idle, timeout: 220_000_000, segment: 1448 }
    }

    /// A transfer of rounds of so many segments; when the next could begin.
    fn transfer(growth: &mut Growth, at: Nanos, idle: Option<Nanos>, rounds: &[u64]) -> Nanos {
        growth.begin(begin(at, idle));
        for (number, segments) in rounds.iter().enumerate() {
            for segment in 0..*segments {
                let round = at + TRIP * number as Nanos;
                growth.data(sent(1448, round + segment as Nanos * 1_000), FAR_AWAY);
            }
        }
        growth.end();
        at + TRIP * rounds.len() as Nanos
    }

    #[test]
    fn a_restart_after_a_pause_is_told_with_its_cost() {
        let mut growth = Growth::default();
        let rounds = [10, 20, 40, 80, 160, 320, 300];
        let at = transfer(&mut growth, 0, None, &rounds);
        assert_eq!((growth.starts.first_flight, growth.starts.first_rounds), (14_480, 7));
        assert_eq!(growth.starts.restarts, 0);
        let pause = 900_000_000;
        transfer(&mut growth, at + pause, Some(pause), &rounds);
        let worst = growth.starts.worst;
        assert_eq!((growth.starts.restarts, worst.flight, worst.before), (1, 14_480, 463_360));
        // Seven rounds, where three would do.
        assert_eq!((worst.cost, worst.packet), (4 * TRIP, 7));
    }

    #[test]
    fn no_restart_without_a_pause_or_growth_or_with_as_much_as_before() {
        let mut growth = Growth::default();
        let rounds = [10, 20, 40, 80, 160];
        transfer(&mut growth, 0, None, &rounds);
        transfer(&mut growth, 1_000_000_000, Some(100_000_000), &rounds);
        transfer(&mut growth, 3_000_000_000, Some(900_000_000), &[10]);
        transfer(&mut growth, 5_000_000_000, Some(900_000_000), &[10, 10, 10, 10]);
        transfer(&mut growth, 7_000_000_000, Some(900_000_000), &[160, 160]);
        assert_eq!(growth.starts.restarts, 0);
        // A pause of the application in the middle.
        growth.begin(begin(9_000_000_000, Some(900_000_000)));
        for (number, segments) in [10, 20, 40, 80].into_iter().enumerate() {
            let data = sent(segments * 1448, 9_000_000_000 + 60_000_000 * number as Nanos);
            growth.data(Data { paused: number > 0, ..data }, FAR_AWAY);
        }
        growth.end();
        assert_eq!(growth.starts.restarts, 0);
    }

    #[test]
    fn near_the_sender_acknowledgements_tell_rounds_however_late_they_are() {
        let mut growth = Growth::default();
        growth.begin(begin(0, None));
        let (mut next, mut at) = (1, 0);
        for segments in [10, 20, 40, 80] {
            let all = next;
            for segment in 0..segments {
                let end = Sequence(next + 1448);
                let data = Data { end, ..sent(1448, at + segment * 1_000) };
                growth.data(data, Some(|mark: Sequence| mark.0 < all + 1448));
                next += 1448;
            }
            at += 5 * TRIP;
        }
        growth.end();
        assert_eq!((growth.starts.first_rounds, growth.starts.first_segments), (4, 10));
    }

    #[test]
    fn a_small_first_flight_is_told_with_what_it_costs() {
        let mut growth = Growth::default();
        transfer(&mut growth, 0, None, &[3, 6, 12, 8]);
        assert_eq!((growth.starts.first_flight, growth.starts.first_saved), (4344, 1));
        let mut growth = Growth::default();
        transfer(&mut growth, 0, None, &[10, 20, 8]);
        assert_eq!(growth.starts.first_saved, 0);
    }
}
