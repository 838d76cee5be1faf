//! Flights that do not grow: for many round trips a sender sends no more than before, waits until it is
//! acknowledged, and goes on at once; the window of its peer and the path would take more.
//!
//! While nothing is lost, a congestion window that is full grows by half a segment or more in each round
//! trip (RFC 5681, 3.1; RFC 9438, 4.3), a sender that paces leaves no pause, and one that has nothing to
//! send does not go on with an acknowledgement. What is left is a full send buffer, or an application that
//! keeps only so much in flight. It is seen near the sender, where each acknowledgement is captured before
//! what follows it.

use crate::round_trip::MIN_TIMEOUT;
use crate::sequence::Sequence;
use crate::time::Nanos;

/// Round trips that show it.
const MIN_ROUNDS: u32 = 8;
/// One round trip in so many may be unlike them: a process is late at times.
const ODD_ROUNDS: u32 = 8;
/// Growth of the slowest congestion window in a round trip, segments (RFC 9438, 4.3).
const GROWTH: f64 = 0.53;
/// It is not taken to grow by more: one that is not full does not grow.
const MAX_GROWN: f64 = 16.0;
/// A flight may be so many segments smaller than the congestion window, and one more for each segment that
/// is not full: the window counts segments, offload sends several at once.
const SLACK: f64 = 4.0;
/// Smallest flight, segments.
const MIN_SEGMENTS: f64 = 4.0;
/// The sender pauses for so long a part of each round trip.
const MIN_PAUSE_PART: Nanos = 4;
/// A sender that waits for an acknowledgement goes on so soon: its process is woken and writes. Timers that
/// are nearly as long as the round trip fire after an acknowledgement too, but seldom so soon.
const MAX_REACTION: Nanos = 250_000;
/// A pause that ends so long after an acknowledgement, or after an eighth of a short round trip, was the
/// sender's own.
const MIN_OWN_PAUSE: Nanos = 1_000_000;
const SHORT_PART: Nanos = 8;
/// Departures are even that are no further apart than others by such a part.
const EVEN_PART: Nanos = 10;
/// The shortest round trip on which it matters.
const MIN_ROUND_TRIP: Nanos = 1_000_000;

/// A sender whose flights do not grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlightPlateau {
    /// Bytes in flight: the mean of the largest flight of each round trip.
    pub flight: u64,
    /// Round trips.
    pub rounds: u32,
    /// How long they took, and how long the sender waited meanwhile.
    pub time: Nanos,
    /// See `time`.
    pub waited: Nanos,
}

/// New data as it passes near its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentData {
    pub(crate) at: Nanos,
    /// Its end, and its bytes.
    pub(crate) end: Sequence,
    pub(crate) bytes: u64,
    /// Bytes of a segment, and of the peer's window.
    pub(crate) mss: u32,
    pub(crate) window: u32,
    /// Shortest round trip of the path, and its part between the capture point and the sender.
    pub(crate) round_trip: Nanos,
    pub(crate) loop_time: Nanos,
    /// When everything before it was acknowledged, if that was before it.
    pub(crate) drained_at: Option<Nanos>,
    /// When the peer last sent data.
    pub(crate) peer_data_at: Option<Nanos>,
}

/// The current round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    began: Nanos,
    /// End of its first data: it is over when that is acknowledged; unknown before the first.
    mark: Sequence,
    /// Most bytes in flight.
    flight: u64,
    /// Segments that were not full.
    small: u32,
    /// Longest time without data.
    longest_pause: Nanos,
    /// Times from one departure after a pause to the next: how many, the shortest and the longest.
    gaps: u32,
    shortest_gap: Nanos,
    longest_gap: Nanos,
    /// Whether it is unlike others: data came that no acknowledgement had released, or the peer sent some.
    is_odd: bool,
}

