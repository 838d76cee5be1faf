//! One direction of one stream: what left at one vantage point, and what of it arrived at the other.
//!
//! Bytes are matched, not packets: an offload makes several packets there of one packet here. Which of
//! two transmissions of the same bytes arrived is decided by the time stamp, then by the IP
//! identification; then it is the latest one that can have arrived by then.

use std::collections::VecDeque;

use model::{PathDirection, PathLoss};

use super::coverage::Coverage;
use super::delays::DelayHistogram;
use super::fingerprint::PacketFingerprint;
use super::ranges::ByteRanges;
use crate::segment::SegmentKind;
use crate::sequence::Sequence;
use crate::time::Nanos;

/// Packets in flight that are remembered of a direction; of more, the first counts as lost.
const MAX_IN_FLIGHT: usize = 16_384;
/// After this time since its bytes were acknowledged, nothing is in flight any more.
const MAX_TIME_AFTER_ACK: Nanos = 1_000_000_000;
/// After this time since it left, nothing is in flight any more.
const MAX_TIME_IN_FLIGHT: Nanos = 30_000_000_000;
/// The same for packets without data, of which several look alike.
const MAX_EMPTY_TIME_IN_FLIGHT: Nanos = 3_000_000_000;
/// Segment size where no SYN was captured.
const ASSUMED_MSS: u32 = 1448;

/// A packet with data, SYN or FIN that left.
#[derive(Debug)]
struct Transmission {
    /// Place in the order of leaving.
    order: u64,
    at: Nanos,
    number: u64,
    /// Bytes of data.
    length: u32,
    /// What of it has not arrived.
    missing: ByteRanges,
    timestamp: Option<u32>,
    id: u32,
    /// Whether some of it had left before.
    is_retransmission: bool,
}

/// A packet without data that left.
#[derive(Debug, Clone, Copy)]
struct EmptyPacket {
    order: u64,
    at: Nanos,
    hash: u64,
    id: u32,
}

/// Data that arrived again and was not acknowledged.
#[derive(Debug, Clone, Copy)]
struct ArrivedAgain {
    from: Sequence,
    to: Sequence,
    number: u64,
    length: u32,
}

/// Segments lost in a row.
#[derive(Debug, Clone, Copy, Default)]
struct LossRun {
    /// Place of the last of them in the order of leaving.
    last: Option<u64>,
    segments: u64,
}

/// One direction of one stream.
#[derive(Debug, Default)]
pub(super) struct DirectionTracker {
    /// The highest sequence number that left or arrived.
    highest: Option<Sequence>,
    mss: Option<u32>,
    in_flight: VecDeque<Transmission>,
    /// Whether those in flight are not in the order of their bytes.
    is_unordered: bool,
    empty_in_flight: VecDeque<EmptyPacket>,
    order: u64,
    /// The latest in the order of leaving that arrived, and its first byte.
    latest_arrived: (u64, Sequence),
    /// The first byte that left while it was captured.
    first_sent: Option<Sequence>,
    /// Bytes that left.
    sent: ByteRanges,
    /// Bytes that left more than once.
    retransmitted: ByteRanges,
    /// Bytes that arrived.
    arrived: ByteRanges,
    /// What the receiver has acknowledged, as seen where it is.
    acknowledged: Option<Sequence>,
    sacked: ByteRanges,
    /// What the sender has seen acknowledged.
    seen_acknowledged: Option<Sequence>,
    /// Until the receiver reports that it had this data.
    arrived_again: Vec<ArrivedAgain>,
    /// Duplicate packets as they left: they may be duplicate where they arrive, too.
    duplicates_leaving: u64,
    loss_run: LossRun,
    /// Packets that seem to arrive before they leave.
    pub(super) arrived_before_sent: u64,
    pub(super) delays: DelayHistogram,
    pub(super) report: PathDirection,
}

impl DirectionTracker {
    pub(super) fn new(mss: Option<u32>) -> Self {
        DirectionTracker { mss, ..DirectionTracker::default() }
    }

    fn near(&mut self, header: u32) -> Sequence {
        let near = self.highest.map_or_else(|| Sequence::first(header), |top| top.near(header));
        self.highest.get_or_insert(near);
        near
    }

    /// The range of a packet with data.
    fn range(&mut self, packet: &PacketFingerprint) -> (Sequence, Sequence) {
        let from = self.near(packet.sequence);
        let to = from.plus(packet.sequence_length());
        self.highest = self.highest.max(Some(to));
        (from, to)
    }

