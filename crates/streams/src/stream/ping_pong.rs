//! Streams in ping-pong: a request, its response, the next request, and so on, each one small segment
//! that is alone in flight (kernels know such connections too: `inet_csk_in_pingpong_mode` of Linux).
//!
//! Of such a stream, the next message changes few things, most of them by an addition. [`PingPong`] has
//! these, apart from the stream and close together; what it has counted goes back into the stream before a
//! packet that is not as expected, or before anybody asks. The result is the same, field by field, as that
//! of [`Stream::take`] for each packet: where tests are built, both are compared.

use model::{Side, TimeCategory};
use wire::packet::PlainSegment;

use super::attribute_time::MAX_ACK_DELAY;
use super::packet::MIN_CATEGORY_TIME_US;
use super::state::{End, ServiceIndex, Stream};
use crate::application_protocol::{ApplicationProtocol, HttpRepeats, Payload};
use crate::direction::{MIN_TRANSFER_SEGMENTS, MessageDirection};
use crate::dns::DNS_PORT;
use crate::duplicates::DuplicateFilter;
use crate::exchange::Exchange;
use crate::slow_start::RELEVANT_ROUND_TRIPS;
use crate::stall::MIN_ACK_DELAY;
use crate::time::{LATEST, Nanos, OptionalTime};

/// Messages after which a stream is in ping-pong: what begins and ends it costs as much as some of them.
/// Where it is tested, it begins as soon as it can.
const MIN_MESSAGES: u32 = if cfg!(test) { 2 } else { 8 };
/// A longer pause is for others to judge: a delayed acknowledgement, a late response, an idle period.
const MAX_PAUSE: Nanos = 100_000_000;
/// So is a server that takes longer to answer, microseconds.
const MAX_THINK_US: u32 = 10_000;

/// What the next messages of a stream need and change.
#[derive(Debug, Clone)]
pub(crate) struct PingPong {
    requester: Side,
    requester_is_lower: bool,
    /// Whether the next message is a response.
    awaits_response: bool,
    has_protocol: bool,
    /// Time of the last packet, and of the last message.
    last: Nanos,
    until: Nanos,
    exchange: MessageExchange,
    /// Exchanges with as much time on the network, and of the server, as counts.
    with_network: u32,
    with_think: u32,
    /// See [`Stream::proxied_time`].
    proxied_time: Nanos,
    http: HttpRepeats,
    duplicates: DuplicateFilter,
    /// Where the durations of its exchanges are counted.
    pub(crate) service: ServiceIndex,
    /// The responder, then the requester.
    ends: [MessageEnd; 2],
}

/// A request, and its response once that has come.
#[derive(Debug, Clone, Copy)]
struct MessageExchange {
    number: u32,
    request_bytes: u32,
    response_bytes: u32,
    /// Microseconds on the network, and of the server.
    network_us: u32,
    think_us: u32,
    request_at: Nanos,
    acknowledged_at: OptionalTime,
    response_at: OptionalTime,
}

/// One end.
#[derive(Debug, Clone)]
struct MessageEnd {
    sent: MessageDirection,
    loop_time: OptionalTime,
    /// Messages until it is measured again how far both ends are: at first, and now.
    first_messages: u32,
    messages: u32,
    /// Time on the network before its messages, and time that it took itself.
    network: Nanos,
    own: Nanos,
}

/// A message or an acknowledgement was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How long the exchange took that it ended.
    pub(crate) ended: Option<Nanos>,
}

impl Stream {
    /// Whether its messages may be taken in ping-pong from now on.
    #[inline(always)]
    pub(crate) fn may_be_in_ping_pong(&self) -> bool {
        self.messages >= MIN_MESSAGES && self.is_calm
    }

