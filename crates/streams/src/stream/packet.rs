//! All that follows from one packet of a stream.

use model::{Side, TimeCategory};
use wire::packet::Ip;
use wire::packet::tcp::{Flags, Tcp};

use super::state::{SegmentEvent, Stream, StreamState};
use crate::application_protocol::Greeting;
use crate::direction::IpFields;
use crate::exchange::Exchange;
use crate::flight_rate::TRANSFER_BYTES;
use crate::idle_period::MIN_IDLE;
use crate::segment::SegmentKind;
use crate::stall::{Stall, StallReason};
use crate::time::{Nanos, OptionalTime};

/// Exchanges in which a category takes less than this, microseconds, are not counted for it.
pub(super) const MIN_CATEGORY_TIME_US: u32 = 1_000;
/// What a server takes to answer, from which on people notice it, microseconds.
const MIN_NOTICED_US: u32 = 100_000;
/// A pause within a request from which on its sender does not wait for an answer, nanoseconds.
const MAX_REQUEST_PAUSE: Nanos = 100_000_000;
/// The longest message, bytes, that only acknowledges another: a basic.ack of AMQP 0-9-1. A PING of HTTP/2 has 17
/// (RFC 9113, section 6.7), a PUBACK of MQTT 4. A record of TLS adds its header, nonce and tag (RFC 5288).
const MAX_ACKNOWLEDGEMENT_BYTES: u64 = 21;
const MAX_RECORD_OVERHEAD: u64 = 29;
/// A program that acknowledges a message does so at once, nanoseconds.
const MAX_REACTION: Nanos = 20_000_000;
/// Headers of IP without options, which are rare, bytes.
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;

