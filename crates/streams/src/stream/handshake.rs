//! The handshake of a stream: SYNs, which end is the client, and how far both ends are.

use std::net::SocketAddr;

use model::{Side, TimeCategory};
use wire::packet::tcp::{Flags, Tcp};

use super::state::{End, Stream, StreamState};
use crate::time::{Nanos, OptionalTime};

/// An end nearer than this, a millisecond, knows the windows as they pass.
const MIN_FAR_TIME: Nanos = 1_000_000;

/// No kernel repeats a SYN or a SYN/ACK sooner than this: 200 ms (`TCP_RTO_MIN`; the usual first wait
/// is 1 s). What comes sooner is a copy that a proxy or a NAT made.
const MIN_RETRY_TIME: Nanos = 200_000_000;

impl Stream {
    /// Whether a SYN/ACK is of another handshake, of which nothing else is known: it has another
    /// number than the one that the client answered, or that has just come.
    #[cold]
    pub(super) fn is_of_another_handshake(&self, side: Side, tcp: &Tcp<'_>, at: Nanos) -> bool {
        let handshake = &self.handshake;
        let first = self.ends.get(side).sent.first_sequence();
        let is_other = first.is_some_and(|first| first != tcp.sequence);
        let last = self.syn_retries.as_ref().and_then(|retries| retries.last_syn_ack.get());
        let is_answer = last.or(handshake.syn_ack.get()).is_some_and(|last| {
            !handshake.completed.is_known() && at.saturating_sub(last) >= MIN_RETRY_TIME
        });
        handshake.syn_ack.is_known() && tcp.flags.all(Flags::ACK) && is_other && !is_answer
    }

    /// Takes a packet of a stream whose handshake is not over, or a SYN. Returns its sender, which
    /// changes when the client turns out to be the server.
    pub(super) fn take_handshake(&mut self, side: Side, tcp: &Tcp<'_>, at: Nanos) -> Side {
        let flags = tcp.flags;
        if flags.all(Flags::SYN) {
            // No kernel sends a SYN that ends the connection, or resets it.
            return if flags.any(Flags::FIN_OR_RST) { side } else { self.take_syn(side, tcp, at) };
        }
        if flags.all(Flags::RST) {
            let is_answer = self.handshake.syn.is_known() && !self.handshake.syn_ack.is_known();
            if is_answer && side == Side::Server && self.acknowledges_syn(tcp) {
                self.handshake.refused = true;
            }
        } else if side == Side::Client
            && flags.all(Flags::ACK)
            // Where one direction was captured, the SYN/ACK was not.
            && (self.handshake.syn_ack.is_known() || self.handshake.syn.is_known())
        {
            self.handshake.completed = at.into();
            self.measure_loop_times();
            self.end_syn_wait();
            self.attribute_until(at, Side::Client, TimeCategory::Connect);
        }
        side
    }

    /// Whether a reset acknowledges the SYN: others are ignored (RFC 9293, 3.10.7.3).
    #[cold]
    fn acknowledges_syn(&self, tcp: &Tcp<'_>) -> bool {
        let sent = &self.ends.client.sent;
        let acknowledged = || Some(tcp.acknowledgement.wrapping_sub(sent.first_sequence()?));
        let most = || Some(sent.next_sequence()?.header().wrapping_sub(sent.first_sequence()?));
        tcp.flags.all(Flags::ACK)
            && acknowledged().is_some_and(|one| one >= 1 && one <= most().unwrap_or(1).max(1))
    }

    /// An error of ICMP answers the client's SYN: the connection is refused.
    #[cold]
    pub(crate) fn take_syn_error(&mut self, client: SocketAddr, sequence: u32) {
        let handshake = &mut self.handshake;
        let is_answer = handshake.syn.is_known()
            && !handshake.syn_ack.is_known()
            && !handshake.completed.is_known();
        let sender = &self.ends.client;
        if is_answer && sender.address == client && sender.sent.first_sequence() == Some(sequence) {
            handshake.refused = true;
        }
    }

    /// Takes a SYN or a SYN/ACK. Returns its sender.
    fn take_syn(&mut self, side: Side, tcp: &Tcp<'_>, at: Nanos) -> Side {
        let is_syn_ack = tcp.flags.all(Flags::ACK);
        let client = if is_syn_ack { side.other() } else { side };
        let is_swapped = !self.roles_known && client == Side::Server;
        if is_swapped {
            self.swap_roles();
        }
        let is_of_client = !self.roles_known || client == Side::Client;
        self.roles_known = true;
        let side = if is_swapped { side.other() } else { side };
        let handshake = &mut self.handshake;
        match (is_syn_ack, is_of_client) {
            // Both ends open it at the same time.
            (_, false) => {}
            (false, true) if handshake.syn.is_known() => self.take_repeated_syn(at),
            (true, true) if handshake.syn_ack.is_known() => self.take_repeated_syn_ack(at),
            (false, true) => {
                handshake.syn = at.into();
                self.attribute_until(at, Side::Client, TimeCategory::Connect);
            }
            (true, true) => {
                handshake.syn_ack = at.into();
                handshake.refused = false;
                let syn = handshake.syn.get();
                self.attribute_until(at, Side::Client, TimeCategory::Connect);
                if let Some(syn) = syn {
                    // The server, for which the windows of the client are, is this far away.
                    let time = at.saturating_sub(syn);
                    if time > MIN_FAR_TIME {
                        self.ends.server.sent.keep_right_edges(time);
                    }
                }
            }
        }
        side
    }

