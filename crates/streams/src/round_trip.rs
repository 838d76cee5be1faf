//! Round trips: times from a segment to its acknowledgement. A retransmitted segment gives none, as
//! it is not known which of its transmissions was acknowledged (Karn's algorithm, RFC 6298, 3).

use crate::sequence::Sequence;
use crate::time::{Nanos, OptionalTime};

/// Segments timed at once. More are sent between two acknowledgements only by streams whose round
/// trip is known well from these.
const MAX_TIMED_SEGMENTS: usize = 4;
/// Samples before statistics under load are kept: most streams have no more.
const SAMPLES_BEFORE_LOAD: u64 = 4;
/// A longer time, ten minutes, is no round trip.
const MAX_ROUND_TRIP: Nanos = 600_000_000_000;
/// More than this above the shortest is a queue, where the shortest is short: schedulers and Wi-Fi
/// take as long now and then.
const MIN_QUEUE_DELAY: Nanos = 20_000_000;
/// Part of the shortest round trip that a queue is which a transfer fills; less is jitter of the path.
const MIN_QUEUE_PART: Nanos = 16;
/// Shortest retransmission timeout of Linux beyond the round trip (`TCP_RTO_MIN`).
pub(crate) const MIN_TIMEOUT: Nanos = 200_000_000;
/// Retransmission timeout before the first sample (RFC 6298, 2.1).
pub(crate) const INITIAL_TIMEOUT: Nanos = 1_000_000_000;

/// Times the segments of one direction, as seen at the capture point: from data that passes to
/// the acknowledgement that passes back.
#[derive(Debug, Clone, Default)]
pub struct RoundTripTimer {
    timed: TimedSegments,
    /// End of the last retransmission: until it is acknowledged, only selective acknowledgements
    /// tell when a segment arrived.
    retransmitted: Sequence,
    times: RoundTripTimes,
}

impl std::ops::Deref for RoundTripTimer {
    type Target = RoundTripTimes;

    fn deref(&self) -> &RoundTripTimes {
        &self.times
    }
}

/// Segments in flight that are timed, oldest first. Of a request or a response there is often one: the
/// others take no room until there are more.
#[derive(Debug, Clone, Default)]
struct TimedSegments {
    first: TimedSegment,
    more: Option<Box<[TimedSegment; MAX_TIMED_SEGMENTS - 1]>>,
    used: u8,
}

#[derive(Debug, Clone, Copy, Default)]
struct TimedSegment {
    end: Sequence,
    sent_at: Nanos,
}

impl TimedSegments {
    #[inline(always)]
    fn iter(&self) -> impl DoubleEndedIterator<Item = &TimedSegment> {
        let used = usize::from(self.used);
        let first = std::slice::from_ref(&self.first).get(..used.min(1)).unwrap_or_default();
        let more = self.more.as_ref().and_then(|more| more.get(..used.saturating_sub(1)));
        first.iter().chain(more.unwrap_or_default())
    }

    /// Adds a segment if there is room.
    #[inline(always)]
    fn push(&mut self, segment: TimedSegment) {
        if self.used == 0 {
            (self.first, self.used) = (segment, 1);
        } else {
            self.push_another(segment);
        }
    }

    fn push_another(&mut self, segment: TimedSegment) {
        if usize::from(self.used) < MAX_TIMED_SEGMENTS {
            let more = self.more.get_or_insert_default();
            if let Some(free) = more.get_mut(usize::from(self.used) - 1) {
                *free = segment;
                self.used += 1;
            }
        }
    }

    #[inline(never)]
    fn retain(&mut self, keep: impl Fn(&TimedSegment) -> bool) {
        let all = self.clone();
        self.used = 0;
        all.iter().filter(|segment| keep(segment)).for_each(|segment| self.push(*segment));
    }

    /// Removes the segments that end at this number or before, and returns the last of them.
    #[inline(always)]
    fn remove_until(&mut self, to: Sequence) -> Option<TimedSegment> {
        if self.used == 1 && self.first.end <= to {
            self.used = 0;
            return Some(self.first);
        }
        if self.used > 1 { self.remove_some_until(to) } else { None }
    }

    fn remove_some_until(&mut self, to: Sequence) -> Option<TimedSegment> {
        let last = self.iter().take_while(|segment| segment.end <= to).last().copied()?;
        self.retain(|segment| segment.end > to);
        Some(last)
    }
}