/// Watches the flights of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlateauDetector {
    /// What was acknowledged last, and when.
    acknowledged: Sequence,
    acknowledged_at: Nanos,
    /// When new data passed last, and when after a pause.
    last: Nanos,
    departed_at: Nanos,
    round: Round,
    /// The congestion window has at least so many segments, if it was what limited all flights: those of
    /// the largest, and what it has grown by since.
    largest: f64,
    grown: f64,
    /// Round trips with less in flight; sum of their flights, bytes.
    found: FlightPlateau,
    flights: u64,
    /// Round trips that are unlike others.
    odd: u32,
    /// How long those took that came last.
    odd_time: Nanos,
    /// Pauses that no acknowledgement ended.
    paced: Nanos,
}

impl PlateauDetector {
    /// The peer has acknowledged everything before `until`.
    #[inline]
    pub(crate) fn acknowledged(&mut self, until: Sequence, at: Nanos) {
        if until > self.acknowledged {
            (self.acknowledged, self.acknowledged_at) = (until, at);
        }
    }

    /// New data passes, over a path that has lost nothing.
    pub(crate) fn data(&mut self, data: &SentData) {
        if data.round_trip < MIN_ROUND_TRIP {
            return;
        }
        let pause = data.at.saturating_sub(self.last);
        self.last = data.at;
        let round = &mut self.round;
        if round.mark.known().is_some() {
            let short = data.round_trip / SHORT_PART;
            let since = data.at.saturating_sub(self.acknowledged_at);
            round.longest_pause = round.longest_pause.max(pause);
            if pause > short {
                let gap = data.at.saturating_sub(std::mem::replace(&mut self.departed_at, data.at));
                round.shortest_gap = if round.gaps > 0 { round.shortest_gap.min(gap) } else { gap };
                round.longest_gap = round.longest_gap.max(gap);
                round.gaps = round.gaps.saturating_add(1);
            }
            if pause.min(since) > MIN_OWN_PAUSE.min(short) {
                // From then on it had nothing to send.
                let drained = data.drained_at.map_or(0, |at| data.at.saturating_sub(at));
                self.paced = self.paced.saturating_add(pause.saturating_sub(drained).max(0));
            }
            // Within a flight, a sender may pace.
            round.is_odd |= (pause > short && since > MAX_REACTION)
                || data.peer_data_at.is_some_and(|at| at >= round.began);
            if self.acknowledged >= round.mark {
                self.end_round(data);
            }
        }
        let round = &mut self.round;
        if round.mark.known().is_none() {
            *round = Round { began: data.at, mark: data.end, ..Round::default() };
        }
        round.flight = round.flight.max(data.end.since(self.acknowledged));
        round.small = round
            .small
            .saturating_add((!data.bytes.is_multiple_of(u64::from(data.mss.max(1)))).into());
    }

    fn end_round(&mut self, data: &SentData) {
        let round = std::mem::take(&mut self.round);
        let time = data.at.saturating_sub(round.began);
        // A queue makes it longer, or a pause, after which a congestion window is smaller (RFC 2861).
        if time > data.round_trip.saturating_add(data.round_trip / 2) {
            (self.largest, self.grown) = (0.0, 0.0);
            return;
        }
        let waited = round.longest_pause.min(time);
        // Two or more departures at the same distance: a timer, not acknowledgements, which may come just
        // before it each time.
        let is_paced = round.gaps > 1
            && round.longest_gap.saturating_sub(round.shortest_gap)
                <= round.longest_gap / EVEN_PART;
        if round.is_odd || is_paced || waited < data.round_trip / MIN_PAUSE_PART {
            self.odd = self.odd.saturating_add(1);
            self.odd_time = self.odd_time.saturating_add(time);
            if self.odd_time >= MIN_TIMEOUT {
                (self.largest, self.grown) = (0.0, 0.0);
            }
            return;
        }
        self.odd_time = 0;
        let segments = round.flight as f64 / f64::from(data.mss.max(1));
        self.grown = (self.grown + GROWTH).min(MAX_GROWN);
        if segments >= self.largest + self.grown {
            (self.largest, self.grown) = (segments, 0.0);
        }
        let fills_window = round.flight.saturating_mul(2) > data.window.into();
        let is_smaller = segments + SLACK + f64::from(round.small) < self.largest + self.grown;
        if is_smaller && segments >= MIN_SEGMENTS && !fills_window {
            self.found.rounds = self.found.rounds.saturating_add(1);
            self.found.time = self.found.time.saturating_add(time);
            self.found.waited = self.found.waited.saturating_add(waited);
            self.flights = self.flights.saturating_add(round.flight);
        }
    }

