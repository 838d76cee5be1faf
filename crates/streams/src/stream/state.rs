//! What is known of a stream.

use std::net::SocketAddr;

use model::{Side, TimeCategory};

use super::syn_retries::SynRetries;
use crate::application_protocol::ApplicationProtocol;
use crate::direction::Direction;
use crate::duplicates::DuplicateFilter;
use crate::ends::Ends;
use crate::even_pace::EvenPace;
use crate::exchange::{Exchange, Exchanges};
use crate::flight_plateau::FlightPlateau;
use crate::idle_period::IdlePeriods;
use crate::known_socket::KnownSocket;
use crate::network_time::{NetworkFacts, NetworkTimes, Transfer};
use crate::policing::PolicedResponse;
use crate::segment::SegmentKind;
use crate::slow_start::{SlowStartDetector, SlowStarts};
use crate::stall::{Stall, StallDetector, StallTotals};
use crate::throughput::{ShapedThroughput, Throughput};
use crate::time::{Nanos, OptionalTime};
use crate::time_breakdown::{CategoryTimes, PerCategory, TimeAttribution};

/// Address and port of IPv4 in one number.
#[inline(always)]
pub(crate) fn v4_number(end: SocketAddr) -> Option<u64> {
    match end {
        SocketAddr::V4(end) => Some(u64::from(end.ip().to_bits()) << 16 | u64::from(end.port())),
        SocketAddr::V6(_) => None,
    }
}

/// Two of them, in any order.
#[inline(always)]
pub(crate) fn v4_pair(a: u64, b: u64) -> u128 {
    u128::from(a.min(b)) << 64 | u128::from(a.max(b))
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StreamState {
    /// It has not, as far as the capture goes.
    #[default]
    Open,
    /// One end has sent a FIN.
    HalfClosed,
    /// Both ends have.
    Closed,
    /// One end has reset it.
    Reset,
}

/// One connection.
///
/// Its client is the end that sent the SYN. Until a SYN passes, the end that sent the first packet
/// takes the client's place; where none ever passes, [`Stream::role`] says as which end each is
/// reported.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Number in the capture, from 0, in the order of first packets.
    pub number: u64,
    /// The two ends.
    pub ends: Ends<End>,
    /// Both addresses and ports in one number, the lower one first, if they are of IPv4; otherwise 0.
    v4_ends: u128,
    /// Whether the client's address is the lower one: so the sender of a packet is known.
    pub(super) client_is_lower: bool,
    /// Whether the handshake showed which end is the client.
    pub roles_known: bool,
    /// Whether sockets show them, where no handshake was captured.
    pub(super) roles_of_sockets: bool,
    /// Time of the first packet.
    pub first: Nanos,
    /// Time of the last packet.
    pub last: Nanos,
    /// How it opened.
    pub handshake: Handshake,
    /// How it ended.
    pub state: StreamState,
    /// Boxed: of most handshakes, nothing is repeated.
    pub(super) syn_retries: Option<Box<SynRetries>>,
    /// Exchanges in which each category took time.
    pub exchanges_with: PerCategory<u32>,
    /// Exchanges in which the server took so long to answer that people notice, those of TLS included; what
    /// may only acknowledge a message is no request.
    pub late_answers: u32,
    /// How often a requester did not wait for the answer to what it had sent, but sent on after a pause.
    pub unwaited_requests: u32,
    pub(super) attribution: TimeAttribution,
    pub(super) protocol: Option<Box<ApplicationProtocol>>,
    /// How long the client waited for the server's greeting, which belongs to no exchange.
    pub(super) greeting: OptionalTime,
    /// Whether a TLS handshake goes on.
    pub(super) is_in_tls_handshake: bool,
    pub(super) idle_periods: Option<Box<IdlePeriods>>,
    pub(super) exchanges: Exchanges,
    pub(super) duplicates: DuplicateFilter,
    /// The end that sent the last data.
    pub(super) last_sender: Option<Side>,
    /// When the last spurious retransmission was sent: it cost time only if its sender sends more data
    /// next.
    pub(super) spurious_at: OptionalTime,
    /// Where the collector adds it up; unknown at first.
    pub(crate) service: Option<ServiceIndex>,
    /// Messages of both ends in a row: a request, its response, the next request, ... of one small segment
    /// each.
    pub(super) messages: u32,
    /// Whether the next packet may be as expected.
    pub(super) is_calm: bool,
    /// Whether it was handed over and forgotten.
    pub(crate) is_evicted: bool,
}

