//! When a request is due: at once in a closed loop, at its own time in an open one.

/// Due times of an open loop, nanoseconds since the load began: evenly spaced, and computed from
/// their number, so that nothing adds up.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// Nanoseconds between two requests of this thread.
    every: f64,
    /// The first one.
    first: f64,
    /// How many were given out.
    given: u64,
}

impl Schedule {
    /// Requests of thread `number` of `threads` that share `rate` requests a second.
    pub(super) fn new(rate: f64, number: u32, threads: u32) -> Self {
        let between = 1e9 / rate;
        Schedule {
            every: between * f64::from(threads),
            first: between * f64::from(number),
            given: 0,
        }
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> u64 {
        (self.first + self.every * self.given as f64) as u64
    }

    /// The next one is given out; when it was due.
    pub(super) fn give(&mut self) -> u64 {
        let due = self.due();
        self.given += 1;
        due
    }

    /// How many are due until `at` and not given out.
    pub(super) fn late(&self, at: u64) -> u64 {
        match self.due() < at {
            true => 1 + ((at - self.due()) as f64 / self.every) as u64,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_rate_evenly() {
        let mut all = Vec::new();
        for number in 0..3 {
            let mut schedule = Schedule::new(1_000.0, number, 3);
            all.extend((0..4).map(|_| schedule.give()));
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|n| n * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_late_is_counted() {
        let mut schedule = Schedule::new(10.0, 0, 1);
        assert_eq!(schedule.late(0), 0);
        assert_eq!(schedule.late(250_000_000), 3);
        schedule.give();
        assert_eq!(schedule.late(250_000_000), 2);
    }
}