    /// How many segments so many bytes are.
    fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.mss.unwrap_or(ASSUMED_MSS).max(1))).max(1)
    }

    /// A packet leaves.
    pub(super) fn leaves(&mut self, packet: &PacketFingerprint, at: Nanos, coverage: &Coverage) {
        if packet.kind == SegmentKind::DuplicatePacket {
            self.duplicates_leaving += 1;
            return;
        }
        self.order += 1;
        if packet.sequence_length() == 0 {
            if self.empty_in_flight.len() >= MAX_IN_FLIGHT {
                self.lose_first_empty(coverage);
            }
            let (order, hash) = (self.order, packet.hash());
            self.empty_in_flight.push_back(EmptyPacket { order, at, hash, id: packet.id });
            return;
        }
        let (from, to) = self.range(packet);
        self.report.segments += self.segments(packet.length.into());
        self.report.bytes += u64::from(packet.length);
        // Data before the first byte that left may have left before the capture began.
        let is_before_capture = self.first_sent.is_some_and(|first| from < first);
        let is_retransmission = is_before_capture || self.sent.overlaps(from, to);
        self.first_sent.get_or_insert(from);
        if is_retransmission {
            self.retransmitted.add(from, to);
        }
        self.sent.add(from, to);
        let last_end = self.in_flight.back().and_then(|last| last.missing.end());
        let is_in_order = last_end.is_none_or(|end| end <= from);
        self.is_unordered = !self.in_flight.is_empty() && (self.is_unordered || !is_in_order);
        self.in_flight.push_back(Transmission {
            order: self.order,
            at,
            number: packet.number,
            length: packet.length,
            missing: ByteRanges::of(from, to),
            timestamp: packet.timestamp(),
            id: packet.id,
            is_retransmission,
        });
        if self.in_flight.len() > MAX_IN_FLIGHT {
            self.lose_first(coverage);
        }
    }

    /// The same packet, when everything that arrived before has been taken: was it retransmitted
    /// because the original was lost before it could leave?
    pub(super) fn left(&mut self, packet: &PacketFingerprint) {
        if packet.kind != SegmentKind::OriginalNotCaptured || packet.sequence_length() == 0 {
            return;
        }
        let (from, to) = self.range(packet);
        if self.arrived.covers(from, to) && !self.retransmitted.covers(from, to) {
            return;
        }
        let segments = self.segments(packet.length.into());
        add_loss(&mut self.report.lost_before, segments, packet.length.into(), packet.number);
    }

    /// A packet arrives. `ids_kept`: identifications arrive as they left.
    pub(super) fn arrives(
        &mut self,
        packet: &PacketFingerprint,
        at: Nanos,
        ids_kept: bool,
        coverage: &Coverage,
    ) {
        if packet.kind == SegmentKind::DuplicatePacket {
            self.report.duplicated += 1;
            return;
        }
        if packet.sequence_length() == 0 {
            self.empty_arrives(packet, at, ids_kept, coverage);
            return;
        }
        let (from, to) = self.range(packet);
        let arrives_again = self.arrived.covers(from, to);
        let is_matched = self.match_transmissions(packet, (from, to), at, ids_kept, coverage);
        let is_sent = self.sent.covers(from, to);
        if is_matched {
            self.report.matched += 1;
        } else if is_sent && arrives_again {
            self.report.duplicated += 1;
            return;
        } else if !is_sent && coverage.must_see_leaving(at) {
            self.report.not_captured_leaving += self.segments(packet.length.into());
        }
        self.arrived.add(from, to);
        let is_probe = matches!(packet.kind, SegmentKind::KeepAlive | SegmentKind::WindowProbe);
        if !is_matched || !arrives_again || packet.length == 0 || is_probe {
            return;
        }
        let is_acknowledged = self.acknowledged.is_some_and(|acknowledged| acknowledged >= to);
        if is_acknowledged || self.sacked.covers(from, to) {
            self.report.spurious += self.segments(packet.length.into());
        } else {
            if self.arrived_again.len() >= MAX_IN_FLIGHT {
                self.lose_after();
            }
            let (number, length) = (packet.number, packet.length);
            self.arrived_again.push(ArrivedAgain { from, to, number, length });
        }
    }

    /// Takes what a packet has out of the transmissions in flight: an offload may have put it
    /// together of several. Returns whether there was one.
    fn match_transmissions(
        &mut self,
        packet: &PacketFingerprint,
        (from, to): (Sequence, Sequence),
        at: Nanos,
        ids_kept: bool,
        coverage: &Coverage,
    ) -> bool {
        let mut is_matched = false;
        let mut open = ByteRanges::of(from, to);
        while let Some((from, to)) = open.first() {
            let Some(place) = self.transmission(packet, (from, to), at, ids_kept) else { break };
            let Some(sent) = self.in_flight.get_mut(place) else { break };
            for (low, high) in sent.missing.iter() {
                open.remove(low, high);
            }
            sent.missing.remove(from, to);
            let (order, left_at, is_retransmission) = (sent.order, sent.at, sent.is_retransmission);
            if sent.missing.is_empty() {
                self.in_flight.remove(place);
                self.is_unordered &= !self.in_flight.is_empty();
            }
            if !is_matched {
                let is_late = (order, from) < self.latest_arrived && !is_retransmission;
                self.report.reordered += u64::from(is_late);
                if !is_retransmission && !self.retransmitted.overlaps(from, to) {
                    self.add_delay(left_at, at, coverage);
                }
            }
            self.latest_arrived = self.latest_arrived.max((order, from));
            is_matched = true;
        }
        is_matched
    }

    fn add_delay(&mut self, left_at: Nanos, arrived_at: Nanos, coverage: &Coverage) {
        let delay = arrived_at.saturating_sub(left_at);
        self.delays.add(delay.saturating_sub(coverage.min_delay));
    }

    /// The place of the transmission in flight that a packet most likely is.
    fn transmission(
        &self,
        packet: &PacketFingerprint,
        (from, to): (Sequence, Sequence),
        at: Nanos,
        ids_kept: bool,
    ) -> Option<usize> {
        // A packet with another time stamp is another transmission, even if its own is not here: it
        // may have left before the capture began.
        let fits = |sent: &Transmission| {
            let both = sent.timestamp.zip(packet.timestamp());
            both.is_none_or(|(a, b)| a == b) && sent.missing.overlaps(from, to)
        };
        if !self.is_unordered {
            let is_before = |sent: &Transmission| sent.missing.end().is_some_and(|end| end <= from);
            let place = self.in_flight.partition_point(is_before);
            return self.in_flight.get(place).is_some_and(fits).then_some(place);
        }
        let rank = |sent: &Transmission| {
            // An offload gives the segments of one packet identifications that follow its own.
            let is_same_id = ids_kept && sent.id != 0 && sent.id == packet.id;
            let is_before = sent.at <= at;
            let time = if is_before { sent.at } else { sent.at.saturating_neg() };
            (is_same_id, is_before, time)
        };
        let all = self.in_flight.iter().enumerate().filter(|(_, sent)| fits(sent));
        all.max_by_key(|(_, sent)| rank(sent)).map(|(place, _)| place)
    }

    fn empty_arrives(
        &mut self,
        packet: &PacketFingerprint,
        at: Nanos,
        ids_kept: bool,
        coverage: &Coverage,
    ) {
        let hash = packet.hash();
        let mut same =
            self.empty_in_flight.iter().enumerate().filter(|(_, sent)| sent.hash == hash);
        let Some((mut place, mut found)) = same.next() else { return };
        let mut is_only_one = true;
        for (other, sent) in same {
            is_only_one = false;
            if ids_kept && packet.id != 0 && found.id != packet.id && sent.id == packet.id {
                (place, found) = (other, sent);
            }
        }
        let EmptyPacket { order, at: left_at, .. } = *found;
        self.empty_in_flight.remove(place);
        self.report.matched += 1;
        self.report.reordered += u64::from(order < self.latest_arrived.0);
        self.latest_arrived = self.latest_arrived.max((order, Sequence::default()));
        if is_only_one {
            self.add_delay(left_at, at, coverage);
        }
    }

    /// The receiver sends an acknowledgement.
    pub(super) fn acknowledged(&mut self, packet: &PacketFingerprint) {
        let Some(highest) = self.highest else { return };
        let to = highest.near(packet.acknowledgement);
        self.acknowledged = self.acknowledged.max(Some(to));
        let blocks = packet.sack_blocks();
        let has_several = blocks.len() > 1;
        for (number, (first, last)) in blocks.enumerate() {
            let (first, last) = (highest.near(first), highest.near(last));
            let is_in_next = has_several && self.sacked.covers(first, last);
            if number == 0 && (last <= to || is_in_next) {
                // D-SACK: it had that already, so nothing was lost behind its capture (RFC 2883).
                let before = self.arrived_again.len();
                self.arrived_again.retain(|again| !(again.from < last && first < again.to));
                let had = before.saturating_sub(self.arrived_again.len());
                self.report.spurious += had as u64;
            }
            if last > to && last.since(first) < 1 << 31 {
                self.sacked.add(first, last);
            }
        }
        self.sacked.forget_below(to);
    }

    /// The acknowledgement reaches the sender.
    pub(super) fn acknowledgement_arrives(
        &mut self,
        packet: &PacketFingerprint,
        now: Nanos,
        coverage: &Coverage,
    ) {
        let Some(highest) = self.highest else { return };
        let to = highest.near(packet.acknowledgement);
        self.seen_acknowledged = self.seen_acknowledged.max(Some(to));
        self.lose_old(now, coverage);
    }

    /// What has been in flight for too long is lost.
    fn lose_old(&mut self, now: Nanos, coverage: &Coverage) {
        while let Some(first) = self.in_flight.front() {
            let age = now.saturating_sub(first.at);
            let end = first.missing.end();
            let is_acknowledged = end.is_some_and(|end| Some(end) <= self.seen_acknowledged);
            let is_old = is_acknowledged && age > MAX_TIME_AFTER_ACK;
            if age < MAX_TIME_IN_FLIGHT && !is_old {
                break;
            }
            self.lose_first(coverage);
        }
        while let Some(first) = self.empty_in_flight.front()
            && now.saturating_sub(first.at) > MAX_EMPTY_TIME_IN_FLIGHT
        {
            self.lose_first_empty(coverage);
        }
    }

    /// The captures are over, or the stream is.
    pub(super) fn finish(&mut self, coverage: &Coverage) {
        while !self.in_flight.is_empty() {
            self.lose_first(coverage);
        }
        while !self.empty_in_flight.is_empty() {
            self.lose_first_empty(coverage);
        }
        self.lose_after();
        self.end_loss_run();
        self.report.duplicated = self.report.duplicated.saturating_sub(self.duplicates_leaving);
    }

    fn is_overtaken(&self, order: u64) -> bool {
        order < self.latest_arrived.0
    }

    fn lose_first_empty(&mut self, coverage: &Coverage) {
        let Some(sent) = self.empty_in_flight.pop_front() else { return };
        let is_lost = coverage.must_see_arriving(sent.at, self.is_overtaken(sent.order));
        self.report.pure_acks_lost += u64::from(is_lost);
    }

    /// What is missing of the first transmission in flight never arrives.
    fn lose_first(&mut self, coverage: &Coverage) {
        let Some(sent) = self.in_flight.pop_front() else { return };
        self.is_unordered &= !self.in_flight.is_empty();
        if !coverage.must_see_arriving(sent.at, self.is_overtaken(sent.order)) {
            return;
        }
        for (from, to) in sent.missing.iter() {
            let bytes = to.since(from).min(sent.length.into());
            let segments = self.segments(bytes);
            let is_sent_once = !self.retransmitted.overlaps(from, to);
            if self.arrived.covers(from, to) && is_sent_once {
                // It left once and arrived: before it can have.
                self.arrived_before_sent += segments;
                continue;
            }
            let acknowledged = self.acknowledged.max(self.seen_acknowledged);
            if !self.arrived.overlaps(from, to) && acknowledged >= Some(to) {
                self.report.not_captured_arriving += segments;
                // One of its transmissions arrived, not all of them.
                self.arrived.add(from, to);
                continue;
            }
            add_loss(&mut self.report.lost_between, segments, bytes, sent.number);
            if self.loss_run.last.is_none_or(|last| last.saturating_add(1) < sent.order) {
                self.end_loss_run();
            }
            self.loss_run.segments += segments;
            self.loss_run.last = Some(sent.order);
        }
    }

    fn end_loss_run(&mut self) {
        let run = std::mem::take(&mut self.loss_run.segments);
        if run > 1 {
            self.report.bursts += 1;
            self.report.lost_in_bursts += run;
        }
        self.report.longest_burst = self.report.longest_burst.max(run);
    }

    /// What arrived again, and was never reported as received twice, was lost behind the capture.
    fn lose_after(&mut self) {
        for again in std::mem::take(&mut self.arrived_again) {
            let segments = self.segments(again.length.into());
            add_loss(&mut self.report.lost_after, segments, again.length.into(), again.number);
        }
    }
}

fn add_loss(loss: &mut PathLoss, segments: u64, bytes: u64, number: u64) {
    loss.segments += segments;
    loss.bytes += bytes;
    if loss.first_packet == 0 {
        loss.first_packet = number;
    }
    loss.last_packet = loss.last_packet.max(number);
}
