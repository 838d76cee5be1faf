//! A token bucket with exact arithmetic: what it lets pass is off by no more than a nanosecond.

use super::Nanos;
use super::profile::Bucket;

/// Units of the level in a byte: a bit a second fills one unit in a nanosecond.
const BYTE: u128 = 8_000_000_000;

/// The level of a bucket.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    bucket: Bucket,
    level: u128,
    at: Nanos,
}

impl Tokens {
    /// A full bucket.
    pub(super) fn new(bucket: Bucket, at: Nanos) -> Self {
        Tokens { bucket, level: u128::from(bucket.credit_bytes) * BYTE, at }
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The level at a time, for a packet of this many bytes: a bucket smaller than the packet
    /// fills up to it, or the packet would wait for ever.
    fn level(&self, at: Nanos, bytes: usize) -> u128 {
        let full = u128::from(self.bucket.credit_bytes).max(bytes as u128) * BYTE;
        let gained = u128::from(at.saturating_sub(self.at)) * u128::from(self.bucket.rate);
        (self.level + gained).min(full.max(self.level))
    }

    /// Takes the packet's tokens when there are enough.
    pub(super) fn take(&mut self, at: Nanos, bytes: usize) -> bool {
        let level = self.level(at, bytes);
        let need = bytes as u128 * BYTE;
        if level < need {
            return false;
        }
        self.level = level - need;
        self.at = self.at.max(at);
        true
    }

    /// The first time from `from` on at which there are tokens for the packet; `None` is never.
    pub(super) fn ready(&self, from: Nanos, bytes: usize) -> Option<Nanos> {
        let missing = (bytes as u128 * BYTE).saturating_sub(self.level(from, bytes));
        if missing == 0 {
            return Some(from);
        }
        let rate = u128::from(self.bucket.rate);
        (rate > 0).then(|| {
            from.saturating_add(Nanos::try_from(missing.div_ceil(rate)).unwrap_or(Nanos::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::Mode;
    use super::*;

    fn tokens(credit_bytes: u64, rate: u64) -> Tokens {
        Tokens::new(Bucket { credit_bytes, rate, burst_rate: None, mode: Mode::Police }, 0)
    }

    #[test]
    fn it_is_full_at_first_and_fills_at_its_rate() {
        let mut tokens = tokens(3000, 8_000_000); // a byte a microsecond
        assert!(tokens.take(0, 1500) && tokens.take(0, 1500) && !tokens.take(0, 1));
        assert_eq!(tokens.ready(0, 1500), Some(1_500_000));
        assert!(!tokens.take(1_499_999, 1500) && tokens.take(1_500_000, 1500));
        // Never more than its credit.
        assert!(tokens.take(1_000_000_000, 3000) && !tokens.take(1_000_000_000, 1));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_passes_at_the_rate() {
        let mut tokens = tokens(100, 8_000_000);
        assert_eq!(tokens.ready(0, 1500), Some(1_400_000));
        assert!(tokens.take(1_400_000, 1500));
        assert_eq!(tokens.ready(1_400_000, 1500), Some(2_900_000));
    }

    #[test]
    fn without_a_rate_the_credit_is_all() {
        let mut tokens = tokens(1500, 0);
        assert!(tokens.take(0, 1500));
        assert_eq!(tokens.ready(0, 1), None);
    }
}
