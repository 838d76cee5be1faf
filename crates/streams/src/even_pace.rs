//! A pace that a sender keeps by itself: for seconds, each interval holds as much as the others, though no
//! acknowledgement releases what is sent, and though segments are full.
//!
//! A sender that is limited by its congestion window, by the receiver's window or by its send buffer goes on
//! with an acknowledgement. One that has sent everything ends with a segment that is not full, or goes on
//! after an answer: where messages of one size come at even distances, each interval holds such an end. (The
//! push flag does not show it: Linux sets it in each packet that offload splits.) bbr keeps a pace too, that
//! of the slowest link, and tries every few round trips whether more passes, by a quarter of its rate. What
//! is left is a shaper before the capture point (a queueing discipline, a hypervisor), a socket with a pacing
//! rate, or a process that writes as evenly. It is seen near the sender, where each acknowledgement is
//! captured before what follows it.

use crate::flight_plateau::SentData;
use crate::time::Nanos;

/// How long a pace is kept, and for how many intervals.
const MIN_TIME: Nanos = 4_000_000_000;
const MIN_INTERVALS: u32 = 40;
/// Segments of an interval, which takes a round trip or more ...
const MIN_SEGMENTS: u64 = 16;
/// ... and no more than so many: what bbr sends more for one round trip must not be lost in it.
const MAX_ROUND_TRIPS: Nanos = 2;
/// Where 16 segments take longer: two departures of two, as offload sends them, the last of which may be the
/// end of something. (An interval begins and ends with a departure: its rate is exact with few of them.)
const FEWEST_SEGMENTS: u64 = 3;
/// With so few segments in a round trip, a congestion window does not pace.
const FEW_SEGMENTS: u64 = 2;
/// An interval is even that deviates by no more than this share from those before it.
const MAX_DEVIATION: f64 = 0.1;
/// One interval in so many may be uneven: a timer is late at times.
const UNEVEN_INTERVALS: u32 = 32;
/// A kernel sends what an acknowledgement releases so soon after it: no process has to run. Where pauses are
/// not at least twice as long, the two cannot be distinguished.
const MAX_REACTION: Nanos = 100_000;
/// Where acknowledgements release departures, that is how nearly all of them come about; by chance some of
/// a timer's come just after one. Of four departures after a pause, at most so many may.
const RELEASED_OF_FOUR: u32 = 3;
/// No more than one interval in so many holds the end of what there was to send: a pause after
/// a segment that is not full, or after data of the peer.
const SMALL: u32 = 4;

/// A pace that a sender kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvenPace {
    /// Bytes that were sent so.
    pub bytes: u64,
    /// How long it was kept.
    pub time: Nanos,
    /// Intervals of a round trip or more.
    pub intervals: u32,
    /// Departures after a pause, and those of them that an acknowledgement released.
    pub departures: u32,
    /// See `departures`.
    pub released: u32,
}

/// Intervals that hold as much as each other.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    pace: EvenPace,
    uneven: u32,
    /// Intervals that hold the end of what there was to send.
    with_end: u32,
}

impl Run {
    fn is_kept(&self) -> bool {
        let EvenPace { time, intervals, departures, released, .. } = self.pace;
        time >= MIN_TIME
            && intervals >= MIN_INTERVALS
            && u64::from(released) * 4 <= u64::from(departures) * u64::from(RELEASED_OF_FOUR)
            && self.with_end.saturating_mul(SMALL) <= intervals
    }

    /// Whether an interval is like those before it.
    fn is_even(&self, bytes: u64, time: Nanos) -> bool {
        let expected = self.pace.bytes as f64 * time as f64 / self.pace.time.max(1) as f64;
        (bytes as f64 - expected).abs() <= expected * MAX_DEVIATION
    }

    fn add(&mut self, interval: &Interval, time: Nanos) {
        let pace = &mut self.pace;
        pace.bytes = pace.bytes.saturating_add(interval.bytes);
        pace.time = pace.time.saturating_add(time);
        pace.intervals = pace.intervals.saturating_add(1);
        pace.departures = pace.departures.saturating_add(interval.departures);
        pace.released = pace.released.saturating_add(interval.released);
        self.with_end = self.with_end.saturating_add(interval.has_end.into());
    }
}

/// The current interval.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    began: Nanos,
    bytes: u64,
    packets: u32,
    departures: u32,
    released: u32,
    /// Whether it holds the end of what there was to send.
    has_end: bool,
}

/// Watches the pace of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct PaceDetector {
    last: Nanos,
    /// Whether what was sent last was not full.
    small: bool,
    /// Time between packets in the interval before.
    usual_gap: Nanos,
    interval: Interval,
    run: Run,
    longest: Run,
}