    /// When the peer last acknowledged something.
    pub(crate) fn acknowledged_at(&self) -> Nanos {
        self.acknowledged_at
    }

    /// How long the sender paused and went on by itself, with something in flight.
    pub(crate) fn paced(&self) -> Nanos {
        self.paced
    }

    /// What was found.
    pub(crate) fn found(&self) -> Option<FlightPlateau> {
        let rounds = self.found.rounds;
        let few_odd = self.odd.saturating_mul(ODD_ROUNDS) <= rounds.saturating_add(self.odd);
        let flight = self.flights / u64::from(rounds.max(1));
        (rounds >= MIN_ROUNDS && few_odd).then_some(FlightPlateau { flight, ..self.found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const MSS: u32 = 1448;
    const ROUND_TRIP: Nanos = 50 * MS;
    /// From an acknowledgement to the data that it releases.
    const AT_ONCE: Nanos = 20_000;

    /// A path of 50 ms, and a window of 10 MB.
    struct Sender {
        detector: PlateauDetector,
        at: Nanos,
        sent: Sequence,
        window: u32,
        peer_data_at: Option<Nanos>,
    }

    impl Sender {
        fn new() -> Self {
            let (detector, at) = (PlateauDetector::default(), 1_000 * MS);
            let sent = Sequence(1 << 32);
            Sender { detector, at, sent, window: 10_000_000, peer_data_at: None }
        }

        /// One flight: everything before it is acknowledged, it follows so much later, and its segments
        /// so long after each other.
        fn flight(&mut self, segments: u32, after: Nanos, spacing: Nanos) {
            let (sent_at, acknowledged) = (self.at, self.sent);
            for number in 0..segments {
                if number == 0 {
                    self.detector.acknowledged(acknowledged, sent_at);
                }
                self.send(sent_at + after + spacing * Nanos::from(number));
            }
            self.at += ROUND_TRIP + after;
        }

        /// One segment.
        fn send(&mut self, at: Nanos) {
            self.sent = self.sent.plus(MSS);
            self.detector.data(&SentData {
                at,
                end: self.sent,
                bytes: MSS.into(),
                mss: MSS,
                window: self.window,
                round_trip: ROUND_TRIP,
                loop_time: 10_000,
                drained_at: None,
                peer_data_at: self.peer_data_at,
            });
        }

        fn found(&self) -> Option<FlightPlateau> {
            self.detector.found()
        }
    }

    /// Flights of these numbers of segments.
    fn found(flights: impl IntoIterator<Item = u32>) -> Option<FlightPlateau> {
        let mut sender = Sender::new();
        flights.into_iter().for_each(|segments| sender.flight(segments, AT_ONCE, 10_000));
        sender.found()
    }

    #[test]
    fn flights_that_stay_as_large_are_a_plateau() {
        let slow_start = [10, 20, 40];
        let found = found(slow_start.into_iter().chain([45; 30])).expect("a plateau");
        // In eight round trips a congestion window would have grown by more than four segments.
        assert_eq!((found.rounds, found.flight), (29 - 8, 45 * 1448));
        assert_eq!(found.time / MS, 21 * 50);
        assert!(found.waited > found.time * 9 / 10, "{found:?}");
    }

    #[test]
    fn flights_that_are_smaller_than_before_are_one_too() {
        let found = found([150].into_iter().chain((0..20).map(|round| 100 + (round * 7) % 11)));
        assert_eq!(found.map(|found| found.rounds), Some(19));
    }

    #[test]
    fn the_slowest_growth_of_a_congestion_window_is_none() {
        assert_eq!(found((0..400).map(|round| 45 + round * 53 / 100)), None);
        assert_eq!(found((0..400).map(|round| 45 + round)), None);
        // With segments that acknowledgements release sooner or later.
        assert_eq!(found((0..400).map(|round| 45 + round * 53 / 100 + (round * 7) % 4)), None);
    }

    #[test]
    fn a_window_that_limits_again_grows_from_where_it_was() {
        let level = found([45; 100]).map(|found| found.rounds);
        let growing = (0..200).map(|round| 45 + 16 + round);
        let then = found([45; 100].into_iter().chain(growing)).map(|found| found.rounds);
        assert_eq!((level, then), (Some(99 - 8), Some(100 - 8)));
    }

    #[test]
    fn few_round_trips_and_small_flights_are_not_enough() {
        assert_eq!(found([45; 8 + 8]), None, "the last one is not over");
        assert!(found([45; 8 + 9]).is_some());
        assert_eq!(found([3; 40]), None);
    }

    #[test]
    fn a_congestion_window_is_small_again_after_a_pause() {
        let mut sender = Sender::new();
        (0..40).for_each(|_| sender.flight(9, AT_ONCE, 10_000));
        let before = sender.found();
        sender.at += 400 * MS;
        for _ in 0..9 {
            [5, 10, 20, 40, 80]
                .into_iter()
                .for_each(|segments| sender.flight(segments, AT_ONCE, 10_000));
            sender.at += 400 * MS;
        }
        assert_eq!(sender.found(), before);
    }

    /// Groups of segments at these distances, two of them in flight: an acknowledgement of the one before
    /// the last comes just before each.
    fn groups(distance: impl Fn(u32) -> Nanos) -> Option<FlightPlateau> {
        let mut sender = Sender::new();
        let mut group_before = sender.sent;
        for number in 0..200 {
            let begin = sender.sent;
            sender.detector.acknowledged(group_before, sender.at - AT_ONCE);
            for _ in 0..20 {
                sender.send(sender.at);
            }
            group_before = begin;
            sender.at += distance(number);
        }
        sender.found()
    }

    #[test]
    fn even_departures_just_after_acknowledgements_are_a_timers() {
        assert_eq!(groups(|_| ROUND_TRIP / 2 + AT_ONCE), None);
        let uneven = |number| if number % 2 == 0 { 17 * MS } else { 33 * MS + AT_ONCE };
        assert!(groups(uneven).is_some());
    }

    #[test]
    fn a_sender_that_paces_or_goes_on_by_itself_is_another() {
        let sent = |after, spacing| {
            let mut sender = Sender::new();
            (0..30).for_each(|_| sender.flight(45, after, spacing));
            sender.found()
        };
        assert!(sent(AT_ONCE, MS / 2).is_some());
        assert_eq!(sent(AT_ONCE, MS), None, "no pause of a quarter of the round trip");
        assert_eq!(sent(12 * MS, MS / 2), None, "no acknowledgement released it");
        let mut sender = Sender::new();
        (0..30).for_each(|_| sender.flight(20, 12 * MS, 10_000));
        let paced = sender.detector.paced() / 29 / MS;
        assert!((50..=62).contains(&paced), "29 pauses of {paced} ms");
    }

    #[test]
    fn a_window_in_use_and_a_peer_that_sends_are_other_limits() {
        let mut sender = Sender::new();
        sender.window = 100 * MSS;
        (0..30).for_each(|_| sender.flight(51, AT_ONCE, 10_000));
        assert_eq!(sender.found(), None);
        let mut sender = Sender::new();
        for _ in 0..30 {
            sender.peer_data_at = Some(sender.at);
            sender.flight(45, AT_ONCE, 10_000);
        }
        assert_eq!(sender.found(), None);
    }

    #[test]
    fn a_process_may_be_late_at_times() {
        let late_in = |one_in| {
            let mut sender = Sender::new();
            for number in 0..60 {
                let after = if number % one_in == 0 { 12 * MS } else { AT_ONCE };
                sender.flight(45, after, 10_000);
            }
            sender.found().is_some()
        };
        assert!(late_in(10) && !late_in(4));
    }

    #[test]
    fn clocks_that_jump_do_no_harm() {
        let mut sender = Sender::new();
        for at in [i64::MAX - 100 * MS, -5, 0, i64::MIN, 7] {
            sender.at = at / 4 * 3;
            (0..20).for_each(|_| sender.flight(45, AT_ONCE, 10_000));
        }
        sender.found();
    }
}