/// Round trips that were measured.
#[derive(Debug, Clone, Default)]
pub struct RoundTripTimes {
    min: OptionalTime,
    max: OptionalTime,
    /// SRTT (RFC 6298).
    smoothed: OptionalTime,
    /// RTTVAR (RFC 6298).
    variation: Nanos,
    /// Number of samples.
    pub samples: u64,
    /// Round trips under load, after the first few.
    load: Option<Box<LoadStatistics>>,
}

/// Round trips and the bytes in flight meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LoadStatistics {
    samples: u32,
    inflated: u32,
    losses: LossEpisodes,
    last_is_inflated: bool,
    /// Sums, in milliseconds and KiB.
    time: f64,
    flight: f64,
    time_squared: f64,
    flight_squared: f64,
    time_flight: f64,
    last: Nanos,
}

/// Loss episodes: losses after everything before had been acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossEpisodes {
    /// All of them.
    pub count: u32,
    /// Those after an inflated round trip: a queue was full.
    pub after_inflated: u32,
    /// Those after a round trip a sixteenth longer than the shortest: there was a queue.
    pub after_longer: u32,
}

impl LoadStatistics {
    #[inline(always)]
    fn add(&mut self, sample: Nanos, min: Nanos, flight: u64) {
        // No flight is longer than what fits; a signed number is converted faster.
        let flight = i64::try_from(flight).unwrap_or(i64::MAX);
        let (time, flight) = (sample as f64 * 1e-6, flight as f64 * (1.0 / 1024.0));
        self.samples = self.samples.saturating_add(1);
        // More than twice the shortest.
        self.last_is_inflated = sample.saturating_sub(min) > min.max(MIN_QUEUE_DELAY);
        self.inflated = self.inflated.saturating_add(u32::from(self.last_is_inflated));
        self.time += time;
        self.flight += flight;
        self.time_squared += time * time;
        self.flight_squared += flight * flight;
        self.time_flight += time * flight;
        self.last = sample;
    }

    /// Number of samples, those from time stamps included.
    pub fn samples(&self) -> u64 {
        u64::from(self.samples)
    }

    /// Mean, nanoseconds.
    pub fn mean(&self) -> Nanos {
        (self.time / f64::from(self.samples.max(1)) * 1e6) as Nanos
    }

    /// Share of the samples that are inflated: twice the shortest, and 20 ms longer.
    pub fn inflated_share(&self) -> f64 {
        f64::from(self.inflated) / f64::from(self.samples.max(1))
    }

    /// Loss episodes.
    pub fn losses(&self) -> LossEpisodes {
        self.losses
    }

    /// Correlation of round trips with the bytes in flight, -1 to 1; `None`: one of them is
    /// constant.
    pub fn flight_correlation(&self) -> Option<f64> {
        let count = f64::from(self.samples);
        let both = count * self.time_flight - self.time * self.flight;
        let times = count * self.time_squared - self.time.powi(2);
        let flights = count * self.flight_squared - self.flight.powi(2);
        let scale = (times * flights).sqrt();
        (times > 0.0 && flights > 0.0 && scale.is_finite() && scale > 0.0)
            .then(|| (both / scale).clamp(-1.0, 1.0))
    }
}

impl RoundTripTimer {
    /// New data passed.
    #[inline]
    pub(crate) fn sent(&mut self, end: Sequence, at: Nanos) {
        self.timed.push(TimedSegment { end, sent_at: at });
    }

    /// When the data before `end` was sent, at the earliest; `None`: not known.
    pub(crate) fn sent_at(&self, end: Sequence) -> Option<Nanos> {
        let before = self.timed.iter().rfind(|segment| segment.end <= end)?;
        Some(before.sent_at)
    }

    /// Whether a retransmission is in flight.
    pub(crate) fn is_retransmitting(&self) -> bool {
        self.retransmitted.known().is_some()
    }

    /// A time stamp came back in an acknowledgement: a sample for retransmitted data too, but as
    /// coarse as the clock of the time stamps.
    #[inline]
    pub(crate) fn timestamp_echoed(&mut self, sample: Nanos, flight: u64) {
        if self.timed.used == 0 && self.times.samples > 0 {
            self.times.add_under_load(sample, flight);
        }
    }

    /// A fast retransmission was acknowledged. The original had not arrived, or duplicate
    /// acknowledgements would not have asked for it: this is the round trip of the retransmission,
    /// unless it is shorter than any.
    #[inline]
    pub(crate) fn fast_retransmission_acknowledged(&mut self, sample: Nanos, flight: u64) {
        if self.times.min().is_some_and(|min| min <= sample) {
            self.times.add_under_load(sample, flight);
        }
    }