impl PaceDetector {
    /// New data passes, over a path that has lost nothing; the last acknowledgement came at that time.
    pub(crate) fn data(&mut self, data: &SentData, acknowledged_at: Nanos) {
        let gap = data.at.saturating_sub(self.last);
        let is_small = !data.bytes.is_multiple_of(u64::from(data.mss.max(1)));
        let after_small = std::mem::replace(&mut self.small, is_small);
        let is_answered = data.peer_data_at.is_some_and(|answered_at| answered_at >= self.last);
        self.last = data.at;
        if gap.saturating_mul(2) >= self.usual_gap {
            let time = data.at.saturating_sub(self.interval.began);
            if self.interval.packets > 0 && time >= data.round_trip && self.is_full(time, data) {
                self.end_interval(time, data);
            }
            let since = data.at.saturating_sub(acknowledged_at);
            let interval = &mut self.interval;
            interval.departures = interval.departures.saturating_add(1);
            let reaction = data.loop_time.saturating_add(MAX_REACTION);
            let is_released = since <= reaction || gap <= reaction.saturating_mul(2);
            interval.released = interval.released.saturating_add(is_released.into());
            interval.has_end |= after_small || is_answered;
        }
        let interval = &mut self.interval;
        if interval.packets == 0 {
            interval.began = data.at;
        }
        interval.packets = interval.packets.saturating_add(1);
        interval.bytes = interval.bytes.saturating_add(data.bytes);
    }

    /// Whether the interval, which has taken so long, has segments enough.
    fn is_full(&self, time: Nanos, data: &SentData) -> bool {
        let bytes = self.interval.bytes;
        let of = |segments: u64| segments.saturating_mul(data.mss.into());
        let longest = data.round_trip.saturating_mul(MAX_ROUND_TRIPS);
        // At this rate, so many segments take longer than an interval may.
        let is_slow = u128::from(bytes) * longest.unsigned_abs() as u128
            <= u128::from(of(MIN_SEGMENTS)) * time.unsigned_abs() as u128;
        bytes >= of(MIN_SEGMENTS) || (is_slow && time <= longest && bytes >= of(FEWEST_SEGMENTS))
    }

    fn end_interval(&mut self, time: Nanos, data: &SentData) {
        let interval = std::mem::take(&mut self.interval);
        self.usual_gap = time / Nanos::from(interval.packets);
        let few = FEW_SEGMENTS.saturating_mul(data.mss.into());
        let in_round_trip = u128::from(interval.bytes) * data.round_trip.unsigned_abs() as u128
            / u128::from(time.unsigned_abs().max(1));
        let is_short = time <= data.round_trip.saturating_mul(MAX_ROUND_TRIPS);
        if !is_short && in_round_trip >= few.into() {
            self.begin(Run::default());
            return;
        }
        let is_even = self.run.pace.intervals == 0 || self.run.is_even(interval.bytes, time);
        let uneven = self.run.uneven.saturating_add((!is_even).into());
        let allowed = self.run.pace.intervals / UNEVEN_INTERVALS + 1;
        if uneven > allowed || (!is_even && self.run.pace.intervals < UNEVEN_INTERVALS / 2) {
            self.begin(Run::default());
        } else {
            self.run.uneven = uneven;
        }
        self.run.add(&interval, time);
    }

    fn begin(&mut self, run: Run) {
        let before = std::mem::replace(&mut self.run, run);
        if before.is_kept() && before.pace.time > self.longest.pace.time {
            self.longest = before;
        }
    }

