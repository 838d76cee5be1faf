//! The application protocol of a stream.

use model::Side;
use wire::packet::tcp::Tcp;

use super::state::Stream;
use crate::application_protocol::{ApplicationProtocol, Payload, TlsPart};
use crate::time::{Nanos, OptionalTime};

impl Stream {
    /// Takes a segment of which all `new` bytes are new, if its application protocol may be known.
    #[inline(always)]
    pub(super) fn take_protocol(&mut self, side: Side, tcp: &Tcp<'_>, at: Nanos, new: u64) {
        let begins_request = self.exchanges.just_began(side, new);
        let first = tcp.payload.first().copied().unwrap_or(0);
        if self.is_in_tls_handshake || ApplicationProtocol::may_begin(first, begins_request) {
            self.parse_protocol(side, (tcp.payload, tcp.length), at, begins_request);
        }
    }

    fn parse_protocol(
        &mut self,
        sender: Side,
        (bytes, length): (&[u8], u32),
        at: Nanos,
        begins_request: bool,
    ) {
        let exchange = self.exchanges.count().wrapping_sub(1) as u32;
        if !self.is_in_tls_handshake
            && let Some(protocol) = &mut self.protocol
            && protocol.repeats(bytes, exchange, begins_request)
        {
            return;
        }
        self.parse_payload(&Payload { sender, bytes, length, at, exchange, begins_request });
    }

    /// Parses a payload that may begin a request or a response, or is of TLS.
    pub(super) fn parse_payload(&mut self, payload: &Payload<'_>) {
        if let Some(protocol) = &mut self.protocol {
            protocol.take(payload);
        } else {
            let mut protocol = ApplicationProtocol::default();
            if protocol.take(payload) {
                self.protocol = Some(Box::new(protocol));
            }
        }
        self.follow_tls(payload);
    }

    /// What opens TLS is no request, and what goes before the first response is none.
    fn follow_tls(&mut self, payload: &Payload<'_>) {
        let Some(protocol) = &self.protocol else { return };
        let was_in_handshake = self.is_in_tls_handshake;
        self.is_in_tls_handshake = protocol.is_in_handshake();
        let is_of_handshake = was_in_handshake || self.is_in_tls_handshake;
        let Some(tls) = protocol.tls().filter(|_| is_of_handshake) else { return };
        match tls.latest() {
            TlsPart::Handshake => {
                let is_last = tls.completed.is_known();
                self.exchanges.opens_tls(
                    payload.sender,
                    payload.length.into(),
                    is_last,
                    payload.at,
                );
            }
            TlsPart::Tickets => {
                if let Some(requester) = self.exchanges.retract_response() {
                    self.last_sender = Some(requester);
                }
            }
            TlsPart::Data => {}
        }
    }

    /// An exchange ended in which the server took so many microseconds to answer, until then.
    #[inline]
    pub(super) fn end_exchange_of_protocol(
        &mut self,
        exchange: u32,
        think_us: u32,
        answered_at: OptionalTime,
    ) {
        if let Some(protocol) = &mut self.protocol {
            protocol.end_exchange(exchange, Nanos::from(think_us) * 1_000, answered_at);
        }
    }
}