    /// Whether all that is in flight is this segment, which ends here and was sent then; `None`: nothing is.
    pub(crate) fn is_timing_only(&self, segment: Option<(Sequence, Nanos)>) -> bool {
        match segment {
            None => self.timed.used == 0,
            Some((end, sent_at)) => {
                let first = &self.timed.first;
                self.timed.used == 1 && first.end == end && first.sent_at == sent_at
            }
        }
    }

    /// Hands over what was measured.
    pub(crate) fn take_times(&mut self) -> RoundTripTimes {
        std::mem::take(&mut self.times)
    }

    /// Takes it back, after messages of one segment each: the last one ends here, was sent then, and is in
    /// flight or acknowledged.
    pub(crate) fn end_ping_pong(
        &mut self,
        times: RoundTripTimes,
        sent: Option<(Sequence, Nanos)>,
        is_in_flight: bool,
    ) {
        self.times = times;
        if let Some((end, sent_at)) = sent {
            self.timed.first = TimedSegment { end, sent_at };
        }
        self.timed.used = is_in_flight.into();
    }

    /// Data before `end` was retransmitted: an acknowledgement may be for either transmission. Where the
    /// original did not pass here, the round trips to the sender and back show the queue before it.
    #[inline]
    pub(crate) fn retransmitted(&mut self, end: Sequence, to_sender: Option<&RoundTripTimes>) {
        let before = to_sender.filter(|times| times.load.is_some()).unwrap_or(&self.times);
        let (is_inflated, is_longer) = before.is_last_inflated_or_longer();
        if self.retransmitted.known().is_none()
            && let Some(load) = &mut self.times.load
        {
            let LossEpisodes { count, after_inflated, after_longer } = &mut load.losses;
            *count = count.saturating_add(1);
            *after_inflated = after_inflated.saturating_add(is_inflated.into());
            *after_longer = after_longer.saturating_add(is_longer.into());
        }
        self.retransmitted = self.retransmitted.max(end);
    }

    /// Data was acknowledged selectively.
    #[inline]
    pub(crate) fn selectively_acknowledged(
        &mut self,
        from: Sequence,
        to: Sequence,
        at: Nanos,
        flight: u64,
    ) {
        let inside = |segment: &TimedSegment| segment.end > from && segment.end <= to;
        let Some(last) = self.timed.iter().rfind(|segment| inside(segment)) else { return };
        let sample = at.saturating_sub(last.sent_at);
        self.timed.retain(|segment| !inside(segment));
        self.times.add(sample, flight);
    }

    /// Everything before `to` was acknowledged. The sample is that of the last segment covered:
    /// earlier ones may have waited for a delayed acknowledgement. `flight` are the bytes that were
    /// in flight before.
    #[inline]
    pub(crate) fn acknowledged(&mut self, to: Sequence, at: Nanos, flight: u64) -> Option<Nanos> {
        let last = self.timed.remove_until(to)?;
        if let Some(retransmitted) = self.retransmitted.known() {
            if retransmitted <= to {
                (self.retransmitted, self.timed.used) = (Sequence::default(), 0);
            }
            return None;
        }
        self.times.add(at.saturating_sub(last.sent_at), flight)
    }
}

impl RoundTripTimes {
    /// Adds a sample, and the bytes in flight meanwhile. A time that cannot be one is ignored:
    /// clocks of captures step back now and then.
    #[inline(always)]
    pub(crate) fn add(&mut self, sample: Nanos, flight: u64) -> Option<Nanos> {
        if !(0..=MAX_ROUND_TRIP).contains(&sample) {
            return None;
        }
        self.samples += 1;
        self.min.shorten_to(sample);
        self.add_under_load(sample, flight);
        match self.smoothed() {
            None => {
                self.smoothed = sample.into();
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                // No sample is longer than ten minutes: nothing here overflows.
                let off = (smoothed - sample).wrapping_abs();
                self.variation += (off - self.variation) / 4;
                self.smoothed = (smoothed + (sample - smoothed) / 8).into();
            }
        }
        Some(sample)
    }

    /// Shortest, nanoseconds.
    #[inline]
    pub fn min(&self) -> Option<Nanos> {
        self.min.get()
    }

    /// Longest, nanoseconds.
    pub fn max(&self) -> Option<Nanos> {
        self.max.get()
    }

