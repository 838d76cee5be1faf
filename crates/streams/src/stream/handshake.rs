//! The handshake of a stream: SYNs, which end is the client, and how far both ends are.

use model::{Side, TimeCategory};
use wire::packet::tcp::{Flags, Tcp};

use super::state::Stream;
use crate::time::Nanos;

/// An end nearer than this, a millisecond, knows the windows as they pass.
const MIN_FAR_TIME: Nanos = 1_000_000;

impl Stream {
    /// Takes a packet of a stream whose handshake is not over. Returns its sender, which changes
    /// when the client turns out to be the server.
    pub(super) fn take_handshake(&mut self, side: Side, tcp: &Tcp<'_>, at: Nanos) -> Side {
        if tcp.flags.all(Flags::SYN) {
            return self.take_syn(side, tcp, at);
        }
        let handshake = &mut self.handshake;
        if handshake.syn_ack.is_known() && side == Side::Client {
            handshake.completed = at.into();
            self.measure_loop_times();
            self.attribute_until(at, Side::Client, TimeCategory::Connect);
        } else if tcp.flags.all(Flags::RST)
            && !handshake.syn_ack.is_known()
            && handshake.syn.is_known()
        {
            handshake.refused = side == Side::Server;
        }
        side
    }

    /// Takes a SYN or a SYN/ACK. Returns its sender.
    fn take_syn(&mut self, side: Side, tcp: &Tcp<'_>, at: Nanos) -> Side {
        let is_syn_ack = tcp.flags.all(Flags::ACK);
        let client = if is_syn_ack { side.other() } else { side };
        let is_swapped = !self.roles_known && client == Side::Server;
        if is_swapped {
            self.swap_roles();
        }
        self.roles_known = true;
        let handshake = &mut self.handshake;
        let (time, retransmissions) = if is_syn_ack {
            (&mut handshake.syn_ack, &mut handshake.syn_ack_retransmissions)
        } else {
            (&mut handshake.syn, &mut handshake.syn_retransmissions)
        };
        let category = if time.is_known() {
            *retransmissions = retransmissions.saturating_add(1);
            TimeCategory::SynWait
        } else {
            *time = at.into();
            TimeCategory::Connect
        };
        let syn = handshake.syn.get();
        let client = if is_swapped { Side::Client } else { client };
        self.attribute_until(at, client, category);
        if is_syn_ack && let Some(syn) = syn {
            // The server, for which the windows of the client are, is this far away.
            let time = at.saturating_sub(syn);
            if time > MIN_FAR_TIME {
                self.ends.server.sent.keep_right_edges(time);
            }
        }
        if is_swapped { side.other() } else { side }
    }

    /// Whether a SYN opens another connection with the same ports: every SYN of one connection has
    /// the same sequence number.
    pub(crate) fn is_reopened_by(&self, side: Side, tcp: &Tcp<'_>) -> bool {
        let is_syn = tcp.flags.all(Flags::SYN) && !tcp.flags.all(Flags::ACK);
        let first = self.ends.get(side).sent.first_sequence();
        is_syn && first.is_some_and(|first| first != tcp.sequence)
    }

    /// Measures again how far both ends are.
    pub(super) fn measure_loop_times(&mut self) {
        let client = self.shortest_loop_time(Side::Client);
        let server = self.shortest_loop_time(Side::Server);
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
        let all = [from_handshake, from_data, from_timestamps];
        all.into_iter().flatten().min().map(|time| time.max(0))
    }
}
