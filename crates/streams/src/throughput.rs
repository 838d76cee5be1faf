//! The throughput of bulk transfers over time, and their round trip: a token bucket with a queue (a
//! shaper) lets a burst pass, then holds the throughput to its rate, and everything above it waits.
//!
//! The sign is a step: from one moment on, the throughput is a third of what it was or less, and
//! even; and the round trip has grown as it does where what was in flight now waits in a queue. A
//! throughput that falls because other traffic came is not even, a sender that sends less waits
//! nowhere, and a link that was always the bottleneck had its queue before, too.
//!
//! Intervals double in length when there are too many of them. What they were before that is kept: a
//! long transfer does not hide the short burst at its beginning. Intervals in which nothing was sent do
//! not count: the burst may have been in an earlier transfer.

use crate::sequence::Sequence;
use crate::time::Nanos;

/// New bytes from which on a direction counts as a bulk transfer.
pub(crate) const BULK_BYTES: u64 = 1 << 20;
/// Intervals that are kept.
const MAX_INTERVALS: usize = 64;
/// Several directions are also judged in intervals that are so many times as long.
const FLIGHTS: [Nanos; 2] = [2, 4];
/// How often they are kept before they are made longer: 20 ms become 20 minutes.
const MAX_EARLIER: usize = 16;
/// Length of an interval at first.
const FIRST_WIDTH: Nanos = 20_000_000;
/// Fewest intervals before the step, and after it.
const MIN_INTERVALS_BEFORE: usize = 3;
const MIN_INTERVALS_AFTER: usize = 8;
/// The throughput falls by this factor at least: another transfer that begins on the same link takes half.
const MIN_FALL: f64 = 2.4;
/// By this, where it was higher only for so many round trips: slow start may send more than twice what a
/// link takes (bbr: 2.89 times).
const MIN_FALL_AT_START: f64 = 3.0;
const START_ROUND_TRIPS: f64 = 8.0;
/// The round trip grows by so many microseconds at least, and either by this factor ...
const MIN_QUEUE_DELAY_US: f64 = 20_000.0;
const MIN_ROUND_TRIP_GROWTH: f64 = 5.0;
/// ... or so far that at least this share of what was in flight still is: in the queue. Senders keep
/// half of it even after a loss (RFC 5681).
const MIN_FLIGHT_KEPT: f64 = 0.5;
/// Share of the time after the step in which the round trip is at least so much longer.
const MIN_WAITING_SHARE: f64 = 0.3;
/// An even throughput deviates by no more than this share of it (standard deviation).
const MAX_DEVIATION: f64 = 0.2;

/// A throughput that fell to the rate of a token bucket with a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapedThroughput {
    /// Throughput before, bytes a second.
    pub before: f64,
    /// Rate that it was held to, bytes a second.
    pub rate: f64,
    /// Bytes above that rate that passed before: the burst.
    pub burst: u64,
    /// Median round trip before, microseconds.
    pub round_trip_before_us: u64,
    /// Median round trip after, microseconds: of all the time after, or while the queue filled, whichever is
    /// longer.
    pub round_trip_after_us: u64,
    /// When the step was.
    pub(crate) at: Nanos,
    /// Time from the first megabyte to the step, without pauses.
    pub after: Nanos,
    /// Time from the step to the end, without pauses.
    pub duration: Nanos,
}

/// What was sent in a part of the time.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    began: Nanos,
    bytes: u64,
    /// Bytes, each times its round trip in microseconds.
    round_trips: u64,
}

impl Interval {
    fn round_trip_us(&self) -> u64 {
        self.round_trips / self.bytes.max(1)
    }
}

/// Intervals of equal length. Each follows the one before, or a pause.
#[derive(Debug, Clone)]
struct Series {
    intervals: Vec<Interval>,
    width: Nanos,
}

/// Throughput of one direction: what is sent, and what is acknowledged. A sender that sends in flights is
/// uneven where its acknowledgements are not; these stop where something is lost.
#[derive(Debug, Clone)]
pub(crate) struct Throughput {
    sent: Timeline,
    delivered: Option<Timeline>,
    acknowledged: Sequence,
    round_trip: Nanos,
}

