//! One way of one stream: what was seen leaving at one place, what of it was seen arriving at the
//! other.
//!
//! Bytes are matched, not packets: an offload makes one packet here of several there. Which of two
//! sendings of the same bytes arrived is told by the time stamp, then by the identification, then it
//! is the latest that can have arrived by then.

use std::collections::VecDeque;

use model::PathDirection;

use super::delays::Delays;
use super::glimpse::Glimpse;
use super::ranges::Ranges;
use crate::sequence::Sequence;
use crate::{Kind, Nanos};

/// Packets under way that are remembered of a stream's way; beyond that the first of them is lost.
const UNDER_WAY: usize = 16_384;
/// So long after its bytes were acknowledged nothing is under way any more.
const AFTER_ACKNOWLEDGED: Nanos = 1_000_000_000;
/// So long after it left nothing is under way any more.
const LONGEST: Nanos = 30_000_000_000;
/// The same for packets without data, of which several look alike.
const EMPTY_LONGEST: Nanos = 3_000_000_000;
/// What left so shortly before the other capture ended may have arrived after it.
pub(super) const AT_THE_END: Nanos = 1_000_000_000;
/// The same, where something that left later had arrived before the end.
const OVERTAKEN: Nanos = 100_000_000;
/// Segment size where the handshake was not seen.
const SEGMENT: u32 = 1448;

/// A packet with data, SYN or FIN that left.
#[derive(Debug)]
struct Sending {
    /// Place in the order of leaving.
    order: u64,
    at: Nanos,
    number: u64,
    /// Bytes of data.
    length: u32,
    /// What of it has not arrived.
    left: Ranges,
    stamp: Option<u32>,
    id: u32,
    /// Whether some of it had left before.
    again: bool,
}

/// A packet without.
#[derive(Debug, Clone, Copy)]
struct Empty {
    order: u64,
    at: Nanos,
    mark: u64,
    id: u32,
}

/// Between which times of the first clock the capture at the other place can have seen something that
/// left: from its first packet to its last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Covered {
    /// The capture at which it leaves.
    pub(super) leaving: (Nanos, Nanos),
    /// The other one.
    pub(super) arriving: (Nanos, Nanos),
    /// Shortest time from one to the other.
    pub(super) least: Nanos,
}

/// One way of one stream.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// The highest number that left or arrived: numbers are unwrapped near it.
    top: Option<Sequence>,
    segment: Option<u32>,
    under_way: VecDeque<Sending>,
    /// Whether those under way are in the order of their bytes.
    unordered: bool,
    empty: VecDeque<Empty>,
    order: u64,
    /// The latest, in the order of leaving, that arrived, and its first byte.
    latest: (u64, Sequence),
    /// The first byte that left while it was captured.
    began: Option<Sequence>,
    /// Bytes that left, and those that left more than once.
    sent: Ranges,
    resent: Ranges,
    /// Bytes that arrived.
    arrived: Ranges,
    /// What the receiver has said to have, as seen at its place; and as seen at the sender's.
    has: Option<Sequence>,
    selected: Ranges,
    heard: Option<Sequence>,
    /// Arrived again and not acknowledged: until the receiver says that it had it.
    behind: Vec<(Sequence, Sequence, u64, u32)>,
    /// Packets that were captured twice as they left: then they may be where they arrive.
    copies: u64,
    /// The last packet that was lost, in the order of leaving, and segments lost in a row.
    last_lost: Option<u64>,
    run: u64,
    /// Packets that seem to arrive before they leave.
    pub(super) before_they_left: u64,
    pub(super) delays: Delays,
    pub(super) told: PathDirection,
}

impl Way {
    pub(super) fn new(segment: Option<u32>) -> Self {
        Way { segment, ..Way::default() }
    }

    fn near(&mut self, header: u32) -> Sequence {
        let near = self.top.map_or_else(|| Sequence::first(header), |top| top.near(header));
        self.top.get_or_insert(near);
        near
    }

