//! A socket whose packets have numbers, and what comes back for them.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use model::ReplyKind;
use rustix::io::Errno;
use sys::probe_socket::{ErrorQueueEvent, ProbeSocket, Received};
use wire::packet::icmp::error_kind;

use crate::Error;

/// Most packets that are taken at once: what comes meanwhile waits for the next time.
const AT_ONCE: usize = 4096;
/// Room for a packet.
const ROOM: usize = 65_536;

/// When something happened, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// By this process: when it had sent, or received.
    pub(crate) process: Instant,
    /// By the kernel, since 1970-01-01 UTC; where it tells.
    pub(crate) kernel: Option<Duration>,
}

impl Moment {
    fn now(kernel: Option<Duration>) -> Self {
        Moment { process: Instant::now(), kernel }
    }
}

/// What there is to say of packets.
#[derive(Debug)]
pub(crate) enum Said<'a> {
    /// When the one of this number left, since 1970-01-01 UTC.
    Left(u64, Duration),
    /// An error came back for one that was sent.
    Error {
        kind: ReplyKind,
        from: IpAddr,
        /// The front of what was sent.
        sent: &'a [u8],
        at: Moment,
    },
    /// A packet came, here from behind the header of IPv4 on.
    Packet { bytes: &'a [u8], received: &'a Received, at: Moment },
}

/// A socket that numbers what it sends.
pub(crate) struct NumberedSocket {
    socket: ProbeSocket,
    /// The number of the packet that the kernel counts as 0.
    first: Option<u64>,
    buffer: Vec<u8>,
}

impl NumberedSocket {
    pub(crate) fn new(socket: ProbeSocket) -> Self {
        NumberedSocket { socket, first: None, buffer: vec![0; ROOM] }
    }

    /// Sends a packet of a number that grows by one each time.
    ///
    /// # Errors
    ///
    /// That of the system; then the kernel counts anew, as nobody knows whether it counted this one.
    pub(crate) fn send(
        &mut self,
        number: u64,
        packet: &[u8],
        to: Option<IpAddr>,
    ) -> Result<(), Errno> {
        let sent = self.socket.send(packet, to);
        if sent.is_ok() {
            self.first.get_or_insert(number);
        } else {
            self.first = None;
            self.socket.restart_timestamp_ids();
        }
        sent
    }

    /// Takes all that has come.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub(crate) fn take(&mut self, tell: &mut dyn FnMut(Said<'_>)) -> Result<(), Error> {
        for _ in 0..AT_ONCE {
            match self.socket.read_error_queue(&mut self.buffer).map_err(failed)? {
                None => break,
                Some(ErrorQueueEvent::Sent { key, at }) => {
                    if let Some(first) = self.first {
                        tell(Said::Left(first.saturating_add(u64::from(key)), at));
                    }
                }
                Some(ErrorQueueEvent::Error(error)) => {
                    let (Some((kind, code)), Some(from)) = (error.icmp, error.offender) else {
                        continue;
                    };
                    if let Some(kind) = error_kind(self.socket.is_v6(), kind, code) {
                        let sent = self.buffer.get(..error.length).unwrap_or_default();
                        tell(Said::Error { kind, from, sent, at: Moment::now(error.at) });
                    }
                }
                Some(ErrorQueueEvent::Other) => {}
            }
        }
        for _ in 0..AT_ONCE {
            let received = self.socket.receive(&mut self.buffer).map_err(failed)?;
            let Some(received) = &received else { break };
            let at = Moment::now(received.at);
            let bytes = self.buffer.get(..received.length).unwrap_or_default();
            let header = match bytes.first().filter(|_| self.socket.has_header()) {
                Some(first) => usize::from(first & 15) * 4,
                None => 0,
            };
            if let Some(bytes) = bytes.get(header..) {
                tell(Said::Packet { bytes, received, at });
            }
        }
        Ok(())
    }
}

impl std::ops::Deref for NumberedSocket {
    type Target = ProbeSocket;

    fn deref(&self) -> &ProbeSocket {
        &self.socket
    }
}

impl AsFd for NumberedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An error of the machine as one of a probe.
pub(crate) fn failed(error: sys::Error) -> Error {
    Error::Failed(error.to_string())
}

/// Why a packet could not be sent, in words.
pub(crate) fn unsent(errno: Errno, target: IpAddr) -> String {
    let why = match errno {
        Errno::NETUNREACH => "this host has no route there (see: ip route get)",
        Errno::HOSTUNREACH => "no route to host (see: ip route get, ip neigh)",
        Errno::MSGSIZE => "larger than the interface takes (see: ip link)",
        Errno::PERM => "a firewall of this host forbids it (see: nft list ruleset)",
        Errno::ACCESS => "this is a broadcast address, or a route forbids it",
        Errno::AGAIN | Errno::NOBUFS => "the interface takes no more packets now",
        Errno::ADDRNOTAVAIL => "this host has no address for it (see: ip addr)",
        Errno::INVAL => "this address cannot be sent to from there",
        errno => {
            let error = std::io::Error::from(errno);
            return format!("cannot send to {target}: {}", crate::target::plain(&error));
        }
    };
    format!("cannot send to {target}: {why}")
}
