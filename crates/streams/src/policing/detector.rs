//! Watches one direction of a stream for a policer.

use super::bucket::{self, BucketFit};
use super::delay;
use super::response::{PolicedResponse, bits, is_one_rate};
use super::shared::Losses;
use super::statistics::seconds_between;
use super::transmissions::{Transmissions, Transmitted};
use crate::segment::SegmentKind;
use crate::sequence::Sequence;
use crate::time::Nanos;

/// Data packets of a response before its packets are recorded: short responses cost nothing, and
/// what is only counted was sent at once (RFC 6928).
const PACKETS_BEFORE_RECORDING: u8 = 10;
/// What earlier responses of the same direction showed of a policer.
#[derive(Debug, Clone, Copy)]
struct KnownPolicer {
    /// Lowest and highest rate, bytes a second.
    low: f64,
    high: f64,
    /// The best rate, by the response that leaves the narrowest range.
    rate: f64,
    /// Quotient of highest and lowest rate of that response.
    quotient: f64,
    /// Deficit of the bucket, bytes, at this moment.
    deficit: f64,
    at: Nanos,
}

/// Watches one direction of a stream for a policer.
#[derive(Debug, Clone, Default)]
pub struct PolicerDetector {
    /// Packets of the response that were only counted, their bytes, and when the first passed.
    packets: u8,
    bytes: u32,
    began: Nanos,
    recording: Option<Box<Recording>>,
}

#[derive(Debug, Clone, Default)]
struct Recording {
    transmissions: Transmissions,
    known: Option<KnownPolicer>,
    found: Option<PolicedResponse>,
    /// Shortest round trip, seconds; 0: none yet.
    min_round_trip: f64,
    /// The first losses that no bucket of this direction explains; without them, its first losses.
    losses: Option<Box<Losses>>,
    /// Whether a part of the response was judged before.
    is_continued: bool,
}

impl PolicerDetector {
    /// A segment with data passed the capture point. `headers` are the bytes of its packet that
    /// are no data, from the IP header on.
    #[inline(always)]
    pub fn sent(
        &mut self,
        kind: SegmentKind,
        from: Sequence,
        length: u32,
        headers: u32,
        at: Nanos,
    ) {
        if let Some(recording) = &mut self.recording {
            recording.sent(kind, from, length, headers, at);
            return;
        }
        if self.packets == 0 {
            self.began = at;
        }
        self.packets += 1;
        if self.packets < PACKETS_BEFORE_RECORDING {
            self.bytes = self.bytes.saturating_add(length.saturating_add(headers));
            return;
        }
        self.begin_recording(kind, from, length, headers, at);
    }

    fn begin_recording(
        &mut self,
        kind: SegmentKind,
        from: Sequence,
        length: u32,
        headers: u32,
        at: Nanos,
    ) {
        let packets = u32::from(PACKETS_BEFORE_RECORDING) - 1;
        let transmissions = Transmissions::after(self.began, self.bytes, packets);
        let mut recording = Box::new(Recording { transmissions, ..Recording::default() });
        recording.sent(kind, from, length, headers, at);
        self.recording = Some(recording);
    }

    /// Whether it records nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.recording.is_none()
    }

    /// The last request or response was one packet, while nothing was recorded; `None`: it is over.
    pub(crate) fn set_message(&mut self, bytes: Option<u32>, began: Nanos) {
        (self.packets, self.bytes) = bytes.map_or((0, 0), |bytes| (1, bytes));
        self.began = began;
    }

    /// The peer acknowledged everything before `to`, which it had not acknowledged before.
    #[inline]
    pub fn acknowledged(&mut self, to: Sequence, at: Nanos) {
        if let Some(recording) = &mut self.recording {
            recording.transmissions.acknowledged(to.0, at);
        }
    }

    /// The first selective acknowledgement of a packet that acknowledges everything before `all`.
    /// If it ends before `all`, the peer has received that part twice (D-SACK, RFC 2883).
    #[inline]
    pub fn selectively_acknowledged(
        &mut self,
        all: Sequence,
        from: Sequence,
        to: Sequence,
        at: Nanos,
    ) {
        if let Some(recording) = &mut self.recording {
            if to <= all {
                recording.transmissions.received_twice(from.0, to.0);
            } else {
                recording.transmissions.selectively_acknowledged(to.0, at);
            }
        }
    }

    /// A request is over: what is not lost by then is forgotten, and the next one begins anew.
    #[inline(always)]
    pub fn end_request(&mut self) {
        if self.packets > 0 {
            (self.packets, self.bytes) = (0, 0);
            if let Some(recording) = &self.recording
                && recording.shows_nothing()
            {
                self.recording = None;
            }
        }
    }

    /// The response is over and acknowledged, or the stream is over: whether it was policed. What
    /// it showed of the policer helps with later responses, and its losses may be explained together
    /// with those of other streams; everything else is forgotten.
    #[inline]
    pub fn end_response(&mut self, exchange: u32) -> Option<PolicedResponse> {
        (self.packets, self.bytes) = (0, 0);
        let recording = self.recording.as_mut()?;
        recording.judge(false);
        recording.is_continued = false;
        if let Some(losses) = &mut recording.losses {
            losses.exchange.get_or_insert(exchange);
        }
        let found = recording.found.take();
        if recording.shows_nothing() {
            self.recording = None;
        } else {
            recording.transmissions = Transmissions::default();
        }
        found
    }

    /// Its losses, of which one bucket may explain those of other streams too.
    pub(crate) fn take_losses(&mut self) -> Option<Box<Losses>> {
        self.recording.as_mut()?.losses.take()
    }

    /// How many transmissions are recorded.
    #[cfg(test)]
    pub(super) fn recorded(&self) -> Option<usize> {
        self.recording.as_ref().map(|recording| recording.transmissions.size())
    }
}