    /// The pace that was kept for longest.
    pub(crate) fn found(&self) -> Option<EvenPace> {
        let current = self.run.is_kept() && self.run.pace.time > self.longest.pace.time;
        let run = if current { &self.run } else { &self.longest };
        (run.pace.intervals > 0).then_some(run.pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;

    const MS: Nanos = 1_000_000;
    const MSS: u32 = 1448;
    const ROUND_TRIP: Nanos = 40 * MS;

    /// Segments at these distances; each is acknowledged a round trip later, and one in so many is not
    /// full.
    fn found(gaps: impl IntoIterator<Item = Nanos>, small: u64) -> Option<EvenPace> {
        found_in_dialogue(gaps, small, u64::MAX)
    }

    /// The same, and the peer answers one in so many segments.
    fn found_in_dialogue(
        gaps: impl IntoIterator<Item = Nanos>,
        small: u64,
        answered: u64,
    ) -> Option<EvenPace> {
        let mut detector = PaceDetector::default();
        let (mut at, mut end) = (1_000 * MS, Sequence(1 << 32));
        let mut sent: std::collections::VecDeque<Nanos> = std::collections::VecDeque::new();
        let mut acknowledged_at = 0;
        for (number, gap) in (1u64..).zip(gaps) {
            at += gap;
            let bytes = if number % small == 0 { MSS / 2 } else { MSS };
            end = end.plus(bytes);
            while let Some(first) = sent.front().filter(|first| **first + ROUND_TRIP <= at) {
                acknowledged_at = first + ROUND_TRIP;
                sent.pop_front();
            }
            sent.push_back(at);
            detector.data(
                &SentData {
                    at,
                    end,
                    bytes: bytes.into(),
                    mss: MSS,
                    window: 1_000_000,
                    round_trip: ROUND_TRIP,
                    loop_time: 10_000,
                    drained_at: None,
                    peer_data_at: (number % answered == 0).then_some(at - MS),
                },
                acknowledged_at,
            );
        }
        detector.found()
    }

    /// 10 Mbit/s: no whole number of these fits into a round trip.
    const EVEN: Nanos = 1_150_000;

    fn even(segments: usize) -> impl Iterator<Item = Nanos> + Clone {
        std::iter::repeat_n(EVEN, segments)
    }

    #[test]
    fn even_departures_that_nothing_releases_are_a_pace() {
        let found = found(even(8_000), 200).expect("a pace");
        let bps = found.bytes as f64 * 8e9 / found.time as f64;
        assert!((bps / (1448.0 * 8e9 / EVEN as f64) - 1.0).abs() < 0.02, "{bps}");
        assert!(found.time > 9_000 * MS && found.intervals > 200, "{found:?}");
    }

    #[test]
    fn bursts_of_segments_are_even_too() {
        // A timer each 4.6 ms releases four segments.
        let burst = [4 * EVEN - 30_000, 10_000, 10_000, 10_000];
        assert!(found(burst.into_iter().cycle().take(8_000), 200).is_some());
    }

    #[test]
    fn a_short_time_is_no_pace() {
        assert_eq!(found(even(3_000), 200), None);
    }

    #[test]
    fn segments_that_are_not_full_are_all_that_there_is() {
        assert_eq!(found(even(8_000), 2), None);
    }

    #[test]
    fn messages_at_even_distances_are_no_pace() {
        assert!(found(even(8_000), 200).is_some());
        // One message in each interval, of which the last segment is not full, or which is answered.
        assert_eq!(found(even(8_000), 40), None);
        assert!(found_in_dialogue(even(8_000), 200, 1_000).is_some());
        assert_eq!(found_in_dialogue(even(8_000), 200, 40), None);
    }

    #[test]
    fn what_an_acknowledgement_releases_is_no_pace() {
        // A whole number of segments fills the round trip: each follows the acknowledgement of another.
        let released = ROUND_TRIP / 35 + 1_000;
        assert_eq!(found(std::iter::repeat_n(released, 8_000), 200), None);
        // Too close to each other to tell.
        assert_eq!(found(std::iter::repeat_n(210_000, 40_000), 200), None);
    }

    /// bbr: one round trip in eight a quarter faster, the next a quarter slower.
    fn probing(gap: Nanos) -> impl Iterator<Item = Nanos> {
        (0..8_000).scan(0, move |at: &mut Nanos, number| {
            let gap = match (*at / ROUND_TRIP) % 8 {
                0 => gap * 4 / 5,
                1 => gap * 4 / 3,
                _ => gap,
            };
            // Two segments leave at a time.
            let gap = if number % 2 == 0 { 2 * gap - 10_000 } else { 10_000 };
            *at += gap;
            Some(gap)
        })
    }

    #[test]
    fn a_sender_that_tries_whether_more_passes_is_another() {
        assert_eq!(found(probing(EVEN), 200), None);
    }

    #[test]
    fn a_few_segments_in_a_round_trip_show_a_pace_and_a_sender_that_tries_more() {
        for in_round_trip in [2.3, 3.1, 4.3, 5.2, 6.7, 7.6, 9.1] {
            let gap = (ROUND_TRIP as f64 / in_round_trip) as Nanos;
            let pairs = [2 * gap - 10_000, 10_000].into_iter().cycle().take(4_000);
            assert!(found(pairs, 200).is_some(), "{in_round_trip}");
            assert_eq!(found(probing(gap), 200), None, "{in_round_trip}");
        }
    }

    #[test]
    fn a_late_timer_now_and_then_ends_no_pace() {
        let late = (0..8_000).map(|number| match number % 1_800 {
            900 => EVEN + 8 * MS,
            _ => EVEN,
        });
        assert!(found(late, 200).is_some());
    }

    #[test]
    fn the_longest_of_several_is_kept() {
        let slower = std::iter::repeat_n(2 * EVEN, 3_000);
        let faster = std::iter::repeat_n(EVEN, 8_000);
        let found = found(slower.chain(faster.clone()).chain(even(2_000)), 200).expect("a pace");
        assert!(found.time > 11_000 * MS, "{found:?}");
    }
}
