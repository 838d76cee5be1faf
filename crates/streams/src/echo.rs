//! Time stamps and their echo (RFC 7323): the round trip as the receiver of data sees it, who has
//! nothing of its own that could be timed.

use crate::sequence::Sequence;
use crate::{Maybe, Nanos};

/// One time stamp of one end that is waited for in what the other end sends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Echo {
    /// When the stamp that is waited for first passed.
    sent: Maybe,
    /// How far the other end had sent by then.
    next: Sequence,
    /// The stamp.
    stamp: u32,
    /// The last stamp that passed: the same one does not begin another measurement.
    last: u32,
}

impl Echo {
    /// A packet of the end whose stamps these are; `next` is how far the other end has sent.
    #[inline(always)]
    pub(crate) fn passed(&mut self, value: u32, at: Nanos, next: Sequence) {
        if !self.sent.is_known() && value != self.last {
            (self.sent, self.next, self.stamp) = (at.into(), next, value);
        }
        self.last = value;
    }

    /// A packet of the other end: the time that has passed since the stamp that it echoes, and what
    /// the other end has sent meanwhile: so much was on its way.
    #[inline(always)]
    pub(crate) fn came_back(
        &mut self,
        echo: u32,
        at: Nanos,
        next: Sequence,
    ) -> Option<(Nanos, u64)> {
        let sent = self.sent.get()?;
        if (echo.wrapping_sub(self.stamp) as i32) < 0 {
            return None;
        }
        // A later one: the packet that echoed it was not sent, the next one says as much, a little
        // later.
        self.sent = Maybe::default();
        Some((at.saturating_sub(sent), next.since(self.next)))
    }
}