/// One end of a stream.
#[derive(Debug, Clone)]
pub struct End {
    /// Address and port.
    pub address: SocketAddr,
    /// What it sent.
    pub sent: Direction,
    /// Time that it spent, or that was waited for it, by category.
    pub times: CategoryTimes,
    /// Of its round trips and transmission, the time in which it went on sending.
    pub(super) sending: Nanos,
    pub(super) stalls: StallDetector,
    /// Shortest time from the capture point to this end and back.
    pub(super) loop_time: OptionalTime,
    /// Whether its last data was a message: one small segment, alone in flight, after data of the other
    /// end. A message is no part of a transfer.
    pub(super) is_message: bool,
    /// On long paths.
    pub(super) slow_start: Option<Box<SlowStartDetector>>,
    /// Of transfers that are long enough.
    pub(super) transfer: Option<Box<Transfer>>,
    /// Boxed: most ends have none.
    pub(super) incidents: Option<Box<Incidents>>,
}

/// What happened to one end: stalls and policed responses.
#[derive(Debug, Clone, Default)]
pub(super) struct Incidents {
    pub(super) stalls: StallTotals,
    /// Responses that were policed, with the numbers of their exchanges.
    pub(super) policed: Vec<(u32, PolicedResponse)>,
}

/// Place of a stream's service in the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceIndex(pub(crate) std::num::NonZeroU32);

/// The handshake of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Handshake {
    /// First SYN.
    pub syn: OptionalTime,
    /// First SYN/ACK.
    pub syn_ack: OptionalTime,
    /// The first packet of the client that acknowledges it.
    pub completed: OptionalTime,
    /// SYNs beyond the first, 200 ms and more apart.
    pub syn_retransmissions: u32,
    /// SYN/ACKs beyond the first, 200 ms and more apart, with the same number.
    pub syn_ack_retransmissions: u32,
    /// Whether a reset answered the last SYN.
    pub refused: bool,
}

impl Handshake {
    /// From the first SYN to the end of the handshake, if all of it was captured.
    pub fn duration(&self) -> Option<Nanos> {
        self.syn_ack.get()?;
        Some(self.completed.get()?.saturating_sub(self.syn.get()?))
    }
}

/// What a segment was in its stream, and what it ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct SegmentEvent {
    /// What it was.
    pub kind: SegmentKind,
    /// The exchange that it ended.
    pub exchange: Option<Exchange>,
    /// The stall that it ended.
    pub stall: Option<Stall>,
}

impl End {
    fn new(address: SocketAddr) -> Self {
        End {
            address,
            sent: Direction::default(),
            times: CategoryTimes::default(),
            sending: 0,
            stalls: StallDetector::default(),
            loop_time: OptionalTime::default(),
            is_message: false,
            slow_start: None,
            transfer: None,
            incidents: None,
        }
    }

    /// Shortest time from the capture point to this end and back.
    #[inline]
    pub fn loop_time(&self) -> Option<Nanos> {
        self.loop_time.get()
    }

    /// Stalls of this end.
    pub fn stall_totals(&self) -> StallTotals {
        self.incidents.as_ref().map_or_else(StallTotals::default, |incidents| incidents.stalls)
    }

    /// Small segments of this end whose acknowledgement came as late as a delayed one.
    pub fn acknowledged_late(&self) -> u64 {
        self.stalls.acknowledged_late.into()
    }

    /// Responses of this end of which a policer dropped a part, with the numbers of their
    /// exchanges.
    pub fn policed(&self) -> &[(u32, PolicedResponse)] {
        self.incidents.as_ref().map_or(&[], |incidents| &incidents.policed)
    }

