//! What «round trips and transmission» of an end consists of: its category says only that neither end, nor
//! a window of the receiver, held the data back.
//!
//! Counted while packets pass are the time in which an end went on sending, and of long transfers the
//! part of it after a loss, until as much is sent in a round trip as before. The rest is known when the
//! stream is over: growing flights (slow start), and the time that its bytes take at the rate of the path.

use model::NetworkPart;

use crate::even_pace::PaceDetector;
use crate::flight_plateau::{PlateauDetector, SentData};
use crate::flight_rate::FlightRate;
use crate::sequence::Sequence;
use crate::throughput::Throughput;
use crate::time::Nanos;

/// How fast a transfer goes.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    /// Of bulk transfers.
    pub(crate) throughput: Option<Throughput>,
    pub(crate) flight_rate: FlightRate,
    pub(crate) plateau: PlateauDetector,
    pub(crate) pace: PaceDetector,
    pub(crate) after_loss: AfterLoss,
}

impl Transfer {
    pub(crate) fn new(acknowledged: Sequence, at: Nanos) -> Self {
        Transfer {
            throughput: None,
            flight_rate: FlightRate::new(acknowledged, at),
            plateau: PlateauDetector::default(),
            pace: PaceDetector::default(),
            after_loss: AfterLoss::default(),
        }
    }

    /// New data passes near its sender, over a path that has lost nothing.
    pub(crate) fn sent(&mut self, data: &SentData) {
        self.pace.data(data, self.plateau.acknowledged_at());
        self.plateau.data(data);
    }

    /// The peer has acknowledged everything before `until`.
    #[inline]
    pub(crate) fn acknowledged(&mut self, until: Sequence, at: Nanos) {
        self.flight_rate.acknowledged(until, at);
        self.plateau.acknowledged(until, at);
        if let Some(throughput) = &mut self.throughput {
            throughput.acknowledged(until, at);
        }
    }

    /// The peer has acknowledged everything before `until`; the last of it is no part of the transfer.
    #[inline]
    pub(crate) fn pass_over(&mut self, until: Sequence, at: Nanos) {
        self.flight_rate.pass_over(until, at);
        self.plateau.acknowledged(until, at);
        if let Some(throughput) = &mut self.throughput {
            throughput.pass_over(until);
        }
    }
}

/// The time in which less is sent in a round trip than before a loss.
#[derive(Debug, Clone, Default)]
pub(crate) struct AfterLoss {
    /// Bytes of the current round trip, and of the one before; when it began.
    bytes: u64,
    bytes_before: u64,
    began: Nanos,
    /// What was sent in a round trip before the loss; 0: nothing was lost, or as much passes as before.
    wanted: u64,
    /// The time.
    time: Nanos,
}

