//! What is reported while pings run.

use std::net::IpAddr;
use std::time::Duration;

use model::ReplyKind;

/// Something that happened to a packet.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Index of the target.
    pub target: usize,
    /// Sequence number of the packet, from 1.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a packet.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A reply or an ICMP error was received.
    Reply {
        /// Kind of reply.
        kind: ReplyKind,
        /// Its sender.
        from: IpAddr,
        /// Time to live, or hop limit, of the received packet.
        ttl: Option<u8>,
        /// Bytes of the message.
        bytes: Option<u32>,
        /// MTU of the next link, bytes, if the packet was too large for it.
        mtu: Option<u32>,
        /// Round-trip time; `None` for a router's ICMP error and for duplicates.
        round_trip: Option<Duration>,
        /// Whether it came after the timeout.
        late: bool,
        /// Whether this packet already had a reply.
        duplicate: bool,
    },
    /// The timeout passed without a reply.
    Timeout,
    /// It could not be sent, and why.
    SendError(String),
}
