//! Where the time of a stream went: each piece of data ends an interval, which goes to the category
//! that explains it.

use model::{Side, TimeCategory};

use super::state::Stream;
use super::transfer::MIN_PAUSE;
use crate::network_time::Transfer;
use crate::segment::SegmentKind;
use crate::stall::{Stall, StallReason};
use crate::time::Nanos;

/// A time above a round trip, and half a round trip, from which on it is no jitter of the path.
const MIN_LATENESS: Nanos = 1_000_000;
/// Longest time that kernels delay an acknowledgement (Linux: `TCP_DELACK_MAX`).
pub(super) const MAX_ACK_DELAY: Nanos = 200_000_000;
/// Data that is acknowledged in less than this part of the handshake's round trip does not reach the
/// server before: jitter and queues of a path change its round trip less.
const PROXY_RATIO: Nanos = 8;
/// A handshake's round trip from which on the difference matters.
const MIN_PATH_BEHIND_PROXY: Nanos = 10_000_000;

impl Stream {
    /// Data passes: attributes the time since the last data.
    #[inline(always)]
    pub(super) fn attribute_time(
        &mut self,
        side: Side,
        kind: SegmentKind,
        stall: Option<&Stall>,
        at: Nanos,
    ) {
        let last_sender = self.last_sender.replace(side);
        let spurious_at = self.spurious_at.take();
        let delayed_ack = stall.filter(|stall| stall.reason == StallReason::DelayedAck);
        if kind.is_retransmission() || kind == SegmentKind::WindowProbe || delayed_ack.is_some() {
            self.attribute_problem(side, kind, delayed_ack, at);
        } else if last_sender == Some(side) {
            if let Some(spurious_at) = spurious_at {
                self.attribute_until(spurious_at, side, TimeCategory::Loss);
            }
            self.attribute_continued(side, at);
        } else {
            self.attribute_answer(side, last_sender, at);
        }
    }

    /// An end begins to send: the path to it and back took some of the time, the rest it took itself.
    #[inline(always)]
    fn attribute_answer(&mut self, side: Side, last_sender: Option<Side>, at: Nanos) {
        let loop_time = self.ends.get(side).loop_time();
        if loop_time.is_some_and(|time| self.attribution.pending(at) <= time) {
            self.attribute_until(at, side, TimeCategory::Network);
            return;
        }
        let own_time = self.own_time_category(side, last_sender);
        let path = self.path_of_answer(side, at, own_time);
        self.attribute_split(at, side, (path, TimeCategory::Network), own_time);
    }

    /// A retransmission, a window probe, or data that a stall held back passes.
    fn attribute_problem(
        &mut self,
        side: Side,
        kind: SegmentKind,
        delayed_ack: Option<&Stall>,
        at: Nanos,
    ) {
        let own = &self.ends.get(side).sent;
        if kind.is_retransmission() {
            let is_fast = kind == SegmentKind::FastRetransmission;
            if !is_fast && own.is_spurious && own.in_flight() == 0 {
                // It delays nothing yet.
                self.spurious_at = at.into();
            } else {
                let unwanted = own.is_unwanted && own.finished;
                let waited = if unwanted { 0 } else { self.attribution.pending(at) };
                let category = if unwanted { TimeCategory::ClientIdle } else { TimeCategory::Loss };
                self.attribute_until(at, side, category);
                let (own, peer) = self.ends.own_and_peer(side);
                if unwanted {
                    let count = &mut own.sent.counts.already_acknowledged;
                    *count = count.saturating_add(u32::from(!own.sent.is_spurious));
                }
                own.sent.waited_for_loss(waited, peer.sent.finished);
                if category == TimeCategory::Loss {
                    let (acknowledged, in_flight) = (own.sent.acknowledged(), own.sent.in_flight());
                    let new = || Box::new(Transfer::new(acknowledged, at));
                    own.transfer.get_or_insert_with(new).after_loss.lost(in_flight, at);
                }
                self.leave_slow_start(side);
            }
        } else if kind == SegmentKind::WindowProbe {
            self.attribute_until(at, side, TimeCategory::ReceiverStalled);
        } else if let Some(stall) = delayed_ack {
            let rest = self.attribution.pending(at).saturating_sub(stall.duration);
            self.attribute_split(at, side, (rest, TimeCategory::Network), TimeCategory::DelayedAck);
        }
    }

    /// The category of the time that an end takes before it begins to send.
    #[inline]
    fn own_time_category(&self, side: Side, last_sender: Option<Side>) -> TimeCategory {
        let is_response = match self.exchanges.requester() {
            _ if last_sender.is_none() => side == Side::Server,
            Some(requester) => requester != side,
            None => false,
        };
        match is_response {
            // How far the server is behind what answers for it is not known.
            true if self.is_answered_on_the_path() => TimeCategory::Unexplained,
            true => TimeCategory::ServerThink,
            false => TimeCategory::ClientIdle,
        }
    }