/// How much passed, over time.
#[derive(Debug, Clone)]
struct Timeline {
    series: Series,
    /// What it was before intervals were made longer.
    earlier: Vec<Series>,
}

impl Throughput {
    pub(crate) fn new(acknowledged: Sequence, at: Nanos) -> Self {
        Throughput { sent: Timeline::new(at), delivered: None, acknowledged, round_trip: 0 }
    }

    /// New data passes, while the round trip is this long.
    #[inline]
    pub(crate) fn data(&mut self, bytes: u64, at: Nanos, round_trip: Nanos) {
        self.round_trip = round_trip;
        self.sent.data(bytes, at, round_trip);
    }

    /// The peer has acknowledged everything before `until`.
    #[inline]
    pub(crate) fn acknowledged(&mut self, until: Sequence, at: Nanos) {
        let bytes = until.0.saturating_sub(self.acknowledged.0);
        if bytes > 0 {
            self.acknowledged = until;
            let delivered = self.delivered.get_or_insert_with(|| Timeline::new(at));
            delivered.data(bytes, at, self.round_trip);
        }
    }

    /// The same for what is no part of a transfer.
    #[inline]
    pub(crate) fn pass_over(&mut self, until: Sequence) {
        self.acknowledged = self.acknowledged.max(until);
    }

    /// Whether the throughput fell to the rate of a token bucket with a queue.
    pub(crate) fn shaped(&self) -> Option<ShapedThroughput> {
        self.sent.shaped().or_else(|| self.delivered.as_ref()?.shaped())
    }

    /// The same of several directions together.
    pub(crate) fn shaped_together(all: &[&Throughput]) -> Option<ShapedThroughput> {
        let sent: Vec<&Timeline> = all.iter().map(|one| &one.sent).collect();
        Timeline::sum(&sent)?.shaped().or_else(|| {
            let delivered: Option<Vec<&Timeline>> =
                all.iter().map(|one| one.delivered.as_ref()).collect();
            Timeline::sum(&delivered?)?.shaped()
        })
    }

    /// Median round trips before a moment and after it, microseconds; `None`: nothing was sent.
    pub(crate) fn round_trips_us(&self, at: Nanos) -> [Option<u64>; 2] {
        self.sent.round_trips_us(at)
    }

    /// Bytes that it has of the transfers.
    pub(crate) fn bytes(&self) -> u64 {
        self.sent.bytes()
    }
}

impl Timeline {
    fn new(at: Nanos) -> Self {
        let first = Interval { began: at, ..Interval::default() };
        let mut intervals = Vec::with_capacity(MAX_INTERVALS);
        intervals.push(first);
        Timeline { series: Series { intervals, width: FIRST_WIDTH }, earlier: Vec::new() }
    }

    /// New data passes, while the round trip is this long.
    #[inline]
    fn data(&mut self, bytes: u64, at: Nanos, round_trip: Nanos) {
        let micros = u64::try_from(round_trip / 1_000).unwrap_or(0);
        let data = Interval { began: at, bytes, round_trips: bytes.saturating_mul(micros) };
        if self.series.is_over(at) && self.series.intervals.len() >= MAX_INTERVALS {
            self.widen();
        }
        self.series.add(data);
    }

    /// Makes intervals longer.
    #[cold]
    fn widen(&mut self) {
        let before = self.series.clone();
        while self.series.intervals.len() >= MAX_INTERVALS {
            let width = self.series.width.saturating_mul(2);
            self.series = before.with_width(width);
            if width == Nanos::MAX {
                break;
            }
        }
        if self.earlier.len() < MAX_EARLIER {
            self.earlier.push(before);
        }
    }

