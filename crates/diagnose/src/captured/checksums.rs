//! Damaged segments: captured behind the place where it happens, their checksums are wrong.

use text::share;

use super::direction::StreamDirection;

/// Damaged packets from which on it is no accident.
pub(crate) const MIN_DAMAGED: u64 = 5;
/// Share of what arrived.
pub(crate) const MIN_DAMAGED_SHARE: f64 = 1e-4;
/// At most one in so many of those verified is damaged: cards and drivers that leave checksums to
/// others do so with all of them.
const ONE_IN: u64 = 2;

/// Whether what was retransmitted in a direction was lost by damage before the capture point. Of one stream
/// among many, that may be a single segment.
pub(crate) fn is_damaged(direction: StreamDirection<'_>) -> bool {
    let sent = direction.sent();
    sent.bad_checksums > 0
        && sent.bad_checksums.saturating_mul(ONE_IN) <= sent.checksums_verified
        && sent.bad_checksums <= sent.retransmitted()
        && share(sent.bad_checksums as f64, sent.data_segments as f64) >= MIN_DAMAGED_SHARE
        // The rest may have been lost before the capture point.
        && sent.bad_checksums.saturating_mul(ONE_IN) >= sent.lost()
}
