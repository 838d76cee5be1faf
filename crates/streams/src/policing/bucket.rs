//! The level: the deficit of the bucket, in bytes, at a rate; and the rate at which all losses agree.

use std::ops::Range;

use super::statistics::quantile;

/// Fewest bursts of losses: any two lie on a line.
const MIN_BURSTS: usize = 4;
/// The same, where the rate is known from earlier responses.
const MIN_BURSTS_KNOWN_RATE: usize = 1;
/// Fewest times that the level was reached from below: the bursts of a run of losses, or of two, agree
/// at some rate, however many they are.
const MIN_REACHED: usize = 3;
/// Least certainty that it is not chance, natural logarithm: 1 in 160,000, for each rate tried.
const MIN_CERTAINTY: f64 = 12.0;
/// The same, where the rate is known.
const MIN_CERTAINTY_KNOWN_RATE: f64 = 5.0;
/// Least share of the losses at the level, and least share of losses in what is beyond it.
const MIN_AGREEING_SHARE: f64 = 0.8;
/// Fewest packets that a bucket holds: with fewer, everything is at its level.
const MIN_BUCKET_PACKETS: f64 = 2.0;
/// Most jitter of the path as a share of the level: with more, anything is at one level.
const MAX_JITTER_SHARE: f64 = 0.125;
/// Rates to begin with, as factors of the throughput between the first loss and the last: a bucket
/// that is full now and then lets less pass than its rate.
const FIRST_RATES: [f64; 8] = [1.0, 1.2, 1.6, 2.4, 4.0, 8.0, 15.0, 30.0];
/// Rates tried between those that earlier responses leave, less one.
const KNOWN_RATE_STEPS: i32 = 8;
/// Steps by which a rate is improved.
const RATE_STEPS: [f64; 4] = [0.015, 0.004, 0.001, 0.0003];
/// How often a rate is fitted again to the losses at its level.
const FIT_ROUNDS: usize = 6;

/// A transmission, and what of it passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    /// Seconds since the first.
    pub(super) at: f64,
    /// Bytes that passed.
    pub(super) passed: f64,
    /// Bytes of one packet of it.
    pub(super) packet: f64,
    /// Packets of it that passed.
    pub(super) packets: u32,
    /// Packets of it that were lost.
    pub(super) lost: u32,
    /// Round trip, seconds; 0: unknown.
    pub(super) round_trip: f64,
}

/// A token bucket that explains the losses.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketFit {
    /// Bytes a second.
    pub(super) rate: f64,
    /// Lowest and highest rate that explain the losses as well.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Deficit when packets were dropped, bytes.
    pub(super) level: f64,
    /// Size of the bucket, bytes.
    pub(super) bucket: f64,
    /// Deficit at the end, and at first, bytes.
    pub(super) deficit: f64,
    pub(super) initial: f64,
    /// Packets.
    pub(super) lost: u32,
    pub(super) passed: u32,
    /// How often dropping began.
    pub(super) bursts: u32,
}

/// The first or the last loss of a burst.
#[derive(Debug, Clone, Copy)]
struct LossPoint {
    /// Deficit with the packet that was dropped, bytes.
    level: f64,
    /// Bytes that passed since the bucket was last full, with the packet that was dropped.
    sum: f64,
    /// Seconds since then.
    since: f64,
    /// Lowest deficit since the burst before began, bytes.
    lowest: f64,
    is_first: bool,
}

/// How well a rate explains the losses.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    /// Certainty that it is not chance; 0 if too few losses agree.
    certainty: f64,
    /// The same, however few losses agree, less the share of what passed beyond the level.
    worth: f64,
    /// Lowest level of the losses that agree.
    from: f64,
    /// Bursts that begin at that level.
    agreeing_bursts: usize,
    /// Packets that passed beyond it.
    passed_beyond: u64,
}

/// Searches for the rate; what does not depend on it, and what the last walk found.
struct Search<'a> {
    steps: &'a [Step],
    /// Deficit at first, bytes.
    initial: f64,
    /// Bytes of the largest packet.
    packet: f64,
    /// By how much round trips differ that should not, seconds.
    jitter: f64,
    bursts: usize,
    lost: u32,
    passed: u32,
    /// Bursts that agree in any case: the level is free to choose, and perhaps the rate.
    free: usize,
    /// How often the level has to have been reached from below.
    min_reached: usize,
    points: Vec<LossPoint>,
    /// Deficit after each step, bytes; not a number where something was lost.
    levels: Vec<f64>,
}

