//! What follows from the end of a stream, or of the capture.

use model::{Side, TimeCategory};

use super::state::{End, Stream, StreamState};
use crate::exchange::Exchange;
use crate::stall::Stall;
use crate::time::OptionalTime;

impl Stream {
    /// Attributes the rest of the time, and ends everything that goes on.
    pub fn finish(&mut self) {
        for stall in self.end_stalls().into_iter().flatten() {
            self.add_stall(&stall, 0);
        }
        let category = self.last_category();
        let side = if category == TimeCategory::ServerThink { Side::Server } else { Side::Client };
        let last_sender = self.ends.get(self.last_sender.unwrap_or(Side::Client));
        let round_trip = last_sender.sent.round_trip.smoothed().unwrap_or(0);
        self.attribute_split(self.last, side, (round_trip, TimeCategory::Network), category);
        let exchange = self.current_exchange();
        let late_before = self.late_answers;
        let think_us =
            self.count_categories_of_exchange(exchange.as_ref(), OptionalTime::default());
        if exchange.as_ref().is_some_and(|exchange| !self.is_answered(exchange)) {
            self.late_answers = late_before;
        }
        if let Some(idle_periods) = &mut self.idle_periods {
            idle_periods.finish();
        }
        if let Some(exchange) = &exchange {
            self.end_exchange_of_protocol(exchange.number, think_us, exchange.response_began);
        }
        self.end_losses();
        let number = exchange.map_or(0, |exchange| exchange.number);
        self.judge_policer(Side::Client, number);
        self.judge_policer(Side::Server, number);
        self.ends.iter_mut().flat_map(|end| &mut end.slow_start).for_each(|one| one.end());
    }

    /// Whether the last exchange has an answer, or will have one: the server of another has answered, or HTTP
    /// asks. In other protocols an end may send and never get an answer (syslog).
    fn is_answered(&self, exchange: &Exchange) -> bool {
        let of_http = self.protocol.as_ref().and_then(|one| one.http_exchange(exchange.number));
        exchange.response_began.is_known()
            || exchange.number > 0
            || of_http.is_some_and(|http| http.request.is_some())
    }

    /// Time that counts as lost goes where it belongs, as far as it was not.
    fn end_losses(&mut self) {
        let has_bare = |end: &End| end.sent.counts.packets > end.sent.counts.data_packets;
        let has_acknowledgements = self.ends.iter().any(has_bare);
        let asks = self.role(Side::Client);
        for side in [Side::Client, Side::Server] {
            let (own, peer) = self.ends.own_and_peer(side);
            let is_receiver_captured = peer.sent.counts.packets > 0;
            // A client waits for the answer to its request; what a server sends unasked, nobody does.
            let is_unanswered =
                !is_receiver_captured && asks == side && own.sent.repeats_one_segment();
            let shows_who_waits = (has_acknowledgements && is_receiver_captured) || is_unanswered;
            let [spurious, unwaited] = own.sent.end_losses(shows_who_waits);
            own.times.move_time(TimeCategory::Loss, TimeCategory::Network, spurious);
            own.times.move_time(TimeCategory::Loss, TimeCategory::ClientIdle, unwaited);
        }
    }

    /// Ends the stalls that go on, the client's first.
    pub fn end_stalls(&mut self) -> [Option<Stall>; 2] {
        let at = self.last;
        let client = self.ends.client.stalls.end(at).map(|stall| stall.of(Side::Client));
        let server = self.ends.server.stalls.end(at).map(|stall| stall.of(Side::Server));
        [client, server]
    }

    /// The category of the time after the last data.
    fn last_category(&self) -> TimeCategory {
        let handshake = &self.handshake;
        let waits_for_server = self.exchanges.current().is_some_and(|exchange| {
            exchange.requester == Side::Client && !exchange.response_began.is_known()
        });
        if !handshake.completed.is_known() && handshake.syn.is_known() {
            match (handshake.refused, handshake.syn_ack.is_known()) {
                (true, _) => TimeCategory::Connect,
                (false, false) => TimeCategory::SynWait,
                // The client does not answer: it has gone, or it only wanted to know.
                (false, true) => TimeCategory::ClientIdle,
            }
        } else if self.ends.iter().any(|end| end.sent.in_flight() > 1) {
            TimeCategory::Unexplained
        } else if waits_for_server && self.state == StreamState::Open {
            TimeCategory::ServerThink
        } else if waits_for_server {
            // No answer ever came: whether one was to come is not known.
            TimeCategory::Unexplained
        } else {
            TimeCategory::ClientIdle
        }
    }
}
