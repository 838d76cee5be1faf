//! The level: how many bytes lack in the bucket, at a rate; and the rate at which all losses agree.

use super::quantile;

/// Losses that begin anew, at least: a line through two of them says nothing.
const BURSTS: usize = 4;
/// The same, where the rate is known from earlier answers.
const BURSTS_KNOWN: usize = 1;
/// How surely it is not chance, natural logarithm: 1 in 160,000, for each of the rates tried.
const EVIDENCE: f64 = 12.0;
/// The same, where the rate is known.
const EVIDENCE_KNOWN: f64 = 5.0;
/// What part of the losses must be at the level, and of what is beyond it must be lost.
const PART: f64 = 0.8;
/// A bucket holds some packets: with fewer, everything is at its level.
const PACKETS: f64 = 2.0;
/// Part of the level that the jitter of the path may blur: beyond, anything is at one level.
const UNSTEADY: f64 = 0.125;
/// Rates to begin with, in parts of what passed between the first loss and the last: a bucket that
/// is full now and then lets less pass than its rate.
const TRIED: [f64; 8] = [1.0, 1.2, 1.6, 2.4, 4.0, 8.0, 15.0, 30.0];
/// Rates that are tried between those that earlier answers leave, less one.
const SPREAD: i32 = 8;
/// Steps by which a rate is bettered.
const NEARER: [f64; 4] = [0.015, 0.004, 0.001, 0.0003];
/// How often a rate is drawn anew through the losses at its level.
const ROUNDS: usize = 6;

/// Something was sent, and a part of it, all or nothing passed.
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
    pub(super) trip: f64,
}

/// A token bucket that explains the losses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// Bytes a second, and between which rates it explains them as well.
    pub(super) rate: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Bytes that lacked when packets were dropped.
    pub(super) level: f64,
    /// Bytes.
    pub(super) bucket: f64,
    /// Bytes that lacked at the end, and at first.
    pub(super) lacking: f64,
    pub(super) initial: f64,
    /// Packets.
    pub(super) lost: u32,
    pub(super) passed: u32,
    /// How often dropping began.
    pub(super) bursts: u32,
}

/// A loss before or after which something passed: the first and the last of a burst.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Bytes that lack, with the packet that was dropped.
    level: f64,
    /// Bytes that passed since the bucket was last full, with it.
    sum: f64,
    /// Since when that was, seconds.
    since: f64,
    /// Whether it is the first of its burst.
    first: bool,
}

/// How well a rate explains the losses.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    /// How surely it is no chance; 0 where too little agrees.
    evidence: f64,
    /// The same, however little agrees, less what is beyond.
    worth: f64,
    /// Lowest level of the losses that agree.
    from: f64,
    /// Bursts that begin at that level.
    agree: usize,
    /// Packets that passed beyond it.
    beyond: u64,
}

/// The steps with all that does not depend on the rate, and what a walk through them finds.
struct Problem<'a> {
    steps: &'a [Step],
    /// Bytes that lack in the bucket at first.
    initial: f64,
    /// Bytes of the largest packet.
    packet: f64,
    /// Seconds by which round trips differ that should not.
    jitter: f64,
    bursts: usize,
    lost: u32,
    passed: u32,
    /// How many bursts agree in any case: what is chosen freely, the level and perhaps the rate.
    free: usize,
    points: Vec<Point>,
    /// Bytes that lack after each step; not a number where something was lost.
    levels: Vec<f64>,
}

/// The bucket that explains the losses. `known` are the rates that earlier answers leave.
pub(super) fn fit(steps: &[Step], initial: f64, known: Option<(f64, f64)>) -> Option<Fit> {
    let mut problem = Problem::new(steps, initial);
    if let Some((low, high)) = known
        && problem.bursts >= BURSTS_KNOWN
    {
        problem.free = 1;
        let drawn = problem.refine((low * high).sqrt()).max(low).min(high);
        let step = (high / low).powf(1.0 / f64::from(SPREAD));
        let rates = std::iter::once(drawn).chain((0..=SPREAD).map(|n| low * step.powi(n)));
        let (rate, score) = problem.best(rates, low, high);
        let score = problem.begin(rate, score);
        if score.evidence >= EVIDENCE_KNOWN {
            return Some(problem.found(rate, &score));
        }
    }
    if problem.bursts < BURSTS {
        return None;
    }
    (problem.free, problem.initial) = (2, initial);
    let mean = problem.mean()?;
    let mut rates = TRIED.map(|part| mean * part);
    for rate in &mut rates {
        *rate = problem.refine(*rate);
    }
    let (rate, score) = problem.best(rates.into_iter(), 0.0, f64::INFINITY);
    let score = problem.begin(rate, score);
    (score.evidence >= EVIDENCE).then(|| problem.found(rate, &score))
}

