//! What went wrong on a direction: segments that were sent again, refused or damaged.

use wire::packet::{Checksum, Ip, checksum, tcp};

use crate::Nanos;
use crate::sequence::Sequence;

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
    /// The segments with which holes were last filled, and their time stamps.
    pub(crate) repaired: [(Sequence, Sequence, Option<u32>); 16],
    /// Segments whose checksum was looked at, and those of them that were damaged.
    pub(crate) checked: (u32, u32),
}

impl Trouble {
    #[cold]
    pub(crate) fn check(&mut self, ip: &Ip<'_>) {
        let (checked, damaged) = match checksum(ip, tcp::CHECKSUM) {
            Some(Checksum::Right) => (1, 0),
            Some(Checksum::Wrong) => (1, 1),
            Some(Checksum::Offloaded) | None => (0, 0),
        };
        self.checked.0 = self.checked.0.saturating_add(checked);
        self.checked.1 = self.checked.1.saturating_add(damaged);
    }
}
