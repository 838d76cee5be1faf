//! Errors of probes: what was tried, on what, what happened, what to do.

use std::net::IpAddr;

use rustix::io::Errno;

/// Why a probe could not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The options cannot be used: a malformed name, values that contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The probe was tried and failed.
    #[error("{0}")]
    Failed(String),
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Error::Failed(error.to_string())
    }
}

impl Error {
    /// A packet to this target could not be sent.
    pub(crate) fn send(errno: Errno, target: IpAddr) -> Self {
        Error::Failed(send_error_text(errno, target))
    }
}

/// Why a packet could not be sent, and where to look.
pub(crate) fn send_error_text(errno: Errno, target: IpAddr) -> String {
    let why = match errno {
        Errno::NETUNREACH => "this host has no route to it (see: ip route get)",
        Errno::HOSTUNREACH => "no route to host (see: ip route get, ip neigh)",
        Errno::MSGSIZE => "larger than the interface's MTU (see: ip link)",
        Errno::PERM => "a firewall of this host drops it (see: nft list ruleset)",
        Errno::ACCESS => "it is a broadcast address, or a route prohibits it",
        Errno::AGAIN | Errno::NOBUFS => "the interface's queue is full",
        Errno::ADDRNOTAVAIL => "this host has no suitable source address (see: ip addr)",
        Errno::INVAL => "it cannot be reached from the source address",
        errno => {
            let error = std::io::Error::from(errno);
            return format!("cannot send to {target}: {}", os_error_text(&error));
        }
    };
    format!("cannot send to {target}: {why}")
}

/// The system's message for an error, without what Rust adds to it.
pub fn os_error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    match text.rsplit_once(" (os error ") {
        Some((before, _)) => before.to_string(),
        None => text.to_string(),
    }
}