    /// Several directions put together, at each length of their intervals.
    fn sum(all: &[&Timeline]) -> Option<Self> {
        let series = || all.iter().flat_map(|one| one.all());
        let mut widths: Vec<Nanos> = series().map(|series| series.width).collect();
        widths.sort_unstable();
        widths.dedup();
        // Where each sends in flights, a sender is even over more of them.
        let longest = widths.last().copied()?;
        widths.extend(FLIGHTS.map(|times| longest.saturating_mul(times)));
        let mut sums: Vec<Series> = widths
            .into_iter()
            .map(|width| {
                let parts = all.iter().map(|one| one.at_width(width));
                Series::sum(parts, width)
            })
            .collect();
        Some(Timeline { series: sums.pop()?, earlier: sums })
    }

    /// Bytes that it has of the transfers.
    fn bytes(&self) -> u64 {
        let intervals = self.series.intervals.iter().map(|interval| interval.bytes);
        intervals.fold(0, u64::saturating_add)
    }

    fn all(&self) -> impl Iterator<Item = &Series> {
        self.earlier.iter().chain([&self.series])
    }

    /// What it was when intervals were as long as this, or the last before that; and when that ended,
    /// if it went on.
    fn at_width(&self, width: Nanos) -> (&Series, Option<Nanos>) {
        let next = self.earlier.iter().position(|series| series.width > width);
        let place = next.or((self.series.width > width).then_some(self.earlier.len()));
        match place.map(|place| self.earlier.get(place.saturating_sub(1))) {
            Some(Some(series)) => {
                (series, series.intervals.last().map(|last| last.began.saturating_add(width)))
            }
            _ => (&self.series, None),
        }
    }

    /// Median round trips before a moment and after it, microseconds; `None`: nothing was sent.
    fn round_trips_us(&self, at: Nanos) -> [Option<u64>; 2] {
        let is_before = |one: &&Interval| one.began < at;
        // The longest series that has something of both.
        let series = self.all().filter(|series| {
            let intervals = &series.intervals;
            intervals.iter().any(|one| one.began < at) && intervals.iter().any(|one| one.began > at)
        });
        let intervals = &series.last().unwrap_or(&self.series).intervals;
        let of = |wanted: bool| {
            let some = intervals.iter().filter(|one| is_before(one) == wanted && one.bytes > 0);
            let some: Vec<u64> = some.map(Interval::round_trip_us).collect();
            (!some.is_empty()).then(|| median(some.into_iter()))
        };
        [of(true), of(false)]
    }

    /// Whether the throughput fell to the rate of a token bucket with a queue: the first time, for as
    /// long as it stayed there.
    fn shaped(&self) -> Option<ShapedThroughput> {
        let all = self.all();
        let mut found = all.filter_map(|series| {
            let found = series.shaped()?;
            let lasts = !series.is_exceeded(&self.series, found.rate) && self.series.waits(&found);
            lasts.then_some(found)
        });
        let first = found.next()?;
        let longest = found.filter(|later| is_same(later.rate, first.rate));
        let duration = longest.map(|later| later.duration).max();
        let at_rate = self.series.time_at(first.rate);
        let duration = first.duration.max(duration.unwrap_or(0)).max(at_rate);
        // The series that shows the step first ends while the queue fills.
        let [_, after] = self.round_trips_us(first.at);
        let round_trip_after_us = first.round_trip_after_us.max(after.unwrap_or(0));
        Some(ShapedThroughput { duration, round_trip_after_us, ..first })
    }
}

/// Whether two rates differ by less than an even throughput does.
fn is_same(rate: f64, other: f64) -> bool {
    (rate - other).abs() <= MAX_DEVIATION * other
}

impl Series {
    /// Whether the last interval is over.
    #[inline]
    fn is_over(&self, at: Nanos) -> bool {
        self.intervals.last().is_none_or(|last| at.saturating_sub(last.began) >= self.width)
    }