    /// The client's SYN comes again: it waits for an answer.
    #[cold]
    fn take_repeated_syn(&mut self, at: Nanos) {
        let handshake = &mut self.handshake;
        let retries = self.syn_retries.get_or_insert_default();
        let last = retries.last_syn.get().or(handshake.syn.get());
        retries.last_syn = at.into();
        if handshake.refused && !handshake.syn_ack.is_known() {
            // It had an answer, and tries again.
            handshake.refused = false;
            self.state = StreamState::Open;
            self.attribute_until(at, Side::Client, TimeCategory::ClientIdle);
            return;
        }
        let is_waiting = !handshake.completed.is_known() && self.state == StreamState::Open;
        if is_waiting && last.is_some_and(|last| at.saturating_sub(last) >= MIN_RETRY_TIME) {
            handshake.syn_retransmissions = handshake.syn_retransmissions.saturating_add(1);
            retries.unanswered_until = OptionalTime::default();
            self.attribute_until(at, Side::Client, TimeCategory::SynWait);
        }
    }

    /// The server's SYN/ACK comes again: what the client sent did not arrive, or the server does not
    /// take it, or the client does not answer.
    #[cold]
    fn take_repeated_syn_ack(&mut self, at: Nanos) {
        let handshake = &mut self.handshake;
        let retries = self.syn_retries.get_or_insert_default();
        let last = retries.last_syn_ack.get().or(handshake.syn_ack.get());
        let is_late = last.is_some_and(|last| at.saturating_sub(last) >= MIN_RETRY_TIME);
        if !is_late || self.state == StreamState::Reset {
            return;
        }
        retries.last_syn_ack = at.into();
        handshake.syn_ack_retransmissions = handshake.syn_ack_retransmissions.saturating_add(1);
        if !handshake.completed.is_known() {
            retries.unanswered_until = at.into();
            return;
        }
        // A server that waits for data (TCP_DEFER_ACCEPT) repeats it, too, and nobody waits. But a
        // client that has sent data, which had the time to arrive, waits for what it does not get.
        let client = &self.ends.client.sent;
        let loop_time = self.ends.server.loop_time().unwrap_or(0);
        let is_waiting = client.in_flight() > 0
            && client.last_data_at.get().is_some_and(|sent| at.saturating_sub(sent) > loop_time);
        if is_waiting {
            self.attribute_until(at, Side::Client, TimeCategory::SynWait);
        }
    }

    /// The client goes on after SYN/ACKs that came again: it had waited for them.
    fn end_syn_wait(&mut self) {
        let waited = self.syn_retries.as_mut().map(|one| std::mem::take(&mut one.unanswered_until));
        if let Some(until) = waited.and_then(OptionalTime::get) {
            self.attribute_until(until, Side::Client, TimeCategory::SynWait);
        }
    }

    /// Whether a SYN opens another connection with the same ports: every SYN of one connection has
    /// the same sequence number.
    pub(crate) fn is_reopened_by(&self, side: Side, tcp: &Tcp<'_>) -> bool {
        let is_syn = tcp.flags.all(Flags::SYN)
            && !tcp.flags.any(Flags::ACK)
            && !tcp.flags.any(Flags::FIN_OR_RST);
        let first = self.ends.get(side).sent.first_sequence();
        is_syn && first.is_some_and(|first| first != tcp.sequence)
    }

    /// Measures again how far both ends are.
    pub(super) fn measure_loop_times(&mut self) {
        let mut client = self.shortest_loop_time(Side::Client);
        let mut server = self.shortest_loop_time(Side::Server);
        if self.roles_of_sockets {
            // A socket knows the shortest round trip since it is open.
            let shorter = |end: &End, now| [end.loop_time(), now].into_iter().flatten().min();
            client = shorter(&self.ends.client, client);
            server = shorter(&self.ends.server, server);
        }
        self.ends.client.loop_time = client.into();
        self.ends.server.loop_time = server.into();
    }

    /// From the SYN to its answer; `None`: not seen, or which of several SYNs was answered is not
    /// known.
    pub(super) fn syn_time(&self) -> Option<Nanos> {
        let handshake = &self.handshake;
        let is_retransmitted =
            handshake.syn_retransmissions > 0 || handshake.syn_ack_retransmissions > 0;
        let (answered, sent) = (handshake.syn_ack.get()?, handshake.syn.get()?);
        (!is_retransmitted).then(|| answered.saturating_sub(sent).max(0))
    }

    fn shortest_loop_time(&self, side: Side) -> Option<Nanos> {
        let handshake = &self.handshake;
        let is_retransmitted =
            handshake.syn_retransmissions > 0 || handshake.syn_ack_retransmissions > 0;
        let from_handshake = match side {
            // Which of several SYNs was answered is not known.
            _ if is_retransmitted => None,
            Side::Client => handshake.completed.get().zip(handshake.syn_ack.get()),
            Side::Server => handshake.syn_ack.get().zip(handshake.syn.get()),
        };
        let from_handshake = from_handshake.map(|(to, from)| to.saturating_sub(from));
        let peer = &self.ends.get(side.other()).sent;
        let from_data = peer.round_trip.min();
        let from_timestamps = peer.timestamp_round_trips.as_ref().and_then(|times| times.min());
        let mut shortest = OptionalTime::default();
        // A clock that steps back makes some of them negative.
        for time in [from_handshake, from_data, from_timestamps].into_iter().flatten() {
            shortest.shorten_to(time.max(0));
        }
        shortest.get()
    }
}