impl Recording {
    /// Whether no policer is known, and nothing was lost that may show one.
    fn shows_nothing(&self) -> bool {
        let is_empty = self.known.is_none() && self.found.is_none() && self.losses.is_none();
        is_empty && !self.transmissions.has_losses()
    }

    fn sent(&mut self, kind: SegmentKind, from: Sequence, length: u32, headers: u32, at: Nanos) {
        let transmitted = match kind {
            SegmentKind::New | SegmentKind::AfterGap => Transmitted::First,
            SegmentKind::Reordered | SegmentKind::OriginalNotCaptured => {
                Transmitted::OriginalNotCaptured
            }
            SegmentKind::FastRetransmission
            | SegmentKind::RtoRetransmission
            | SegmentKind::RetransmissionKindUnknown => Transmitted::Again,
            SegmentKind::NoData
            | SegmentKind::DuplicatePacket
            | SegmentKind::WindowProbe
            | SegmentKind::KeepAlive => return,
        };
        if length == 0 {
            return;
        }
        if self.transmissions.is_full() {
            self.judge(true);
            self.transmissions.keep_unacknowledged();
            self.is_continued = true;
        }
        self.transmissions.sent(transmitted, from.0, length, headers, at);
    }

    /// Judges what is recorded; `continues`: more of the same response follows.
    fn judge(&mut self, continues: bool) {
        if let Some(min) = self.transmissions.min_round_trip().map(|min| min as f64 * 1e-9) {
            self.min_round_trip =
                if self.min_round_trip > 0.0 { self.min_round_trip.min(min) } else { min };
        }
        if !self.transmissions.has_losses() {
            return;
        }
        let steps = self.transmissions.steps();
        let Some((first_loss, last_loss)) = self.transmissions.first_and_last_loss() else {
            return;
        };
        let start = self.transmissions.start();
        let deficit = self.known.map_or(0.0, |known| {
            (known.deficit - seconds_between(known.at, start) * known.rate).max(0.0)
        });
        let rates = self.known.map(|known| (known.low, known.high));
        let fit = bucket::fit(&steps, deficit, rates);
        let fit = fit.filter(|fit| !delay::is_queued(&steps, fit, self.min_round_trip));
        let end = steps.last().map_or(0.0, |step| step.at);
        let is_explained = fit.is_some();
        if self.losses.as_ref().is_none_or(|before| before.is_explained && !is_explained) {
            let is_whole = [!self.is_continued, !continues];
            let losses = Losses::of(steps, start, is_whole, self.min_round_trip, is_explained);
            self.losses = losses.or(self.losses.take());
        }
        let Some(fit) = fit else { return };
        let known = self.learn(&fit, start.saturating_add((end * 1e9) as Nanos));
        let found = PolicedResponse {
            rate_bps: is_one_rate(known.low, known.high).then(|| bits(known.rate)),
            rate_range_bps: (bits(known.low), bits(known.high)),
            bucket_bytes: fit.bucket.max(0.0) as u64,
            lost: fit.lost,
            passed: fit.passed,
            bursts: fit.bursts,
            first_loss,
            last_loss,
        };
        self.found = Some(match self.found {
            None => found,
            Some(before) => PolicedResponse {
                bucket_bytes: before.bucket_bytes,
                lost: before.lost.saturating_add(found.lost),
                passed: before.passed.saturating_add(found.passed),
                bursts: before.bursts.saturating_add(found.bursts),
                first_loss: before.first_loss,
                ..found
            },
        });
    }

    /// Combines what this response shows of the policer with what earlier ones showed.
    fn learn(&mut self, fit: &BucketFit, at: Nanos) -> KnownPolicer {
        let (mut low, mut high, mut rate) = (fit.low, fit.high, fit.rate);
        let mut quotient = high / low;
        if let Some(known) = self.known {
            let both = (low.max(known.low), high.min(known.high));
            // Without a common rate, the policer has changed.
            if both.0 <= both.1 {
                (low, high) = both;
                if known.quotient < quotient {
                    (rate, quotient) = (known.rate, known.quotient);
                }
                rate = rate.max(low).min(high);
            }
        }
        *self.known.insert(KnownPolicer { low, high, rate, quotient, deficit: fit.deficit, at })
    }
}
