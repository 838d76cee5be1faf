//! A stream by what it lost.

use std::cmp::{Ordering, Reverse};

use model::CapturedStream;

use crate::stream::Stream;
use crate::time::Nanos;

/// Time lost, then retransmissions, then bytes; of equal streams the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    lost: Nanos,
    retransmitted: u64,
    bytes: u64,
    number: Reverse<u64>,
}

impl Rank {
    pub(super) fn of(stream: &Stream) -> Self {
        let counts = || stream.ends.iter().map(|end| &end.sent.counts);
        Rank {
            lost: stream.times().lost(),
            retransmitted: counts().map(|one| one.retransmitted()).sum(),
            bytes: counts().map(|one| one.new_bytes).fold(0, u64::saturating_add),
            number: Reverse(stream.number),
        }
    }
}

/// A stream with its rank.
#[derive(Debug, Clone)]
pub(super) struct RankedStream {
    pub(super) rank: Rank,
    pub(super) stream: CapturedStream,
}

impl RankedStream {
    pub(super) fn renumber(&mut self, number: u64) {
        self.rank.number = Reverse(number);
        self.stream.number = number;
    }
}

impl PartialEq for RankedStream {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for RankedStream {}

impl PartialOrd for RankedStream {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedStream {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}
