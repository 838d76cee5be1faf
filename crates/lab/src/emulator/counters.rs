//! What one direction of a link has done so far.

use std::time::Duration;

use super::time::Nanos;

/// What one direction of a link has done so far. Housekeeping frames (see [`super`]) are counted in
/// `housekeeping` and nowhere else.
///
/// `packets_in + duplicated` equals `packets_out` + all drops + `undelivered` + `in_transit`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that entered the link.
    pub packets_in: u64,
    /// Bytes of their frames.
    pub bytes_in: u64,
    /// Packets that left it.
    pub packets_out: u64,
    /// Bytes of their frames.
    pub bytes_out: u64,
    /// Dropped because the queue was full, or because the link held 256 MiB.
    pub dropped_by_queue: u64,
    /// Lost by [`super::Profile::loss`].
    pub dropped_by_loss: u64,
    /// Dropped because the bucket had no credit.
    pub dropped_by_policer: u64,
    /// Dropped because they were larger than the MTU.
    pub dropped_by_mtu: u64,
    /// Dropped because they were larger than [`super::Profile::black_hole_above`].
    pub dropped_by_black_hole: u64,
    /// ICMP errors sent for packets larger than the MTU.
    pub icmp_too_big_sent: u64,
    /// Duplicates made.
    pub duplicated: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Packets that were held back.
    pub reordered: u64,
    /// Frames that serve the link itself: ARP and the like.
    pub housekeeping: u64,
    /// Packets that the kernel did not accept from the link: the interface at the far end is down.
    pub undelivered: u64,
    /// Packets in the queue and in flight now.
    pub in_transit: u64,
    /// Maximum length of the queue, bytes.
    pub max_queue_bytes: u64,
    /// How much later than scheduled packets left.
    pub lateness: Lateness,
}

impl Counters {
    /// All packets that the profile dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_queue
            + self.dropped_by_loss
            + self.dropped_by_policer
            + self.dropped_by_mtu
            + self.dropped_by_black_hole
    }
}

/// Bins of the histogram per doubling: values are exact to an eighth.
const BINS_PER_DOUBLING: u64 = 8;
/// Doublings: from 1 ns to almost five hours.
const DOUBLINGS: u64 = 42;

/// A histogram of how late packets left. Reported values are at most an eighth too high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; (BINS_PER_DOUBLING * DOUBLINGS) as usize],
    total: u64,
    max_nanos: Nanos,
}

impl Default for Lateness {
    fn default() -> Self {
        let counts = [0; (BINS_PER_DOUBLING * DOUBLINGS) as usize];
        Lateness { counts, total: 0, max_nanos: 0 }
    }
}

impl Lateness {
    pub(super) fn add(&mut self, nanos: Nanos) {
        let last = self.counts.len() - 1;
        if let Some(count) = self.counts.get_mut(bin_of(nanos).min(last)) {
            *count += 1;
        }
        self.total += 1;
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The maximum.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_nanos)
    }

    /// The lateness that this share of packets did not exceed: `quantile(0.99)`. `None` without
    /// packets.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(Duration::from_nanos(bin_end(bin).min(self.max_nanos)))
    }

    /// What was counted since an earlier state of the same histogram. Its maximum is at most an
    /// eighth too high.
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let mut since = Lateness::default();
        let counts = since.counts.iter_mut().zip(self.counts.iter().zip(&earlier.counts));
        for (bin, (count, (now, before))) in counts.enumerate() {
            *count = now.saturating_sub(*before);
            if *count > 0 {
                since.total += *count;
                since.max_nanos = bin_end(bin).min(self.max_nanos);
            }
        }
        since
    }
}

/// The bin of a time: exact below 8 ns, then eight per doubling.
fn bin_of(nanos: Nanos) -> usize {
    if nanos < BINS_PER_DOUBLING {
        return nanos as usize;
    }
    let doubling = u64::from(nanos.ilog2()) - 3;
    ((doubling << 3) + (nanos >> doubling)) as usize
}

/// The largest time of a bin.
fn bin_end(bin: usize) -> Nanos {
    let bin = bin as u64;
    if bin < BINS_PER_DOUBLING {
        return bin;
    }
    let doubling = (bin >> 3) - 1;
    (((bin & 7) + 8 + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_contiguous() {
        for bin in 0..330 {
            assert_eq!(bin_of(bin_end(bin)), bin);
            assert_eq!(bin_of(bin_end(bin) + 1), bin + 1);
        }
    }

    #[test]
    fn quantiles_are_exact_to_an_eighth() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        for micros in 1..=1000 {
            lateness.add(micros * 1000);
        }
        for (share, micros) in [(0.5, 500), (0.99, 990), (1.0, 1000), (0.0, 1)] {
            let reported = lateness.quantile(share).unwrap();
            let exact = Duration::from_micros(micros);
            assert!(reported >= exact && reported <= exact + exact / 8, "{share}: {reported:?}");
        }
        assert_eq!(lateness.max(), Duration::from_millis(1));
        lateness.add(u64::MAX);
        assert_eq!(lateness.quantile(1.0).unwrap().as_secs() / 3600, 4);
    }

    #[test]
    fn a_later_state_minus_an_earlier_one_is_what_came_between() {
        let mut lateness = Lateness::default();
        lateness.add(75_000_000);
        let earlier = lateness.clone();
        assert_eq!(lateness.since(&earlier), Lateness::default());
        for _ in 0..3 {
            lateness.add(40_000);
        }
        let since = lateness.since(&earlier);
        assert_eq!(since.count(), 3);
        let max = since.max();
        assert!(max >= Duration::from_micros(40) && max <= Duration::from_micros(45), "{max:?}");
        assert_eq!(since.quantile(0.99), Some(max));
    }
}
