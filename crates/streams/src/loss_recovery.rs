//! What is known of a direction on which a segment was retransmitted, refused or damaged.

use wire::packet::{Checksum, Ip, checksum, tcp};

use crate::sequence::{Sequence, timestamp_ticks_after};
use crate::time::Nanos;

/// Retransmissions that filled a gap and are remembered: an original later than that counts as
/// retransmitted.
const MAX_GAP_FILLS: usize = 64;

/// State of a direction with retransmissions, refused data or damage; most have none.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossRecovery {
    /// Data beyond the window of the receiver, which may drop it: from its first byte to its last.
    refused: Option<(Sequence, Sequence)>,
    /// The segment last retransmitted after a timeout, and how often.
    last_timeouts: (Sequence, u32),
    pub(crate) max_timeouts: SegmentTimeouts,
    fast_retransmission: Option<FastRetransmission>,
    /// The latest retransmissions that filled a gap, oldest first.
    gap_fills: Vec<GapFill>,
    pub(crate) checksums: ChecksumCounts,
}

/// A segment, and how often it was retransmitted after a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentTimeouts {
    /// Retransmissions.
    pub count: u32,
    /// Its bytes of data.
    pub bytes: u32,
}

/// Segments whose checksum was verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChecksumCounts {
    /// Segments.
    pub verified: u32,
    /// Those of them that were damaged.
    pub bad: u32,
}

/// The last fast retransmission, until it is acknowledged.
#[derive(Debug, Clone, Copy)]
struct FastRetransmission {
    end: Sequence,
    sent_at: Nanos,
}

/// A retransmission that filled a gap.
#[derive(Debug, Clone, Copy)]
struct GapFill {
    from: Sequence,
    to: Sequence,
    timestamp: Option<u32>,
}

/// Place of a retransmission among those that filled a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapFillIndex(usize);

impl LossRecovery {
    /// Data passed for which the receiver has no room.
    pub(crate) fn refuse(&mut self, from: Sequence, to: Sequence) {
        let (first, last) = self.refused.unwrap_or((from, to));
        self.refused = Some((first.min(from), last.max(to)));
    }

    /// Whether the receiver had no room for the data at this number.
    pub(crate) fn is_refused(&self, from: Sequence) -> bool {
        self.refused.is_some_and(|(first, last)| from >= first && from < last)
    }

    /// A retransmission filled a gap.
    pub(crate) fn gap_filled(&mut self, from: Sequence, to: Sequence, timestamp: Option<u32>) {
        if self.gap_fills.len() == MAX_GAP_FILLS {
            self.gap_fills.remove(0);
        }
        self.gap_fills.push(GapFill { from, to, timestamp });
    }

    /// The retransmission that filled a gap and of which this segment is the original: what has a
    /// later time stamp was sent later, and is not.
    pub(crate) fn gap_fill_of(
        &self,
        from: Sequence,
        to: Sequence,
        timestamp: Option<u32>,
    ) -> Option<GapFillIndex> {
        let index = self.gap_fills.iter().position(|fill| {
            let later = fill
                .timestamp
                .zip(timestamp)
                .is_some_and(|(then, now)| timestamp_ticks_after(now, then) > 0);
            (fill.from, fill.to) == (from, to) && !later
        });
        index.map(GapFillIndex)
    }

    /// The original of this retransmission arrived.
    pub(crate) fn original_arrived(&mut self, GapFillIndex(index): GapFillIndex) {
        if index < self.gap_fills.len() {
            self.gap_fills.remove(index);
        }
    }

    /// A segment was retransmitted fast.
    pub(crate) fn fast_retransmission(&mut self, end: Sequence, sent_at: Nanos) {
        self.fast_retransmission = Some(FastRetransmission { end, sent_at });
    }

    /// A segment was retransmitted otherwise.
    pub(crate) fn other_retransmission(&mut self) {
        self.fast_retransmission = None;
    }

    /// A segment was retransmitted after a timeout.
    pub(crate) fn timeout(&mut self, from: Sequence, to: Sequence) {
        let (segment, count) = self.last_timeouts;
        let count = if segment == from { count.saturating_add(1) } else { 1 };
        self.last_timeouts = (from, count);
        let bytes = u32::try_from(to.since(from)).unwrap_or(u32::MAX);
        if (count, bytes) > (self.max_timeouts.count, self.max_timeouts.bytes) {
            self.max_timeouts = SegmentTimeouts { count, bytes };
        }
    }

    /// Everything before `to` was acknowledged. Returns when the fast retransmission was sent that
    /// this acknowledges.
    pub(crate) fn acknowledged(&mut self, to: Sequence) -> Option<Nanos> {
        // The receiver kept refused data after all, or the acknowledgement that made room was not
        // captured.
        if let Some((first, last)) = self.refused
            && to > first
        {
            self.refused = (to < last).then_some((to, last));
        }
        self.fast_retransmission.take_if(|sent| sent.end <= to).map(|sent| sent.sent_at)
    }

    /// Verifies the checksum of a segment.
    #[cold]
    pub(crate) fn verify_checksum(&mut self, ip: &Ip<'_>) {
        let (verified, bad) = match checksum(ip, tcp::CHECKSUM_OFFSET) {
            Some(Checksum::Correct) => (1, 0),
            Some(Checksum::Incorrect) => (1, 1),
            Some(Checksum::Offloaded) | None => (0, 0),
        };
        self.checksums.verified = self.checksums.verified.saturating_add(verified);
        self.checksums.bad = self.checksums.bad.saturating_add(bad);
    }
}