    /// Begins to take its messages in ping-pong, if the last packet was a response to a request, and nothing
    /// but such messages goes on.
    #[cold]
    pub(crate) fn begin_ping_pong(&mut self) -> Option<PingPong> {
        let service = self.service?;
        let current = self.exchanges.current().filter(|exchange| !exchange.is_of_tls)?;
        let requester = current.requester;
        let (times_us, until) = self.attribution.of_message()?;
        let exchange = MessageExchange::of(&current, times_us)?;
        let path = self.path_round_trip();
        let is_slow_start_relevant = path.is_some_and(|it| RELEVANT_ROUND_TRIPS.contains(&it));
        let (asks, answers) = (self.ends.get(requester), self.ends.get(requester.other()));
        let both = || [asks, answers].into_iter();
        let can_begin = self.is_calm
            && exchange.response_at == self.last.into()
            && until == self.last
            && self.last_sender == Some(requester.other())
            && answers.sent.last_data_at == self.last.into()
            && asks.sent.in_flight() == 0
            && both().all(|end| end.is_message && end.sent.can_ping_pong())
            && both().all(|end| end.address.port() != DNS_PORT)
            && !(is_slow_start_relevant && both().any(|end| end.slow_start.is_some()))
            && answers.stalls.is_of_message(Some(self.last))
            && asks.stalls.is_of_message(None)
            && !self.is_in_tls_handshake
            && !self.is_answered_on_the_path();
        if !can_begin {
            return None;
        }
        let proxied_time = self.proxied_time(requester.other());
        let http = self.protocol.as_ref().map(|protocol| protocol.repeats_of_latest());
        let (answers, asks) = self.ends.own_and_peer(requester.other());
        let ends = [answers, asks].map(|end| MessageEnd::begin(end, is_slow_start_relevant));
        Some(PingPong {
            requester,
            requester_is_lower: self.client_is_lower == (requester == Side::Client),
            awaits_response: false,
            has_protocol: http.is_some(),
            last: self.last,
            until,
            exchange,
            with_network: 0,
            with_think: 0,
            proxied_time,
            http: http.unwrap_or_default(),
            duplicates: std::mem::take(&mut self.duplicates),
            service,
            ends,
        })
    }

    /// Takes back what its messages have changed.
    #[cold]
    pub(crate) fn end_ping_pong(&mut self, mut messages: PingPong) {
        messages.http.add_to(self, messages.exchange.number);
        let PingPong { requester, awaits_response, exchange, .. } = messages;
        let [answers, asks] = messages.ends;
        // Where there were enough of them, the next ones are expected to follow.
        let taken = answers.messages_taken() + asks.messages_taken();
        let is_measured = [&answers, &asks].into_iter().any(|end| end.messages <= 1);
        let goes_on = is_measured || taken >= MIN_MESSAGES.into();
        self.messages = if goes_on { MIN_MESSAGES } else { 0 };
        self.last = messages.last;
        self.exchanges.end_messages(exchange.ended(requester));
        self.attribution.end_messages([exchange.network_us, exchange.think_us], messages.until);
        for (category, more) in [
            (TimeCategory::Network, messages.with_network),
            (TimeCategory::ServerThink, messages.with_think),
        ] {
            let count = self.exchanges_with.get_mut(category);
            *count = count.saturating_add(more);
        }
        self.duplicates = messages.duplicates;
        let responder = requester.other();
        self.last_sender = Some(if awaits_response { requester } else { responder });
        // A request ends what was recorded of the response before it.
        self.end_messages(responder, answers, TimeCategory::ServerThink, !awaits_response);
        self.end_messages(requester, asks, TimeCategory::ClientIdle, true);
    }

    /// Takes back what the messages of one end have changed, and the time that it took itself; `is_current`:
    /// no request came after its last one.
    fn end_messages(
        &mut self,
        side: Side,
        messages: MessageEnd,
        own_time: TimeCategory,
        is_current: bool,
    ) {
        let last_sender = self.last_sender;
        let (end, peer) = self.ends.own_and_peer(side);
        let taken = messages.messages_taken();
        let MessageEnd { sent, network, own, .. } = messages;
        for (category, time) in [(TimeCategory::Network, network), (own_time, own)] {
            let sum = end.times.get_mut(category);
            *sum = sum.saturating_add(time);
        }
        if taken > 0 {
            end.stalls.set_message(sent.length < end.sent.mss() / 2);
        }
        if last_sender == Some(side) {
            let acknowledged_at = sent.acknowledged_at.get().filter(|_| sent.in_flight == 0);
            end.stalls.set_message_times(sent.sent_at.into(), acknowledged_at.into());
        } else {
            end.stalls.set_message_times(OptionalTime::default(), OptionalTime::default());
        }
        if taken > 0 || !is_current {
            let bytes = sent.length.saturating_add(sent.header_bytes);
            end.sent.policer.set_message(is_current.then_some(bytes), sent.sent_at);
        }
        if let (Some(transfer), Some(at)) = (&mut end.transfer, sent.acknowledged_at.get()) {
            transfer.pass_over(sent.acknowledged(), at);
        }
        end.sent.end_ping_pong(sent, taken, &peer.sent);
    }
}

