//! Exchanges: one end sends a request, the other its response. They are found in any protocol: an
//! exchange ends when the requester sends new data after the response has begun.
//!
//! An exchange has four moments: the first and the last byte of the request, the first and the last
//! byte of the response. Between them the kernel acknowledges the request: the time from there to
//! the response is the application's.

use model::Side;

use crate::time::{Nanos, OptionalTime};

/// Most bytes of an alert that closes TLS (RFC 8446, 6.1): two of its records.
const MAX_CLOSE_NOTIFY_BYTES: u64 = 64;

/// One exchange of a stream, as it passed the capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Number in the stream, from 0.
    pub number: u32,
    /// The end that sent the request.
    pub requester: Side,
    /// Whether it only opens or closes TLS. Such exchanges are not counted.
    pub is_of_tls: bool,
    /// First byte of the request.
    pub request_began: Nanos,
    /// Last byte of the request before the response began.
    pub request_ended: Nanos,
    /// When the whole request was acknowledged, if that passed before the response began.
    pub request_acknowledged: OptionalTime,
    /// First byte of the response; unknown: none came.
    pub response_began: OptionalTime,
    /// Last new byte of the response.
    pub response_ended: OptionalTime,
    /// New bytes of the request.
    pub request_bytes: u64,
    /// New bytes of the response.
    pub response_bytes: u64,
}

impl Exchange {
    /// From the last byte of the request to the first of the response.
    pub fn response_wait(&self) -> Option<Nanos> {
        Some(self.response_began.get()?.saturating_sub(self.request_ended))
    }

    /// From the first byte of the request to the last of the response; `None` also for those of TLS.
    pub fn total(&self) -> Option<Nanos> {
        let ended = self.response_ended.get().filter(|_| !self.is_of_tls)?;
        Some(ended.saturating_sub(self.request_began))
    }
}

/// The exchanges of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchanges {
    current: Option<Exchange>,
    count: u32,
    /// When the response had ended before its latest data, if that is so little that it may only close TLS.
    ended_before: OptionalTime,
}

impl Exchanges {
    /// New data passed; the exchange that this ends is written to `ended`.
    #[inline(always)]
    pub(crate) fn data(
        &mut self,
        sender: Side,
        bytes: u64,
        at: Nanos,
        ended: &mut Option<Exchange>,
    ) {
        match &mut self.current {
            Some(exchange) if exchange.requester != sender => {
                exchange.response_began.get_or_set(at);
                let is_more = bytes > MAX_CLOSE_NOTIFY_BYTES;
                self.ended_before =
                    if is_more { OptionalTime::default() } else { exchange.response_ended };
                exchange.response_ended = at.into();
                exchange.response_bytes = exchange.response_bytes.saturating_add(bytes);
            }
            Some(exchange) if !exchange.response_began.is_known() => {
                exchange.request_ended = at;
                exchange.request_acknowledged = OptionalTime::default();
                exchange.request_bytes = exchange.request_bytes.saturating_add(bytes);
            }
            current => {
                *ended = *current;
                self.begin(sender, bytes, at);
            }
        }
    }

    fn begin(&mut self, requester: Side, request_bytes: u64, at: Nanos) {
        self.current = Some(Exchange {
            number: self.count,
            requester,
            is_of_tls: false,
            request_began: at,
            request_ended: at,
            request_acknowledged: OptionalTime::default(),
            response_began: OptionalTime::default(),
            response_ended: OptionalTime::default(),
            request_bytes,
            response_bytes: 0,
        });
        self.count = self.count.wrapping_add(1);
    }