/// The bucket that explains the losses. `known` are the lowest and the highest rate that earlier
/// responses leave.
pub(super) fn fit(steps: &[Step], initial: f64, known: Option<(f64, f64)>) -> Option<BucketFit> {
    let mut search = Search::new(steps, initial);
    if let Some((low, high)) = known
        && search.bursts >= MIN_BURSTS_KNOWN_RATE
    {
        (search.free, search.min_reached) = (1, 0);
        let fitted = search.refine((low * high).sqrt()).max(low).min(high);
        let step = (high / low).powf(1.0 / f64::from(KNOWN_RATE_STEPS));
        let rates =
            std::iter::once(fitted).chain((0..=KNOWN_RATE_STEPS).map(|n| low * step.powi(n)));
        let (rate, score) = search.best(rates, low, high);
        let score = search.choose_initial(rate, score);
        if score.certainty >= MIN_CERTAINTY_KNOWN_RATE {
            return Some(search.found(rate, &score));
        }
    }
    if search.bursts < MIN_BURSTS {
        return None;
    }
    (search.free, search.min_reached, search.initial) = (2, MIN_REACHED, initial);
    let mean = search.mean_rate()?;
    let mut rates = FIRST_RATES.map(|factor| mean * factor);
    for rate in &mut rates {
        *rate = search.refine(*rate);
    }
    let (rate, score) = search.best(rates.into_iter(), 0.0, f64::INFINITY);
    let score = search.choose_initial(rate, score);
    (score.certainty >= MIN_CERTAINTY).then(|| search.found(rate, &score))
}

impl<'a> Search<'a> {
    fn new(steps: &'a [Step], initial: f64) -> Self {
        let mut bursts = 0;
        let (mut lost, mut passed) = (0_u32, 0_u32);
        let mut packet = 0.0_f64;
        let mut is_dropping = false;
        for step in steps {
            packet = packet.max(step.packet);
            if step.lost > 0 && !(is_dropping && step.passed == 0.0) {
                bursts += 1;
            }
            passed = passed.saturating_add(step.packets);
            lost = lost.saturating_add(step.lost);
            is_dropping = step.lost > 0;
        }
        let round_trips = steps.iter().map(|step| step.round_trip);
        let mut round_trips: Vec<f64> = round_trips.filter(|time| *time > 0.0).collect();
        round_trips.sort_unstable_by(f64::total_cmp);
        let jitter = quantile(&round_trips, 0.75) - quantile(&round_trips, 0.1);
        let (points, levels) = (Vec::with_capacity(2 * bursts), Vec::with_capacity(steps.len()));
        let (free, min_reached) = (2, MIN_REACHED);
        Search {
            steps,
            initial,
            packet,
            jitter,
            bursts,
            lost,
            passed,
            free,
            min_reached,
            points,
            levels,
        }
    }

    /// Bytes a second that passed between the first loss and the last.
    fn mean_rate(&self) -> Option<f64> {
        let first = self.steps.iter().position(|step| step.lost > 0)?;
        let last = self.steps.iter().rposition(|step| step.lost > 0)?;
        let between = self.steps.get(first..last)?;
        let sum: f64 = between.iter().map(|step| step.passed).sum();
        let time = self.steps.get(last)?.at - self.steps.get(first)?.at;
        (sum > 0.0 && time > 1e-6).then(|| sum / time)
    }

