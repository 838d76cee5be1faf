//! Times from a segment to its acknowledgement. A segment that was sent twice gives none: nobody
//! knows which of the two was acknowledged (Karn's rule).

use crate::sequence::Sequence;
use crate::{Maybe, Nanos};

/// Segments that are timed at once; more are sent between two acknowledgements only by streams
/// whose round trip is known well from those.
const TIMED: usize = 4;

/// Samples that tell nothing of load: most streams have no more.
const FEW: u64 = 4;
/// A round trip longer than this, ten minutes, is none.
const LONGEST: Nanos = 600_000_000_000;

/// Round trips of one direction, as the place of capture sees them: from data that passes to its
/// acknowledgement that passes back.
#[derive(Debug, Clone, Default)]
pub struct RoundTrip {
    timed: [Timed; TIMED],
    /// How many of them are in use, oldest first.
    used: u8,
    /// Up to where something has been sent twice: until that is acknowledged only selective
    /// acknowledgements tell when a segment arrived.
    repaired: Sequence,
    times: Times,
}

impl std::ops::Deref for RoundTrip {
    type Target = Times;

    fn deref(&self) -> &Times {
        &self.times
    }
}

/// Round trips that were measured.
#[derive(Debug, Clone, Default)]
pub struct Times {
    least: Maybe,
    most: Maybe,
    /// Smoothed as RFC 6298 has it.
    smoothed: Maybe,
    /// Its mean deviation.
    deviation: Nanos,
    /// Samples.
    pub samples: u64,
    /// How they were under load; the first few tell nothing of it.
    load: Option<Box<Load>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Timed {
    end: Sequence,
    sent: Nanos,
}

/// More than this beyond the shortest is a queue, where the shortest is short: schedulers and
/// Wi-Fi take as long now and then.
const QUEUE: Nanos = 20_000_000;

/// Round trips and the bytes that were out meanwhile: sums, in milliseconds and KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    samples: u32,
    inflated: u32,
    /// Times that something was lost after all had gone well, and times that the last round trip
    /// before was long: a queue was full.
    losses: u32,
    full: u32,
    long: bool,
    time: f64,
    flight: f64,
    time_time: f64,
    flight_flight: f64,
    time_flight: f64,
}

impl Load {
    #[inline(always)]
    fn add(&mut self, sample: Nanos, least: Nanos, flight: u64) {
        let (time, flight) = (sample as f64 * 1e-6, flight as f64 * (1.0 / 1024.0));
        self.samples = self.samples.saturating_add(1);
        self.long = sample > least.saturating_mul(2) && sample - least > QUEUE;
        self.inflated += u32::from(self.long);
        self.time += time;
        self.flight += flight;
        self.time_time += time * time;
        self.flight_flight += flight * flight;
        self.time_flight += time * flight;
    }

    /// How many, those by time stamps too.
    pub fn samples(&self) -> u64 {
        u64::from(self.samples)
    }

    /// Mean, nanoseconds.
    pub fn mean(&self) -> Nanos {
        (self.time / f64::from(self.samples.max(1)) * 1e6) as Nanos
    }

    /// Share of the samples that were twice the shortest and 20 ms longer.
    pub fn inflated(&self) -> f64 {
        f64::from(self.inflated) / f64::from(self.samples.max(1))
    }

    /// Times that something was lost after all had gone well; and those of them at which the last
    /// round trip was twice the shortest and 20 ms longer.
    pub fn losses(&self) -> (u32, u32) {
        (self.losses, self.full)
    }

    /// How closely times follow the bytes that were out: correlation, -1 to 1.
    pub fn follows(&self) -> Option<f64> {
        let count = f64::from(self.samples);
        let both = count * self.time_flight - self.time * self.flight;
        let times = count * self.time_time - self.time.powi(2);
        let flights = count * self.flight_flight - self.flight.powi(2);
        let scale = (times * flights).sqrt();
        (times > 0.0 && flights > 0.0 && scale.is_finite() && scale > 0.0)
            .then(|| (both / scale).clamp(-1.0, 1.0))
    }
}

impl RoundTrip {
    /// New data passed.
    #[inline]
    pub(crate) fn sent(&mut self, end: Sequence, at: Nanos) {
        if let Some(free) = self.timed.get_mut(usize::from(self.used)) {
            *free = Timed { end, sent: at };
            self.used += 1;
        }
    }

    /// A time stamp came back in an acknowledgement: that tells also of what was sent twice, but is as
    /// coarse as the clock of the stamps.
    #[inline]
    pub(crate) fn echoed(&mut self, sample: Nanos, flight: u64) {
        if self.used == 0 && self.times.samples > 0 {
            self.times.under_load(sample, flight);
        }
    }

    /// A segment that was asked for again, and repeated, was acknowledged. The first one had not
    /// arrived, or it would not have been asked for: this is the round trip of the second, unless it
    /// is shorter than any.
    #[inline]
    pub(crate) fn repaired(&mut self, sample: Nanos, flight: u64) {
        if self.times.least().is_some_and(|least| least <= sample) {
            self.times.under_load(sample, flight);
        }
    }

    /// Old data passed again, before `end`: nobody knows which of the two an acknowledgement is for.
    #[inline]
    pub(crate) fn repeated(&mut self, end: Sequence) {
        if self.repaired.known().is_none()
            && let Some(load) = &mut self.times.load
        {
            load.losses = load.losses.saturating_add(1);
            load.full += u32::from(load.long);
        }
        self.repaired = self.repaired.max(end);
    }

