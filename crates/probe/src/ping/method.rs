//! What all kinds of probe packets have in common.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::ReplyKind;
use rustix::io::Errno;

use crate::Error;
use crate::error::send_error_text;
use crate::socket::Timestamp;

/// Which packet a reply belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyTo {
    /// The one whose sequence number has these low 16 bits.
    Sequence(u16),
    /// The reply does not say: the oldest outstanding one.
    Oldest,
}

/// A reply, or an ICMP error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    pub(super) to: ReplyTo,
    pub(super) kind: ReplyKind,
    pub(super) from: IpAddr,
    /// Time to live, or hop limit, of the received packet.
    pub(super) ttl: Option<u8>,
    /// Bytes of the message: of ICMP with its header, of UDP the payload.
    pub(super) bytes: Option<u32>,
    /// MTU of the next link, bytes, if the packet was too large for it.
    pub(super) mtu: Option<u32>,
    pub(super) at: Timestamp,
}

impl Reply {
    /// Whether it comes from the target itself, not from a router that reports it unreachable.
    pub(super) fn is_from_target(&self, target: IpAddr) -> bool {
        match self.kind {
            ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset | ReplyKind::Datagram => {
                true
            }
            ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable | ReplyKind::Prohibited => {
                self.from == target
            }
            _ => false,
        }
    }
}

/// Why a packet could not be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotSent {
    pub(super) why: String,
    /// Whether it is larger than this host's interface or route allows.
    pub(super) too_large: bool,
}

impl NotSent {
    pub(super) fn new(errno: Errno, target: IpAddr) -> Self {
        NotSent { why: send_error_text(errno, target), too_large: errno == Errno::MSGSIZE }
    }
}

/// What a method reports.
#[derive(Debug, Clone, Copy)]
pub(super) enum MethodEvent {
    /// A reply was received.
    Reply(Reply),
    /// The kernel sent the packet of this number at this time since 1970-01-01 UTC.
    Sent(u64, Duration),
}

/// A kind of probe packets, with its sockets.
pub(super) trait ProbeMethod {
    /// Sends the packet of this number; numbers increase by one.
    ///
    /// # Errors
    ///
    /// Why it could not be sent.
    fn send(&mut self, number: u64) -> Result<(), NotSent>;

    /// Reports all that was received.
    ///
    /// # Errors
    ///
    /// A socket cannot be used any more.
    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error>;

    /// The sockets to wait for; `true`: also until they are writable.
    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>);

    /// No packet before this number is outstanding any more.
    fn forget_before(&mut self, _number: u64) {}
}
