//! The rate of a bulk transfer over time, and its round trip: a token bucket with a queue lets a burst
//! pass, then holds its rate, and what is above it waits.
//!
//! What is looked for is a step: from one moment on the rate is a third of what it was or less, and
//! even; and the round trip, which was short, is long. Rates that fall because others came are not
//! even, and a link that was always the limit had its queue before, too.

use crate::Nanos;

/// Bytes from which on a direction carries a bulk transfer.
pub(crate) const BULK: u64 = 1 << 20;
/// Stretches of time that are remembered, and how long each is at first.
const BINS: usize = 64;
const WIDTH: Nanos = 20_000_000;
/// Fewest of them before the step and after it.
const BEFORE: usize = 3;
const AFTER: usize = 8;
/// The rate falls to such a part, the round trip grows so many times and by so much.
const FALLS: f64 = 3.0;
const GROWS: f64 = 5.0;
const QUEUE_US: f64 = 20_000.0;
/// How even a rate is that a bucket holds: its deviation as a part of it.
const EVEN: f64 = 0.2;

/// A rate that fell to that of a token bucket with a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shaped {
    /// Bytes a second before and after.
    pub before: f64,
    /// Bytes a second that it was held to.
    pub rate: f64,
    /// Bytes above that rate that passed before: the burst.
    pub burst: u64,
    /// Round trip before, microseconds.
    pub trip_before_us: u64,
    /// Round trip after.
    pub trip_after_us: u64,
    /// Time from the first megabyte to the step.
    pub after: Nanos,
    /// Time from the step to the end.
    pub lasted: Nanos,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    bytes: u64,
    trip_us: u32,
}

/// Rates of one direction.
#[derive(Debug, Clone)]
pub(crate) struct Rates {
    bins: [Bin; BINS],
    used: usize,
    width: Nanos,
    /// When the last of them began.
    began: Nanos,
}

impl Rates {
    pub(crate) fn new(at: Nanos) -> Self {
        Rates { bins: [Bin::default(); BINS], used: 1, width: WIDTH, began: at }
    }

    /// New data passes, when round trips are so long.
    #[inline]
    pub(crate) fn data(&mut self, bytes: u64, at: Nanos, trip: Nanos) {
        while at.saturating_sub(self.began) >= self.width {
            self.next(at);
        }
        let bin = &mut self.bins[self.used - 1];
        bin.bytes = bin.bytes.saturating_add(bytes);
        bin.trip_us = u32::try_from(trip / 1_000).unwrap_or(0);
    }

    fn next(&mut self, at: Nanos) {
        // A pause that is longer than all that is remembered: a new beginning.
        if at.saturating_sub(self.began) / self.width > BINS as Nanos {
            *self = Rates::new(at);
            return;
        }
        if self.used == BINS {
            for place in 0..BINS / 2 {
                let (a, b) = (self.bins[2 * place], self.bins[2 * place + 1]);
                let bytes = a.bytes.saturating_add(b.bytes);
                self.bins[place] = Bin { bytes, trip_us: b.trip_us.max(a.trip_us) };
            }
            self.bins[BINS / 2..].fill(Bin::default());
            self.used = BINS / 2;
            self.width = self.width.saturating_mul(2);
            // The last one goes on for its second half.
            self.began = self.began.saturating_sub(self.width / 2);
            return;
        }
        self.began = self.began.saturating_add(self.width);
        self.used += 1;
    }