    /// All data of one end has been acknowledged.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, side: Side, at: Nanos) {
        if let Some(exchange) = &mut self.current
            && exchange.requester == side
            && !exchange.response_began.is_known()
        {
            exchange.request_acknowledged.get_or_set(at);
        }
    }

    /// Whether the new data that has just passed began a request.
    #[inline(always)]
    pub(crate) fn just_began(&self, sender: Side, bytes: u64) -> bool {
        self.current.as_ref().is_some_and(|exchange| {
            exchange.requester == sender
                && exchange.request_bytes == bytes
                && exchange.response_bytes == 0
        })
    }

    /// The data of this end that has just passed, so much of it new, only opens TLS, and no data before it in
    /// the same request is more. `is_last`: what comes next does not.
    pub(crate) fn opens_tls(&mut self, sender: Side, bytes: u64, is_last: bool, at: Nanos) {
        if self.just_began(sender, bytes) {
            self.leave_out();
        }
        if let Some(exchange) =
            self.current.as_mut().filter(|exchange| exchange.is_of_tls && is_last)
        {
            // The next data of its requester is another one.
            exchange.response_began.get_or_set(at);
        }
    }

    /// An end closes TLS: what it sent last was no request, or belongs to no response. Returns how long
    /// after the end of that response it was sent.
    pub(crate) fn closes_tls(&mut self, side: Side) -> Option<Nanos> {
        let exchange = self.current.as_mut()?;
        if exchange.requester != side {
            let before = self.ended_before.take()?;
            let closed_at = std::mem::replace(&mut exchange.response_ended, before.into()).get()?;
            return Some(closed_at.saturating_sub(before));
        }
        let is_answered = exchange.response_began.is_known();
        if !is_answered && exchange.request_bytes <= MAX_CLOSE_NOTIFY_BYTES {
            self.leave_out();
        }
        None
    }

    /// The current exchange does not count.
    fn leave_out(&mut self) {
        if let Some(exchange) = self.current.as_mut().filter(|exchange| !exchange.is_of_tls) {
            exchange.is_of_tls = true;
            self.count = self.count.wrapping_sub(1);
        }
    }

    /// What passed as the response to the current request was none: that is still to come. Returns who waits
    /// for it.
    pub(crate) fn retract_response(&mut self) -> Option<Side> {
        let exchange = self.current.as_mut().filter(|exchange| !exchange.is_of_tls)?;
        exchange.response_began = OptionalTime::default();
        exchange.response_ended = OptionalTime::default();
        exchange.response_bytes = 0;
        Some(exchange.requester)
    }

    /// The exchange of the latest message, whose number is the last. Its response is one message, or none yet.
    pub(crate) fn end_messages(&mut self, exchange: Exchange) {
        self.count = exchange.number.wrapping_add(1);
        self.ended_before = OptionalTime::default();
        self.current = Some(exchange);
    }

    /// When the whole request of this end was acknowledged, if nothing has been answered.
    #[inline(always)]
    pub(crate) fn unanswered_since(&self, side: Side) -> Option<Nanos> {
        let exchange = self.current.as_ref().filter(|exchange| exchange.requester == side)?;
        exchange.request_acknowledged.get().filter(|_| !exchange.response_began.is_known())
    }

    /// The requester of the current exchange.
    pub(crate) fn requester(&self) -> Option<Side> {
        self.current.as_ref().map(|exchange| exchange.requester)
    }

    /// Number of exchanges.
    pub(crate) fn count(&self) -> u64 {
        self.count.into()
    }

    /// The current exchange.
    pub(crate) fn current(&self) -> Option<Exchange> {
        self.current
    }

    /// The client turns out to be the server.
    pub(crate) fn swap_roles(&mut self) {
        if let Some(exchange) = &mut self.current {
            exchange.requester = exchange.requester.other();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Client, Server};

    /// New data passes; returns the exchange that this ends.
    fn data(exchanges: &mut Exchanges, sender: Side, bytes: u64, at: Nanos) -> Option<Exchange> {
        let mut ended = None;
        exchanges.data(sender, bytes, at, &mut ended);
        ended
    }

    #[test]
    fn an_exchange_ends_when_the_next_one_begins() {
        let mut exchanges = Exchanges::default();
        assert_eq!(data(&mut exchanges, Client, 100, 10), None);
        assert_eq!(data(&mut exchanges, Client, 50, 12), None);
        exchanges.acknowledged(Client, 20);
        exchanges.acknowledged(Client, 30);
        assert_eq!(data(&mut exchanges, Server, 1000, 60), None);
        assert_eq!(data(&mut exchanges, Server, 1000, 70), None);
        let first = data(&mut exchanges, Client, 100, 90).expect("the first exchange");
        assert_eq!((first.request_began, first.request_ended), (10, 12));
        assert_eq!(first.request_acknowledged.get(), Some(20));
        assert_eq!((first.response_wait(), first.total()), (Some(48), Some(60)));
        assert_eq!((first.request_bytes, first.response_bytes), (150, 2000));
        let second = exchanges.current().expect("the second");
        assert_eq!((second.number, second.response_began.get()), (1, None));
        assert_eq!(second.response_wait(), None);
    }

    #[test]
    fn an_acknowledgement_of_a_part_of_the_request_does_not_count() {
        let mut exchanges = Exchanges::default();
        data(&mut exchanges, Client, 100, 10);
        exchanges.acknowledged(Client, 11);
        data(&mut exchanges, Client, 100, 12);
        data(&mut exchanges, Server, 5, 20);
        let exchange = exchanges.current().expect("an exchange");
        assert_eq!(exchange.request_acknowledged.get(), None);
    }

    #[test]
    fn exchanges_that_open_or_close_tls_do_not_count() {
        let mut exchanges = Exchanges::default();
        data(&mut exchanges, Client, 500, 0);
        exchanges.opens_tls(Client, 500, false, 0);
        data(&mut exchanges, Server, 4000, 10);
        exchanges.opens_tls(Server, 4000, false, 10);
        let hello = data(&mut exchanges, Client, 80, 20).expect("the first two flights");
        exchanges.opens_tls(Client, 80, true, 20);
        assert_eq!((hello.is_of_tls, hello.total(), exchanges.count()), (true, None, 0));
        // The request follows at once, the server's tickets come before its response.
        let finished = data(&mut exchanges, Client, 100, 21).expect("the end of the handshake");
        assert!(finished.is_of_tls);
        data(&mut exchanges, Server, 500, 30);
        assert_eq!(exchanges.retract_response(), Some(Client));
        data(&mut exchanges, Server, 900, 1030);
        let first = data(&mut exchanges, Client, 24, 1040).expect("an exchange");
        assert_eq!((first.number, first.response_wait()), (0, Some(1009)));
        assert_eq!((first.total(), first.response_bytes), (Some(1009), 900));
        // The last bytes are no request.
        assert_eq!((exchanges.closes_tls(Server), exchanges.count()), (None, 2));
        exchanges.closes_tls(Client);
        exchanges.closes_tls(Client);
        assert_eq!(exchanges.count(), 1);
    }

    #[test]
    fn a_response_ends_before_the_server_closes_tls() {
        let mut exchanges = Exchanges::default();
        data(&mut exchanges, Client, 100, 10);
        data(&mut exchanges, Server, 900, 20);
        data(&mut exchanges, Server, 31, 60_020);
        assert_eq!(exchanges.closes_tls(Server), Some(60_000));
        assert_eq!(exchanges.closes_tls(Server), None);
        assert_eq!(exchanges.current().and_then(|exchange| exchange.total()), Some(10));
        // More than that is of the response.
        data(&mut exchanges, Server, 900, 60_030);
        assert_eq!(exchanges.closes_tls(Server), None);
    }

    #[test]
    fn a_server_that_sends_first_is_the_requester() {
        let mut exchanges = Exchanges::default();
        data(&mut exchanges, Server, 20, 5);
        data(&mut exchanges, Client, 20, 9);
        let exchange = data(&mut exchanges, Server, 20, 12).expect("a banner and its response");
        assert_eq!((exchange.requester, exchange.response_wait()), (Server, Some(4)));
    }
}
