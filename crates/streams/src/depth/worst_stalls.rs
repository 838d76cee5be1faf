//! Packets around the worst stalls of a stream.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::recording::RecordedPacket;
use crate::time::Nanos;

/// Packets that are kept before the one that ended a stall, and after it.
pub(super) const PACKETS_BEFORE: usize = 4;
const PACKETS_AFTER: usize = 2;

/// How bad a stall is: how long an end could not send before a packet, then what it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StallRank {
    pub(super) stalled: Nanos,
    pub(super) waited: Nanos,
}

/// The packets around a stall.
#[derive(Debug)]
pub(super) struct StallContext {
    rank: StallRank,
    /// Index of the packet that ended the stall.
    index: u64,
    pub(super) packets: Vec<RecordedPacket>,
}

impl PartialEq for StallContext {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StallContext {}

impl PartialOrd for StallContext {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StallContext {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.rank, Reverse(self.index)).cmp(&(other.rank, Reverse(other.index)))
    }
}

/// The worst stalls of a stream.
#[derive(Debug)]
pub(super) struct WorstStalls {
    max_stalls: usize,
    /// The least bad is at the top.
    worst: BinaryHeap<Reverse<StallContext>>,
    /// Those of which packets are still to come.
    open: Vec<StallContext>,
}

impl WorstStalls {
    pub(super) fn new(max_stalls: usize) -> Self {
        WorstStalls { max_stalls, worst: BinaryHeap::new(), open: Vec::new() }
    }

    /// A packet has passed: it belongs to the stalls that ended shortly before.
    pub(super) fn packet(&mut self, packet: RecordedPacket) {
        let whole = PACKETS_BEFORE + 1 + PACKETS_AFTER;
        for mut context in std::mem::take(&mut self.open) {
            context.packets.push(packet);
            let last = context.index.saturating_add(PACKETS_AFTER as u64);
            if packet.index >= last || context.packets.len() >= whole {
                self.close(context);
            } else {
                self.open.push(context);
            }
        }
    }

    /// The packet has ended a stall, if it is among the worst; `before` are the packets before it.
    pub(super) fn stall(
        &mut self,
        rank: StallRank,
        packet: RecordedPacket,
        before: impl ExactSizeIterator<Item = RecordedPacket>,
    ) {
        if rank <= StallRank::default() || !self.is_among_worst(rank) {
            return;
        }
        let skipped = before.len().saturating_sub(PACKETS_BEFORE);
        let packets = before.skip(skipped).chain([packet]).collect();
        self.open.push(StallContext { rank, index: packet.index, packets });
    }

    fn is_among_worst(&self, rank: StallRank) -> bool {
        self.worst.len() < self.max_stalls
            || self.worst.peek().is_some_and(|Reverse(least)| rank > least.rank)
    }

    fn close(&mut self, context: StallContext) {
        self.worst.push(Reverse(context));
        if self.worst.len() > self.max_stalls {
            self.worst.pop();
        }
    }

    /// The worst stalls, the worst first.
    pub(super) fn finish(mut self) -> Vec<StallContext> {
        for context in std::mem::take(&mut self.open) {
            self.close(context);
        }
        let worst = self.worst.into_iter().map(|Reverse(context)| context);
        let mut worst: Vec<StallContext> = worst.collect();
        worst.sort_by(|a, b| b.cmp(a));
        worst
    }
}
