//! The streams in ping-pong, found by their ends.

use wire::packet::PlainEnds;

use crate::stream::PingPong;
use crate::time::Nanos;

/// Streams that are in ping-pong at once: together they fit into the cache of a CPU.
const MAX_PING_PONGS: usize = 1024;
/// Slots by ends, a power of two: so many that two streams seldom share one. A stream whose slot is in use
/// waits until it is free.
const SLOT_BITS: u32 = 15;
/// One that has been idle for so long makes room for others.
const MAX_IDLE: Nanos = 1_000_000_000;

/// A stream in ping-pong.
#[derive(Debug)]
pub(super) struct Entry {
    /// Ends of its requests, and of its responses.
    requests: PlainEnds,
    responses: PlainEnds,
    /// Place of the stream in its table.
    pub(super) place: u32,
    slot: u32,
    pub(super) messages: PingPong,
}

/// Streams in ping-pong.
#[derive(Debug, Default)]
pub(super) struct PingPongs {
    /// Numbers of entries from 1, by ends; 0: none. Empty before the first.
    slots: Vec<u16>,
    entries: Vec<Entry>,
}

/// The slot of a stream with these ends.
#[inline(always)]
fn slot_of(ends: PlainEnds) -> usize {
    (ends.symmetric_hash() >> (u64::BITS - SLOT_BITS)) as usize
}

impl PingPongs {
    /// The stream of a segment with these ends, if it is in ping-pong: its number here, and whether the
    /// requester sends.
    #[inline(always)]
    pub(super) fn find(&mut self, ends: PlainEnds) -> Option<(usize, bool, &mut Entry)> {
        let number = usize::from(*self.slots.get(slot_of(ends))?).checked_sub(1)?;
        let entry = self.entries.get_mut(number)?;
        let is_request = entry.requests == ends;
        (is_request || entry.responses == ends).then_some((number, is_request, entry))
    }

    /// Whether there is room for a stream with these ends.
    pub(super) fn has_room(&self, ends: PlainEnds) -> bool {
        self.entries.len() < MAX_PING_PONGS
            && self.slots.get(slot_of(ends)).is_none_or(|number| *number == 0)
    }

    /// Adds a stream for which there is room, by the ends of its requests.
    pub(super) fn add(&mut self, requests: PlainEnds, place: u32, messages: PingPong) {
        if self.slots.is_empty() {
            self.slots = vec![0; 1 << SLOT_BITS];
        }
        let (slot, responses) = (slot_of(requests), requests.reversed());
        if let Some(number) = self.slots.get_mut(slot) {
            self.entries.push(Entry { requests, responses, place, slot: slot as u32, messages });
            *number = self.entries.len() as u16;
        }
    }

    /// All of them: the place of each stream, and its messages.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &PingPong)> {
        self.entries.iter().map(|entry| (entry.place, &entry.messages))
    }

    /// Removes a stream: its place, and its messages.
    pub(super) fn remove(&mut self, number: usize) -> Option<(u32, PingPong)> {
        if number >= self.entries.len() {
            return None;
        }
        let removed = self.entries.swap_remove(number);
        self.set_slot(removed.slot, 0);
        // The last one has its number now.
        if let Some(moved) = self.entries.get(number) {
            self.set_slot(moved.slot, number as u16 + 1);
        }
        Some((removed.place, removed.messages))
    }

    /// Removes a stream that has been idle, if others may need its place soon.
    pub(super) fn remove_idle(&mut self, now: Nanos) -> Option<(u32, PingPong)> {
        if self.entries.len() <= MAX_PING_PONGS / 2 {
            return None;
        }
        let is_idle = |entry: &Entry| now.saturating_sub(entry.messages.last()) >= MAX_IDLE;
        self.remove(self.entries.iter().position(is_idle)?)
    }

    /// Removes any stream.
    pub(super) fn pop(&mut self) -> Option<(u32, PingPong)> {
        self.remove(self.entries.len().checked_sub(1)?)
    }

    fn set_slot(&mut self, slot: u32, number: u16) {
        if let Some(known) = self.slots.get_mut(slot as usize) {
            *known = number;
        }
    }
}
