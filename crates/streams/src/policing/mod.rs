//! Token-bucket policers without a queue: what is sent above a rate is dropped at once.
//!
//! A policer holds tokens, bytes that may pass: they grow with its rate up to the size of its bucket,
//! and each packet that passes takes its size. A packet that finds too few is dropped. What lacks in
//! the bucket therefore grows and drains as a queue would, *a queue that is not there*: it is the
//! same for all packets that were dropped, less for all that passed, and it delays nobody. A real
//! queue drops by the same rule and delays what passes by its length.
//!
//! So an answer was policed when, at one rate,
//!
//! 1. all its losses came at one level of that imaginary queue, to a packet's size and the jitter of
//!    the path;
//! 2. what passed was below it;
//! 3. chance would not do that: the level is reached by few of the packets, the losses are many;
//! 4. the round trip does not follow the level, although a queue of that length would show in it.
//!
//! - `record`: what was sent, and whether it passed, as a place before the policer can know
//! - `bucket`: the level, the rate at which the losses agree, and how much of it is chance
//! - `delay`: whether there was a queue
//!
//! Losses are those of segments that were seen, and sent again for a reason: the place of capture is
//! before the policer. Behind it neither the losses nor the delays can be had, and nothing is found.

mod bucket;
mod delay;
mod record;
#[cfg(test)]
mod tests;

use crate::Nanos;
use crate::direction::Kind;
use crate::sequence::Sequence;
use bucket::{Fit, Step};
use record::Record;

/// Data packets of an answer from which on they are remembered: short ones cost nothing, and what
/// is only counted was sent at once (RFC 6928).
const SHORT: u8 = 10;
/// Rates between which an answer leaves no choice are told as one when they are this near.
const NEAR: f64 = 1.2;

/// An answer of which a policer dropped a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policed {
    /// Rate at which tokens come, bits of IP packets a second. `None`: nothing was sent long enough
    /// to tell; every burst found a full bucket, and its size alone limited the answer.
    pub rate_bps: Option<u64>,
    /// Between which rates it is, bits a second.
    pub rate_range_bps: (u64, u64),
    /// Bytes of IP packets that passed at once before the first was dropped: the size of the bucket
    /// when it was full before.
    pub bucket_bytes: u64,
    /// Packets that were dropped.
    pub lost: u32,
    /// Packets that passed.
    pub passed: u32,
    /// How often dropping began.
    pub bursts: u32,
    /// First loss.
    pub first_loss: Nanos,
    /// Last loss.
    pub last_loss: Nanos,
}

/// What is known of a policer from earlier answers of the same direction.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Bytes a second, between which it is.
    low: f64,
    high: f64,
    /// The best of them, by the answer that leaves the fewest.
    rate: f64,
    width: f64,
    /// How far the bucket was from full, bytes, and when.
    lacking: f64,
    at: Nanos,
}

/// Watches one direction of a stream for a policer.
#[derive(Debug, Clone, Default)]
pub struct Policing {
    /// Packets of the answer that were only counted, their bytes, and when the first passed.
    packets: u8,
    bytes: u32,
    began: Nanos,
    watch: Option<Box<Watch>>,
}

#[derive(Debug, Clone, Default)]
struct Watch {
    record: Record,
    known: Option<Known>,
    found: Option<Policed>,
    /// Shortest round trip, seconds; 0: none yet.
    least: f64,
}

impl Policing {
    /// A segment with data passed the place of capture. `headers` are the bytes of its packet that
    /// are no data, from the IP header on.
    #[inline]
    pub fn sent(&mut self, kind: Kind, from: Sequence, length: u32, headers: u32, at: Nanos) {
        match &mut self.watch {
            Some(watch) => watch.sent(kind, from, length, headers, at),
            None => {
                if self.packets == 0 {
                    self.began = at;
                }
                self.packets += 1;
                if self.packets < SHORT {
                    self.bytes = self.bytes.saturating_add(length.saturating_add(headers));
                } else {
                    let record = Record::after(self.began, self.bytes, u32::from(SHORT) - 1);
                    let mut watch = Box::new(Watch { record, ..Watch::default() });
                    watch.sent(kind, from, length, headers, at);
                    self.watch = Some(watch);
                }
            }
        }
    }

    /// The peer acknowledged all before `to`; only what has not been acknowledged before counts.
    #[inline]
    pub fn acknowledged(&mut self, to: Sequence, at: Nanos) {
        if let Some(watch) = &mut self.watch {
            watch.record.acknowledged(to.0, at);
        }
    }

