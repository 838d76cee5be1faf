//! Transfers of a stream: slow start, throughput, policers.

use model::Side;

use super::state::Stream;
use crate::flight_plateau::SentData;
use crate::network_time::Transfer;
use crate::round_trip::{INITIAL_TIMEOUT, MIN_TIMEOUT};
use crate::sequence::Sequence;
use crate::slow_start::{RELEVANT_ROUND_TRIPS, TransferData, TransferStart};
use crate::throughput::{BULK_BYTES, Throughput};
use crate::time::{Nanos, OptionalTime};

/// The kernel sends what may be sent at once: a longer pause has a reason.
pub(super) const MIN_PAUSE: Nanos = 10_000_000;
/// Segments in which a header may be sent before the rest.
const MAX_HEADER_SEGMENTS: u64 = 3;
/// Policed responses that are kept of an end.
const MAX_POLICED_RESPONSES: usize = 64;

impl Stream {
    /// New data of one end, which sent data before at `last_data_at`: watches it for slow start,
    /// where the path is long enough.
    #[inline(always)]
    pub(super) fn watch_slow_start(
        &mut self,
        side: Side,
        new: u64,
        last_data_at: OptionalTime,
        at: Nanos,
        packet: u64,
    ) {
        let round_trip = self.path_round_trip();
        if let Some(round_trip) = round_trip.filter(|it| RELEVANT_ROUND_TRIPS.contains(it)) {
            self.watch_slow_start_of(side, new, last_data_at, round_trip, (at, packet));
        }
    }

    fn watch_slow_start_of(
        &mut self,
        side: Side,
        new: u64,
        last_data_at: OptionalTime,
        round_trip: Nanos,
        (at, packet): (Nanos, u64),
    ) {
        let end = self.ends.get(side);
        let idle = last_data_at.get().map(|last| at.saturating_sub(last));
        // Near the receiver, round trips look shorter than the sender knows them.
        let min_timeout = round_trip.saturating_add(MIN_TIMEOUT);
        let timeout = end.sent.round_trip.timeout().min(INITIAL_TIMEOUT).max(min_timeout);
        let mss = end.sent.mss();
        // Short requests and responses have no slow start.
        if end.slow_start.is_some() || new >= u64::from(mss / 2) {
            let start = TransferStart { at, packet, round_trip, idle, timeout, mss };
            self.take_transfer(side, new, start);
        }
    }

    fn take_transfer(&mut self, side: Side, new: u64, start: TransferStart) {
        let last_sender = self.last_sender;
        let end = self.ends.get_mut(side);
        let own = &end.sent;
        let is_first = end.slow_start.is_none();
        // A header may have been sent just before.
        let has_header = is_first && own.counts.data_packets <= MAX_HEADER_SEGMENTS;
        let bytes = if has_header { own.counts.new_bytes } else { new };
        let detector = end.slow_start.get_or_insert_default();
        if is_first
            || last_sender != Some(side)
            || start.idle.is_some_and(|idle| idle > start.timeout)
        {
            detector.begin(start);
        }
        if own.window_full {
            detector.leave_slow_start();
        }
        let loop_time = end.loop_time.get().unwrap_or(0);
        let is_near = loop_time <= start.round_trip / 4;
        let is_acknowledged = is_near.then_some(|mark| own.is_acknowledged(mark));
        let paused = own.drained_at.get().is_some_and(|drained_at| {
            let may_send_at = drained_at.saturating_add(loop_time);
            start.at.saturating_sub(may_send_at) > MIN_PAUSE.max(start.round_trip / 4)
        });
        let data_end = own.next_sequence().unwrap_or_default();
        // While the header is in flight, its acknowledgement releases the next flight.
        let header_end = Sequence(data_end.0.saturating_sub(new));
        let header_end = (bytes > new && !own.is_acknowledged(header_end)).then_some(header_end);
        let is_after_loss = own.has_lost();
        let data =
            TransferData { bytes, at: start.at, end: data_end, header_end, paused, is_after_loss };
        detector.data(data, is_acknowledged);
    }

    /// Something else than slow start limits what one end sends.
    #[inline]
    pub(super) fn leave_slow_start(&mut self, side: Side) {
        if let Some(detector) = &mut self.ends.get_mut(side).slow_start {
            detector.leave_slow_start();
        }
    }

    /// New data of a transfer: watches its throughput.
    #[inline]
    pub(super) fn watch_throughput(&mut self, side: Side, new: u64, at: Nanos) {
        let path_round_trip = self.path_round_trip().unwrap_or(0);
        let (own, peer) = self.ends.own_and_peer(side);
        let acknowledged = own.sent.acknowledged();
        let transfer =
            own.transfer.get_or_insert_with(|| Box::new(Transfer::new(acknowledged, at)));
        transfer.after_loss.data(new, at, path_round_trip);
        // Near the sender acknowledgements are captured before what follows them.
        let is_near = own.loop_time.get().is_some_and(|time| time <= path_round_trip / 4);
        if is_near && own.sent.counts.retransmitted() == 0 {
            transfer.sent(&SentData {
                at,
                end: own.sent.next_sequence().unwrap_or_default(),
                bytes: new,
                mss: own.sent.mss(),
                window: peer.sent.window.unwrap_or(0),
                round_trip: path_round_trip,
                loop_time: own.loop_time.get().unwrap_or(0),
                drained_at: own.sent.drained_at.get(),
                peer_data_at: peer.sent.last_data_at.get(),
            });
        }
        if own.sent.counts.new_bytes <= BULK_BYTES {
            return;
        }
        // Near the sender acknowledgements give the round trip, near the receiver time stamps.
        let from_data = own.sent.round_trip.smoothed();
        let from_timestamps =
            peer.sent.timestamp_round_trips.as_ref().and_then(|times| times.smoothed());
        let round_trip = from_data.max(from_timestamps).unwrap_or(0);
        let throughput =
            transfer.throughput.get_or_insert_with(|| Throughput::new(acknowledged, at));
        throughput.data(new, at, round_trip);
    }

    /// The response of one end is over: whether it was policed.
    #[inline]
    pub(super) fn judge_policer(&mut self, side: Side, exchange: u32) {
        let end = self.ends.get_mut(side);
        if let Some(found) = end.sent.policer.end_response(exchange) {
            let policed = &mut end.incidents.get_or_insert_default().policed;
            if policed.len() < MAX_POLICED_RESPONSES {
                policed.push((exchange, found));
            }
        }
    }
}
