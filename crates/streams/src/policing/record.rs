//! What was sent, in the order in which it passed the place of capture, and what became of it.

use super::{Step, seconds};
use crate::Nanos;

/// Most transmissions that are remembered; what is there is judged before more are taken.
const MOST: usize = 4096;
/// Fewest that are remembered before those that were acknowledged are forgotten.
const FEW: usize = 64;
/// Data of a packet where larger segments are cut later: that of Ethernet with time stamps.
const SEGMENT: u32 = 1448;
/// An acknowledgement that comes back in less than this part of the shortest round trip is for an
/// earlier transmission.
const TOO_SOON: f64 = 0.8;
/// A round trip longer than a minute is none.
const LONGEST: Nanos = 60_000_000_000;

/// Most lumps: what passed before the first loss, put together.
const LUMPS: usize = 256;
/// Time that a lump spans at most, at first.
const GRAIN: Nanos = 2_000_000;

/// One transmission.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    at: Nanos,
    from: u64,
    /// Bytes of data.
    length: u32,
    /// Bytes of data of it that were lost.
    lost: u32,
    /// Round trip, microseconds; 0: unknown.
    trip: u32,
    /// Which transmission this one repeats: its number, from 1.
    repeats: u32,
    /// Bytes of the headers of each of its packets.
    headers: u16,
    again: bool,
    /// Repeated without need, and nobody told whether it arrived.
    vain: bool,
}

impl Sent {
    fn end(&self) -> u64 {
        self.from.saturating_add(u64::from(self.length))
    }

    #[inline]
    fn packets(&self) -> u32 {
        if self.length <= SEGMENT { 1 } else { self.length.div_ceil(SEGMENT) }
    }

    /// Bytes of IP packets.
    fn wire(&self) -> u32 {
        self.length.saturating_add(self.packets().saturating_mul(u32::from(self.headers)))
    }
}

/// Transmissions that passed, of which no more is kept.
#[derive(Debug, Clone, Copy)]
struct Lump {
    first: Nanos,
    last: Nanos,
    wire: u32,
    packets: u32,
}

/// Transmissions of one answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    all: Vec<Sent>,
    /// Number of the first of them.
    base: u32,
    /// How many of them are known to be acknowledged, but for repeated ones.
    head: usize,
    /// The same, of those beyond, as far as they were acknowledged selectively.
    ahead: usize,
    /// Repeated ones that are not acknowledged: their numbers.
    repeated: Vec<u32>,
    acknowledged: u64,
    lossy: bool,
    /// At how many to forget what was acknowledged.
    limit: usize,
    /// What passed before them.
    lumps: Vec<Lump>,
    grain: Nanos,
    least: Option<Nanos>,
}

impl Record {
    /// After some packets that were only counted.
    pub(super) fn after(began: Nanos, wire: u32, packets: u32) -> Self {
        let counted = Lump { first: began, last: began, wire, packets };
        Record { lumps: vec![counted], ..Record::default() }
    }

    /// Whether anything was sent again.
    pub(super) fn lossy(&self) -> bool {
        self.lossy
    }

