//! One direction of a link as pure computation: frames and times in, frames and times out. No
//! clock, no input or output; the same calls with the same seed give the same frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::Nanos;
use super::bucket::Tokens;
use super::counters::Counters;
use super::dice::{Dice, Draws};
use super::loss::Losses;
use super::packet::{Answer, Packet};
use super::profile::{Direction, Mode, Profile, Queue};

/// Most bytes that wait and are under way: a delay without a rate holds no more memory than this.
const HELD_LIMIT: u64 = 256 << 20;
/// Room in a new buffer: a usual frame.
const FRAME: usize = 1536;
/// Buffers kept for reuse.
const SPARE: usize = 16 << 10;

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    profile: Profile,
    timeline: VecDeque<(Nanos, Profile)>,
    dice: Dice,
    losses: Losses,
    tokens: Option<Tokens>,
    line: Line,
    queue: VecDeque<Parcel>,
    queued_bytes: u64,
    /// Under way, in order of arrival.
    ordered: VecDeque<Flight>,
    /// Under way beside the order: held back, or frames of the link itself.
    aside: BinaryHeap<Reverse<Flight>>,
    flying_bytes: u64,
    last_due: Nanos,
    flights: u64,
    spare: Vec<Vec<u8>>,
    answer: Vec<u8>,
    counters: Counters,
}

/// A frame that waits for the line.
#[derive(Debug)]
struct Parcel {
    frame: Vec<u8>,
    offered: Nanos,
    draws: Draws,
}

/// A frame under way. Ordered by the time at which it arrives, then by when it set out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Nanos,
    number: u64,
    frame: Vec<u8>,
    housekeeping: bool,
}

/// A frame whose time has come: send it, then tell [`Pipe::sent`].
#[derive(Debug)]
pub struct Departure(Flight);

impl Departure {
    /// The frame.
    pub fn frame(&self) -> &[u8] {
        &self.0.frame
    }

    /// When it was to leave.
    pub fn due(&self) -> Duration {
        Duration::from_nanos(self.0.due)
    }
}

/// The line that takes frames out of the queue.
#[derive(Debug, Default)]
struct Line {
    free: Nanos,
    /// What the last frame left of a nanosecond, in parts of the speed.
    carry: u64,
    speed: u64,
}

impl Line {
    /// Sends a frame from a time on, at which the line is free; gives the end.
    fn send(&mut self, start: Nanos, bytes: usize, speed: Option<u64>) -> Nanos {
        if let Some(speed) = speed.filter(|speed| *speed > 0) {
            if start > self.free || speed != self.speed {
                (self.carry, self.speed) = (0, speed);
            }
            let work = bytes as u64 * 8_000_000_000 + self.carry;
            self.carry = work % speed;
            self.free = start.saturating_add(work / speed);
        } else {
            (self.carry, self.free) = (0, start);
        }
        self.free
    }
}

