//! Figures that the parts of the policer detector share.

use crate::time::Nanos;

/// Seconds from one moment to a later one; 0 if it is earlier.
pub(super) fn seconds_between(from: Nanos, to: Nanos) -> f64 {
    to.saturating_sub(from).max(0) as f64 * 1e-9
}

/// The value that this share of a sorted list does not exceed.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
