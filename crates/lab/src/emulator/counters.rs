//! What one direction of a link has done so far.

use std::time::Duration;

use super::Nanos;

/// What one direction of a link has done so far. Frames that serve the link itself (see
/// [`super`]) are in `housekeeping` and nowhere else.
///
/// `packets_in + duplicated` is `packets_out` + all that was dropped + `unsent` + what is under
/// way (`waiting`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that came to the link.
    pub packets_in: u64,
    /// Bytes of their frames.
    pub bytes_in: u64,
    /// Packets that left it.
    pub packets_out: u64,
    /// Bytes of their frames.
    pub bytes_out: u64,
    /// Dropped because the queue was full, or 256 MiB were under way.
    pub dropped_by_queue: u64,
    /// Vanished by [`super::Profile::loss`].
    pub dropped_by_loss: u64,
    /// Dropped because the bucket had no credit.
    pub dropped_by_policer: u64,
    /// Dropped because they were larger than the MTU.
    pub dropped_by_mtu: u64,
    /// Vanished because they were larger than [`super::Profile::black_hole_above`].
    pub dropped_by_black_hole: u64,
    /// ICMP answers to packets larger than the MTU.
    pub answered: u64,
    /// Copies that were made.
    pub duplicated: u64,
    /// Packets in which a bit was turned over.
    pub corrupted: u64,
    /// Packets that were held back.
    pub reordered: u64,
    /// Frames of the link itself: ARP and the like.
    pub housekeeping: u64,
    /// Packets that the kernel did not take from the link: the interface at the other end is down.
    pub unsent: u64,
    /// Packets in the queue and under way now.
    pub waiting: u64,
    /// The most bytes that ever waited in the queue.
    pub greatest_queue_bytes: u64,
    /// How much later than intended packets left.
    pub lateness: Lateness,
}

impl Counters {
    /// All that was dropped on purpose.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_queue
            + self.dropped_by_loss
            + self.dropped_by_policer
            + self.dropped_by_mtu
            + self.dropped_by_black_hole
    }
}

/// Steps of the histogram in a doubling: figures are told to an eighth.
const STEPS: u64 = 8;
/// Doublings: from 1 ns to almost five hours.
const DOUBLINGS: u64 = 42;

/// A histogram of times that are late. Told values are at most an eighth too high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; (STEPS * DOUBLINGS) as usize],
    total: u64,
    greatest: Nanos,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { counts: [0; (STEPS * DOUBLINGS) as usize], total: 0, greatest: 0 }
    }
}

impl Lateness {
    pub(super) fn add(&mut self, nanos: Nanos) {
        let last = self.counts.len() - 1;
        self.counts[place(nanos).min(last)] += 1;
        self.total += 1;
        self.greatest = self.greatest.max(nanos);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The greatest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.greatest)
    }

    /// The time that this share of packets did not exceed: `quantile(0.99)`. `None` without
    /// packets.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos(end(found).min(self.greatest)))
    }
}

/// The step of a time: exact below 8 ns, then eight to a doubling.
fn place(nanos: Nanos) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let doubling = u64::from(nanos.ilog2()) - 3;
    ((doubling << 3) + (nanos >> doubling)) as usize
}

/// The last time of a step.
fn end(place: usize) -> Nanos {
    let place = place as u64;
    if place < STEPS {
        return place;
    }
    let doubling = (place >> 3) - 1;
    (((place & 7) + 8 + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other() {
        for step in 0..330 {
            assert_eq!(place(end(step)), step);
            assert_eq!(place(end(step) + 1), step + 1);
        }
    }

    #[test]
    fn quantiles_are_told_to_an_eighth() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        for micros in 1..=1000 {
            lateness.add(micros * 1000);
        }
        for (share, micros) in [(0.5, 500), (0.99, 990), (1.0, 1000), (0.0, 1)] {
            let told = lateness.quantile(share).unwrap();
            let right = Duration::from_micros(micros);
            assert!(told >= right && told <= right + right / 8, "{share}: {told:?}");
        }
        assert_eq!(lateness.max(), Duration::from_millis(1));
        lateness.add(u64::MAX);
        assert_eq!(lateness.quantile(1.0).unwrap().as_secs() / 3600, 4);
    }
}
