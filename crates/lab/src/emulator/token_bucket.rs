//! A token bucket with exact arithmetic: no departure is off by more than a nanosecond.

use super::profile::Bucket;
use super::time::Nanos;

/// Units of the level in a byte: 1 bit/s adds one unit per nanosecond.
const UNITS_PER_BYTE: u128 = 8_000_000_000;

/// The level of a bucket.
#[derive(Debug, Clone)]
pub(super) struct TokenBucket {
    profile: Bucket,
    level: u128,
    at: Nanos,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(profile: Bucket, at: Nanos) -> Self {
        TokenBucket { profile, level: u128::from(profile.credit_bytes) * UNITS_PER_BYTE, at }
    }

    pub(super) fn profile(&self) -> &Bucket {
        &self.profile
    }

    /// The level at a time, for a packet of this size: a bucket smaller than the packet fills up to
    /// the packet's size, or the packet would wait for ever.
    fn level(&self, at: Nanos, bytes: usize) -> u128 {
        let full = u128::from(self.profile.credit_bytes).max(bytes as u128) * UNITS_PER_BYTE;
        let gained = u128::from(at.saturating_sub(self.at)) * u128::from(self.profile.rate);
        (self.level + gained).min(full.max(self.level))
    }

    /// Takes the packet's tokens if there are enough.
    pub(super) fn take(&mut self, at: Nanos, bytes: usize) -> bool {
        let level = self.level(at, bytes);
        let need = bytes as u128 * UNITS_PER_BYTE;
        if level < need {
            return false;
        }
        self.level = level - need;
        self.at = self.at.max(at);
        true
    }

    /// The first time, not before `from`, at which there are tokens for the packet; `None` is never.
    pub(super) fn ready_at(&self, from: Nanos, bytes: usize) -> Option<Nanos> {
        let missing = (bytes as u128 * UNITS_PER_BYTE).saturating_sub(self.level(from, bytes));
        if missing == 0 {
            return Some(from);
        }
        let rate = u128::from(self.profile.rate);
        (rate > 0).then(|| {
            from.saturating_add(Nanos::try_from(missing.div_ceil(rate)).unwrap_or(Nanos::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::Mode;
    use super::*;

    fn bucket(credit_bytes: u64, rate: u64) -> TokenBucket {
        TokenBucket::new(Bucket { credit_bytes, rate, burst_rate: None, mode: Mode::Police }, 0)
    }

    #[test]
    fn it_starts_full_and_refills_at_its_rate() {
        let mut bucket = bucket(3000, 8_000_000); // one byte per microsecond
        assert!(bucket.take(0, 1500) && bucket.take(0, 1500) && !bucket.take(0, 1));
        assert_eq!(bucket.ready_at(0, 1500), Some(1_500_000));
        assert!(!bucket.take(1_499_999, 1500) && bucket.take(1_500_000, 1500));
        // Never more than its credit.
        assert!(bucket.take(1_000_000_000, 3000) && !bucket.take(1_000_000_000, 1));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_passes_at_the_rate() {
        let mut bucket = bucket(100, 8_000_000);
        assert_eq!(bucket.ready_at(0, 1500), Some(1_400_000));
        assert!(bucket.take(1_400_000, 1500));
        assert_eq!(bucket.ready_at(1_400_000, 1500), Some(2_900_000));
    }

    #[test]
    fn without_a_rate_only_the_credit_passes() {
        let mut bucket = bucket(1500, 0);
        assert!(bucket.take(0, 1500));
        assert_eq!(bucket.ready_at(0, 1), None);
    }
}
