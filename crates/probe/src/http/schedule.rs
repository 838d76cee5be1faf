//! When requests of an open loop are due.

/// The due times of one thread, nanoseconds since the start of the load: evenly spaced, and computed
/// from the number of the request, so that rounding errors do not add up.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// Time between two requests of this thread, nanoseconds.
    interval_ns: f64,
    /// When the first one is due.
    first_ns: f64,
    /// How many were taken.
    taken: u64,
}

impl Schedule {
    /// The requests of thread `number` of `threads` that share `rate` requests a second.
    pub(super) fn new(rate: f64, number: u32, threads: u32) -> Self {
        let interval_ns = 1e9 / rate;
        Schedule {
            interval_ns: interval_ns * f64::from(threads),
            first_ns: interval_ns * f64::from(number),
            taken: 0,
        }
    }

    /// When the next request is due.
    pub(super) fn next_due(&self) -> u64 {
        (self.first_ns + self.interval_ns * self.taken as f64) as u64
    }

    /// Takes the next request: when it was due.
    pub(super) fn take(&mut self) -> u64 {
        let due = self.next_due();
        self.taken += 1;
        due
    }

    /// How many requests are due before this time and were not taken.
    pub(super) fn overdue(&self, at: u64) -> u64 {
        match at.checked_sub(self.next_due()) {
            Some(late @ 1..) => 1 + (late as f64 / self.interval_ns) as u64,
            _ => 0,
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
            all.extend((0..4).map(|_| schedule.take()));
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|n| n * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn overdue_requests_are_counted() {
        let mut schedule = Schedule::new(10.0, 0, 1);
        assert_eq!(schedule.overdue(0), 0);
        assert_eq!(schedule.overdue(250_000_000), 3);
        schedule.take();
        assert_eq!(schedule.overdue(250_000_000), 2);
    }
}
