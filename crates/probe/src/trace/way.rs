//! How a packet with few hops to live is sent, and what comes back for it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{MplsLabel, ReplyKind};

use crate::Error;
use crate::numbered::Moment;

/// Which packet an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one whose number has these low bits.
    Low(u16),
    /// One that reached the target; the answer does not say which.
    AtTarget,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) which: Which,
    pub(super) kind: ReplyKind,
    pub(super) from: IpAddr,
    pub(super) at: Moment,
    /// MTU of the next link, if the packet was too large.
    pub(super) mtu: Option<u32>,
    /// Labels of the packet.
    pub(super) mpls: Vec<MplsLabel>,
    /// How the packet differed from what was sent, one sentence each.
    pub(super) changes: Vec<String>,
}

/// What a way has to say.
pub(super) enum News {
    /// An answer came.
    Came(Answer),
    /// The kernel says when a packet left.
    Left(u64, Duration),
}

/// A way to send.
pub(super) trait Way {
    /// Sends a packet of a number that grows by one each time, with so many hops to live and so many
    /// bytes with its IP header.
    ///
    /// # Errors
    ///
    /// Why it could not be sent.
    fn send(&mut self, number: u64, hops: u8, length: usize) -> Result<(), Unsent>;

    /// Takes all that has come.
    ///
    /// # Errors
    ///
    /// A socket is of no use any more.
    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error>;

    /// The sockets to wait for.
    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>);

    /// Nothing is waited for that was sent before this number.
    fn forget(&mut self, _before: u64) {}

    /// Whether all packets are of one flow.
    fn is_one_flow(&self) -> bool;

    /// Bytes of a packet with its IP header, where nothing else is asked.
    fn usual(&self) -> usize;

    /// The MTU of the path as the kernel knows it, bytes.
    fn known_mtu(&self) -> Option<u32>;
}

/// Why a packet was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The interface takes only smaller ones.
    TooLarge,
    /// Anything else, in words.
    Other(String),
}

/// Where all packets go, and where they come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) source: IpAddr,
    pub(super) to: SocketAddr,
}
