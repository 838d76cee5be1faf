//! What is known about a file while it is read.

use super::types::{Damage, Interface, Step};

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 32;

/// What is known about a file so far.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Bytes parsed.
    pub(super) offset: u64,
    pub(super) interfaces: Vec<Interface>,
    pub(super) warnings: Vec<Damage>,
}

impl FileState {
    /// The file is damaged here.
    pub(super) fn damaged<'a>(&self, reason: impl Into<String>) -> Step<'a> {
        Step::Damaged(Damage { offset: self.offset, reason: reason.into() })
    }

    /// Notes what is odd here and can be skipped.
    pub(super) fn warn(&mut self, reason: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Damage { offset: self.offset, reason: reason.into() });
        }
    }
}