    /// Whether a token bucket with a queue held what it sent to its rate.
    pub fn shaped(&self) -> Option<ShapedThroughput> {
        self.throughput()?.shaped()
    }

    /// The throughput of its bulk transfers.
    pub(crate) fn throughput(&self) -> Option<&Throughput> {
        self.transfer.as_ref()?.throughput.as_ref()
    }

    /// The rate at which the path delivers a flight of its transfers, bits of data a second.
    pub fn flight_rate(&self) -> Option<u64> {
        self.transfer.as_ref()?.flight_rate.bits_per_second()
    }

    /// Whether its flights did not grow, although windows and path would have taken more.
    pub fn flight_plateau(&self) -> Option<FlightPlateau> {
        self.transfer.as_ref()?.plateau.found()
    }

    /// An even pace that it kept by itself.
    pub fn even_pace(&self) -> Option<EvenPace> {
        self.transfer.as_ref()?.pace.found()
    }

    /// What its round trips and transmission consist of.
    pub fn network_times(&self) -> NetworkTimes {
        let transfer = self.transfer.as_deref();
        let bytes = self.sent.counts.new_bytes;
        // A shaper has two rates.
        let shaped = self.shaped().map(|found| found.after.saturating_add(found.duration));
        NetworkTimes::of(&NetworkFacts {
            total: self.times.get(TimeCategory::Network),
            sending: self.sending,
            slow_start: self.slow_start.as_ref().map_or(0, |detector| detector.growth_time),
            after_loss: transfer.map_or(0, |transfer| transfer.after_loss.time()),
            pacing: transfer.map_or(0, |transfer| transfer.plateau.paced()),
            send_buffer: self.flight_plateau().map_or(0, |plateau| plateau.waited),
            transmission: shaped
                .or(transfer.and_then(|one| one.flight_rate.transmission_time(bytes))),
        })
    }

    /// Its transfers that began with slow start.
    pub fn slow_starts(&self) -> SlowStarts {
        self.slow_start.as_ref().map_or_else(SlowStarts::default, |detector| detector.found)
    }
}

impl Stream {
    /// A stream that begins with a packet of this sender.
    pub(crate) fn new(
        number: u64,
        sender: SocketAddr,
        receiver: SocketAddr,
        sender_is_lower: bool,
        at: Nanos,
    ) -> Self {
        Stream {
            number,
            ends: Ends { client: End::new(sender), server: End::new(receiver) },
            v4_ends: v4_number(sender).zip(v4_number(receiver)).map_or(0, |(a, b)| v4_pair(a, b)),
            client_is_lower: sender_is_lower,
            roles_known: false,
            roles_of_sockets: false,
            first: at,
            last: at,
            handshake: Handshake::default(),
            state: StreamState::Open,
            syn_retries: None,
            exchanges_with: PerCategory::default(),
            late_answers: 0,
            unwaited_requests: 0,
            attribution: TimeAttribution::default(),
            protocol: None,
            greeting: OptionalTime::default(),
            is_in_tls_handshake: false,
            idle_periods: None,
            exchanges: Exchanges::default(),
            duplicates: DuplicateFilter::default(),
            last_sender: None,
            spurious_at: OptionalTime::default(),
            service: None,
            messages: 0,
            is_calm: false,
            is_evicted: false,
        }
    }

    /// How long the client waited for the greeting of a server that speaks first.
    pub fn greeting(&self) -> Option<Nanos> {
        self.greeting.get()
    }

    /// The sender of a packet that comes from the lower of both addresses, or from the higher.
    #[inline]
    pub(crate) fn side(&self, from_lower: bool) -> Side {
        if from_lower == self.client_is_lower { Side::Client } else { Side::Server }
    }

    /// Both addresses and ports in one number, if they are of IPv4; otherwise 0.
    #[inline(always)]
    pub(crate) fn v4_ends(&self) -> u128 {
        self.v4_ends
    }

