//! What was sent, in the order in which it passed the capture point, and what became of it.

use super::bucket::Step;
use super::statistics::seconds_between;
use crate::time::Nanos;

/// Most transmissions that are kept; they are judged before more are taken.
const MAX_TRANSMISSIONS: usize = 4096;
/// Fewest that are kept before acknowledged ones are forgotten.
const MIN_TRANSMISSIONS: usize = 64;
/// Data of a packet, where an offload cuts larger segments later: Ethernet with time stamps.
const OFFLOAD_SEGMENT: u32 = 1448;
/// An acknowledgement that comes in less than this share of the shortest round trip is for an
/// earlier transmission.
const MIN_ROUND_TRIP_SHARE: f64 = 0.8;
/// A longer time, a minute, is no round trip.
const MAX_ROUND_TRIP: Nanos = 60_000_000_000;
/// Most summaries: what passed before the first loss, added up.
const MAX_SUMMARIES: usize = 256;
/// Longest time of one summary at first.
const SUMMARY_TIME: Nanos = 2_000_000;

/// How often data was transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transmitted {
    /// It is new.
    First,
    /// It is a retransmission.
    Again,
    /// It is a retransmission whose original was not captured.
    OriginalNotCaptured,
}

/// One transmission.
#[derive(Debug, Clone, Copy, Default)]
struct Transmission {
    at: Nanos,
    from: u64,
    /// Bytes of data.
    length: u32,
    /// Bytes of data of it that were lost.
    lost: u32,
    /// Round trip, microseconds; 0: unknown.
    round_trip_us: u32,
    /// Number of the transmission that this one repeats, from 1; 0: none is known.
    original: u32,
    /// Bytes of the headers of each of its packets.
    headers: u16,
    is_retransmission: bool,
    /// Whether it was spurious, and it is not known whether it arrived.
    is_spurious: bool,
}

impl Transmission {
    fn end(&self) -> u64 {
        self.from.saturating_add(u64::from(self.length))
    }

    #[inline]
    fn packets(&self) -> u32 {
        if self.length <= OFFLOAD_SEGMENT { 1 } else { self.length.div_ceil(OFFLOAD_SEGMENT) }
    }

    /// Bytes of its IP packets.
    fn ip_bytes(&self) -> u32 {
        self.length.saturating_add(self.packets().saturating_mul(u32::from(self.headers)))
    }

    fn summary(&self) -> Summary {
        let (ip_bytes, packets) = (self.ip_bytes(), self.packets());
        Summary { first: self.at, last: self.at, ip_bytes, packets }
    }
}

/// Transmissions that passed and of which no more is kept.
#[derive(Debug, Clone, Copy)]
struct Summary {
    first: Nanos,
    last: Nanos,
    ip_bytes: u32,
    packets: u32,
}

/// Transmissions of one response.
#[derive(Debug, Clone, Default)]
pub(super) struct Transmissions {
    all: Vec<Transmission>,
    /// Number of the first of them.
    base: u32,
    /// How many of them are known to be acknowledged, retransmissions left out.
    acknowledged_count: usize,
    /// The same with those beyond that were acknowledged selectively.
    sacked_count: usize,
    /// Numbers of the retransmissions that are not acknowledged.
    retransmissions: Vec<u32>,
    /// Everything before this number is acknowledged.
    acknowledged: u64,
    has_losses: bool,
    /// At how many transmissions acknowledged ones are forgotten.
    forget_at: usize,
    /// What passed before them.
    summaries: Vec<Summary>,
    summary_time: Nanos,
    min_round_trip: Option<Nanos>,
}

impl Transmissions {
    /// Those that follow some packets that were only counted.
    pub(super) fn after(began: Nanos, ip_bytes: u32, packets: u32) -> Self {
        let counted = Summary { first: began, last: began, ip_bytes, packets };
        Transmissions { summaries: vec![counted], ..Transmissions::default() }
    }

    /// Whether anything was retransmitted.
    pub(super) fn has_losses(&self) -> bool {
        self.has_losses
    }

