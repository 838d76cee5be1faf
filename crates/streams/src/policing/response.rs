//! What is known of a response that was policed.

use crate::time::Nanos;

/// The rates that a response allows are reported as one rate when their quotient is at most this.
const MAX_RATE_QUOTIENT: f64 = 1.2;

/// A response of which a policer dropped a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicedResponse {
    /// Rate of the policer, bits of IP packets a second. `None`: nothing was sent for long enough;
    /// every burst found a full bucket, and its size alone limited the response.
    pub rate_bps: Option<u64>,
    /// Lowest and highest rate that the losses allow, bits a second.
    pub rate_range_bps: (u64, u64),
    /// Bytes of IP packets that passed at once before the first was dropped: the size of the bucket
    /// if it was full before.
    pub bucket_bytes: u64,
    /// Packets that were dropped.
    pub lost: u32,
    /// Packets that passed.
    pub passed: u32,
    /// How often dropping began.
    pub bursts: u32,
    /// First loss.
    pub first_loss: Nanos,
    /// Last loss.
    pub last_loss: Nanos,
}

/// Whether the rates that losses allow are reported as one rate.
pub(super) fn is_one_rate(low: f64, high: f64) -> bool {
    high <= low * MAX_RATE_QUOTIENT
}

/// Bytes a second as bits a second.
pub(super) fn bits(rate: f64) -> u64 {
    (rate * 8.0) as u64
}
