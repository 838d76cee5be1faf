//! One direction of a link as pure computation: frames and times in, frames and times out. No
//! clock, no input or output; the same calls with the same seed give the same frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::counters::Counters;
use super::loss::LossState;
use super::packet::{Packet, TooBig};
use super::profile::{Direction, Mode, Profile, Queue};
use super::random::{Draws, Random};
use super::time::{Nanos, nanos};
use super::token_bucket::TokenBucket;

/// Maximum bytes in the queue and in flight: bounds the memory of a delay without a rate.
const MAX_HELD_BYTES: u64 = 256 << 20;
/// Capacity of a new buffer, bytes: an ordinary frame.
const BUFFER_BYTES: usize = 1536;
/// Buffers kept for reuse.
const MAX_SPARE_BUFFERS: usize = 16 << 10;

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    profile: Profile,
    timeline: VecDeque<(Nanos, Profile)>,
    random: Random,
    loss_state: LossState,
    token_bucket: Option<TokenBucket>,
    line: Line,
    queue: VecDeque<QueuedFrame>,
    queued_bytes: u64,
    /// In flight, in order of arrival.
    ordered: VecDeque<InFlightFrame>,
    /// In flight outside that order: held back, or housekeeping.
    unordered: BinaryHeap<Reverse<InFlightFrame>>,
    in_flight_bytes: u64,
    last_due: Nanos,
    frames_launched: u64,
    spare_buffers: Vec<Vec<u8>>,
    icmp_reply: Vec<u8>,
    counters: Counters,
}

/// A frame that waits for the line.
#[derive(Debug)]
struct QueuedFrame {
    frame: Vec<u8>,
    offered: Nanos,
    draws: Draws,
}

/// A frame in flight, ordered by its time of arrival, then by when it was sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlightFrame {
    due: Nanos,
    number: u64,
    frame: Vec<u8>,
    housekeeping: bool,
}

/// A frame that is due: send it, then call [`Pipe::sent`].
#[derive(Debug)]
pub struct Departure(InFlightFrame);

impl Departure {
    /// The frame.
    pub fn frame(&self) -> &[u8] {
        &self.0.frame
    }

    /// When it was scheduled to leave.
    pub fn due(&self) -> Duration {
        Duration::from_nanos(self.0.due)
    }
}

/// The line, which transmits the frames of the queue one by one.
#[derive(Debug, Default)]
struct Line {
    free_at: Nanos,
    /// Fraction of a nanosecond left over by the last frame, in units of 1/`rate`.
    remainder: u64,
    rate: u64,
}

impl Line {
    /// Transmits a frame, beginning when the line is free; returns the end of the transmission.
    fn send(&mut self, start: Nanos, bytes: usize, rate: Option<u64>) -> Nanos {
        if let Some(rate) = rate.filter(|rate| *rate > 0) {
            if start > self.free_at || rate != self.rate {
                (self.remainder, self.rate) = (0, rate);
            }
            let work = bytes as u64 * 8_000_000_000 + self.remainder;
            self.remainder = work % rate;
            self.free_at = start.saturating_add(work / rate);
        } else {
            (self.remainder, self.free_at) = (0, start);
        }
        self.free_at
    }
}