    #[inline]
    fn add(&mut self, data: Interval) {
        if self.is_over(data.began) {
            // The next one follows, or begins with the data after a pause.
            let next = self.intervals.last().map(|last| last.began.saturating_add(self.width));
            let follows = next.filter(|next| data.began.saturating_sub(*next) < self.width);
            let began = follows.unwrap_or(data.began);
            self.intervals.push(Interval { began, ..Interval::default() });
        }
        if let Some(last) = self.intervals.last_mut() {
            last.bytes = last.bytes.saturating_add(data.bytes);
            last.round_trips = last.round_trips.saturating_add(data.round_trips);
        }
    }

    /// Some of them put together, up to the moment at which one of them ends that went on.
    fn sum<'a>(
        parts: impl Iterator<Item = (&'a Series, Option<Nanos>)> + Clone,
        width: Nanos,
    ) -> Self {
        let end = parts.clone().filter_map(|(_, end)| end).min().unwrap_or(Nanos::MAX);
        let intervals = parts.flat_map(|(series, _)| &series.intervals);
        let mut intervals: Vec<Interval> =
            intervals.filter(|one| one.began < end).copied().collect();
        intervals.sort_by_key(|one| one.began);
        Series { intervals, width: 0 }.with_width(width)
    }

    /// The same in longer intervals.
    fn with_width(&self, width: Nanos) -> Self {
        let mut series = Series { intervals: Vec::with_capacity(MAX_INTERVALS), width };
        self.intervals.iter().for_each(|interval| series.add(*interval));
        series
    }

    /// Those that are over: the last one is not.
    fn over(&self) -> &[Interval] {
        self.intervals.split_last().map_or(&[], |(_, over)| over)
    }

    /// Runs of intervals without a pause. The one before a pause is left out: it was over before its
    /// end.
    fn transfers(&self) -> impl Iterator<Item = &[Interval]> {
        let follows = |a: &Interval, b: &Interval| b.began.saturating_sub(a.began) <= self.width;
        let runs = self.intervals.chunk_by(follows);
        runs.filter_map(|run| Some(run.split_last()?.1)).filter(|run| !run.is_empty())
    }

    /// Whether more than this rate passed at the end of this series or after it, as the whole shows, for
    /// as long as the series is.
    fn is_exceeded(&self, whole: &Series, rate: f64) -> bool {
        let (Some(first), Some(last)) = (self.intervals.first(), self.intervals.last()) else {
            return true;
        };
        let end = last.began.saturating_add(self.width);
        let until = end.saturating_add(end.saturating_sub(first.began));
        let after = whole.over().iter().filter(|one| one.began >= last.began && one.began < until);
        let after: Vec<Interval> = after.copied().collect();
        mean_bytes(&after) * 1e9 / whole.width as f64 > (1.0 + MAX_DEVIATION) * rate
    }

    /// Whether what was sent since a step waited for much of the time: a sender that notices the queue
    /// and empties it loses nothing by it.
    fn waits(&self, found: &ShapedThroughput) -> bool {
        let after = || self.over().iter().filter(|one| one.began > found.at && one.bytes > 0);
        let long = found.round_trip_before_us as f64 + MIN_QUEUE_DELAY_US;
        let waited = after().filter(|one| one.round_trip_us() as f64 >= long).count();
        waited as f64 >= MIN_WAITING_SHARE * after().count() as f64
    }

    /// The time for which this was the throughput.
    fn time_at(&self, rate: f64) -> Nanos {
        let interval = self.width as f64 * 1e-9;
        let at_rate = |one: &&Interval| is_same(one.bytes as f64 / interval, rate);
        self.width.saturating_mul(self.over().iter().filter(at_rate).count() as Nanos)
    }

    /// The step to the rate of a token bucket: over all transfers, or within one of them, whose credit
    /// has come back before it.
    fn shaped(&self) -> Option<ShapedThroughput> {
        let all: Vec<Interval> = self.transfers().flatten().copied().collect();
        self.step(&all).or_else(|| {
            let steps = self.transfers().filter_map(|transfer| self.step(transfer));
            steps.max_by_key(|found| found.duration)
        })
    }