    /// How much is kept.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.all.len() + self.summaries.len()
    }

    /// The shortest round trip.
    pub(super) fn min_round_trip(&self) -> Option<Nanos> {
        self.min_round_trip
    }

    pub(super) fn is_full(&self) -> bool {
        self.has_losses && self.all.len() >= MAX_TRANSMISSIONS
    }

    /// When the first that is kept, or was only counted, passed.
    pub(super) fn start(&self) -> Nanos {
        let summary = self.summaries.first().map(|summary| summary.first);
        summary.or(self.all.first().map(|sent| sent.at)).unwrap_or(0)
    }

    #[inline]
    pub(super) fn sent(
        &mut self,
        transmitted: Transmitted,
        from: u64,
        length: u32,
        headers: u32,
        at: Nanos,
    ) {
        let headers = headers.min(u32::from(u16::MAX)) as u16;
        let is_retransmission = transmitted != Transmitted::First;
        let mut sent =
            Transmission { at, from, length, headers, is_retransmission, ..Default::default() };
        if is_retransmission {
            self.has_losses = true;
            if transmitted == Transmitted::Again {
                sent.original = self.mark_lost(from, sent.end());
                if sent.original == 0
                    && let Some(counted) = self.summaries.first_mut()
                {
                    counted.ip_bytes = counted.ip_bytes.saturating_sub(sent.ip_bytes());
                    counted.packets = counted.packets.saturating_sub(sent.packets());
                }
            }
            self.retransmissions.push(self.number(self.all.len()));
        } else if !self.has_losses && self.all.len() >= self.forget_at.max(MIN_TRANSMISSIONS) {
            self.forget_acknowledged();
        }
        self.all.push(sent);
    }

    /// Adds up what was acknowledged: nothing has been lost so far.
    fn forget_acknowledged(&mut self) {
        let forgotten =
            self.acknowledged_count.max(self.all.len().saturating_sub(MAX_TRANSMISSIONS / 2));
        let forgotten = forgotten.min(self.all.len());
        for sent in self.all.drain(..forgotten) {
            let time = self.summary_time.max(SUMMARY_TIME);
            add_summary(&mut self.summaries, time, sent.summary());
        }
        while self.summaries.len() > MAX_SUMMARIES {
            self.summary_time = self.summary_time.max(SUMMARY_TIME).saturating_mul(2);
            for summary in std::mem::take(&mut self.summaries) {
                add_summary(&mut self.summaries, self.summary_time, summary);
            }
        }
        self.base = self.base.wrapping_add(forgotten as u32);
        self.acknowledged_count = self.acknowledged_count.saturating_sub(forgotten);
        self.sacked_count = self.sacked_count.saturating_sub(forgotten);
        self.forget_at = (self.all.len() * 2).min(MAX_TRANSMISSIONS);
    }

    /// After a judgement, keeps only what is still in flight.
    pub(super) fn keep_unacknowledged(&mut self) {
        let acknowledged = self.acknowledged;
        self.base = self.number(self.all.len());
        self.all.retain(|sent| sent.end() > acknowledged);
        if self.all.len() > MAX_TRANSMISSIONS / 2 {
            self.all.clear();
        }
        (self.acknowledged_count, self.sacked_count) = (0, 0);
        self.retransmissions.clear();
        for (index, sent) in self.all.iter_mut().enumerate() {
            sent.original = 0;
            if sent.is_retransmission {
                self.retransmissions.push(self.base.wrapping_add(index as u32));
            }
        }
        self.summaries.clear();
    }

    /// A part is retransmitted: its last transmission was lost, as far as is known. Returns the
    /// number of that transmission, from 1; 0: it is not kept.
    fn mark_lost(&mut self, from: u64, to: u64) -> u32 {
        let (mut from, mut to, mut number) = (from, to, 0);
        let base = self.base;
        for (index, sent) in self.all.iter_mut().enumerate().rev() {
            let (begin, end) = (from.max(sent.from), to.min(sent.end()));
            if begin < end {
                let bytes = u32::try_from(end - begin).unwrap_or(u32::MAX);
                sent.lost = sent.lost.saturating_add(bytes).min(sent.length);
                number = base.wrapping_add(index as u32).wrapping_add(1);
                if begin == from {
                    from = end;
                } else if end == to {
                    to = begin;
                } else {
                    break;
                }
                if from >= to {
                    break;
                }
            } else if !sent.is_retransmission && sent.end() <= from {
                break;
            }
        }
        number
    }

    fn number(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Transmission> {
        self.all.get_mut(number.wrapping_sub(self.base) as usize)
    }

    /// The peer acknowledged everything before `to`.
    #[inline]
    pub(super) fn acknowledged(&mut self, to: u64, at: Nanos) {
        if to <= self.acknowledged {
            return;
        }
        let before = std::mem::replace(&mut self.acknowledged, to);
        let mut newest = None;
        while let Some(sent) = self.all.get(self.acknowledged_count) {
            if !sent.is_retransmission {
                if sent.end() > to {
                    break;
                }
                newest = Some(self.acknowledged_count);
            }
            self.acknowledged_count += 1;
        }
        let is_ambiguous =
            !self.retransmissions.is_empty() && self.acknowledge_retransmissions(before, to, at);
        // Karn's algorithm: a round trip only if nothing of what is acknowledged was retransmitted.
        if let Some(newest) = newest.filter(|_| !is_ambiguous) {
            self.time(newest, at);
        }
    }

    /// A part before `to` was acknowledged selectively: its last transmission has just arrived, if
    /// there was one only.
    pub(super) fn selectively_acknowledged(&mut self, to: u64, at: Nanos) {
        self.sacked_count = self.sacked_count.max(self.acknowledged_count);
        let mut newest = None;
        while let Some(sent) = self.all.get(self.sacked_count) {
            if !sent.is_retransmission {
                if sent.end() > to {
                    break;
                }
                newest = Some(self.sacked_count).filter(|_| sent.end() == to);
            }
            self.sacked_count += 1;
        }
        if let Some(newest) = newest {
            self.time(newest, at);
        }
    }

    /// A transmission has just been acknowledged.
    fn time(&mut self, index: usize, at: Nanos) {
        if let Some(sent) = self.all.get_mut(index)
            && sent.lost == 0
            && sent.round_trip_us == 0
        {
            let round_trip = at.saturating_sub(sent.at);
            if (1..=MAX_ROUND_TRIP).contains(&round_trip) {
                sent.round_trip_us = (round_trip / 1000).clamp(1, i64::from(u32::MAX)) as u32;
                let min = self.min_round_trip.map_or(round_trip, |min| min.min(round_trip));
                self.min_round_trip = Some(min);
            }
        }
    }

    /// Marks the spurious ones of the retransmissions that are acknowledged now. Returns whether
    /// anything of what is acknowledged was retransmitted.
    fn acknowledge_retransmissions(&mut self, before: u64, to: u64, at: Nanos) -> bool {
        let min_time = self.min_round_trip.map_or(0.0, |min| min as f64 * MIN_ROUND_TRIP_SHARE);
        let mut any = false;
        let mut retransmissions = std::mem::take(&mut self.retransmissions);
        retransmissions.retain(|number| {
            let Some(sent) = self.get_mut(*number) else { return false };
            if sent.end() > to {
                any |= sent.from < to;
                return true;
            }
            any |= sent.end() > before;
            let is_own = at.saturating_sub(sent.at) as f64 >= min_time;
            let (original, length) = (sent.original, sent.length);
            if !is_own && original > 0 && sent.lost == 0 {
                sent.is_spurious = true;
                self.mark_arrived(original, length);
            }
            false
        });
        self.retransmissions = retransmissions;
        any
    }

    /// A transmission that counted as lost was not.
    fn mark_arrived(&mut self, number: u32, length: u32) {
        if let Some(sent) = number.checked_sub(1).and_then(|number| self.get_mut(number)) {
            sent.lost = sent.lost.saturating_sub(length);
        }
    }

    /// The peer has received a part twice: its last two transmissions arrived.
    pub(super) fn received_twice(&mut self, from: u64, to: u64) {
        let found = self.all.iter_mut().rev().find(|sent| sent.from < to && sent.end() > from);
        let Some(sent) = found.filter(|sent| sent.is_retransmission) else { return };
        let (original, length) = (sent.original, sent.length);
        if !std::mem::take(&mut sent.is_spurious) {
            self.mark_arrived(original, length);
        }
    }

    /// First and last transmission of which a part was lost.
    pub(super) fn first_and_last_loss(&self) -> Option<(Nanos, Nanos)> {
        let mut lost = self.all.iter().filter(|sent| sent.lost > 0).map(|sent| sent.at);
        let first = lost.next()?;
        Some((first, lost.next_back().unwrap_or(first)))
    }

    /// What passed and what was lost, in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        let start = self.start();
        let mut steps = Vec::with_capacity(self.all.len() + 2 * self.summaries.len());
        let mut last = 0.0_f64;
        let mut after = |at: Nanos| {
            last = last.max(seconds_between(start, at));
            last
        };
        for summary in &self.summaries {
            let half = Step {
                passed: f64::from(summary.ip_bytes) / 2.0,
                packet: f64::from(summary.ip_bytes) / f64::from(summary.packets.max(1)),
                packets: summary.packets / 2,
                ..Step::default()
            };
            steps.push(Step { at: after(summary.first), ..half });
            steps.push(Step { at: after(summary.last), ..half });
        }
        for sent in &self.all {
            let is_unknown = sent.lost == 0 && (sent.is_spurious || sent.end() > self.acknowledged);
            if is_unknown || sent.length == 0 {
                continue;
            }
            let ip_bytes = f64::from(sent.ip_bytes());
            let arrived = sent.length.saturating_sub(sent.lost);
            steps.push(Step {
                at: after(sent.at),
                passed: ip_bytes * (f64::from(arrived) / f64::from(sent.length)),
                packet: ip_bytes / f64::from(sent.packets()),
                packets: arrived / OFFLOAD_SEGMENT.min(sent.length),
                lost: sent.lost.div_ceil(OFFLOAD_SEGMENT),
                round_trip: f64::from(sent.round_trip_us) * 1e-6,
            });
        }
        steps
    }
}

/// Adds to the last summary while that does not span more than this time.
fn add_summary(summaries: &mut Vec<Summary>, max_time: Nanos, next: Summary) {
    match summaries.last_mut() {
        Some(last) if next.last.saturating_sub(last.first) <= max_time => {
            last.last = last.last.max(next.last);
            last.ip_bytes = last.ip_bytes.saturating_add(next.ip_bytes);
            last.packets = last.packets.saturating_add(next.packets);
        }
        _ => summaries.push(next),
    }
}
