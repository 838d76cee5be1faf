//! One direction of one captured stream.

use std::net::SocketAddr;

use model::{CapturedDirection, CapturedStream, TimeCategory};

/// Where an end is not idle, and has something to send.
const SENDING: [TimeCategory; 5] = [
    TimeCategory::Network,
    TimeCategory::Loss,
    TimeCategory::ReceiveWindow,
    TimeCategory::ReceiverStalled,
    TimeCategory::DelayedAck,
];

/// One direction of one stream.
#[derive(Clone, Copy)]
pub(crate) struct StreamDirection<'a> {
    pub(crate) stream: &'a CapturedStream,
    /// Whether the server sends.
    pub(crate) server_sends: bool,
}

impl<'a> StreamDirection<'a> {
    /// Both directions of a stream.
    pub(crate) fn both(stream: &'a CapturedStream) -> [Self; 2] {
        [false, true].map(|server_sends| StreamDirection { stream, server_sends })
    }

    /// What is sent in this direction.
    pub(crate) fn sent(&self) -> &'a CapturedDirection {
        if self.server_sends { &self.stream.from_server } else { &self.stream.from_client }
    }

    /// What is sent in the other.
    pub(crate) fn reverse(&self) -> &'a CapturedDirection {
        if self.server_sends { &self.stream.from_client } else { &self.stream.from_server }
    }

    /// The end that sends.
    pub(crate) fn sender(&self) -> SocketAddr {
        if self.server_sends { self.stream.server } else { self.stream.client }
    }

    /// The end that receives.
    pub(crate) fn receiver(&self) -> SocketAddr {
        if self.server_sends { self.stream.client } else { self.stream.server }
    }

    /// How long its end was not idle and had something to send, microseconds.
    pub(crate) fn sending_us(&self) -> u64 {
        SENDING
            .map(|category| self.sent().time_us(category))
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Whether it was captured so near its sender that acknowledgements came before what they released.
    pub(crate) fn is_near_sender(&self) -> bool {
        let stream = self.stream;
        let way = if self.server_sends { stream.to_server_us } else { stream.to_client_us };
        way.zip(stream.round_trip_us()).is_some_and(|(way, round_trip)| way <= round_trip / 4)
    }

    /// Whether both ends are one host: there is no link between them.
    pub(crate) fn is_within_one_host(&self) -> bool {
        let (sender, receiver) = (self.sender().ip(), self.receiver().ip());
        sender == receiver || (sender.is_loopback() && receiver.is_loopback())
    }
}