impl<'a> Problem<'a> {
    fn new(steps: &'a [Step], initial: f64) -> Self {
        let mut bursts = 0;
        let (mut lost, mut passed) = (0_u32, 0_u32);
        let mut packet = 0.0_f64;
        let mut dropping = false;
        for step in steps {
            packet = packet.max(step.packet);
            if step.lost > 0 && !(dropping && step.passed == 0.0) {
                bursts += 1;
            }
            passed = passed.saturating_add(step.packets);
            lost = lost.saturating_add(step.lost);
            dropping = step.lost > 0;
        }
        let mut trips: Vec<f64> =
            steps.iter().map(|step| step.trip).filter(|trip| *trip > 0.0).collect();
        trips.sort_unstable_by(f64::total_cmp);
        let jitter = quantile(&trips, 0.75) - quantile(&trips, 0.1);
        let (points, levels) = (Vec::with_capacity(2 * bursts), Vec::with_capacity(steps.len()));
        Problem { steps, initial, packet, jitter, bursts, lost, passed, free: 2, points, levels }
    }

    /// Bytes a second that passed between the first loss and the last.
    fn mean(&self) -> Option<f64> {
        let first = self.steps.iter().position(|step| step.lost > 0)?;
        let last = self.steps.iter().rposition(|step| step.lost > 0)?;
        let between = self.steps.get(first..last)?;
        let sum: f64 = between.iter().map(|step| step.passed).sum();
        let time = self.steps[last].at - self.steps[first].at;
        (sum > 0.0 && time > 1e-6).then(|| sum / time)
    }

    /// Walks through the steps at a rate. Returns how many bytes lack at the end.
    fn walk(&mut self, rate: f64) -> f64 {
        self.points.clear();
        self.levels.clear();
        let (mut lacking, mut sum, mut full, mut before) = (self.initial, self.initial, 0.0, 0.0);
        let mut dropping = false;
        let mut last: Option<Point> = None;
        for step in self.steps {
            lacking -= rate * (step.at - before);
            before = step.at;
            if lacking <= 0.0 {
                (lacking, sum, full) = (0.0, 0.0, step.at);
            }
            lacking += step.passed;
            sum += step.passed;
            if step.lost > 0 {
                let level = lacking + step.packet;
                let since = step.at - full;
                let first = !(dropping && step.passed == 0.0);
                let point = Point { level, sum: sum + step.packet, since, first };
                if first {
                    self.points.extend(last.take());
                    self.points.push(point);
                } else {
                    last = Some(point);
                }
                self.levels.push(f64::NAN);
            } else {
                self.points.extend(last.take());
                self.levels.push(lacking);
            }
            dropping = step.lost > 0;
        }
        self.points.extend(last);
        lacking
    }