    /// The range of a packet with data.
    fn range(&mut self, seen: &Glimpse) -> (Sequence, Sequence) {
        let from = self.near(seen.sequence);
        let to = from.plus(seen.takes());
        self.top = self.top.max(Some(to));
        (from, to)
    }

    /// How many segments so many bytes are.
    fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.segment.unwrap_or(SEGMENT))).max(1)
    }

    /// A packet leaves.
    pub(super) fn leaves(&mut self, seen: &Glimpse, at: Nanos, covered: &Covered) {
        if seen.kind == Kind::Copy {
            self.copies += 1;
            return;
        }
        self.order += 1;
        if seen.takes() == 0 {
            if self.empty.len() >= UNDER_WAY {
                self.empty_is_lost(covered);
            }
            let (order, mark) = (self.order, seen.mark());
            self.empty.push_back(Empty { order, at, mark, id: seen.id });
            return;
        }
        let (from, to) = self.range(seen);
        self.told.segments += self.segments(seen.length.into());
        self.told.bytes += u64::from(seen.length);
        // Below the first byte that left: it may have left before the capture began.
        let again = self.sent.touches(from, to) || self.began.is_some_and(|began| from < began);
        self.began.get_or_insert(from);
        if again {
            self.resent.add(from, to);
        }
        self.sent.add(from, to);
        let order = self
            .under_way
            .back()
            .is_none_or(|last| last.left.iter().last().is_none_or(|(_, end)| end <= from));
        self.unordered = !self.under_way.is_empty() && (self.unordered || !order);
        self.under_way.push_back(Sending {
            order: self.order,
            at,
            number: seen.number,
            length: seen.length,
            left: Ranges::of(from, to),
            stamp: seen.stamps.map(|(value, _)| value),
            id: seen.id,
            again,
        });
        if self.under_way.len() > UNDER_WAY {
            self.first_is_lost(covered);
        }
    }

    /// The same packet, when all that arrived before has been looked at: was it sent again because
    /// what went before was lost before it could leave?
    pub(super) fn left(&mut self, seen: &Glimpse) {
        if seen.kind != Kind::RepeatedUnseen || seen.takes() == 0 {
            return;
        }
        let (from, to) = self.range(seen);
        if self.arrived.covers(from, to) && !self.resent.covers(from, to) {
            return;
        }
        let segments = self.segments(seen.length.into());
        lost(&mut self.told.lost_before, segments, seen.length.into(), seen.number);
    }

    /// A packet arrives.
    pub(super) fn arrives(&mut self, seen: &Glimpse, at: Nanos, kept: bool, covered: &Covered) {
        if seen.kind == Kind::Copy {
            self.told.duplicated += 1;
            return;
        }
        if seen.takes() == 0 {
            self.empty_arrives(seen, at, kept, covered);
            return;
        }
        let (from, to) = self.range(seen);
        let stamp = seen.stamps.map(|(value, _)| value);
        let repeated = self.arrived.covers(from, to);
        let mut found = false;
        // A packet may have been put together of several: all that it has.
        let mut open = Ranges::of(from, to);
        while let Some((from, to)) = open.first() {
            let Some(place) = self.sending(from, to, stamp, seen.id, at, kept) else { break };
            let sending = &mut self.under_way[place];
            for (low, high) in sending.left.clone().iter() {
                open.remove(low, high);
            }
            sending.left.remove(from, to);
            let (order, left, again) = (sending.order, sending.at, sending.again);
            if sending.left.is_empty() {
                self.under_way.remove(place);
                self.unordered &= !self.under_way.is_empty();
            }
            if !found {
                self.told.reordered += u64::from((order, from) < self.latest && !again);
                if !again && !self.resent.touches(from, to) {
                    self.delays.add(at.saturating_sub(left).saturating_sub(covered.least));
                }
            }
            self.latest = self.latest.max((order, from));
            found = true;
        }
        if found {
            self.told.matched += 1;
        } else if self.sent.covers(from, to) && repeated {
            self.told.duplicated += 1;
            return;
        } else if !self.sent.covers(from, to) && self.could_be_seen_leaving(at, covered) {
            self.told.not_captured_leaving += self.segments(seen.length.into());
        }
        self.arrived.add(from, to);
        let probe = matches!(seen.kind, Kind::KeepAlive | Kind::WindowProbe);
        if found && repeated && seen.length > 0 && !probe {
            let has = self.has.is_some_and(|has| has >= to) || self.selected.covers(from, to);
            if has {
                self.told.spurious += self.segments(seen.length.into());
            } else {
                if self.behind.len() >= UNDER_WAY {
                    self.behind_is_lost();
                }
                self.behind.push((from, to, seen.number, seen.length));
            }
        }
    }

    /// Which of those under way this is; the place of the best.
    fn sending(
        &self,
        from: Sequence,
        to: Sequence,
        stamp: Option<u32>,
        id: u32,
        at: Nanos,
        kept: bool,
    ) -> Option<usize> {
        // What has another time stamp is another sending, whatever became of the one that is looked
        // for: it may have left before the capture began.
        let fits = |sending: &Sending| {
            let same = sending.stamp.zip(stamp).is_none_or(|(a, b)| a == b);
            same && sending.left.touches(from, to)
        };
        if !self.unordered {
            let place = self.under_way.partition_point(|sending| {
                sending.left.iter().last().is_some_and(|(_, end)| end <= from)
            });
            return self.under_way.get(place).is_some_and(fits).then_some(place);
        }
        let all = self.under_way.iter().enumerate().filter(|(_, sending)| fits(sending));
        let rank = |sending: &Sending| {
            // An offload gives the segments of one packet numbers that follow its own.
            let ids = kept && sending.id != 0 && sending.id == id;
            let before = sending.at <= at;
            (ids, before, if before { sending.at } else { sending.at.saturating_neg() })
        };
        all.max_by_key(|(_, sending)| rank(sending)).map(|(place, _)| place)
    }

    fn empty_arrives(&mut self, seen: &Glimpse, at: Nanos, kept: bool, covered: &Covered) {
        let mark = seen.mark();
        let mut same = self.empty.iter().enumerate().filter(|(_, empty)| empty.mark == mark);
        let Some((mut place, mut found)) = same.next() else { return };
        let mut alone = true;
        for (other, empty) in same {
            alone = false;
            if kept && seen.id != 0 && found.id != seen.id && empty.id == seen.id {
                (place, found) = (other, empty);
            }
        }
        let (order, left) = (found.order, found.at);
        self.empty.remove(place);
        self.told.matched += 1;
        self.told.reordered += u64::from(order < self.latest.0);
        self.latest = self.latest.max((order, Sequence::default()));
        if alone {
            self.delays.add(at.saturating_sub(left).saturating_sub(covered.least));
        }
    }

    /// The receiver sends an acknowledgement, as seen at its place.
    pub(super) fn receiver_says(&mut self, seen: &Glimpse) {
        let Some(top) = self.top else { return };
        let to = top.near(seen.acknowledgement);
        self.has = self.has.max(Some(to));
        for (place, (first, last)) in seen.blocks().iter().enumerate() {
            let (first, last) = (top.near(*first), top.near(*last));
            let twice = place == 0
                && (last <= to || self.selected.covers(first, last) && seen.blocks().len() > 1);
            if twice {
                // It had that already (D-SACK): nothing was lost behind.
                let before = self.behind.len();
                self.behind.retain(|(from, to, ..)| !(*from < last && first < *to));
                self.told.spurious += (before - self.behind.len()) as u64;
            }
            if last > to && last.since(first) < 1 << 31 {
                self.selected.add(first, last);
            }
        }
        self.selected.forget_below(to);
    }

    /// The same acknowledgement at the sender's place.
    pub(super) fn sender_hears(&mut self, seen: &Glimpse, now: Nanos, covered: &Covered) {
        let Some(top) = self.top else { return };
        self.heard = self.heard.max(Some(top.near(seen.acknowledgement)));
        self.look(now, covered);
    }

    /// Judges what has been under way for too long.
    pub(super) fn look(&mut self, now: Nanos, covered: &Covered) {
        while let Some(first) = self.under_way.front() {
            let age = now.saturating_sub(first.at);
            let end = first.left.iter().last().map(|(_, end)| end);
            let acknowledged = self.heard.is_some_and(|heard| end.is_some_and(|end| end <= heard));
            if age < LONGEST && !(acknowledged && age > AFTER_ACKNOWLEDGED) {
                break;
            }
            self.first_is_lost(covered);
        }
        while self.empty.front().is_some_and(|first| now.saturating_sub(first.at) > EMPTY_LONGEST) {
            self.empty_is_lost(covered);
        }
    }

    /// The captures are over, or the stream is.
    pub(super) fn finish(&mut self, covered: &Covered) {
        while !self.under_way.is_empty() {
            self.first_is_lost(covered);
        }
        while !self.empty.is_empty() {
            self.empty_is_lost(covered);
        }
        self.behind_is_lost();
        self.run_ends();
        self.told.duplicated = self.told.duplicated.saturating_sub(self.copies);
    }

    /// Whether something that left at this time must have been seen arriving.
    fn could_be_seen_arriving(&self, at: Nanos, order: u64, covered: &Covered) -> bool {
        let (first, last) = covered.arriving;
        let there = at.saturating_add(covered.least);
        let wait = if order < self.latest.0 { OVERTAKEN } else { AT_THE_END };
        there >= first && there.saturating_add(wait) <= last
    }

    fn could_be_seen_leaving(&self, at: Nanos, covered: &Covered) -> bool {
        let (first, last) = covered.leaving;
        let here = at.saturating_sub(covered.least);
        here.saturating_sub(AT_THE_END) >= first && here <= last
    }

    fn empty_is_lost(&mut self, covered: &Covered) {
        let Some(empty) = self.empty.pop_front() else { return };
        let counts = self.could_be_seen_arriving(empty.at, empty.order, covered);
        self.told.pure_acks_lost += u64::from(counts);
    }

    /// What is left of the first of those under way never arrives.
    fn first_is_lost(&mut self, covered: &Covered) {
        let Some(sending) = self.under_way.pop_front() else { return };
        self.unordered &= !self.under_way.is_empty();
        if !self.could_be_seen_arriving(sending.at, sending.order, covered) {
            return;
        }
        for (from, to) in sending.left.iter() {
            let bytes = to.since(from).min(sending.length.into());
            let segments = self.segments(bytes);
            let once = !self.resent.touches(from, to);
            if self.arrived.covers(from, to) && once {
                // It left once and arrived: at another time than it can have.
                self.before_they_left += segments;
                continue;
            }
            let told = [self.has, self.heard].into_iter().flatten().max();
            if !self.arrived.touches(from, to) && told.is_some_and(|told| told >= to) {
                self.told.not_captured_arriving += segments;
                // One of them arrived, not all.
                self.arrived.add(from, to);
                continue;
            }
            lost(&mut self.told.lost_between, segments, bytes, sending.number);
            if self.last_lost.is_none_or(|last| last + 1 < sending.order) {
                self.run_ends();
            }
            self.run += segments;
            self.last_lost = Some(sending.order);
        }
    }

    fn run_ends(&mut self) {
        if self.run > 1 {
            self.told.bursts += 1;
            self.told.lost_in_bursts += self.run;
        }
        self.told.longest_burst = self.told.longest_burst.max(self.run);
        self.run = 0;
    }

    fn behind_is_lost(&mut self) {
        for (_, _, number, length) in std::mem::take(&mut self.behind) {
            let segments = self.segments(length.into());
            lost(&mut self.told.lost_after, segments, length.into(), number);
        }
    }
}

/// More of it is lost.
fn lost(loss: &mut model::PathLoss, segments: u64, bytes: u64, number: u64) {
    loss.segments += segments;
    loss.bytes += bytes;
    if loss.first_packet == 0 {
        loss.first_packet = number;
    }
    loss.last_packet = loss.last_packet.max(number);
}
