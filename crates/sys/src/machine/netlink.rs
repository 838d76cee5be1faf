//! The door to netlink: requests for tables of the kernel.

use std::ops::ControlFlow;

use crate::error::Result;

/// Netlink of a machine.
pub trait Netlink: Send + Sync {
    /// Sends one request and passes on each datagram of the answer, until `datagram` breaks (at
    /// NLMSG_DONE or an error message, which `wire::netlink` recognises) or none comes for five
    /// seconds. A datagram may hold several messages.
    fn request(
        &self,
        protocol: NetlinkProtocol,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()>;
}

/// Netlink protocols that netwhy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetlinkProtocol {
    /// Sockets (NETLINK_SOCK_DIAG).
    SockDiag,
    /// Connection tracking (NETLINK_NETFILTER).
    Netfilter,
}

impl NetlinkProtocol {
    /// Its name in error messages: `cannot read …`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NetlinkProtocol::SockDiag => "sockets by netlink (NETLINK_SOCK_DIAG)",
            NetlinkProtocol::Netfilter => "connection tracking by netlink (NETLINK_NETFILTER)",
        }
    }
}