    /// SRTT (RFC 6298), nanoseconds.
    #[inline]
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed.get()
    }

    /// Whether the last sample was inflated, and whether it was longer than by the jitter of the path.
    fn is_last_inflated_or_longer(&self) -> (bool, bool) {
        let Some((load, min)) = self.load().zip(self.min()) else { return (false, false) };
        (load.last_is_inflated, load.last.saturating_sub(min) >= min / MIN_QUEUE_PART)
    }

    /// Round trips under load; `None`: there were too few samples.
    pub fn load(&self) -> Option<&LoadStatistics> {
        self.load.as_deref()
    }

    /// Adds a time that shows load, and may not be that of the path alone.
    #[inline(always)]
    fn add_under_load(&mut self, sample: Nanos, flight: u64) {
        self.max.lengthen_to(sample);
        if self.samples > SAMPLES_BEFORE_LOAD {
            let min = self.min().unwrap_or(sample);
            match &mut self.load {
                Some(load) => load.add(sample, min, flight),
                None => self.load.insert(Box::default()).add(sample, min, flight),
            }
        }
    }

    /// The retransmission timeout that Linux would have: `SRTT + max(4·RTTVAR, 200 ms)`, and a
    /// second before the first sample.
    pub fn timeout(&self) -> Nanos {
        self.smoothed().map_or(INITIAL_TIMEOUT, |smoothed| {
            smoothed.saturating_add(self.variation.saturating_mul(4).max(MIN_TIMEOUT))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_that_of_the_last_segment_covered() {
        let mut timer = RoundTripTimer::default();
        timer.sent(Sequence(100), 0);
        timer.sent(Sequence(200), 10);
        timer.sent(Sequence(300), 20);
        assert_eq!(timer.acknowledged(Sequence(150), 50, 0), Some(50));
        assert_eq!(timer.acknowledged(Sequence(300), 60, 0), Some(40));
        assert_eq!(timer.acknowledged(Sequence(300), 70, 0), None);
        assert_eq!((timer.min(), timer.max(), timer.samples), (Some(40), Some(50), 2));
    }

    #[test]
    fn a_retransmitted_segment_is_not_timed() {
        let mut timer = RoundTripTimer::default();
        timer.sent(Sequence(100), 0);
        timer.retransmitted(Sequence(100), None);
        assert_eq!(timer.acknowledged(Sequence(100), 1_000, 0), None);
        assert_eq!(timer.timeout(), 1_000_000_000);
        timer.sent(Sequence(200), 2_000);
        assert_eq!(timer.acknowledged(Sequence(200), 1_000, 0), None, "the clock stepped back");
    }

    #[test]
    fn losses_begin_after_round_trips_with_a_queue_or_without_one() {
        const MS: Nanos = 1_000_000;
        let episodes = |last: Nanos, to_sender: Option<Nanos>| {
            let mut timer = RoundTripTimer::default();
            let mut other = RoundTripTimes::default();
            for sample in [100 * MS; 9].into_iter().chain([last]) {
                timer.times.add(sample, 0);
                other.add(to_sender.unwrap_or(sample), 0);
            }
            let to_sender = to_sender.map(|_| &other);
            timer.retransmitted(Sequence(100), to_sender);
            timer.retransmitted(Sequence(200), to_sender);
            let LossEpisodes { count, after_inflated, after_longer } =
                timer.load().map(LoadStatistics::losses).unwrap_or_default();
            (count, after_inflated, after_longer)
        };
        assert_eq!(episodes(101 * MS, None), (1, 0, 0));
        assert_eq!(episodes(107 * MS, None), (1, 0, 1));
        assert_eq!(episodes(221 * MS, None), (1, 1, 1));
        // What was lost before it got here: the other way shows the queue.
        assert_eq!(episodes(221 * MS, Some(100 * MS)), (1, 0, 0));
    }

    #[test]
    fn behind_a_gap_selective_acknowledgements_give_samples() {
        let mut timer = RoundTripTimer::default();
        timer.sent(Sequence(100), 0);
        timer.sent(Sequence(200), 0);
        timer.retransmitted(Sequence(100), None);
        timer.sent(Sequence(300), 1_000);
        timer.selectively_acknowledged(Sequence(200), Sequence(300), 1_040, 0);
        assert_eq!((timer.min(), timer.samples), (Some(40), 1));
        assert_eq!(timer.acknowledged(Sequence(300), 5_000, 0), None, "it waited for the gap");
        timer.sent(Sequence(400), 6_000);
        assert_eq!(timer.acknowledged(Sequence(400), 6_030, 0), Some(30));
    }
}