    /// The step among these intervals.
    fn step(&self, busy: &[Interval]) -> Option<ShapedThroughput> {
        let step = strongest_step(busy)?;
        // The queue fills while the throughput falls: that interval belongs to neither side.
        let (before, [first, after @ ..]) = busy.split_at_checked(step)? else { return None };
        let (fast, slow) = (mean_bytes(before), mean_bytes(after));
        let is_even = {
            let squares =
                after.iter().map(|interval| (interval.bytes as f64 - slow).powi(2)).sum::<f64>();
            (squares / after.len().max(1) as f64).sqrt() <= MAX_DEVIATION * slow
        };
        let short = median_trip_us(before);
        // Less than a round trip shows the bursts of a window, no rate.
        let is_rate = short > 0.0 && short * 1e3 <= self.width as f64;
        let waits = |long: &f64| {
            *long >= short + MIN_QUEUE_DELAY_US
                && (*long >= MIN_ROUND_TRIP_GROWTH * short
                    || long * slow >= MIN_FLIGHT_KEPT * short * fast)
        };
        // The queue may not stay full: the sender sends less when it has lost something.
        let long = Some(median_trip_us(after)).filter(waits).or(filling_queue_us(after));
        let long = long.filter(waits)?;
        let round_trips = (self.width * step as Nanos) as f64 / (short * 1e3);
        let min_fall = if round_trips < START_ROUND_TRIPS { MIN_FALL_AT_START } else { MIN_FALL };
        if slow <= 0.0 || fast < min_fall * slow || !is_even || !is_rate {
            return None;
        }
        let intervals_a_second = 1e9 / self.width as f64;
        let above = before.iter().map(|interval| (interval.bytes as f64 - slow).max(0.0));
        Some(ShapedThroughput {
            // The rate of most of the time: the burst may have begun slowly.
            before: median(before.iter().map(|interval| interval.bytes)) as f64
                * intervals_a_second,
            rate: slow * intervals_a_second,
            burst: BULK_BYTES.saturating_add(above.sum::<f64>() as u64),
            round_trip_before_us: short as u64,
            round_trip_after_us: long as u64,
            at: first.began,
            after: self.width.saturating_mul(step as Nanos),
            duration: self.width.saturating_mul((busy.len() - step) as Nanos),
        })
    }
}

/// The step down that explains most of the variance.
fn strongest_step(busy: &[Interval]) -> Option<usize> {
    let max_step = busy.len().checked_sub(MIN_INTERVALS_AFTER)?;
    let all: f64 = busy.iter().map(|interval| interval.bytes as f64).sum();
    let (mut before, mut best) = (0.0, None);
    for (step, interval) in busy.iter().enumerate() {
        if step > max_step {
            break;
        }
        let (count, rest) = (step as f64, (busy.len() - step) as f64);
        let fall = (before / count.max(1.0) - (all - before) / rest).max(0.0);
        let explained = fall.powi(2) * count * rest;
        if step >= MIN_INTERVALS_BEFORE && best.is_none_or(|(most, _)| explained >= most) {
            best = Some((explained, step));
        }
        before += interval.bytes as f64;
    }
    best.map(|(_, step)| step)
}

fn mean_bytes(intervals: &[Interval]) -> f64 {
    let bytes = intervals.iter().map(|interval| interval.bytes).fold(0, u64::saturating_add);
    bytes as f64 / intervals.len().max(1) as f64
}

fn median_trip_us(intervals: &[Interval]) -> f64 {
    median(intervals.iter().map(Interval::round_trip_us)) as f64
}

/// The median round trip right after the step, if it does not fall: the queue fills. What drains was
/// there before.
fn filling_queue_us(after: &[Interval]) -> Option<f64> {
    let filling = after.get(..MIN_INTERVALS_AFTER)?;
    let (first, then) = filling.split_at_checked(MIN_INTERVALS_AFTER / 2)?;
    (median_trip_us(then) >= median_trip_us(first)).then(|| median_trip_us(filling))
}