impl PingPong {
    /// Time of the last packet.
    pub(crate) fn last(&self) -> Nanos {
        self.last
    }

    /// Whether the end with the lower address is the requester.
    pub(crate) fn is_lower_requester(&self) -> bool {
        self.requester_is_lower
    }

    /// Takes a packet, if it is the next message, or acknowledges the last one. `stream` is its stream.
    #[inline(never)]
    pub(crate) fn take(
        &mut self,
        stream: &mut Stream,
        segment: &PlainSegment<'_>,
        is_request: bool,
        at: Nanos,
    ) -> Option<Taken> {
        let [answers, asks] = &mut self.ends;
        let (own, peer) = if is_request { (asks, answers) } else { (answers, asks) };
        // No stream has later times: see `Table::take_located`.
        let is_soon = (0..MAX_PAUSE).contains(&at.wrapping_sub(self.last)) & (at <= LATEST);
        if !is_soon || !own.sent.expects(segment, &peer.sent) {
            return None;
        }
        if segment.length() == 0 {
            if peer.sent.in_flight == 0 || at - peer.sent.sent_at >= MIN_ACK_DELAY {
                return None;
            }
            self.duplicates.remember(&segment.identity(), segment.ttl(), at);
            own.sent.take_acknowledgement(segment, at, &mut peer.sent);
            self.last = at;
            if !is_request && self.awaits_response {
                self.exchange.acknowledged_at.get_or_set(at);
            }
            return Some(Taken { ended: None });
        }
        let min_sample = MIN_TRANSFER_SEGMENTS * u64::from(segment.length());
        if is_request == self.awaits_response
            || own.messages <= 1
            || own.sent.echoed_bytes(segment, &peer.sent) >= min_sample
        {
            return None;
        }
        let payload = segment.payload();
        let repeats = if is_request {
            let repeats = self.http.is_request(payload);
            let begins_tls = !repeats && ApplicationProtocol::may_begin_tls(payload);
            if begins_tls || self.exchange.think_us >= MAX_THINK_US {
                return None;
            }
            repeats
        } else {
            if self.proxied_time > 0 && peer.sent.shortest_round_trip(at) < self.proxied_time {
                return None;
            }
            self.http.is_response(payload)
        };
        self.duplicates.remember(&segment.identity(), segment.ttl(), at);
        let loop_time = own.loop_time.get();
        own.sent.take_message(segment, at, loop_time, &mut peer.sent);
        own.messages -= 1;
        let waited = at - self.until;
        (self.last, self.until, self.awaits_response) = (at, at, is_request);
        let mut ended = None;
        if is_request {
            let [network_us, _] = own.add_time(waited, loop_time.unwrap_or(0));
            self.exchange.network_us += network_us;
            ended = self.begin_exchange(stream, segment.length(), at);
        } else {
            let exchange = &mut self.exchange;
            exchange.acknowledged_at.get_or_set(at);
            let path = exchange.path(loop_time);
            let [network_us, think_us] = own.add_time(waited, path);
            exchange.network_us += network_us;
            exchange.think_us += think_us;
            exchange.response_at = OptionalTime::of_clock(at);
            exchange.response_bytes = segment.length();
        }
        if !repeats {
            self.take_other(stream, segment, at, is_request);
        } else if is_request {
            self.http.count_request();
        } else {
            self.http.count_response();
        }
        Some(Taken { ended })
    }

    /// A request ends the exchange before it, and begins the next one. Returns how long that one took.
    #[inline(always)]
    fn begin_exchange(&mut self, stream: &mut Stream, bytes: u32, at: Nanos) -> Option<Nanos> {
        let ended = &self.exchange;
        let (number, think_us, answered_at) = (ended.number, ended.think_us, ended.response_at);
        let duration = answered_at.get().map(|answered_at| answered_at - ended.request_at);
        if at - ended.request_at >= Nanos::from(MIN_CATEGORY_TIME_US) * 1_000 {
            self.with_network += u32::from(ended.network_us >= MIN_CATEGORY_TIME_US);
            self.with_think += u32::from(ended.think_us >= MIN_CATEGORY_TIME_US);
        }
        if self.has_protocol && !self.http.ends_quickly() {
            self.http.add_to(stream, number);
            stream.end_exchange_of_protocol(number, think_us, answered_at);
        }
        self.exchange = MessageExchange {
            number: number.wrapping_add(1),
            request_bytes: bytes,
            response_bytes: 0,
            network_us: 0,
            think_us: 0,
            request_at: at,
            acknowledged_at: OptionalTime::default(),
            response_at: OptionalTime::default(),
        };
        duration
    }