    /// Walks through the steps at a rate. Returns the deficit at the end.
    fn walk(&mut self, rate: f64) -> f64 {
        self.points.clear();
        self.levels.clear();
        let (mut deficit, mut sum, mut full, mut before) = (self.initial, self.initial, 0.0, 0.0);
        let mut is_dropping = false;
        let mut last: Option<LossPoint> = None;
        let mut lowest = 0.0_f64;
        for step in self.steps {
            deficit -= rate * (step.at - before);
            before = step.at;
            if deficit <= 0.0 {
                (deficit, sum, full) = (0.0, 0.0, step.at);
            }
            lowest = lowest.min(deficit);
            deficit += step.passed;
            sum += step.passed;
            if step.lost > 0 {
                let level = deficit + step.packet;
                let since = step.at - full;
                let is_first = !(is_dropping && step.passed == 0.0);
                let sum = sum + step.packet;
                let point = LossPoint { level, sum, since, lowest, is_first };
                if is_first {
                    lowest = deficit;
                    self.points.extend(last.take());
                    self.points.push(point);
                } else {
                    last = Some(point);
                }
                self.levels.push(f64::NAN);
            } else {
                self.points.extend(last.take());
                self.levels.push(deficit);
            }
            is_dropping = step.lost > 0;
        }
        self.points.extend(last);
        deficit
    }

    /// Fits the rate to the losses, again and again: as many bytes passed since the bucket was full
    /// as it holds and as came since.
    fn refine(&mut self, mut rate: f64) -> f64 {
        for round in 0..FIT_ROUNDS {
            self.walk(rate);
            let mut levels: Vec<f64> = self.points.iter().map(|point| point.level).collect();
            levels.sort_unstable_by(f64::total_cmp);
            let median = quantile(&levels, 0.5);
            self.points
                .sort_by(|a, b| (a.level - median).abs().total_cmp(&(b.level - median).abs()));
            let share = if round < 3 { 0.6 } else { 0.8 };
            let keep = ((self.points.len() as f64 * share) as usize).max(3).min(self.points.len());
            let points = || self.points.iter().take(keep);
            let count = keep as f64;
            let sum = points().map(|point| point.sum).sum::<f64>() / count;
            let since = points().map(|point| point.since).sum::<f64>() / count;
            let spread: f64 = points().map(|point| (point.since - since).powi(2)).sum();
            let both: f64 = points().map(|point| (point.since - since) * (point.sum - sum)).sum();
            let next = both / spread;
            if !next.is_finite() || next <= 0.0 {
                return rate;
            }
            let close = (next - rate).abs() < 1e-5 * rate;
            rate = next;
            if close {
                break;
            }
        }
        rate
    }

    /// The best of some rates, or a better one near it.
    fn best(&mut self, rates: impl Iterator<Item = f64>, low: f64, high: f64) -> (f64, Score) {
        let mut best = (low, Score::default());
        for rate in rates {
            self.consider(rate, &mut best);
        }
        for step in RATE_STEPS {
            let around = best.0;
            for factor in [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0] {
                self.consider((around * (1.0 + step * factor)).max(low).min(high), &mut best);
            }
        }
        best
    }

    fn consider(&mut self, rate: f64, best: &mut (f64, Score)) {
        let score = self.score(rate);
        if score.worth > best.1.worth {
            *best = (rate, score);
        }
    }

    /// The bucket may not have been full at first: tries the initial deficit with which the first
    /// loss agrees with the others.
    fn choose_initial(&mut self, rate: f64, score: Score) -> Score {
        self.walk(rate);
        let before = self.initial;
        let more = self.points.first().map_or(0.0, |first| score.from - first.level);
        if more > 0.0 {
            self.initial += more;
            let other = self.score(rate);
            if other.worth > score.worth {
                return other;
            }
            self.initial = before;
        }
        score
    }

    /// How far apart levels may be that are the same.
    fn slack(&self, rate: f64) -> f64 {
        self.packet / 4.0 + rate * self.jitter
    }

    /// The largest group of losses that agree: their places among the points sorted by level.
    fn agreeing(&self, width: f64) -> Range<usize> {
        let (mut largest, mut end) = (0..0, 0);
        for (begin, lowest) in self.points.iter().enumerate() {
            let agrees = |point: &LossPoint| point.level <= lowest.level + width;
            while self.points.get(end).is_some_and(agrees) {
                end += 1;
            }
            // A level that is not a number agrees with nothing, not even itself.
            if end.saturating_sub(begin) > largest.len() {
                largest = begin..end;
            }
        }
        largest
    }