impl Pipe {
    /// A direction that starts at time zero.
    pub fn new(direction: Direction, seed: u64) -> Self {
        let Direction { profile, mut timeline } = direction;
        timeline.sort_by_key(|(at, _)| *at);
        let timeline = timeline.into_iter().map(|(at, profile)| (nanos(at), profile)).collect();
        let tokens = profile.bucket.map(|bucket| Tokens::new(bucket, 0));
        Pipe {
            profile,
            timeline,
            dice: Dice::new(seed),
            losses: Losses::default(),
            tokens,
            line: Line::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            ordered: VecDeque::new(),
            aside: BinaryHeap::new(),
            flying_bytes: 0,
            last_due: 0,
            flights: 0,
            spare: Vec::new(),
            answer: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A frame comes to the link. When it is too big for [`Profile::mtu`] this gives the frame
    /// that goes back to its sender at once.
    pub fn offer(&mut self, now: Duration, frame: &[u8]) -> Option<&[u8]> {
        let now = nanos(now);
        self.advance(now);
        let packet = Packet::of(frame);
        if packet.is_housekeeping() {
            let frame = self.copy(frame);
            self.fly(now, frame, true, true);
            return None;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += frame.len() as u64;
        let draws = self.dice.packet();
        let lost = self.losses.takes(self.profile.loss, &draws);
        if let Some(mtu) = self.profile.mtu.filter(|mtu| packet.larger_than(*mtu)) {
            let answer = packet.too_big(mtu, &mut self.answer);
            if answer != Answer::Pass {
                self.counters.dropped_by_mtu += 1;
                self.counters.answered += u64::from(answer == Answer::Told);
                return (answer == Answer::Told).then_some(&self.answer);
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
        if let Some(tokens) = &mut self.tokens
            && tokens.bucket().mode == Mode::Police
            && !tokens.take(now, frame.len())
        {
            self.counters.dropped_by_policer += 1;
            return None;
        }
        let flips = (draws.corrupt < self.profile.corrupt).then(|| packet.corruptible()).flatten();
        if !self.has_room(now, frame.len()) {
            self.counters.dropped_by_queue += 1;
            return None;
        }
        let mut frame = self.copy(frame);
        if let Some(bits) = flips {
            let bit = draws.bit as usize % (bits.len() * 8);
            frame[bits.start + bit / 8] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        self.queued_bytes += frame.len() as u64;
        self.queue.push_back(Parcel { frame, offered: now, draws });
        self.advance(now);
        self.counters.greatest_queue_bytes =
            self.counters.greatest_queue_bytes.max(self.queued_bytes);
        None
    }

    /// The next frame whose time has come. Ask until there is none.
    pub fn due(&mut self, now: Duration) -> Option<Departure> {
        let now = nanos(now);
        self.advance(now);
        let ordered = self.ordered.front().map(|flight| (flight.due, flight.number));
        let aside = self.aside.peek().map(|Reverse(flight)| (flight.due, flight.number));
        let (due, from_order) = match (ordered, aside) {
            (Some(ordered), Some(aside)) => (ordered.min(aside).0, ordered < aside),
            (Some(ordered), None) => (ordered.0, true),
            (None, Some(aside)) => (aside.0, false),
            (None, None) => return None,
        };
        if due > now {
            return None;
        }
        let flight = if from_order { self.ordered.pop_front()? } else { self.aside.pop()?.0 };
        self.flying_bytes -= flight.frame.len() as u64;
        Some(Departure(flight))
    }

    /// A departure was sent, at this time; `taken` is false when the other end did not take it.
    pub fn sent(&mut self, departure: Departure, at: Duration, taken: bool) {
        let Flight { due, frame, housekeeping, .. } = departure.0;
        match (housekeeping, taken) {
            (true, _) => self.counters.housekeeping += 1,
            (false, false) => self.counters.unsent += 1,
            (false, true) => {
                self.counters.packets_out += 1;
                self.counters.bytes_out += frame.len() as u64;
                self.counters.lateness.add(nanos(at).saturating_sub(due));
            }
        }
        if self.spare.len() < SPARE {
            self.spare.push(frame);
        }
    }

    /// When [`Pipe::due`] is to be asked next; `None` while nothing is under way. It may turn out
    /// to be too early, never too late.
    pub fn next_due(&self) -> Option<Duration> {
        let flying = [
            self.ordered.front().map(|flight| flight.due),
            self.aside.peek().map(|Reverse(flight)| flight.due),
        ];
        let next = flying.into_iter().flatten().min();
        let next = [next, self.head_due(), self.timeline.front().map(|(at, _)| *at)];
        next.into_iter().flatten().min().map(Duration::from_nanos)
    }

    /// The profile becomes another. What waits stays and is sent as the new profile says.
    pub fn set(&mut self, now: Duration, profile: Profile) {
        let now = nanos(now);
        self.advance(now);
        self.change(now, profile);
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.counters_into(&mut counters);
        counters
    }

    /// The same, into counters that are there already.
    pub fn counters_into(&self, counters: &mut Counters) {
        counters.clone_from(&self.counters);
        let aside = self.aside.iter().filter(|flight| !flight.0.housekeeping).count();
        counters.waiting = (self.queue.len() + self.ordered.len() + aside) as u64;
    }

    /// Does what was to be done until now, at the times at which it was to be done.
    fn advance(&mut self, now: Nanos) {
        loop {
            let start = self.next_start().filter(|start| *start <= now);
            let change = self.timeline.front().map(|(at, _)| *at).filter(|at| *at <= now);
            if change.is_some_and(|change| start.is_none_or(|start| change <= start)) {
                if let Some((at, profile)) = self.timeline.pop_front() {
                    self.change(at, profile);
                }
            } else if let Some(start) = start {
                self.launch(start);
            } else {
                return;
            }
        }
    }

    fn change(&mut self, at: Nanos, profile: Profile) {
        if self.tokens.as_ref().map(Tokens::bucket) != profile.bucket.as_ref() {
            self.tokens = profile.bucket.map(|bucket| Tokens::new(bucket, at));
        }
        // Nothing that waited can set out before the change, by whose profile it goes.
        if !self.queue.is_empty() {
            self.line.free = self.line.free.max(at);
        }
        self.profile = profile;
    }

    /// Bits a second of the line now.
    fn speed(&self) -> Option<u64> {
        let burst = self.profile.bucket.and_then(|bucket| bucket.burst_rate);
        match (self.profile.rate, burst) {
            (Some(rate), Some(burst)) => Some(rate.min(burst)),
            (rate, burst) => rate.or(burst),
        }
    }

    /// When the line can take a frame of so many bytes that was offered at a time; `None` is
    /// never.
    fn start_of(&self, offered: Nanos, bytes: usize) -> Option<Nanos> {
        if self.speed() == Some(0) {
            return None;
        }
        let start = self.line.free.max(offered);
        match &self.tokens {
            Some(tokens) if matches!(tokens.bucket().mode, Mode::Shape { .. }) => {
                tokens.ready(start, bytes)
            }
            _ => Some(start),
        }
    }

    /// When the line takes the first frame of the queue.
    fn next_start(&self) -> Option<Nanos> {
        let head = self.queue.front()?;
        self.start_of(head.offered, head.frame.len())
    }

    /// When the first frame of the queue will arrive, if nothing changes.
    fn head_due(&self) -> Option<Nanos> {
        let start = self.next_start()?;
        let head = self.queue.front()?;
        let bits = head.frame.len() as u64 * 8_000_000_000;
        let time = self.speed().map_or(0, |speed| bits / speed.max(1));
        let delayed = self.delayed(start.saturating_add(time), &head.draws);
        // What is held back comes later; this is never too late.
        Some(delayed)
    }

    fn has_room(&self, now: Nanos, bytes: usize) -> bool {
        let bytes_now = bytes as u64;
        if self.flying_bytes + self.queued_bytes + bytes_now > HELD_LIMIT {
            return false;
        }
        if self.queue.is_empty() && self.start_of(now, bytes).is_some_and(|start| start <= now) {
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

    /// Puts the first frame of the queue on the line at a time at which that can take it.
    fn launch(&mut self, start: Nanos) {
        let speed = self.speed();
        let Some(Parcel { frame, draws, .. }) = self.queue.pop_front() else { return };
        self.queued_bytes -= frame.len() as u64;
        if let Some(tokens) = &mut self.tokens
            && matches!(tokens.bucket().mode, Mode::Shape { .. })
        {
            tokens.take(start, frame.len());
        }
        let end = self.line.send(start, frame.len(), speed);
        let due = self.delayed(end, &draws);
        let copy = (draws.duplicate < self.profile.duplicate).then(|| self.copy(&frame));
        let back = self.profile.reorder.filter(|reorder| draws.reorder < reorder.probability);
        if let Some(reorder) = back {
            self.counters.reordered += 1;
            self.fly(due.saturating_add(nanos(reorder.by)), frame, true, false);
        } else {
            self.fly(due, frame, false, false);
        }
        if let Some(copy) = copy {
            self.counters.duplicated += 1;
            self.fly(due, copy, false, false);
        }
    }

    /// When what leaves the line at a time arrives.
    fn delayed(&self, end: Nanos, draws: &Draws) -> Nanos {
        let delay = nanos(self.profile.delay);
        let jitter = nanos(self.profile.jitter);
        if jitter == 0 {
            return end.saturating_add(delay);
        }
        let shift = (draws.jitter * 2.0 * jitter as f64) as Nanos;
        end.saturating_add(delay.saturating_add(shift).saturating_sub(jitter))
    }

    fn fly(&mut self, due: Nanos, frame: Vec<u8>, aside: bool, housekeeping: bool) {
        self.flights += 1;
        self.flying_bytes += frame.len() as u64;
        let mut flight = Flight { due, number: self.flights, frame, housekeeping };
        if aside {
            self.aside.push(Reverse(flight));
        } else {
            self.last_due = self.last_due.max(due);
            flight.due = self.last_due;
            self.ordered.push_back(flight);
        }
    }

    fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(FRAME));
        copy.clear();
        copy.extend_from_slice(frame);
        copy
    }
}

/// Nanoseconds; what does not fit is the end of time, 584 years on.
fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests;