impl Stream {
    /// Takes a packet; `side` is its sender, as far as was known before. Returns its sender.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        side: Side,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        event: &mut SegmentEvent,
    ) -> Side {
        (event.exchange, event.stall) = (None, None);
        #[cfg(test)]
        let other = super::expected::tests::is_compared().then(|| self.clone());
        if self.take_expected(side, ip, tcp, at, packet, event) {
            #[cfg(test)]
            if let Some(mut other) = other {
                let mut other_event = SegmentEvent::default();
                other.take_any(side, ip, tcp, at, packet, &mut other_event);
                other.note_calm();
                super::expected::tests::compare((self, event), (&other, &other_event));
            }
            return side;
        }
        // Copies: what the short way uses stays in registers.
        let side = self.take_any(side, &{ *ip }, &{ *tcp }, at, packet, event);
        self.note_calm();
        side
    }

    /// The same, whatever the packet is.
    #[inline(never)]
    pub(super) fn take_any(
        &mut self,
        mut side: Side,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        event: &mut SegmentEvent,
    ) -> Side {
        self.attribution.begin(at);
        let before = self.last;
        self.last = before.max(at);
        let timestamps = tcp.time_stamps();
        if self.duplicates.is_duplicate(ip, tcp, at) {
            let counts = &mut self.ends.get_mut(side).sent.counts;
            counts.duplicate_packets = counts.duplicate_packets.saturating_add(1);
            counts.duplicate_bytes = counts.duplicate_bytes.saturating_add(tcp.length.into());
            event.kind = SegmentKind::DuplicatePacket;
            return side;
        }
        if !self.handshake.completed.is_known() || tcp.flags.all(Flags::SYN) {
            if tcp.flags.all(Flags::SYN) && self.is_of_another_handshake(side, tcp, at) {
                event.kind = SegmentKind::NoData;
                self.ends.get_mut(side).sent.counts.packets += 1;
                return side;
            }
            side = self.take_handshake(side, tcp, at);
        }
        if self.idle_periods.is_some() || at.saturating_sub(before) >= MIN_IDLE {
            self.take_idle_period(side, tcp, before, at);
        }
        let (own, peer) = self.ends.own_and_peer(side);
        let (new_before, last_data_at) = (own.sent.counts.new_bytes, own.sent.last_data_at);
        let kind = own.sent.take(tcp, timestamps, at, IpFields::of(ip), &mut peer.sent);
        let new = own.sent.counts.new_bytes.saturating_sub(new_before);
        self.follow_up(side, ip, tcp, at, packet, (kind, false), (new, last_data_at), event);
        if tcp.flags.any(Flags::FIN_OR_RST) {
            self.take_end(side, tcp.flags);
        }
        side
    }

    /// What follows from a packet of this kind, in a calm stream or another: so many bytes of it are
    /// new, and its sender had sent data before at that time.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "as of its callers")]
    pub(super) fn follow_up(
        &mut self,
        side: Side,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        (kind, is_calm): (SegmentKind, bool),
        new: (u64, OptionalTime),
        event: &mut SegmentEvent,
    ) {
        let (own, peer) = self.ends.own_and_peer(side);
        if let Some(transfer) = &mut peer.transfer {
            let until = peer.sent.acknowledged();
            if peer.is_message && peer.sent.in_flight() == 0 {
                transfer.pass_over(until, at);
            } else {
                transfer.acknowledged(until, at);
            }
        }
        if peer.sent.in_flight() == 0 {
            self.exchanges.acknowledged(side.other(), at);
        }
        let (way, peer_way) = (own.loop_time(), peer.loop_time());
        peer.stalls.peer_packet(&peer.sent, tcp, at, way);
        let peer_stall = match is_calm {
            true => None,
            false => peer.stalls.peer_window(&peer.sent, &own.sent, tcp, at),
        };
        let own_stall = own.stalls.own_packet(&own.sent, kind, tcp, at, way, peer_way);
        event.kind = kind;
        if peer_stall.is_some() || own_stall.is_some() {
            let peer_stall = peer_stall.map(|stall| stall.of(side.other()));
            event.stall = peer_stall.or(own_stall.map(|stall| stall.of(side)));
            if let Some(stall) = &event.stall {
                self.add_stall(stall, packet);
            }
        }
        if tcp.length > 0
            && !kind.is_no_data()
            // The handshake has its own times.
            && !(kind.is_retransmission() && tcp.flags.all(Flags::SYN))
        {
            self.take_data(side, ip, tcp, at, packet, new, event);
        }
    }

    /// Takes the data of a packet: `new` bytes of it are new, and its sender had sent data before
    /// at `last_data_at`.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "each is in a register: this is the hot path")]
    fn take_data(
        &mut self,
        side: Side,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        (new, last_data_at): (u64, OptionalTime),
        event: &mut SegmentEvent,
    ) {
        let is_message = self.note_message(side, event.kind, tcp.length);
        let counts = &self.ends.get(side).sent.counts;
        let (data_packets, new_bytes) = (counts.data_packets, counts.new_bytes);
        if data_packets.is_power_of_two() {
            self.measure_loop_times();
        }
        if new > 0 {
            self.watch_slow_start(side, new, last_data_at, at, packet);
            if !is_message && (new_bytes > TRANSFER_BYTES || self.ends.get(side).transfer.is_some())
            {
                self.watch_throughput(side, new, at);
            }
        }
        self.attribute_time(side, event.kind, event.stall.as_ref(), at);
        if new > 0 {
            if !self.belongs_to_no_exchange(side, new, tcp.payload) {
                if let Some(acknowledged) = self.exchanges.unanswered_since(side) {
                    self.note_unwaited(side, at.saturating_sub(acknowledged));
                }
                self.exchanges.data(side, new, at, &mut event.exchange);
            }
            if let Some(exchange) = &event.exchange {
                let lasted = at.saturating_sub(exchange.request_began);
                let think_us = self.end_categories_of_exchange(exchange, lasted, at);
                let responder = exchange.requester.other();
                self.ends.get_mut(exchange.requester).sent.policer.end_request();
                // With bytes in flight, more of the same response follows, whatever the requester
                // sent meanwhile.
                if self.ends.get(responder).sent.in_flight() == 0 {
                    self.judge_policer(responder, exchange.number);
                }
                if !exchange.is_of_tls {
                    self.end_exchange_of_protocol(
                        exchange.number,
                        think_us,
                        exchange.response_began,
                    );
                }
            }
            // A segment that overlaps with captured data begins with old bytes.
            if new == u64::from(tcp.length) {
                self.take_protocol(side, tcp, at, new);
            }
        }
        let (own, peer) = self.ends.own_and_peer(side);
        let loop_time = own.loop_time().unwrap_or(0);
        own.sent.note_window_use(tcp.length, &peer.sent, at, loop_time);
        own.sent.verify_checksum(ip, tcp);
        if let Some(next) = own.sent.next_sequence() {
            let ip_header = if ip.source.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
            let headers = ip.length.saturating_sub(tcp.length).saturating_add(ip_header);
            let from = next.near(tcp.sequence);
            own.sent.policer.sent(event.kind, from, tcp.length, headers, at);
        }
    }

    /// Notes whether data is a message. Returns whether it is.
    #[inline(always)]
    fn note_message(&mut self, side: Side, kind: SegmentKind, length: u32) -> bool {
        let last_sender = self.last_sender;
        let end = self.ends.get_mut(side);
        let is_message = kind == SegmentKind::New
            && last_sender.is_some_and(|last| last != side)
            && length < end.sent.mss()
            && end.sent.in_flight() == u64::from(length);
        end.is_message = is_message;
        self.messages = if is_message { self.messages.saturating_add(1) } else { 0 };
        is_message
    }

    /// Takes a FIN or a reset.
    fn take_end(&mut self, side: Side, flags: Flags) {
        if self.protocol.as_ref().is_some_and(|protocol| protocol.tls().is_some()) {
            let idle = self.exchanges.closes_tls(side).unwrap_or(0);
            let times = &mut self.ends.get_mut(side).times;
            times.move_time(TimeCategory::Application, TimeCategory::ClientIdle, idle);
        }
        if flags.all(Flags::RST) {
            self.state = StreamState::Reset;
            self.ends.iter_mut().for_each(|end| end.sent.is_reset = true);
            return;
        }
        self.ends.get_mut(side).sent.finished = true;
        // An end may close and wait for the response to its last request (half-close).
        let exchange = self.exchanges.current();
        let waits = exchange.is_none_or(|exchange| {
            exchange.requester == side && !exchange.response_began.is_known()
        });
        self.ends.get_mut(side.other()).sent.is_unwanted |= !waits;
        if self.state != StreamState::Reset {
            let both = self.ends.iter().all(|end| end.sent.finished);
            self.state = if both { StreamState::Closed } else { StreamState::HalfClosed };
        }
    }

    /// Adds a stall that is over; `packet` ended it.
    pub(super) fn add_stall(&mut self, stall: &Stall, packet: u64) {
        let Stall { side, began, duration, .. } = *stall;
        let totals = &mut self.ends.get_mut(side).incidents.get_or_insert_default().stalls;
        match stall.reason {
            StallReason::ClosedWindow => {
                totals.closed_window.add(duration, packet);
                self.attribute_until(began, side, TimeCategory::Network);
                let ended = began.saturating_add(duration);
                self.attribute_until(ended, side, TimeCategory::ReceiverStalled);
            }
            StallReason::DelayedAck => totals.delayed_ack.add(duration, packet),
        }
    }

    /// An exchange ended that began so long ago: counts it for each category that took time of it.
    /// Returns how long the server took to answer, microseconds.
    #[inline(always)]
    fn end_categories_of_exchange(
        &mut self,
        exchange: &Exchange,
        lasted: Nanos,
        next_at: Nanos,
    ) -> u32 {
        if lasted < Nanos::from(MIN_CATEGORY_TIME_US) * 1_000 {
            // No category had more.
            self.attribution.end_exchange().get(TimeCategory::ServerThink)
        } else {
            self.count_categories_of_exchange(Some(exchange), next_at.into())
        }
    }

    /// An exchange ended, where one follows with the next request: counts it for each category that took time
    /// of it, if it is not of TLS. Returns how long the server took to answer, microseconds. `None`: there is
    /// none, or it is of TLS.
    pub(super) fn count_categories_of_exchange(
        &mut self,
        exchange: Option<&Exchange>,
        next_at: OptionalTime,
    ) -> u32 {
        let times = self.attribution.end_exchange();
        if exchange.is_some_and(|exchange| !exchange.is_of_tls) {
            self.exchanges_with.combine(&times, |count, time_us| {
                *count = count.saturating_add(u32::from(time_us >= MIN_CATEGORY_TIME_US));
            });
        }
        let think_us = times.get(TimeCategory::ServerThink);
        let is_late = think_us >= MIN_NOTICED_US
            && !exchange.is_some_and(|exchange| self.may_acknowledge(exchange, next_at));
        self.late_answers = self.late_answers.saturating_add(is_late.into());
        think_us
    }

    /// An end sends on, so long after all that it had sent was acknowledged, and nothing answered.
    fn note_unwaited(&mut self, side: Side, pause: Nanos) {
        let way = self.ends.get(side).loop_time().unwrap_or(0);
        let is_unwaited = pause > way.saturating_add(MAX_REQUEST_PAUSE);
        self.unwaited_requests = self.unwaited_requests.saturating_add(is_unwaited.into());
    }

    /// Whether what passed for a request may only acknowledge a message of the server, which sends the next one
    /// when it has news: it is that short, and the client reacts to that next one at once too.
    fn may_acknowledge(&self, exchange: &Exchange, next_at: OptionalTime) -> bool {
        let is_tls = self.protocol.as_ref().is_some_and(|protocol| protocol.tls().is_some());
        let overhead = if is_tls { MAX_RECORD_OVERHEAD } else { 0 };
        let way = self.ends.client.loop_time().unwrap_or(0);
        let at_once =
            next_at.get().zip(exchange.response_ended.get()).is_some_and(|(next, ended)| {
                next.saturating_sub(ended) <= way.saturating_add(MAX_REACTION)
            });
        at_once && exchange.request_bytes <= MAX_ACKNOWLEDGEMENT_BYTES + overhead
    }

    /// Whether data of this end, sent before any request, is no request either: a greeting, or a response.
    #[inline(always)]
    fn belongs_to_no_exchange(&mut self, side: Side, new: u64, payload: &[u8]) -> bool {
        if self.exchanges.requester().is_some() {
            return false;
        }
        if !self.roles_known {
            return self.responds_to_uncaptured_request(side);
        }
        if side == Side::Client {
            return false;
        }
        let server = &self.ends.server;
        if server.sent.counts.new_bytes > new {
            return self.greeting.is_known();
        }
        let greeting = Greeting::recognize(payload, server.address.port());
        if greeting.is_some() {
            // It is all that the server was waited for until now.
            self.greeting = server.times.get(TimeCategory::ServerThink).into();
        }
        greeting == Some(Greeting::BeforeCommands)
    }

    /// Whether data of this end is the response to a request from before the capture: no handshake
    /// was captured, and the end with the lower port sends first.
    fn responds_to_uncaptured_request(&self, side: Side) -> bool {
        let ends = &self.ends;
        if self.roles_of_sockets {
            side == Side::Server
        } else {
            ends.get(side).address.port() < ends.get(side.other()).address.port()
        }
    }
}