impl AfterLoss {
    /// New data passes, over a path with this round trip.
    #[inline]
    pub(crate) fn data(&mut self, bytes: u64, at: Nanos, round_trip: Nanos) {
        if at.saturating_sub(self.began) >= round_trip {
            (self.bytes_before, self.bytes, self.began) = (self.bytes, 0, at);
            if self.bytes_before >= self.wanted {
                self.wanted = 0;
            }
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Data was lost while so many bytes were in flight, as seen at the capture point: near the
    /// receiver, fewer than were sent in a round trip.
    #[cold]
    pub(crate) fn lost(&mut self, in_flight: u64, at: Nanos) {
        self.wanted = self.wanted.max(self.bytes_before).max(self.bytes).max(in_flight);
        (self.bytes, self.bytes_before, self.began) = (0, 0, at);
    }

    /// The end waited so long before it went on sending.
    #[inline]
    pub(crate) fn waited(&mut self, time: Nanos) {
        if self.wanted > 0 {
            self.time = self.time.saturating_add(time);
        }
    }

    /// The time in which less was sent than before a loss.
    pub(crate) fn time(&self) -> Nanos {
        self.time
    }
}

/// Nanoseconds of each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkTimes([Nanos; NetworkPart::ALL.len()]);

/// What is known of the time that an end spent with round trips and transmission.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NetworkFacts {
    /// All of it.
    pub(crate) total: Nanos,
    /// The part in which it went on sending.
    pub(crate) sending: Nanos,
    /// Round trips in which its flights grew.
    pub(crate) slow_start: Nanos,
    pub(crate) after_loss: Nanos,
    /// Pauses of the sender that no acknowledgement ended.
    pub(crate) pacing: Nanos,
    /// Pauses between flights that did not grow.
    pub(crate) send_buffer: Nanos,
    /// What its bytes take at the rate of the path; `None`: the rate is not known.
    pub(crate) transmission: Option<Nanos>,
}

impl NetworkTimes {
    /// Splits the time: the parts add up to it.
    pub(crate) fn of(facts: &NetworkFacts) -> Self {
        let mut times = NetworkTimes::default();
        let sending = facts.sending.clamp(0, facts.total.max(0));
        times.add(NetworkPart::PathRoundTrips, facts.total.saturating_sub(sending).max(0));
        let mut rest = sending;
        // A link that is always busy needs no larger window.
        for (part, time) in [
            (NetworkPart::Transmission, facts.transmission.unwrap_or(0)),
            (NetworkPart::AfterLoss, facts.after_loss),
            (NetworkPart::SlowStart, facts.slow_start),
            (NetworkPart::Pacing, facts.pacing),
            (NetworkPart::SendBuffer, facts.send_buffer),
        ] {
            let time = time.clamp(0, rest);
            times.add(part, time);
            rest -= time;
        }
        times.add(NetworkPart::Unexplained, rest);
        times
    }

    fn add(&mut self, part: NetworkPart, time: Nanos) {
        if let Some(sum) = self.0.get_mut(part as usize) {
            *sum = sum.saturating_add(time);
        }
    }

    /// Adds those of another one.
    pub(crate) fn add_all(&mut self, other: &NetworkTimes) {
        for (part, time) in other.iter() {
            self.add(part, time);
        }
    }

    /// The parts with their times.
    pub fn iter(&self) -> impl Iterator<Item = (NetworkPart, Nanos)> + '_ {
        NetworkPart::ALL.into_iter().zip(self.0.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn times(facts: NetworkFacts) -> [Nanos; 7] {
        let times = NetworkTimes::of(&facts).0;
        assert_eq!(times.iter().sum::<Nanos>(), facts.total.max(0), "{facts:?}");
        times.map(|time| time / MS)
    }

    #[test]
    fn the_parts_add_up_and_none_is_longer_than_the_sending() {
        let facts = NetworkFacts {
            total: 100 * MS,
            sending: 80 * MS,
            slow_start: 30 * MS,
            after_loss: 10 * MS,
            pacing: 3 * MS,
            send_buffer: 5 * MS,
            transmission: Some(15 * MS),
        };
        assert_eq!(times(facts), [20, 30, 10, 15, 3, 5, 17]);
        assert_eq!(
            times(NetworkFacts { slow_start: 500 * MS, ..facts }),
            [20, 55, 10, 15, 0, 0, 0]
        );
        assert_eq!(times(NetworkFacts { sending: 500 * MS, ..facts }), [0, 30, 10, 15, 3, 5, 37]);
        assert_eq!(times(NetworkFacts { transmission: None, ..facts }), [20, 30, 10, 0, 3, 5, 32]);
        assert_eq!(times(NetworkFacts { total: -1, ..facts }), [0; 7]);
    }

    #[test]
    fn after_a_loss_less_is_sent_until_a_round_trip_has_as_much_again() {
        let mut after = AfterLoss::default();
        let send = |after: &mut AfterLoss, round: i64, bytes: u64| {
            after.data(bytes, round * 10 * MS, 10 * MS);
            after.waited(10 * MS);
        };
        (0..4).for_each(|round| send(&mut after, round, 100_000));
        assert_eq!(after.time(), 0);
        after.lost(0, 30 * MS);
        for (round, bytes) in [(4, 50_000), (5, 70_000), (6, 90_000), (7, 100_000), (8, 100_000)] {
            send(&mut after, round, bytes);
        }
        // The round trip that has as much again is over when the next one begins.
        assert_eq!(after.time(), 4 * 10 * MS);
    }
}
