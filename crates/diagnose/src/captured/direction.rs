//! One direction of one captured stream.

use std::net::SocketAddr;

use model::{CapturedDirection, CapturedStream};

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

    /// Whether both ends are one host: there is no link between them.
    pub(crate) fn is_within_one_host(&self) -> bool {
        let (sender, receiver) = (self.sender().ip(), self.receiver().ip());
        sender == receiver || (sender.is_loopback() && receiver.is_loopback())
    }
}