impl Pipe {
    /// A direction that starts at time zero.
    pub fn new(direction: Direction, seed: u64) -> Self {
        let Direction { profile, mut timeline } = direction;
        timeline.sort_by_key(|(at, _)| *at);
        let timeline = timeline.into_iter().map(|(at, profile)| (nanos(at), profile)).collect();
        let token_bucket = profile.bucket.map(|bucket| TokenBucket::new(bucket, 0));
        Pipe {
            profile,
            timeline,
            random: Random::new(seed),
            loss_state: LossState::default(),
            token_bucket,
            line: Line::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            ordered: VecDeque::new(),
            unordered: BinaryHeap::new(),
            in_flight_bytes: 0,
            last_due: 0,
            frames_launched: 0,
            spare_buffers: Vec::new(),
            icmp_reply: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A frame enters the link. When it is too big for [`Profile::mtu`], returns the ICMP error to
    /// send back to its sender at once.
    pub fn offer(&mut self, now: Duration, frame: &[u8]) -> Option<&[u8]> {
        let now = nanos(now);
        self.advance(now);
        let packet = Packet::of(frame);
        if packet.is_housekeeping() {
            let frame = self.buffer_with(frame);
            self.put_in_flight(now, frame, true, true);
            return None;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += frame.len() as u64;
        let draws = self.random.draw_packet();
        let lost = self.loss_state.drops(self.profile.loss, &draws);
        if let Some(mtu) = self.profile.mtu.filter(|mtu| packet.larger_than(*mtu)) {
            let action = packet.too_big(mtu, &mut self.icmp_reply);
            if action != TooBig::Fragment {
                self.counters.dropped_by_mtu += 1;
                self.counters.icmp_too_big_sent += u64::from(action == TooBig::Reply);
                return (action == TooBig::Reply).then_some(&self.icmp_reply);
            }
        }
        if self.profile.black_hole_above.is_some_and(|limit| packet.larger_than(limit)) {
            self.counters.dropped_by_black_hole += 1;
            return None;
        }
        if lost {
            self.counters.dropped_by_loss += 1;
            return None;
        }
        if let Some(bucket) = &mut self.token_bucket
            && bucket.profile().mode == Mode::Police
            && !bucket.take(now, frame.len())
        {
            self.counters.dropped_by_policer += 1;
            return None;
        }
        let corruptible =
            (draws.corrupt < self.profile.corrupt).then(|| packet.corruptible()).flatten();
        if !self.has_room(now, frame.len()) {
            self.counters.dropped_by_queue += 1;
            return None;
        }
        let mut frame = self.buffer_with(frame);
        if let Some(bytes) = corruptible.and_then(|range| frame.get_mut(range)) {
            let bit = draws.bit as usize % (bytes.len() * 8);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
                self.counters.corrupted += 1;
            }
        }
        self.queued_bytes += frame.len() as u64;
        self.queue.push_back(QueuedFrame { frame, offered: now, draws });
        self.advance(now);
        self.counters.max_queue_bytes = self.counters.max_queue_bytes.max(self.queued_bytes);
        None
    }

    /// The next frame that is due; call until there is none.
    pub fn due(&mut self, now: Duration) -> Option<Departure> {
        let now = nanos(now);
        self.advance(now);
        let ordered = self.ordered.front().map(|frame| (frame.due, frame.number));
        let unordered = self.unordered.peek().map(|Reverse(frame)| (frame.due, frame.number));
        let (due, from_ordered) = match (ordered, unordered) {
            (Some(ordered), Some(unordered)) => (ordered.min(unordered).0, ordered < unordered),
            (Some(ordered), None) => (ordered.0, true),
            (None, Some(unordered)) => (unordered.0, false),
            (None, None) => return None,
        };
        if due > now {
            return None;
        }
        let next = if from_ordered { self.ordered.pop_front()? } else { self.unordered.pop()?.0 };
        self.in_flight_bytes -= next.frame.len() as u64;
        Some(Departure(next))
    }

    /// A departure was sent at this time; `delivered` is false when the far end did not accept it.
    pub fn sent(&mut self, departure: Departure, at: Duration, delivered: bool) {
        let InFlightFrame { due, frame, housekeeping, .. } = departure.0;
        match (housekeeping, delivered) {
            (true, _) => self.counters.housekeeping += 1,
            (false, false) => self.counters.undelivered += 1,
            (false, true) => {
                self.counters.packets_out += 1;
                self.counters.bytes_out += frame.len() as u64;
                self.counters.lateness.add(nanos(at).saturating_sub(due));
            }
        }
        if self.spare_buffers.len() < MAX_SPARE_BUFFERS {
            self.spare_buffers.push(frame);
        }
    }

    /// When to call [`Pipe::due`] next; `None` while nothing is in transit. It may be too early,
    /// never too late.
    pub fn next_due(&self) -> Option<Duration> {
        let in_flight = [
            self.ordered.front().map(|frame| frame.due),
            self.unordered.peek().map(|Reverse(frame)| frame.due),
        ];
        let next = in_flight.into_iter().flatten().min();
        let next = [next, self.head_due(), self.timeline.front().map(|(at, _)| *at)];
        next.into_iter().flatten().min().map(Duration::from_nanos)
    }

    /// Replaces the profile. Queued packets stay and are sent according to the new one.
    pub fn set_profile(&mut self, now: Duration, profile: Profile) {
        let now = nanos(now);
        self.advance(now);
        self.switch_profile(now, profile);
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.counters_into(&mut counters);
        counters
    }

    /// The same, into existing counters.
    pub fn counters_into(&self, counters: &mut Counters) {
        counters.clone_from(&self.counters);
        let unordered = self.unordered.iter().filter(|frame| !frame.0.housekeeping).count();
        counters.in_transit = (self.queue.len() + self.ordered.len() + unordered) as u64;
    }

    /// Catches up until now: transmissions and profile changes happen at their scheduled times.
    fn advance(&mut self, now: Nanos) {
        loop {
            let start = self.next_transmit_start().filter(|start| *start <= now);
            let change = self.timeline.front().map(|(at, _)| *at).filter(|at| *at <= now);
            if change.is_some_and(|change| start.is_none_or(|start| change <= start)) {
                if let Some((at, profile)) = self.timeline.pop_front() {
                    self.switch_profile(at, profile);
                }
            } else if let Some(start) = start {
                self.transmit_head(start);
            } else {
                return;
            }
        }
    }

    fn switch_profile(&mut self, at: Nanos, profile: Profile) {
        if self.token_bucket.as_ref().map(TokenBucket::profile) != profile.bucket.as_ref() {
            self.token_bucket = profile.bucket.map(|bucket| TokenBucket::new(bucket, at));
        }
        // Queued packets follow the new profile: none of them can have left before the change.
        if !self.queue.is_empty() {
            self.line.free_at = self.line.free_at.max(at);
        }
        self.profile = profile;
    }

    /// Current rate of the line, bits per second.
    fn line_rate(&self) -> Option<u64> {
        let burst = self.profile.bucket.and_then(|bucket| bucket.burst_rate);
        match (self.profile.rate, burst) {
            (Some(rate), Some(burst)) => Some(rate.min(burst)),
            (rate, burst) => rate.or(burst),
        }
    }

    /// When the line can begin to transmit a frame of this size, offered at this time; `None` is
    /// never.
    fn transmit_start(&self, offered: Nanos, bytes: usize) -> Option<Nanos> {
        if self.line_rate() == Some(0) {
            return None;
        }
        let start = self.line.free_at.max(offered);
        match &self.token_bucket {
            Some(bucket) if matches!(bucket.profile().mode, Mode::Shape { .. }) => {
                bucket.ready_at(start, bytes)
            }
            _ => Some(start),
        }
    }

    /// When the line begins to transmit the head of the queue.
    fn next_transmit_start(&self) -> Option<Nanos> {
        let head = self.queue.front()?;
        self.transmit_start(head.offered, head.frame.len())
    }

    /// When the head of the queue will arrive, if nothing changes.
    fn head_due(&self) -> Option<Nanos> {
        let start = self.next_transmit_start()?;
        let head = self.queue.front()?;
        let bits = head.frame.len() as u64 * 8_000_000_000;
        let time = self.line_rate().map_or(0, |rate| bits / rate.max(1));
        // A frame that is held back arrives later, so that this is never too late.
        Some(self.arrival(start.saturating_add(time), &head.draws))
    }

    fn has_room(&self, now: Nanos, bytes: usize) -> bool {
        let bytes_now = bytes as u64;
        if self.in_flight_bytes + self.queued_bytes + bytes_now > MAX_HELD_BYTES {
            return false;
        }
        if self.queue.is_empty()
            && self.transmit_start(now, bytes).is_some_and(|start| start <= now)
        {
            return true;
        }
        let limit = match self.profile.bucket.map(|bucket| bucket.mode) {
            Some(Mode::Shape { queue }) => Queue::Bytes(queue),
            _ => self.profile.queue,
        };
        match limit {
            Queue::Bytes(limit) => self.queued_bytes + bytes_now <= limit,
            Queue::Packets(limit) => self.queue.len() < limit as usize,
        }
    }

    /// Transmits the head of the queue, beginning at a time at which the line is free.
    fn transmit_head(&mut self, start: Nanos) {
        let rate = self.line_rate();
        let Some(QueuedFrame { frame, draws, .. }) = self.queue.pop_front() else { return };
        self.queued_bytes -= frame.len() as u64;
        if let Some(bucket) = &mut self.token_bucket
            && matches!(bucket.profile().mode, Mode::Shape { .. })
        {
            bucket.take(start, frame.len());
        }
        let end = self.line.send(start, frame.len(), rate);
        let due = self.arrival(end, &draws);
        let duplicate =
            (draws.duplicate < self.profile.duplicate).then(|| self.buffer_with(&frame));
        let held_back = self.profile.reorder.filter(|reorder| draws.reorder < reorder.probability);
        if let Some(reorder) = held_back {
            self.counters.reordered += 1;
            self.put_in_flight(due.saturating_add(nanos(reorder.delay)), frame, true, false);
        } else {
            self.put_in_flight(due, frame, false, false);
        }
        if let Some(duplicate) = duplicate {
            self.counters.duplicated += 1;
            self.put_in_flight(due, duplicate, false, false);
        }
    }

    /// When a frame whose transmission ends at this time arrives.
    fn arrival(&self, end: Nanos, draws: &Draws) -> Nanos {
        let delay = nanos(self.profile.delay);
        let jitter = nanos(self.profile.jitter);
        if jitter == 0 {
            return end.saturating_add(delay);
        }
        let shift = (draws.jitter * 2.0 * jitter as f64) as Nanos;
        end.saturating_add(delay.saturating_add(shift).saturating_sub(jitter))
    }

    fn put_in_flight(&mut self, due: Nanos, frame: Vec<u8>, unordered: bool, housekeeping: bool) {
        self.frames_launched += 1;
        self.in_flight_bytes += frame.len() as u64;
        let mut frame = InFlightFrame { due, number: self.frames_launched, frame, housekeeping };
        if unordered {
            self.unordered.push(Reverse(frame));
        } else {
            self.last_due = self.last_due.max(due);
            frame.due = self.last_due;
            self.ordered.push_back(frame);
        }
    }

    /// A copy of a frame, in a spare buffer if there is one.
    fn buffer_with(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.spare_buffers.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        copy.clear();
        copy.extend_from_slice(frame);
        copy
    }
}

#[cfg(test)]
mod tests;