/// The median of those that are known: not 0.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.filter(|value| *value > 0).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer that sends each millisecond the bytes that `of` gives, with a round trip in ms.
    fn transfer(millis: i64, of: impl Fn(i64) -> (u64, i64)) -> Option<ShapedThroughput> {
        let mut throughput = Timeline::new(0);
        for milli in 0..millis {
            let (bytes, round_trip) = of(milli);
            if bytes == 0 {
                continue;
            }
            throughput.data(bytes, milli * 1_000_000, round_trip * 1_000_000);
        }
        throughput.shaped()
    }

    #[test]
    fn a_burst_that_ends_in_a_queue_is_a_shaper() {
        let shaped = transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 60) });
        let shaped = shaped.expect("a step");
        assert!((shaped.rate / 5e6 - 1.0).abs() < 0.02, "{shaped:?}");
        assert!((shaped.before / 25e6 - 1.0).abs() < 0.1, "{shaped:?}");
        // 20 MB a second for 1.5 s, and the megabyte before.
        assert!((shaped.burst as f64 / 31e6 - 1.0).abs() < 0.1, "{shaped:?}");
        let (before, after) = (shaped.round_trip_before_us, shaped.round_trip_after_us);
        assert!(before <= 1_000 && after == 60_000, "{shaped:?}");
    }

    #[test]
    fn no_shaper_without_a_step_of_both_and_an_even_throughput() {
        assert_eq!(transfer(6_000, |_| (5_000, 60)), None, "a link with a queue");
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 1) }), None);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (8_000, 1) } else { (5_000, 60) }), None);
        let uneven = |at| (if at / 400 % 2 == 0 { 8_000 } else { 2_000 }, 60);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { uneven(at) }), None);
        assert_eq!(transfer(200, |at| if at < 100 { (25_000, 1) } else { (5_000, 60) }), None);
    }

    #[test]
    fn a_smaller_fall_is_no_slow_start_after_some_round_trips() {
        let shaped =
            |fast: u64, before: i64, round_trip: i64| {
                transfer(6_000, |at| {
                    if at < before { (fast, round_trip) } else { (5_000, round_trip + 60) }
                })
            };
        assert!(shaped(13_000, 600, 20).is_some());
        assert_eq!(shaped(13_000, 100, 20), None, "slow start");
        assert!(shaped(30_000, 100, 20).is_some());
        assert_eq!(shaped(11_000, 600, 20), None, "another transfer took half");
    }

    /// Rates and round trips of all sizes: bytes a second, base round trip and queue in microseconds.
    #[test]
    fn a_short_burst_shows_before_a_long_transfer_at_any_rate() {
        let paths = [
            (32e3, 8e5, 100, 1_000_000, 2_000),
            (1.25e6, 12.5e6, 200, 200_000, 60),
            (12.5e6, 125e6, 20_000, 120_000, 120),
            (125e6, 5e8, 200_000, 400_000, 120),
        ];
        for (rate, burst_rate, base_us, queue_us, seconds) in paths {
            let mut throughput = Timeline::new(0);
            let step = 2_000_000;
            // The burst lasts for as long as 1 % of the whole, or four round trips.
            let burst = (seconds as f64 * 0.01).max(base_us as f64 * 8e-6);
            let (mut at, mut rest) = (0_i64, 0.0);
            while at < seconds * 1_000_000_000 {
                let fast = (at as f64) < burst * 1e9;
                rest += (if fast { burst_rate } else { rate }) * step as f64 * 1e-9;
                let bytes = if rest >= 1448.0 { rest as u64 } else { 0 };
                rest -= bytes as f64;
                if bytes > 0 {
                    let trip = if fast { base_us } else { base_us + queue_us };
                    throughput.data(bytes, at, trip * 1_000);
                }
                at += step;
            }
            let found = throughput.shaped().unwrap_or_else(|| panic!("at {rate} bytes a second"));
            assert!((found.rate / rate - 1.0).abs() < 0.05, "{rate}: {found:?}");
            assert!((found.before / burst_rate - 1.0).abs() < 0.1, "{rate}: {found:?}");
            let credit = (burst_rate - rate) * burst + BULK_BYTES as f64;
            assert!((found.burst as f64 / credit - 1.0).abs() < 0.15, "{rate}: {found:?}");
            let whole = seconds * 1_000_000_000;
            assert!(found.duration > whole * 9 / 10 && found.duration <= whole, "{found:?}");
        }
    }

    #[test]
    fn a_queue_that_held_something_before_grows_with_what_was_in_flight() {
        // From 25 MB a second to 5 MB a second: a window of 500 kB, or more, is in the queue.
        let step = |before: i64, after: i64| {
            transfer(6_000, |at| if at < 1_500 { (25_000, before) } else { (5_000, after) })
        };
        let found = step(20, 100).expect("the whole window waits");
        assert_eq!((found.round_trip_before_us, found.round_trip_after_us), (20_000, 100_000));
        assert!(step(20, 60).is_some(), "a part of it was lost");
        assert_eq!(step(20, 45), None, "less is in flight: another reason to send less");
        assert_eq!(step(5, 24), None, "less than 20 ms");
    }

    #[test]
    fn a_queue_that_fills_slowly_counts_with_its_length_when_it_is_full() {
        let found = transfer(8_000, |at| {
            if at < 1_500 { (25_000, 1) } else { (5_000, (1 + (at - 1_500) / 20).min(107)) }
        });
        assert!(found.is_some_and(|found| found.round_trip_after_us > 95_000), "{found:?}");
    }

    #[test]
    fn a_queue_that_the_sender_drains_later_shows_when_it_fills() {
        let step = |after: fn(i64) -> i64| {
            transfer(6_000, |at| if at < 1_500 { (25_000, 8) } else { (5_000, after(at - 1_500)) })
        };
        let found = step(|at| if at < 1_600 { (8 + at / 10).min(150) } else { 24 });
        assert!(found.is_some_and(|found| found.round_trip_after_us > 50_000), "{found:?}");
        // A sender that goes on more slowly after it has filled a queue.
        assert_eq!(step(|at| (150 - at * 2 / 3).max(8)), None);
        // A sender that notices the queue, as bbr does.
        assert_eq!(step(|at| if at < 600 { (8 + at / 5).min(100) } else { 12 }), None);
    }

    #[test]
    fn a_burst_in_an_earlier_transfer_shows() {
        // 200 ms at 25 MB a second, a pause, then 3 s at 5 MB a second.
        let transfers = |second: u64, round_trip: i64| {
            transfer(5_000, move |at| match at {
                0..200 => (25_000, 1),
                1_500..4_500 => (second, round_trip),
                _ => (0, 0),
            })
        };
        let found = transfers(5_000, 60).expect("a step between the transfers");
        assert!((found.rate / 5e6 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.before / 25e6 - 1.0).abs() < 0.05, "{found:?}");
        assert_eq!(transfers(5_000, 2), None, "nothing waits");
        assert_eq!(transfers(20_000, 60), None, "nearly as fast");
        // Each transfer begins with the credit that came back before it.
        let again = transfer(6_000, |at| match at % 3_000 {
            0..300 => (25_000, 1),
            300..2_000 => (5_000, 60),
            _ => (0, 0),
        });
        assert!((again.expect("a step in each").rate / 5e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_short_time_at_a_lower_rate_is_no_shaper() {
        // Other traffic for 300 ms, at the end of the first 64 intervals.
        let other = |at: i64| if (1_000..1_300).contains(&at) { (5_000, 60) } else { (25_000, 1) };
        assert_eq!(transfer(6_000, other), None);
    }

    /// A transfer of some milliseconds, as [`transfer`].
    fn throughput(millis: std::ops::Range<i64>, of: impl Fn(i64) -> (u64, i64)) -> Timeline {
        let mut throughput = Timeline::new(millis.start * 1_000_000);
        for milli in millis {
            let (bytes, round_trip) = of(milli);
            if bytes > 0 {
                throughput.data(bytes, milli * 1_000_000, round_trip * 1_000_000);
            }
        }
        throughput
    }

    fn together(all: &[&Timeline]) -> Option<ShapedThroughput> {
        Timeline::sum(all)?.shaped()
    }

    #[test]
    fn two_transfers_through_one_shaper_show_it_together() {
        // Each has most of its rate for a while, 32 kB/s to 100 MB/s.
        for unit in [32, 1_000, 100_000_u64] {
            let share = move |at: i64, is_first: bool| {
                let has_most = (at / 700 % 2 == 0) == is_first;
                match at < 2_000 {
                    true => (unit * 5, 2),
                    false if has_most => (unit * 9 / 10, 80),
                    false => (unit / 10, 80),
                }
            };
            let first = throughput(0..20_000, |at| share(at, true));
            let second = throughput(150..9_000, |at| share(at, false));
            assert_eq!((first.shaped(), second.shaped()), (None, None), "neither is even");
            let second = throughput(150..20_000, |at| share(at, false));
            let found = together(&[&first, &second]).expect("their sum is");
            let rate = unit as f64 * 1_000.0;
            assert!((found.rate / rate - 1.0).abs() < 0.1, "{unit}: {found:?}");
            assert!((found.before / (rate * 10.0) - 1.0).abs() < 0.1, "{unit}: {found:?}");
            assert_eq!(first.round_trips_us(found.at), [Some(2_000), Some(80_000)]);
        }
    }

    #[test]
    fn a_short_transfer_and_a_longer_one_later_show_the_shaper_together() {
        let burst = throughput(0..200, |_| (25_000, 1));
        let long = throughput(3_000..90_000, |_| (5_000, 60));
        assert_eq!((burst.shaped(), long.shaped()), (None, None));
        let found = together(&[&long, &burst]).expect("a step");
        assert!((found.rate / 5e6 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.before / 25e6 - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.duration > 80_000_000_000, "{found:?}");
        assert_eq!(burst.round_trips_us(found.at), [Some(1_000), None]);
        let unhindered = throughput(3_000..90_000, |_| (5_000, 2));
        assert_eq!(together(&[&unhindered, &burst]), None, "nothing waits");
    }

    #[test]
    fn transfers_that_end_or_vary_together_are_no_shaper() {
        let even = throughput(0..9_000, |_| (5_000, 60));
        let ends = throughput(0..1_500, |_| (25_000, 60));
        assert_eq!(together(&[&even, &ends]), None, "the round trip stays");
        let vary = |at: i64| (if at / 400 % 2 == 0 { 4_000 } else { 1_000 }, 60);
        let both = |at: i64| if at < 1_500 { (12_500, 1) } else { vary(at) };
        let [first, second] = [throughput(0..6_000, both), throughput(0..6_000, both)];
        assert_eq!(together(&[&first, &second]), None, "the sum is not even");
    }

    #[test]
    fn a_sender_that_sends_in_flights_shows_the_shaper_by_its_acknowledgements() {
        // Twice a second 2.5 MB leave at once; they are acknowledged evenly at 5 MB a second.
        let mut throughput = Throughput::new(Sequence(0), 0);
        let mut acknowledged = 0;
        for milli in 0..8_000 {
            let at = milli * 1_000_000;
            if milli < 1_500 {
                throughput.data(25_000, at, 1_000_000);
            } else if milli % 500 == 0 {
                throughput.data(2_500_000, at, 60_000_000);
            }
            acknowledged += if milli < 1_500 { 25_000 } else { 5_000 };
            throughput.acknowledged(Sequence(acknowledged), at);
        }
        assert_eq!(throughput.sent.series.shaped(), None, "what is sent is not even");
        let found = throughput.shaped().expect("a step of what is delivered");
        assert!((found.rate / 5e6 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn idle_times_and_clocks_that_jump_do_no_harm() {
        let mut throughput = Timeline::new(0);
        for at in [0, 1, i64::MAX / 2, -5, i64::MIN / 2, 7, i64::MAX / 2] {
            throughput.data(u64::MAX, at, i64::MAX);
        }
        throughput.shaped();
        together(&[&throughput, &throughput]);
    }
}
