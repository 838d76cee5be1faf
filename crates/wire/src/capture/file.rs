//! What is known about a file while it is read.

use super::types::{Damage, Interface, MAX_SNAP_LENGTH, Step};

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 32;

/// What is known about a file so far.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Bytes parsed.
    pub(super) offset: u64,
    pub(super) interfaces: Vec<Interface>,
    pub(super) warnings: Vec<Damage>,
    pub(super) skip: Skip,
}

/// A long record of which no more is read.
#[derive(Debug, Default)]
pub(super) struct Skip {
    /// Bytes so far.
    pub(super) taken: u64,
    pub(super) left: u64,
}

impl Skip {
    pub(super) fn new(taken: usize, length: usize) -> Self {
        Skip { taken: taken as u64, left: length.saturating_sub(taken) as u64 }
    }

    /// Skips more of it.
    #[cold]
    pub(super) fn more<'a>(&mut self, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let skipped = self.left.min(buffer.len() as u64);
        if skipped == 0 {
            return (0, Step::NeedBytes(1));
        }
        self.left -= skipped;
        self.taken = self.taken.saturating_add(skipped);
        (skipped as usize, Step::Skipped)
    }
}

impl FileState {
    /// The file is damaged here.
    pub(super) fn damaged<'a>(&self, reason: impl Into<String>) -> Step<'a> {
        Step::Damaged(Damage { offset: self.offset, reason: reason.into() })
    }

    /// Notes that only the beginning of a packet is read.
    #[cold]
    pub(super) fn warn_cut(&mut self, captured: usize) {
        self.warn(format!("a packet of {captured} bytes, of which {MAX_SNAP_LENGTH} were read"));
    }

    /// Notes what is odd here and can be skipped.
    pub(super) fn warn(&mut self, reason: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Damage { offset: self.offset, reason: reason.into() });
        }
    }
}