    /// How much is remembered.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.all.len() + self.lumps.len()
    }

    /// The shortest round trip.
    pub(super) fn least(&self) -> Option<Nanos> {
        self.least
    }

    pub(super) fn is_full(&self) -> bool {
        self.lossy && self.all.len() >= MOST
    }

    /// When the first that is remembered passed, or what is only counted began.
    pub(super) fn start(&self) -> Nanos {
        let lump = self.lumps.first().map(|lump| lump.first);
        lump.or(self.all.first().map(|sent| sent.at)).unwrap_or(0)
    }

    #[inline]
    pub(super) fn sent(
        &mut self,
        again: bool,
        unseen: bool,
        from: u64,
        length: u32,
        headers: u32,
        at: Nanos,
    ) {
        let headers = headers.min(u32::from(u16::MAX)) as u16;
        let mut sent = Sent { at, from, length, headers, again, ..Sent::default() };
        if again {
            self.lossy = true;
            if !unseen {
                sent.repeats = self.lose(from, sent.end());
                if sent.repeats == 0
                    && let Some(counted) = self.lumps.first_mut()
                {
                    counted.wire = counted.wire.saturating_sub(sent.wire());
                    counted.packets = counted.packets.saturating_sub(sent.packets());
                }
            }
            self.repeated.push(self.number(self.all.len()));
        } else if !self.lossy && self.all.len() >= self.limit.max(FEW) {
            self.forget();
        }
        self.all.push(sent);
    }

    /// Nothing has been lost so far: what was acknowledged is put together.
    fn forget(&mut self) {
        let some = self.head.max(self.all.len().saturating_sub(MOST / 2));
        for sent in self.all.drain(..some) {
            let (wire, packets) = (sent.wire(), sent.packets());
            join(
                &mut self.lumps,
                self.grain.max(GRAIN),
                Lump { first: sent.at, last: sent.at, wire, packets },
            );
        }
        while self.lumps.len() > LUMPS {
            self.grain = self.grain.max(GRAIN).saturating_mul(2);
            for lump in std::mem::take(&mut self.lumps) {
                join(&mut self.lumps, self.grain, lump);
            }
        }
        self.base = self.base.wrapping_add(some as u32);
        self.head = self.head.saturating_sub(some);
        self.ahead = self.ahead.saturating_sub(some);
        self.limit = (self.all.len() * 2).min(MOST);
    }

    /// After a judgement: only what is still under way is needed.
    pub(super) fn shorten(&mut self) {
        let acknowledged = self.acknowledged;
        self.base = self.number(self.all.len());
        self.all.retain(|sent| sent.end() > acknowledged);
        if self.all.len() > MOST / 2 {
            self.all.clear();
        }
        (self.head, self.ahead) = (0, 0);
        self.repeated.clear();
        for (index, sent) in self.all.iter_mut().enumerate() {
            sent.repeats = 0;
            if sent.again {
                self.repeated.push(self.base.wrapping_add(index as u32));
            }
        }
        self.lumps.clear();
    }

    /// A part is sent again: its last transmission was lost, as far as is known. Returns its number.
    fn lose(&mut self, from: u64, to: u64) -> u32 {
        let (mut from, mut to, mut number) = (from, to, 0);
        let base = self.base;
        for (index, sent) in self.all.iter_mut().enumerate().rev() {
            let (a, b) = (from.max(sent.from), to.min(sent.end()));
            if a < b {
                sent.lost = sent.lost.saturating_add((b - a) as u32).min(sent.length);
                number = base.wrapping_add(index as u32).wrapping_add(1);
                if a == from {
                    from = b;
                } else if b == to {
                    to = a;
                } else {
                    break;
                }
                if from >= to {
                    break;
                }
            } else if !sent.again && sent.end() <= from {
                break;
            }
        }
        number
    }

    fn number(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32)
    }

    fn get(&mut self, number: u32) -> Option<&mut Sent> {
        self.all.get_mut(number.wrapping_sub(self.base) as usize)
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, to: u64, at: Nanos) {
        if to <= self.acknowledged {
            return;
        }
        let before = std::mem::replace(&mut self.acknowledged, to);
        let mut newest = None;
        while let Some(sent) = self.all.get(self.head) {
            if !sent.again {
                if sent.end() > to {
                    break;
                }
                newest = Some(self.head);
            }
            self.head += 1;
        }
        if !self.repeated.is_empty() && self.again(before, to, at) {
            return;
        }
        // Karn: nothing of what this acknowledges was sent twice.
        if let Some(newest) = newest {
            self.time(newest, at);
        }
    }

    /// A part before this was acknowledged selectively: the last of it has just arrived, when it
    /// was sent once.
    pub(super) fn selected(&mut self, to: u64, at: Nanos) {
        self.ahead = self.ahead.max(self.head);
        let mut newest = None;
        while let Some(sent) = self.all.get(self.ahead) {
            if !sent.again {
                if sent.end() > to {
                    break;
                }
                newest = Some(self.ahead).filter(|_| sent.end() == to);
            }
            self.ahead += 1;
        }
        if let Some(newest) = newest {
            self.time(newest, at);
        }
    }

    /// A transmission was acknowledged just now.
    fn time(&mut self, index: usize, at: Nanos) {
        if let Some(sent) = self.all.get_mut(index)
            && sent.lost == 0
            && sent.trip == 0
        {
            let trip = at.saturating_sub(sent.at);
            if (1..=LONGEST).contains(&trip) {
                sent.trip = (trip / 1000).clamp(1, i64::from(u32::MAX)) as u32;
                self.least = Some(self.least.map_or(trip, |least| least.min(trip)));
            }
        }
    }

    /// Of what is acknowledged now: whether any was sent again, and whether that was in vain.
    fn again(&mut self, before: u64, to: u64, at: Nanos) -> bool {
        let soon = self.least.map_or(0.0, |least| least as f64 * TOO_SOON);
        let mut any = false;
        let mut repeated = std::mem::take(&mut self.repeated);
        repeated.retain(|number| {
            let Some(sent) = self.get(*number) else { return false };
            if sent.end() > to {
                any |= sent.from < to;
                return true;
            }
            any |= sent.end() > before;
            let late = at.saturating_sub(sent.at) as f64 >= soon;
            let (repeats, length) = (sent.repeats, sent.length);
            if !late && repeats > 0 && sent.lost == 0 {
                sent.vain = true;
                self.arrived(repeats, length);
            }
            false
        });
        self.repeated = repeated;
        any
    }

    /// A transmission that was taken for lost was not.
    fn arrived(&mut self, number: u32, length: u32) {
        if let Some(sent) = number.checked_sub(1).and_then(|number| self.get(number)) {
            sent.lost = sent.lost.saturating_sub(length);
        }
    }

    /// The peer has a part twice: the last two transmissions of it arrived.
    pub(super) fn twice(&mut self, from: u64, to: u64) {
        let found = self.all.iter_mut().rev().find(|sent| sent.from < to && sent.end() > from);
        let Some(sent) = found.filter(|sent| sent.again) else { return };
        let (repeats, length) = (sent.repeats, sent.length);
        if !std::mem::take(&mut sent.vain) {
            self.arrived(repeats, length);
        }
    }

    /// First and last transmission of which a part was lost.
    pub(super) fn losses(&self) -> Option<(Nanos, Nanos)> {
        let mut lost = self.all.iter().filter(|sent| sent.lost > 0).map(|sent| sent.at);
        let first = lost.next()?;
        Some((first, lost.next_back().unwrap_or(first)))
    }

    /// What passed and what was lost, in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        let start = self.start();
        let mut steps = Vec::with_capacity(self.all.len() + 2 * self.lumps.len());
        let mut last = 0.0_f64;
        let mut after = |at: Nanos| {
            last = last.max(seconds(at, start));
            last
        };
        for lump in &self.lumps {
            let half = Step {
                passed: f64::from(lump.wire) / 2.0,
                packet: f64::from(lump.wire) / f64::from(lump.packets.max(1)),
                packets: lump.packets / 2,
                ..Step::default()
            };
            steps.push(Step { at: after(lump.first), ..half });
            steps.push(Step { at: after(lump.last), ..half });
        }
        for sent in &self.all {
            let unknown = sent.lost == 0 && (sent.vain || sent.end() > self.acknowledged);
            if unknown || sent.length == 0 {
                continue;
            }
            let wire = f64::from(sent.wire());
            let kept = sent.length.saturating_sub(sent.lost);
            steps.push(Step {
                at: after(sent.at),
                passed: wire * (f64::from(kept) / f64::from(sent.length)),
                packet: wire / f64::from(sent.packets()),
                packets: kept / SEGMENT.min(sent.length),
                lost: sent.lost.div_ceil(SEGMENT),
                trip: f64::from(sent.trip) * 1e-6,
            });
        }
        steps
    }
}

/// Adds to lumps, to the last of them while that does not span too long a time.
fn join(lumps: &mut Vec<Lump>, grain: Nanos, next: Lump) {
    match lumps.last_mut() {
        Some(lump) if next.last.saturating_sub(lump.first) <= grain => {
            lump.last = lump.last.max(next.last);
            lump.wire = lump.wire.saturating_add(next.wire);
            lump.packets = lump.packets.saturating_add(next.packets);
        }
        _ => lumps.push(next),
    }
}
