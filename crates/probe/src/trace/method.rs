//! How packets with a limited TTL are sent, and what is received for them.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{MplsLabel, ReplyKind};

use crate::Error;
use crate::socket::Timestamp;

/// Which packet a reply belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyTo {
    /// The one whose number has these low 16 bits.
    Number(u16),
    /// One that reached the target; the reply does not say which.
    AnyAtTarget,
}

/// A reply, or an ICMP error.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) to: ReplyTo,
    pub(super) kind: ReplyKind,
    pub(super) from: IpAddr,
    pub(super) at: Timestamp,
    /// MTU of the next link, if the packet was larger.
    pub(super) mtu: Option<u32>,
    /// MPLS labels of the packet.
    pub(super) mpls: Vec<MplsLabel>,
    /// Header fields that differ from what was sent, one sentence each.
    pub(super) changes: Vec<String>,
}

/// What a method reports.
pub(super) enum MethodEvent {
    /// A reply was received.
    Reply(Reply),
    /// The kernel sent the packet of this number at this time since 1970-01-01 UTC.
    Sent(u64, Duration),
}

/// A kind of probe packets, with its sockets.
pub(super) trait ProbeMethod {
    /// Sends the packet of this number with this TTL; numbers increase by one. `length`: bytes of the
    /// packet with its IP header.
    ///
    /// # Errors
    ///
    /// Why it was not sent.
    fn send(&mut self, number: u64, ttl: u8, length: usize) -> Result<(), NotSent>;

    /// Reports all that was received.
    ///
    /// # Errors
    ///
    /// A socket cannot be used any more.
    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error>;

    /// The sockets to wait for.
    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>);

    /// No packet before this number is outstanding any more.
    fn forget_before(&mut self, _number: u64) {}

    /// Whether all packets belong to one flow.
    fn is_one_flow(&self) -> bool;

    /// Bytes of a packet with its IP header, unless another size is wanted.
    fn default_length(&self) -> usize;

    /// The path MTU that the kernel knows, bytes.
    fn kernel_path_mtu(&self) -> Option<u32>;
}

/// Why a packet was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotSent {
    /// It is larger than the interface's MTU.
    TooLarge,
    /// Another error.
    Failed(String),
}
