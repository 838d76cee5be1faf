//! What is known of a direction on which a segment was retransmitted, refused or damaged.

use wire::packet::{Checksum, Ip, checksum, tcp};

use crate::round_trip::MIN_TIMEOUT;
use crate::sequence::{Sequence, timestamp_ticks_after};
use crate::time::Nanos;

/// Retransmissions that filled a gap and are remembered: an original later than that counts as
/// retransmitted.
const MAX_GAP_FILLS: usize = 64;
/// Retransmissions in flight that are remembered: whether the newest of more were needed is not
/// asked.
const MAX_UNDECIDED: usize = 64;
/// Damaged segments in flight that are remembered.
const MAX_DAMAGED: usize = 16;
/// Ranges that the receiver holds beyond a hole.
const MAX_HELD: usize = 64;

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
    /// Retransmissions that were not acknowledged yet, oldest first.
    undecided: Vec<Undecided>,
    /// What the receiver holds beyond a hole (RFC 2018), in no order.
    held: Vec<(Sequence, Sequence)>,
    last: LastRetransmission,
    /// A segment too far ahead to be one of this stream, unless more follows it.
    stray: Option<Sequence>,
    pub(crate) unanswered: Unanswered,
    /// Time before retransmissions that turned out to be spurious.
    pub(crate) spurious_time: Nanos,
    checksums: ChecksumCounts,
    /// Where the damaged segments begin that were not acknowledged yet; bounded.
    damaged: Vec<Sequence>,
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
    /// Those of them that were damaged, but for the latest that were not acknowledged: the capture may
    /// have ended before their retransmission.
    pub bad: u32,
}

/// The last fast retransmission, until it is acknowledged.
#[derive(Debug, Clone, Copy)]
struct FastRetransmission {
    end: Sequence,
    sent_at: Nanos,
}

/// What is known of the last retransmission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LastRetransmission {
    /// It was for a loss: it fills a gap.
    #[default]
    Needed,
    /// It was not: the receiver has the data, or the sender could not miss it yet.
    Spurious,
    /// Its acknowledgement will show.
    Undecided,
}

/// Retransmissions since the receiver sent its last packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unanswered {
    /// How many.
    pub(crate) count: u32,
    /// Time before them.
    pub(crate) time: Nanos,
    /// The part of it before the sender gave up.
    pub(crate) waited: Nanos,
}

/// A retransmission in flight: its acknowledgement shows whether its original had arrived.
#[derive(Debug, Clone, Copy)]
struct Undecided {
    from: Sequence,
    to: Sequence,
    at: Nanos,
    timestamp: Option<u32>,
    /// Time that its sender had waited before it.
    waited: Nanos,
}

/// A retransmission that filled a gap.
#[derive(Debug, Clone, Copy)]
struct GapFill {
    from: Sequence,
    to: Sequence,
    at: Nanos,
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
    pub(crate) fn gap_filled(
        &mut self,
        (from, to): (Sequence, Sequence),
        at: Nanos,
        timestamp: Option<u32>,
    ) {
        if self.gap_fills.len() == MAX_GAP_FILLS {
            self.gap_fills.remove(0);
        }
        self.gap_fills.push(GapFill { from, to, at, timestamp });
    }