    /// As which end a side is reported: where no handshake shows the client, the end with the lower
    /// port is the server.
    pub fn role(&self, side: Side) -> Side {
        let [client, server] = self.addresses();
        let is_guessed = !self.roles_known && !self.roles_of_sockets;
        let is_swapped = is_guessed && client.port() < server.port();
        if is_swapped { side.other() } else { side }
    }

    /// Addresses of both ends, the client's first.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        self.ends.each_ref().map(|end| end.address).into_array()
    }

    /// A socket of this host, at which packets are captured, is one end.
    pub(crate) fn take_known_socket(&mut self, side: Side, socket: KnownSocket) {
        let (own, peer) = self.ends.own_and_peer(side);
        let [own_scale, peer_scale] = socket.window_scales.map_or([None; 2], |both| both.map(Some));
        own.sent.take_known_options(socket.mss, own_scale);
        peer.sent.take_known_options(socket.mss, peer_scale);
        if let Some(round_trip) = socket.min_round_trip {
            own.loop_time = 0.into();
            if !peer.loop_time.is_known() {
                peer.loop_time = round_trip.into();
            }
        }
    }

    /// Sockets show which end listens.
    pub(crate) fn take_known_roles(&mut self, is_swapped: bool) {
        if is_swapped {
            self.swap_roles();
        }
        self.roles_of_sockets = true;
    }

    /// The client turns out to be the server: everything that belongs to an end follows it.
    pub(super) fn swap_roles(&mut self) {
        self.ends.swap();
        self.client_is_lower = !self.client_is_lower;
        self.exchanges.swap_roles();
        self.last_sender = self.last_sender.map(Side::other);
        if let Some(protocol) = &mut self.protocol {
            protocol.swap_roles();
        }
        if let Some(idle_periods) = &mut self.idle_periods {
            idle_periods.swap_roles();
        }
    }

    /// It was handed over: nothing of it but its addresses is kept.
    pub(crate) fn forget(&mut self) {
        let [client, server] = self.addresses();
        *self = Stream::new(self.number, client, server, self.client_is_lower, self.last);
        self.is_evicted = true;
    }

    /// Whether no more packets are expected.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, StreamState::Closed | StreamState::Reset)
    }

    /// Number of exchanges.
    pub fn exchange_count(&self) -> u64 {
        self.exchanges.count()
    }

    /// The current exchange, or the last one of a stream that is over.
    pub fn current_exchange(&self) -> Option<Exchange> {
        self.exchanges.current().filter(|exchange| !exchange.is_of_tls)
    }

    /// Its application protocol, as far as it is known.
    pub fn application_protocol(&self) -> Option<&ApplicationProtocol> {
        self.protocol.as_deref()
    }

    /// Its idle periods, if there were any.
    pub fn idle_periods(&self) -> Option<&IdlePeriods> {
        self.idle_periods.as_deref()
    }

    /// Its time by category, nanoseconds.
    pub fn times(&self) -> CategoryTimes {
        let mut times = self.ends.client.times.clone();
        times.add(&self.ends.server.times);
        times
    }

    /// Packets of both ends, duplicate ones included.
    pub fn captured_packets(&self) -> u64 {
        let packets = self.ends.iter().map(|end| end.sent.counts.captured_packets());
        packets.fold(0, u64::saturating_add)
    }

    /// Attributes all time up to a moment to a category of one end.
    #[inline]
    pub(super) fn attribute_until(&mut self, at: Nanos, side: Side, category: TimeCategory) {
        self.attribution.attribute_until(&mut self.ends.get_mut(side).times, at, category);
    }

    /// Attributes all time up to a moment: at most so much of it to one category, the rest to
    /// another.
    #[inline]
    pub(super) fn attribute_split(
        &mut self,
        at: Nanos,
        side: Side,
        first: (Nanos, TimeCategory),
        rest: TimeCategory,
    ) {
        let times = &mut self.ends.get_mut(side).times;
        self.attribution.attribute_split(times, at, first, rest);
    }
}