    /// The first selective acknowledgement of a packet that acknowledges all before `all`: the
    /// peer has this part. Before `all` it has it twice (D-SACK, RFC 2883).
    #[inline]
    pub fn selected(&mut self, all: Sequence, from: Sequence, to: Sequence, at: Nanos) {
        if let Some(watch) = &mut self.watch {
            if to <= all {
                watch.record.twice(from.0, to.0);
            } else {
                watch.record.selected(to.0, at);
            }
        }
    }

    /// The answer is over and acknowledged, or the stream is over: whether it was policed. What was
    /// learnt of the policer helps with the answers that follow; all else is forgotten.
    #[inline]
    pub fn end(&mut self) -> Option<Policed> {
        (self.packets, self.bytes) = (0, 0);
        let watch = self.watch.as_mut()?;
        let found = watch.end();
        if watch.known.is_none() && !watch.record.lossy() {
            self.watch = None;
        } else {
            watch.record = Record::default();
        }
        found
    }
}

impl Watch {
    fn sent(&mut self, kind: Kind, from: Sequence, length: u32, headers: u32, at: Nanos) {
        let again = match kind {
            Kind::New | Kind::Ahead => false,
            Kind::Reordered
            | Kind::RepeatedUnseen
            | Kind::RepeatedFast
            | Kind::RepeatedTimeout
            | Kind::Repeated => true,
            _ => return,
        };
        if length == 0 {
            return;
        }
        if self.record.is_full() {
            self.judge();
            self.record.shorten();
        }
        let unseen = matches!(kind, Kind::Reordered | Kind::RepeatedUnseen);
        self.record.sent(again, unseen, from.0, length, headers, at);
    }

    /// Judges what is remembered.
    fn judge(&mut self) {
        if let Some(least) = self.record.least().map(|least| least as f64 * 1e-9) {
            self.least = if self.least > 0.0 { self.least.min(least) } else { least };
        }
        if !self.record.lossy() {
            return;
        }
        let steps = self.record.steps();
        let Some((first, last)) = self.record.losses() else { return };
        let start = self.record.start();
        let lacking = self
            .known
            .map_or(0.0, |known| (known.lacking - seconds(start, known.at) * known.rate).max(0.0));
        let rates = self.known.map(|known| (known.low, known.high));
        let Some(fit) = bucket::fit(&steps, lacking, rates) else { return };
        if delay::queued(&steps, &fit, self.least) {
            return;
        }
        let end = steps.last().map_or(0.0, |step| step.at);
        self.learn(&fit, start.saturating_add((end * 1e9) as Nanos));
        let (low, high, rate) = self
            .known
            .map_or((fit.low, fit.high, fit.rate), |known| (known.low, known.high, known.rate));
        let bits = |rate: f64| (rate * 8.0) as u64;
        let this = Policed {
            rate_bps: (high <= low * NEAR).then(|| bits(rate)),
            rate_range_bps: (bits(low), bits(high)),
            bucket_bytes: fit.bucket.max(0.0) as u64,
            lost: fit.lost,
            passed: fit.passed,
            bursts: fit.bursts,
            first_loss: first,
            last_loss: last,
        };
        self.found = Some(match self.found {
            None => this,
            Some(before) => Policed {
                bucket_bytes: before.bucket_bytes,
                lost: before.lost.saturating_add(this.lost),
                passed: before.passed.saturating_add(this.passed),
                bursts: before.bursts.saturating_add(this.bursts),
                first_loss: before.first_loss,
                ..this
            },
        });
    }

    /// What this answer says of the policer, with what earlier ones said.
    fn learn(&mut self, fit: &Fit, at: Nanos) {
        let (mut low, mut high, mut rate) = (fit.low, fit.high, fit.rate);
        let mut width = high / low;
        if let Some(known) = self.known {
            let both = (low.max(known.low), high.min(known.high));
            // Otherwise it has changed.
            if both.0 <= both.1 {
                (low, high) = both;
                if known.width < width {
                    (rate, width) = (known.rate, known.width);
                }
                rate = rate.max(low).min(high);
            }
        }
        self.known = Some(Known { low, high, rate, width, lacking: fit.lacking, at });
    }

    fn end(&mut self) -> Option<Policed> {
        self.judge();
        self.found.take()
    }
}

/// From one time to another, seconds; none is negative.
fn seconds(to: Nanos, from: Nanos) -> f64 {
    to.saturating_sub(from).max(0) as f64 * 1e-9
}

/// The value that so large a part of a sorted list is not above.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