    /// A request or response that does not begin as the one before.
    #[inline(never)]
    fn take_other(
        &mut self,
        stream: &mut Stream,
        segment: &PlainSegment<'_>,
        at: Nanos,
        begins_request: bool,
    ) {
        let exchange = self.exchange.number;
        // What was counted is of the exchange before a request.
        self.http.add_to(stream, exchange.wrapping_sub(begins_request.into()));
        let (bytes, length) = (segment.payload(), segment.length());
        let first = bytes.first().copied().unwrap_or(0);
        if ApplicationProtocol::may_begin(first, begins_request) {
            let sender = if begins_request { self.requester } else { self.requester.other() };
            stream.parse_payload(&Payload { sender, bytes, length, at, exchange, begins_request });
            if let Some(protocol) = &stream.protocol {
                (self.has_protocol, self.http) = (true, protocol.repeats_of_latest());
            }
        }
    }
}

impl HttpRepeats {
    /// Adds up what is counted to a stream; the latest is of this exchange.
    #[inline(always)]
    fn add_to(&mut self, stream: &mut Stream, exchange: u32) {
        if !self.is_empty()
            && let Some(protocol) = &mut stream.protocol
        {
            protocol.add_repeats(self, exchange);
        }
    }
}

impl MessageExchange {
    /// An exchange whose request and response were one message each.
    fn of(exchange: &Exchange, [network_us, think_us]: [u32; 2]) -> Option<Self> {
        let is_of_messages = exchange.request_ended == exchange.request_began
            && exchange.response_ended == exchange.response_began;
        is_of_messages.then_some(MessageExchange {
            number: exchange.number,
            request_bytes: u32::try_from(exchange.request_bytes).ok()?,
            response_bytes: u32::try_from(exchange.response_bytes).ok()?,
            network_us,
            think_us,
            request_at: exchange.request_began,
            acknowledged_at: exchange.request_acknowledged,
            response_at: exchange.response_began,
        })
    }

    /// The same as any exchange.
    fn ended(&self, requester: Side) -> Exchange {
        Exchange {
            number: self.number,
            requester,
            is_of_tls: false,
            request_began: self.request_at,
            request_ended: self.request_at,
            request_acknowledged: self.acknowledged_at,
            response_began: self.response_at,
            response_ended: self.response_at,
            request_bytes: self.request_bytes.into(),
            response_bytes: self.response_bytes.into(),
        }
    }

    /// How much of the time before a response the path took at least: see `Stream::path_of_answer`.
    #[inline(always)]
    fn path(&self, loop_time: Option<Nanos>) -> Nanos {
        let acknowledged_at = self.acknowledged_at.get().unwrap_or(self.request_at);
        let acknowledged_after = acknowledged_at - self.request_at;
        match loop_time {
            Some(loop_time) => loop_time.max(acknowledged_after - MAX_ACK_DELAY),
            None => acknowledged_after,
        }
    }
}

impl MessageEnd {
    fn begin(end: &mut End, is_slow_start_relevant: bool) -> Self {
        // Slow start is watched from the first data that is no short request or response.
        let half_segment = (end.sent.mss() / 2).saturating_sub(1);
        let max_length = if is_slow_start_relevant { half_segment } else { u32::MAX };
        let data_packets = end.sent.counts.data_packets;
        let measured_at = data_packets.saturating_add(1).checked_next_power_of_two();
        let messages = measured_at.map_or(u64::MAX, |at| at - data_packets);
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        MessageEnd {
            sent: end.sent.begin_ping_pong(max_length),
            loop_time: end.loop_time,
            first_messages: messages,
            messages,
            network: 0,
            own: 0,
        }
    }

    fn messages_taken(&self) -> u64 {
        self.first_messages.saturating_sub(self.messages).into()
    }

    /// The time before a message of this end: at most so much of it on the path, the rest its own. Returns
    /// the microseconds of both.
    #[inline(always)]
    fn add_time(&mut self, waited: Nanos, path: Nanos) -> [u32; 2] {
        let network = waited.min(path.max(0));
        let own = waited - network;
        self.network += network;
        self.own += own;
        // Neither is longer than `MAX_PAUSE`.
        [network as u32 / 1_000, own as u32 / 1_000]
    }
}