    /// How much of the time before an end's answer the path took at least.
    #[inline]
    fn path_of_answer(&self, side: Side, at: Nanos, own_time: TimeCategory) -> Nanos {
        let loop_time = self.ends.get(side).loop_time();
        if own_time != TimeCategory::ServerThink {
            return loop_time.unwrap_or(0);
        }
        // A response that comes before the whole request was acknowledged does it itself.
        let acknowledged = self.exchanges.current().map_or(0, |exchange| {
            exchange.request_acknowledged.get().unwrap_or(at).saturating_sub(exchange.request_ended)
        });
        // How far the server is was never measured: before this the request may not have come.
        let Some(loop_time) = loop_time else { return acknowledged };
        // A kernel does not delay an acknowledgement longer: so late, the request came late.
        let before_request_came = acknowledged.saturating_sub(MAX_ACK_DELAY);
        loop_time.max(before_request_came).max(self.path_behind_proxy(side).unwrap_or(0))
    }

    /// The handshake's round trip, where data is acknowledged so much sooner that it is not the
    /// server that acknowledges it: a proxy or NAT that waited for the server's SYN/ACK, nothing
    /// else.
    fn path_behind_proxy(&self, side: Side) -> Option<Nanos> {
        let from_data = self.ends.get(side.other()).sent.round_trip.min()?;
        (from_data < self.proxied_time(side)).then(|| self.syn_time()).flatten()
    }

    /// Data for this end that is acknowledged sooner than this is acknowledged by a proxy; 0: none is.
    pub(super) fn proxied_time(&self, side: Side) -> Nanos {
        let syn_time = self.syn_time().filter(|time| *time > MIN_PATH_BEHIND_PROXY);
        syn_time.filter(|_| side == Side::Server).map_or(0, |time| time / PROXY_RATIO)
    }

    /// Whether something on the path answers the SYN: only a proxy that has no server yet offers no
    /// MSS to a client that does.
    pub(super) fn is_answered_on_the_path(&self) -> bool {
        let (client, server) = (&self.ends.client.sent, &self.ends.server.sent);
        client.mss_option.is_some() && server.mss_option.is_none() && self.syn_time().is_some()
    }

    /// The same end sends on, perhaps because an acknowledgement has come.
    #[inline]
    fn attribute_continued(&mut self, side: Side, at: Nanos) {
        let end = self.ends.get(side);
        let own = &end.sent;
        let round_trip = own.round_trip.smoothed().unwrap_or(0);
        match own.drained_at.get() {
            Some(drained_at) => {
                let may_send_at = drained_at.saturating_add(end.loop_time().unwrap_or(0));
                if at.saturating_sub(may_send_at) > MIN_PAUSE.max(round_trip / 4) {
                    // Nothing was in flight, nothing was missing: it had nothing to send.
                    let pause = if self.exchanges.requester() == Some(side) {
                        TimeCategory::ClientIdle
                    } else {
                        TimeCategory::Application
                    };
                    self.attribute_sending(side, may_send_at);
                    self.attribute_until(at, side, pause);
                    return;
                }
            }
            None => {
                let max_time = MIN_PAUSE.max(round_trip.saturating_mul(2));
                if !own.window_full && self.attribution.pending(at) > max_time {
                    // Something was in flight, there was room in the window, and nothing came.
                    let pause = if own.is_small {
                        TimeCategory::Application
                    } else {
                        TimeCategory::Unexplained
                    };
                    self.attribute_split(at, side, (round_trip, TimeCategory::Network), pause);
                    return;
                }
            }
        }
        self.attribute_sending(side, at);
    }

    /// An end waited for room in its peer's window, or for the path.
    #[inline]
    fn attribute_sending(&mut self, side: Side, at: Nanos) {
        if !self.ends.get(side).sent.window_full {
            let waited = self.attribution.pending(at);
            let end = self.ends.get_mut(side);
            end.sending = end.sending.saturating_add(waited);
            if let Some(transfer) = &mut end.transfer {
                transfer.after_loss.waited(waited);
            }
            self.attribute_until(at, side, TimeCategory::Network);
            return;
        }
        let waited = self.attribution.pending(at);
        self.attribute_until(at, side, TimeCategory::ReceiveWindow);
        let path_round_trip = self.path_round_trip();
        let (own, peer) = self.ends.own_and_peer(side);
        let max_window = peer.sent.max_window;
        let round_trip = &own.sent.round_trip;
        // Linux acknowledges nothing as long as it cannot advertise more: then the reader is behind.
        // So is it, or a queue, where round trips are long: a larger window would fill as well.
        let is_reader_late = path_round_trip.is_some_and(|path| {
            let lateness = MIN_LATENESS.max(path / 2);
            let min_and_now = round_trip.min().zip(round_trip.smoothed());
            waited > path.saturating_add(lateness)
                || min_and_now.is_some_and(|(min, now)| now.saturating_sub(min) > lateness)
        });
        let total = own.times.get(TimeCategory::ReceiveWindow);
        own.sent.settled_window.update(max_window, total);
        if own.sent.reader_behind || is_reader_late {
            own.sent.settled_window.exclude(waited);
        }
    }

    /// Round trip of the whole path: from the capture point to both ends and back.
    #[inline]
    pub(super) fn path_round_trip(&self) -> Option<Nanos> {
        Some(self.ends.client.loop_time()?.saturating_add(self.ends.server.loop_time()?))
    }
}