    /// The retransmission that filled a gap and of which this segment is the original: what has a
    /// later time stamp was sent later, and is not. Where there are none, neither is what comes later
    /// than the first timeout after it.
    pub(crate) fn gap_fill_of(
        &self,
        (from, to): (Sequence, Sequence),
        at: Nanos,
        timestamp: Option<u32>,
    ) -> Option<GapFillIndex> {
        let index = self.gap_fills.iter().position(|fill| {
            let later = match fill.timestamp.zip(timestamp) {
                Some((then, now)) => timestamp_ticks_after(now, then) > 0,
                None => at.saturating_sub(fill.at) >= MIN_TIMEOUT,
            };
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

    /// Unacknowledged data that passed before is retransmitted.
    pub(crate) fn retransmitted(
        &mut self,
        (from, to): (Sequence, Sequence),
        at: Nanos,
        timestamp: Option<u32>,
    ) {
        if self.undecided.len() < MAX_UNDECIDED {
            self.undecided.push(Undecided { from, to, at, timestamp, waited: 0 });
            self.last = LastRetransmission::Undecided;
        }
    }

    /// Data comes again: as far as is known before its acknowledgement, this is why.
    pub(crate) fn note_last(&mut self, last: LastRetransmission) {
        self.last = last;
    }

    /// The sender had waited this long before its last retransmission; `gave_up`: nobody waits at
    /// its end any more.
    pub(crate) fn waited(&mut self, time: Nanos, gave_up: bool) {
        let unanswered = &mut self.unanswered;
        unanswered.count = unanswered.count.saturating_add(1);
        unanswered.time = unanswered.time.saturating_add(time);
        if !gave_up {
            unanswered.waited = unanswered.waited.saturating_add(time);
        }
        match (self.last, self.undecided.last_mut()) {
            (LastRetransmission::Spurious, _) => {
                self.spurious_time = self.spurious_time.saturating_add(time);
            }
            (LastRetransmission::Undecided, Some(sent)) => sent.waited = time,
            _ => {}
        }
    }

    /// A packet acknowledges everything before `to`; before it, everything before `acknowledged`
    /// was. Returns how many retransmissions were spurious: the acknowledgement is for their
    /// originals, as its echo of a time stamp from before the first of them shows (RFC 3522), or as
    /// it comes sooner than a round trip after it, where there are no time stamps. That echo tells nothing where other data before
    /// them was acknowledged by the same packet.
    pub(crate) fn decide(
        &mut self,
        acknowledged: Sequence,
        to: Sequence,
        at: Nanos,
        echo: Option<u32>,
        min_round_trip: Option<Nanos>,
    ) -> u32 {
        self.held.retain(|(_, end)| *end > to);
        let first = self.undecided.iter().find(|sent| sent.from < to && sent.to > acknowledged);
        let Some(first) = first.copied() else { return 0 };
        let is_for_original = match (first.timestamp, echo) {
            (Some(sent), Some(echo)) => {
                first.from <= acknowledged && timestamp_ticks_after(echo, sent) < 0
            }
            _ => min_round_trip
                .is_some_and(|min| at.saturating_sub(first.at) < min.saturating_sub(min / 4)),
        };
        let (mut spurious, mut time) = (0_u32, 0);
        self.undecided.retain(|sent| {
            let is_covered = sent.from < to;
            if is_covered {
                spurious = spurious.saturating_add(1);
                time = sent.waited.saturating_add(time);
            }
            !is_covered
        });
        if !is_for_original {
            return 0;
        }
        self.spurious_time = self.spurious_time.saturating_add(time);
        spurious
    }

    /// The receiver holds this data.
    pub(crate) fn hold(&mut self, from: Sequence, to: Sequence) {
        let (mut from, mut to) = (from, to);
        self.held.retain(|(first, last)| {
            let is_apart = *first > to || *last < from;
            if !is_apart {
                (from, to) = (from.min(*first), to.max(*last));
            }
            is_apart
        });
        if self.held.len() < MAX_HELD {
            self.held.push((from, to));
        }
    }

    /// Whether the receiver holds all of this data.
    pub(crate) fn is_held(&self, from: Sequence, to: Sequence) -> bool {
        self.held.iter().any(|(first, last)| *first <= from && to <= *last)
    }

    /// A segment is further ahead than its sender could ever be. Whether it was one of this stream
    /// after all: another one is near it.
    pub(crate) fn confirm_stray(&mut self, from: Sequence, max_distance: u64) -> bool {
        let is_near = self
            .stray
            .is_some_and(|stray| from.since(stray).max(stray.since(from)) <= max_distance);
        self.stray = (!is_near).then_some(from);
        is_near
    }

    /// Segments whose checksum was verified; everything before `acknowledged` was acknowledged.
    pub(crate) fn checksums(&self, acknowledged: Sequence) -> ChecksumCounts {
        let open = self.damaged.iter().filter(|from| **from >= acknowledged).count();
        let bad = self.checksums.bad.saturating_sub(u32::try_from(open).unwrap_or(u32::MAX));
        ChecksumCounts { bad, ..self.checksums }
    }

    /// Verifies the checksum of a segment that begins at `from`; everything before `acknowledged` was
    /// acknowledged.
    #[cold]
    pub(crate) fn verify_checksum(&mut self, ip: &Ip<'_>, from: Sequence, acknowledged: Sequence) {
        match checksum(ip, tcp::CHECKSUM_OFFSET) {
            Some(Checksum::Correct) => self.verified(),
            Some(Checksum::Incorrect) => {
                self.verified();
                self.damaged(from, acknowledged);
            }
            Some(Checksum::Offloaded) | None => {}
        }
    }

    fn verified(&mut self) {
        self.checksums.verified = self.checksums.verified.saturating_add(1);
    }

    fn damaged(&mut self, from: Sequence, acknowledged: Sequence) {
        self.checksums.bad = self.checksums.bad.saturating_add(1);
        self.damaged.retain(|before| *before >= acknowledged);
        if self.damaged.len() < MAX_DAMAGED && !self.damaged.contains(&from) {
            self.damaged.push(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_retransmission_is_no_late_original() {
        const MS: Nanos = 1_000_000;
        let segment = (Sequence(1_000), Sequence(2_448));
        let found = |stamps: Option<(u32, u32)>, after: Nanos| {
            let mut recovery = LossRecovery::default();
            recovery.gap_filled(segment, 0, stamps.map(|(fill, _)| fill));
            recovery.gap_fill_of(segment, after, stamps.map(|(_, own)| own)).is_some()
        };
        // Time stamps tell: what was sent later is no original, however soon it comes.
        assert!(found(Some((500, 460)), 900 * MS) && !found(Some((500, 510)), 10 * MS));
        // Without them, what comes after the shortest timeout was sent after it.
        assert!(found(None, 150 * MS) && !found(None, 200 * MS));
    }

    #[test]
    fn damaged_segments_at_the_end_are_not_counted_yet() {
        let mut recovery = LossRecovery::default();
        let bad = |recovery: &LossRecovery, acknowledged| recovery.checksums(acknowledged).bad;
        recovery.damaged(Sequence(1_000), Sequence(1_000));
        recovery.damaged(Sequence(5_000), Sequence(1_000));
        assert_eq!(bad(&recovery, Sequence(1_000)), 0, "neither was retransmitted");
        assert_eq!(bad(&recovery, Sequence(5_000)), 1);
        assert_eq!(bad(&recovery, Sequence(9_000)), 2);
        // Its retransmission is damaged as well: of the two, one was retransmitted.
        recovery.damaged(Sequence(5_000), Sequence(5_000));
        assert_eq!(bad(&recovery, Sequence(5_000)), 2);
        // More in flight than are remembered count.
        for number in 0..100 {
            recovery.damaged(Sequence(10_000 + number), Sequence(9_000));
        }
        assert_eq!(recovery.damaged.len(), MAX_DAMAGED);
        assert_eq!(bad(&recovery, Sequence(9_000)), 103 - MAX_DAMAGED as u32);
    }
}
