//! Exchanges: one end sends a request, the other its response. They are found in any protocol: an
//! exchange ends when the requester sends new data after the response has begun.
//!
//! An exchange has four moments: the first and the last byte of the request, the first and the last
//! byte of the response. Between them the kernel acknowledges the request: the time from there to
//! the response is the application's.

use model::Side;

use crate::time::{Nanos, OptionalTime};

/// One exchange of a stream, as it passed the capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Number in the stream, from 0.
    pub number: u32,
    /// The end that sent the request.
    pub requester: Side,
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

    /// From the first byte of the request to the last of the response.
    pub fn total(&self) -> Option<Nanos> {
        Some(self.response_ended.get()?.saturating_sub(self.request_began))
    }
}

/// The exchanges of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchanges {
    current: Option<Exchange>,
    count: u32,
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
    fn a_server_that_sends_first_is_the_requester() {
        let mut exchanges = Exchanges::default();
        data(&mut exchanges, Server, 20, 5);
        data(&mut exchanges, Client, 20, 9);
        let exchange = data(&mut exchanges, Server, 20, 12).expect("a banner and its response");
        assert_eq!((exchange.requester, exchange.response_wait()), (Server, Some(4)));
    }
}