    /// Data was acknowledged selectively.
    #[inline]
    pub(crate) fn selected(&mut self, from: Sequence, to: Sequence, at: Nanos, flight: u64) {
        let used = usize::from(self.used);
        let inside = |timed: &Timed| timed.end > from && timed.end <= to;
        let Some(last) = self.timed[..used].iter().rposition(inside) else { return };
        let sample = at.saturating_sub(self.timed[last].sent);
        let mut kept = 0;
        for place in 0..used {
            if !inside(&self.timed[place]) {
                self.timed[kept] = self.timed[place];
                kept += 1;
            }
        }
        self.used = kept as u8;
        self.times.add(sample, flight);
    }

    /// All before `to` was acknowledged. The sample is that of the last segment that this covers:
    /// earlier ones may have waited for a delayed acknowledgement. `flight` is what was out before.
    #[inline]
    pub(crate) fn acknowledged(&mut self, to: Sequence, at: Nanos, flight: u64) -> Option<Nanos> {
        let timed = &self.timed[..usize::from(self.used)];
        let covered = timed.iter().take_while(|timed| timed.end <= to).count();
        let last = timed.get(covered.checked_sub(1)?)?;
        let sample = at.saturating_sub(last.sent);
        self.timed.copy_within(covered..usize::from(self.used), 0);
        self.used -= covered as u8;
        if let Some(repaired) = self.repaired.known() {
            if repaired <= to {
                (self.repaired, self.used) = (Sequence::default(), 0);
            }
            return None;
        }
        // Clocks of captures go back now and then, and jump.
        self.times.add(sample, flight)
    }
}

impl Times {
    /// A sample, and the bytes that were out meanwhile.
    #[inline]
    pub(crate) fn add(&mut self, sample: Nanos, flight: u64) -> Option<Nanos> {
        if !(0..=LONGEST).contains(&sample) {
            return None;
        }
        self.samples += 1;
        self.least = self.least().map_or(sample, |least| least.min(sample)).into();
        self.under_load(sample, flight);
        match self.smoothed() {
            None => {
                self.smoothed = sample.into();
                self.deviation = sample / 2;
            }
            Some(smoothed) => {
                let off = (smoothed - sample).abs();
                self.deviation += (off - self.deviation) / 4;
                self.smoothed = (smoothed + (sample - smoothed) / 8).into();
            }
        }
        Some(sample)
    }

    /// Shortest, nanoseconds.
    #[inline]
    pub fn least(&self) -> Option<Nanos> {
        self.least.get()
    }

    /// Longest, nanoseconds.
    pub fn most(&self) -> Option<Nanos> {
        self.most.get()
    }

    /// Smoothed as RFC 6298 has it, nanoseconds.
    #[inline]
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed.get()
    }

    /// How they were under load; `None`: there were too few.
    pub fn load(&self) -> Option<&Load> {
        self.load.as_deref()
    }

    /// A time that tells of load and may not be one of the way alone.
    #[inline]
    fn under_load(&mut self, sample: Nanos, flight: u64) {
        self.most = self.most().map_or(sample, |most| most.max(sample)).into();
        if self.samples > FEW {
            let least = self.least().unwrap_or(sample);
            self.load.get_or_insert_default().add(sample, least, flight);
        }
    }

    /// The retransmission timeout that Linux would have: `SRTT + max(4·RTTVAR, 200 ms)`, and a
    /// second before there is a sample.
    pub fn timeout(&self) -> Nanos {
        const LEAST: Nanos = 200_000_000;
        const WITHOUT: Nanos = 1_000_000_000;
        self.smoothed().map_or(WITHOUT, |smoothed| smoothed + (4 * self.deviation).max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_those_of_the_last_segment_covered() {
        let mut trip = RoundTrip::default();
        trip.sent(Sequence(100), 0);
        trip.sent(Sequence(200), 10);
        trip.sent(Sequence(300), 20);
        assert_eq!(trip.acknowledged(Sequence(150), 50, 0), Some(50));
        assert_eq!(trip.acknowledged(Sequence(300), 60, 0), Some(40));
        assert_eq!(trip.acknowledged(Sequence(300), 70, 0), None);
        assert_eq!((trip.least(), trip.most(), trip.samples), (Some(40), Some(50), 2));
    }

    #[test]
    fn what_was_sent_twice_is_not_timed() {
        let mut trip = RoundTrip::default();
        trip.sent(Sequence(100), 0);
        trip.repeated(Sequence(100));
        assert_eq!(trip.acknowledged(Sequence(100), 1_000, 0), None);
        assert_eq!(trip.timeout(), 1_000_000_000);
        trip.sent(Sequence(200), 2_000);
        assert_eq!(trip.acknowledged(Sequence(200), 1_000, 0), None, "the clock went back");
    }

    #[test]
    fn behind_a_hole_selective_acknowledgements_tell() {
        let mut trip = RoundTrip::default();
        trip.sent(Sequence(100), 0);
        trip.sent(Sequence(200), 0);
        trip.repeated(Sequence(100));
        trip.sent(Sequence(300), 1_000);
        trip.selected(Sequence(200), Sequence(300), 1_040, 0);
        assert_eq!((trip.least(), trip.samples), (Some(40), 1));
        assert_eq!(trip.acknowledged(Sequence(300), 5_000, 0), None, "it waited for the hole");
        trip.sent(Sequence(400), 6_000);
        assert_eq!(trip.acknowledged(Sequence(400), 6_030, 0), Some(30));
    }
}