    fn score(&mut self, rate: f64) -> Score {
        self.walk(rate);
        let slack = self.slack(rate);
        let width = self.packet + 2.0 * slack;
        self.points.sort_unstable_by(|a, b| a.level.total_cmp(&b.level));
        let agreeing = self.points.get(self.agreeing(width)).unwrap_or(&[]);
        let (Some(first), Some(last)) = (agreeing.first(), agreeing.last()) else {
            return Score::default();
        };
        let (from, to) = (first.level, last.level);
        let limit = from.max(to - self.packet) + slack;
        let (mut reached, mut passed_beyond) = (0_u64, 0_u64);
        for (level, step) in self.levels.iter().zip(self.steps) {
            if *level >= from {
                reached += u64::from(step.packets);
            }
            if *level > limit {
                passed_beyond += u64::from(step.packets);
            }
        }
        let first_points = || agreeing.iter().filter(|point| point.is_first);
        let agreeing_bursts = first_points().count();
        let reached_from_below = first_points().filter(|point| point.lowest < from - width).count();
        let mut score = Score { from, agreeing_bursts, passed_beyond, ..Score::default() };
        // How often a packet is at that level anyway: those that passed there, and one.
        let all_bursts = self.bursts as f64 + 1.0;
        let chance =
            (reached as f64 + agreeing_bursts as f64 + 1.0) / (f64::from(self.passed) + all_bursts);
        let count = self.bursts.saturating_sub(self.free) as f64;
        let hits = agreeing_bursts.saturating_sub(self.free) as f64;
        let all = self.points.len() as f64;
        let lost = f64::from(self.lost) * agreeing.len() as f64 / all;
        let lost_share = lost / (lost + passed_beyond as f64);
        if from >= (MIN_BUCKET_PACKETS + 1.0) * self.packet
            && rate * self.jitter <= from * MAX_JITTER_SHARE
        {
            score.worth = certainty(hits, count, chance) * lost_share;
            if reached_from_below >= self.min_reached
                && agreeing.len() as f64 >= MIN_AGREEING_SHARE * all
                && lost_share >= MIN_AGREEING_SHARE
            {
                score.certainty = score.worth;
            }
        }
        score
    }

    fn found(&mut self, rate: f64, score: &Score) -> BucketFit {
        let (low, high) = self.rate_range(rate, score);
        // Within that range, the rate at which the losses are nearest to each other.
        let rate = self.refine(rate).max(low).min(high);
        let refined = self.score(rate);
        let deficit = self.walk(rate);
        let below = self.levels.iter().copied().filter(|level| *level <= refined.from);
        let passed = below.fold(0.0, f64::max);
        BucketFit {
            rate,
            low,
            high,
            level: refined.from,
            bucket: f64::midpoint(passed.max(refined.from - self.packet), refined.from),
            deficit,
            initial: self.initial,
            lost: self.lost,
            passed: self.passed,
            bursts: u32::try_from(self.bursts).unwrap_or(u32::MAX),
        }
    }

    /// The lowest and the highest rate that explain the losses as well.
    fn rate_range(&mut self, rate: f64, best: &Score) -> (f64, f64) {
        let tolerated = (best.agreeing_bursts / 10).max(usize::from(best.agreeing_bursts > 3));
        let min_agreeing = best.agreeing_bursts - tolerated;
        let max_beyond = best.passed_beyond + u64::from(self.lost / 20);
        let mut edge = |up: bool| {
            let (mut inside, mut step) = (rate, 1.002_f64);
            for _ in 0..60 {
                let next = if up { inside * step } else { inside / step };
                let score = self.score(next);
                if score.certainty < best.certainty / 2.0
                    || score.agreeing_bursts < min_agreeing
                    || score.passed_beyond > max_beyond
                    || next > rate * 1e3
                    || next < rate * 1e-3
                {
                    if step < 1.005 {
                        break;
                    }
                    step = step.sqrt();
                    continue;
                }
                inside = next;
                step = (step * step).min(1.3);
            }
            inside
        };
        (edge(false), edge(true))
    }
}

/// How unlikely it is that so many hits of a count are chance: the exponent of a bound on the
/// probability (Chernoff).
fn certainty(hits: f64, count: f64, chance: f64) -> f64 {
    if count <= 0.0 || hits <= chance * count || chance >= 1.0 {
        return 0.0;
    }
    let share = (hits / count).min(1.0);
    let rest = 1.0 - share;
    let missed = if rest > 0.0 { rest * (rest / (1.0 - chance)).ln() } else { 0.0 };
    count * (share * (share / chance).ln() + missed)
}