    /// Whether the rate fell to that of a bucket.
    pub(crate) fn shaped(&self) -> Option<Shaped> {
        // The last is not over.
        let bins = &self.bins[..self.used.saturating_sub(1)];
        let busy = bins.iter().rposition(|bin| bin.bytes == 0).map_or(0, |place| place + 1);
        let bins = &bins[busy..];
        let most = bins.len().checked_sub(AFTER)?;
        let rate = |bins: &[Bin]| {
            let bytes: u64 = bins.iter().map(|bin| bin.bytes).fold(0, u64::saturating_add);
            bytes as f64 / bins.len().max(1) as f64
        };
        let step = (BEFORE..=most).max_by(|a, b| {
            let fall = |step: usize| {
                let (before, after) = (rate(&bins[..step]), rate(&bins[step..]));
                // How much of the changes the step explains.
                let parts = step as f64 * (bins.len() - step) as f64;
                (before - after).max(0.0).powi(2) * parts
            };
            fall(*a).total_cmp(&fall(*b))
        })?;
        // Queues fill while the rate falls: that stretch tells of neither side.
        let (before, after) = (&bins[..step], &bins[step + 1..]);
        let (fast, slow) = (rate(before), rate(after));
        let even = {
            let squares = after.iter().map(|bin| (bin.bytes as f64 - slow).powi(2)).sum::<f64>();
            (squares / after.len().max(1) as f64).sqrt() <= EVEN * slow
        };
        let (short, long) = (trip(before), trip(after));
        let longer = long >= GROWS * short && long >= short + QUEUE_US && short > 0.0;
        if slow <= 0.0 || fast < FALLS * slow || !even || !longer {
            return None;
        }
        let second = 1e9 / self.width as f64;
        Some(Shaped {
            before: fast * second,
            rate: slow * second,
            burst: BULK.saturating_add(((fast - slow) * step as f64) as u64),
            trip_before_us: short as u64,
            trip_after_us: long as u64,
            after: self.width.saturating_mul(step as Nanos),
            lasted: self.width.saturating_mul((bins.len() - step) as Nanos),
        })
    }
}

/// The median round trip, microseconds.
fn trip(bins: &[Bin]) -> f64 {
    let mut trips: Vec<u32> = bins.iter().map(|bin| bin.trip_us).filter(|us| *us > 0).collect();
    trips.sort_unstable();
    trips.get(trips.len() / 2).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer that sends at each millisecond what `bytes` gives, with its round trip in ms.
    fn transfer(millis: i64, of: impl Fn(i64) -> (u64, i64)) -> Option<Shaped> {
        let mut rates = Rates::new(0);
        for milli in 0..millis {
            let (bytes, trip) = of(milli);
            rates.data(bytes, milli * 1_000_000, trip * 1_000_000);
        }
        rates.shaped()
    }

    #[test]
    fn a_burst_that_ends_in_a_queue_is_a_bucket() {
        let shaped = transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 60) });
        let shaped = shaped.expect("a step");
        assert!((shaped.rate / 5e6 - 1.0).abs() < 0.02, "{shaped:?}");
        assert!((shaped.before / 25e6 - 1.0).abs() < 0.1, "{shaped:?}");
        // 20 MB a second for 1.5 s, and the megabyte before.
        assert!((shaped.burst as f64 / 31e6 - 1.0).abs() < 0.1, "{shaped:?}");
        assert!(shaped.trip_before_us <= 1_000 && shaped.trip_after_us == 60_000, "{shaped:?}");
    }

    #[test]
    fn no_bucket_without_a_step_of_both_and_an_even_rate() {
        assert_eq!(transfer(6_000, |_| (5_000, 60)), None, "a link with a queue");
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { (5_000, 1) }), None);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (8_000, 1) } else { (5_000, 60) }), None);
        let uneven = |at| (if at / 400 % 2 == 0 { 8_000 } else { 2_000 }, 60);
        assert_eq!(transfer(6_000, |at| if at < 1_500 { (25_000, 1) } else { uneven(at) }), None);
        assert_eq!(transfer(200, |at| if at < 100 { (25_000, 1) } else { (5_000, 60) }), None);
    }

    #[test]
    fn pauses_and_clocks_that_jump_do_no_harm() {
        let mut rates = Rates::new(0);
        for at in [0, 1, i64::MAX / 2, -5, i64::MIN / 2, 7, i64::MAX / 2] {
            rates.data(u64::MAX, at, i64::MAX);
        }
        rates.shaped();
    }
}
