//! How a target is asked: what all ways have in common.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::ReplyKind;

use crate::Error;
use crate::numbered::Moment;

/// Which packet an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// The one whose number has these low bits.
    Low(u16),
    /// The answer does not say: the oldest that waits.
    Oldest,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    pub(crate) number: Number,
    pub(crate) kind: ReplyKind,
    pub(crate) from: IpAddr,
    /// Time to live that it arrived with.
    pub(crate) hops: Option<u8>,
    /// Bytes of the message: ICMP from its header on, the payload of UDP.
    pub(crate) bytes: Option<u32>,
    pub(crate) at: Moment,
}

/// What a way has to say.
#[derive(Debug, Clone, Copy)]
pub(crate) enum News {
    /// An answer came.
    Came(Came),
    /// The kernel says when a packet left.
    Left(u64, Duration),
}

/// A way to ask a target.
pub(crate) trait Way {
    /// Sends the packet of this number, which grows by one each time.
    ///
    /// # Errors
    ///
    /// Why it could not be sent, in words.
    fn send(&mut self, number: u64) -> Result<(), String>;

    /// Takes all that has come.
    ///
    /// # Errors
    ///
    /// A socket is of no use any more.
    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error>;

    /// The sockets to wait for; `true`: until they can be written to as well.
    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>);

    /// Nothing is waited for that was sent before this number.
    fn forget(&mut self, _before: u64) {}
}
