//! Damaged segments: captured behind the place where it happens, their checksums are wrong.

use model::Packets;
use text::share;

use super::direction::StreamDirection;

/// Damaged packets from which on it is no accident.
pub(crate) const MIN_DAMAGED: u64 = 5;
/// Share of what arrived.
pub(crate) const MIN_DAMAGED_SHARE: f64 = 1e-4;
/// At most one in so many of those verified is damaged: cards and drivers that leave checksums to
/// others do so with all of them.
const ONE_IN: u64 = 2;

/// Counts of one direction of a stream, or of several.
#[derive(Default)]
struct Counts {
    bad: u64,
    verified: u64,
    retransmitted: u64,
    lost: u64,
    data: u64,
}

impl Counts {
    fn add(&mut self, direction: StreamDirection<'_>) {
        let sent = direction.sent();
        let parts = [
            (&mut self.bad, sent.bad_checksums),
            (&mut self.verified, sent.checksums_verified),
            (&mut self.retransmitted, sent.retransmitted()),
            (&mut self.lost, sent.lost()),
            (&mut self.data, sent.data_segments),
        ];
        for (sum, more) in parts {
            *sum = sum.saturating_add(more);
        }
    }

    /// Whether those verified are checksums of the path.
    fn are_of_the_path(&self) -> bool {
        self.bad.saturating_mul(ONE_IN) <= self.verified
    }

    /// Whether what was retransmitted was lost by damage before the capture point.
    fn are_damaged(&self) -> bool {
        self.bad > 0
            && self.are_of_the_path()
            && self.bad <= self.retransmitted
            && share(self.bad as f64, self.data as f64) >= MIN_DAMAGED_SHARE
            // The rest may have been lost before the capture point.
            && self.bad.saturating_mul(ONE_IN) >= self.lost
    }
}

/// Whether what was retransmitted in a direction was lost by damage before the capture point. Of one stream
/// among many, that may be a single segment.
pub(crate) fn is_damaged(direction: StreamDirection<'_>) -> bool {
    let mut counts = Counts::default();
    counts.add(direction);
    counts.are_damaged()
}

/// Whether the checksums that were verified in a direction are those of the path. Most of them are wrong where
/// the sender's card computes them behind the capture point, and in a file that was changed.
pub(crate) fn are_of_the_path(direction: StreamDirection<'_>) -> bool {
    let mut counts = Counts::default();
    counts.add(direction);
    counts.are_of_the_path()
}

/// Whether what was retransmitted of all that one host sends to another was lost by damage: of a stream that
/// lost few segments, the checksums of those may not have been verified.
pub(crate) fn is_path_damaged(packets: &Packets, direction: StreamDirection<'_>) -> bool {
    let hosts = |of: &StreamDirection<'_>| (of.sender().ip(), of.receiver().ip());
    let mut counts = Counts::default();
    let all = packets.worst.iter().flat_map(StreamDirection::both);
    all.filter(|other| hosts(other) == hosts(&direction)).for_each(|other| counts.add(other));
    counts.bad >= MIN_DAMAGED && counts.are_damaged()
}
