//! What went wrong on a direction: segments that were sent again, refused or damaged.

use wire::packet::{Checksum, Ip, checksum, tcp};

use crate::Nanos;
use crate::sequence::Sequence;

/// Segments that filled holes and are remembered: what is later than that is taken for sent again.
const REPAIRED: usize = 64;

/// What only a direction has on which something went wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble {
    /// Data beyond the window that the peer offered, which it need not keep: first and last byte.
    pub(crate) refused: Option<(Sequence, Sequence)>,
    /// The segment that was last repeated after a timeout, how often.
    pub(crate) timeouts: (Sequence, u32),
    /// Most times that one segment was repeated after a timeout, and its bytes of data.
    pub(crate) most_timeouts: (u32, u32),
    /// The segment that was last repeated fast, its end and when.
    pub(crate) repair: Option<(Sequence, Nanos)>,
    /// The segments with which holes were last filled, oldest first, and their time stamps.
    repaired: Vec<(Sequence, Sequence, Option<u32>)>,
    /// Segments whose checksum was looked at, and those of them that were damaged.
    pub(crate) checked: (u32, u32),
}

impl Trouble {
    /// Data passed for which there is no room.
    pub(crate) fn refuse(&mut self, from: Sequence, to: Sequence) {
        let (first, last) = self.refused.unwrap_or((from, to));
        self.refused = Some((first.min(from), last.max(to)));
    }

    /// A segment filled a hole, sent later than what follows it.
    pub(crate) fn repaired(&mut self, from: Sequence, to: Sequence, stamp: Option<u32>) {
        if self.repaired.len() == REPAIRED {
            self.repaired.remove(0);
        }
        self.repaired.push((from, to, stamp));
    }

    /// Whether a segment is what was late when its copy filled the hole.
    pub(crate) fn was_late(&mut self, from: Sequence, to: Sequence, stamp: Option<u32>) -> bool {
        let place = self.repaired.iter().position(|(first, last, then)| {
            // What has a later stamp was sent later.
            let later = |(then, now): (u32, u32)| now.wrapping_sub(then).cast_signed() > 0;
            (*first, *last) == (from, to) && !then.zip(stamp).is_some_and(later)
        });
        place.map(|place| self.repaired.remove(place)).is_some()
    }

    #[cold]
    pub(crate) fn check(&mut self, ip: &Ip<'_>) {
        let (checked, damaged) = match checksum(ip, tcp::CHECKSUM_OFFSET) {
            Some(Checksum::Correct) => (1, 0),
            Some(Checksum::Incorrect) => (1, 1),
            Some(Checksum::Offloaded) | None => (0, 0),
        };
        self.checked.0 = self.checked.0.saturating_add(checked);
        self.checked.1 = self.checked.1.saturating_add(damaged);
    }
}