    /// Draws the rate through the losses, again and again: as many bytes passed since the bucket
    /// was full as it holds and as came since.
    fn refine(&mut self, mut rate: f64) -> f64 {
        for round in 0..ROUNDS {
            self.walk(rate);
            let mut levels: Vec<f64> = self.points.iter().map(|point| point.level).collect();
            levels.sort_unstable_by(f64::total_cmp);
            let middle = quantile(&levels, 0.5);
            self.points
                .sort_by(|a, b| (a.level - middle).abs().total_cmp(&(b.level - middle).abs()));
            let part = if round < 3 { 0.6 } else { 0.8 };
            let keep = ((self.points.len() as f64 * part) as usize).max(3).min(self.points.len());
            let points = &self.points[..keep];
            let count = keep as f64;
            let sum = points.iter().map(|point| point.sum).sum::<f64>() / count;
            let since = points.iter().map(|point| point.since).sum::<f64>() / count;
            let spread: f64 = points.iter().map(|point| (point.since - since).powi(2)).sum();
            let both: f64 =
                points.iter().map(|point| (point.since - since) * (point.sum - sum)).sum();
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

    /// The best of some rates, and whether one near it is better.
    fn best(&mut self, rates: impl Iterator<Item = f64>, low: f64, high: f64) -> (f64, Score) {
        let mut best = (low, Score::default());
        for rate in rates {
            self.consider(rate, &mut best);
        }
        for step in NEARER {
            let around = best.0;
            for factor in [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0] {
                self.consider((around * (1.0 + step * factor)).max(low).min(high), &mut best);
            }
        }
        best
    }

    /// The bucket may not have been full at first: as many bytes lacked as make the first loss agree
    /// with the others.
    fn begin(&mut self, rate: f64, score: Score) -> Score {
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

    fn consider(&mut self, rate: f64, best: &mut (f64, Score)) {
        let score = self.score(rate);
        if score.worth > best.1.worth {
            *best = (rate, score);
        }
    }

    /// How far from each other levels may be that are the same.
    fn slack(&self, rate: f64) -> f64 {
        self.packet / 4.0 + rate * self.jitter
    }

    fn score(&mut self, rate: f64) -> Score {
        self.walk(rate);
        let slack = self.slack(rate);
        self.points.sort_unstable_by(|a, b| a.level.total_cmp(&b.level));
        let width = self.packet + 2.0 * slack;
        let (mut most, mut range, mut end) = (0, 0..0, 0);
        for begin in 0..self.points.len() {
            while end < self.points.len()
                && self.points[end].level <= self.points[begin].level + width
            {
                end += 1;
            }
            if end - begin > most {
                (most, range) = (end - begin, begin..end);
            }
        }
        let all = self.points.len() as f64;
        let Some((first, last)) =
            self.points.get(range.clone()).and_then(|band| Some((band.first()?, band.last()?)))
        else {
            return Score::default();
        };
        let (from, to) = (first.level, last.level);
        let limit = from.max(to - self.packet) + slack;
        let (mut reached, mut beyond) = (0_u64, 0_u64);
        for (level, step) in self.levels.iter().zip(self.steps) {
            if *level >= from {
                reached += u64::from(step.packets);
            }
            if *level > limit {
                beyond += u64::from(step.packets);
            }
        }
        let agree = self.points[range].iter().filter(|point| point.first).count();
        let mut score = Score { from, agree, beyond, ..Score::default() };
        // How often a packet is at that level anyway: those that passed there, and one.
        let all_bursts = self.bursts as f64 + 1.0;
        let chance = (reached as f64 + agree as f64 + 1.0) / (f64::from(self.passed) + all_bursts);
        let count = self.bursts.saturating_sub(self.free) as f64;
        let hits = agree.saturating_sub(self.free) as f64;
        let lost = f64::from(self.lost) * most as f64 / all;
        let part = lost / (lost + beyond as f64);
        if from >= (PACKETS + 1.0) * self.packet && rate * self.jitter <= from * UNSTEADY {
            score.worth = surprise(hits, count, chance) * part;
            if most as f64 >= PART * all && part >= PART {
                score.evidence = score.worth;
            }
        }
        score
    }

    fn found(&mut self, rate: f64, score: &Score) -> Fit {
        let (low, high) = self.range(rate, score);
        // Within that, the one at which the losses are nearest to each other.
        let rate = self.refine(rate).max(low).min(high);
        let again = self.score(rate);
        let lacking = self.walk(rate);
        let below = self.levels.iter().copied().filter(|level| *level <= again.from);
        let passed = below.fold(0.0, f64::max);
        Fit {
            rate,
            low,
            high,
            level: again.from,
            bucket: f64::midpoint(passed.max(again.from - self.packet), again.from),
            lacking,
            initial: self.initial,
            lost: self.lost,
            passed: self.passed,
            bursts: u32::try_from(self.bursts).unwrap_or(u32::MAX),
        }
    }

    /// Between which rates the losses are explained as well.
    fn range(&mut self, rate: f64, best: &Score) -> (f64, f64) {
        let fewest = best.agree - (best.agree / 10).max(usize::from(best.agree > 3));
        let most = best.beyond + u64::from(self.lost / 20);
        let mut edge = |factor: f64| {
            let (mut inside, mut step) = (rate, 1.002_f64);
            for _ in 0..60 {
                let next = if factor > 1.0 { inside * step } else { inside / step };
                let score = self.score(next);
                if score.evidence < best.evidence / 2.0
                    || score.agree < fewest
                    || score.beyond > most
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
        (edge(0.5), edge(2.0))
    }
}

/// How surprising it is that so many of a count are where a part of all are: the exponent of a
/// bound on its probability (Chernoff).
fn surprise(hits: f64, count: f64, chance: f64) -> f64 {
    if count <= 0.0 || hits <= chance * count || chance >= 1.0 {
        return 0.0;
    }
    let part = (hits / count).min(1.0);
    let rest = 1.0 - part;
    let missed = if rest > 0.0 { rest * (rest / (1.0 - chance)).ln() } else { 0.0 };
    count * (part * (part / chance).ln() + missed)
}
