//! Netlink of this machine: one socket for each protocol, kept between requests.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::error::{Error, ErrorKind, Result};
use crate::machine::{Netlink, NetlinkProtocol};

/// Longest wait for one datagram of an answer.
const ANSWER_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Receive buffer of a netlink socket: room for many datagrams while the last one is parsed.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Room for one datagram: the kernel makes dumps in pieces of at most 32 KiB (`netlink_recvmsg`), or
/// of the size that the reader offered before.
const DATAGRAM_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct RealNetlink {
    sockets: Mutex<HashMap<NetlinkProtocol, NetlinkSocket>>,
}

struct NetlinkSocket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl RealNetlink {
    fn sockets(&self) -> MutexGuard<'_, HashMap<NetlinkProtocol, NetlinkSocket>> {
        // A thread that panicked left nothing half done that the next request would not notice.
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Netlink for RealNetlink {
    fn request(
        &self,
        protocol: NetlinkProtocol,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        // Removed while it is in use: a request that fails half-way leaves answers in its socket,
        // which is then not used again.
        let kept = self.sockets().remove(&protocol);
        let mut socket = match kept {
            Some(socket) => socket,
            None => NetlinkSocket::open(protocol)?,
        };
        if socket.ask(protocol, request, datagram)? {
            self.sockets().insert(protocol, socket);
        }
        Ok(())
    }
}

fn failed(protocol: NetlinkProtocol, errno: Errno) -> Error {
    Error::from_errno("read", protocol.name(), errno)
}

impl NetlinkSocket {
    fn open(protocol: NetlinkProtocol) -> Result<Self> {
        let failed = |errno| failed(protocol, errno);
        let number = match protocol {
            NetlinkProtocol::SockDiag => netlink::SOCK_DIAG,
            NetlinkProtocol::Netfilter => netlink::NETFILTER,
        };
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(number),
        )
        .map_err(failed)?;
        // Without CAP_NET_ADMIN the kernel cuts it to rmem_max, which has to do.
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
        }
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(failed)?;
        Ok(NetlinkSocket { socket, sequence: 0, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Sends a request and passes on the answer; whether the socket is empty afterwards.
    fn ask(
        &mut self,
        protocol: NetlinkProtocol,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        let failed = |errno| failed(protocol, errno);
        let broken = |reason: String, kind| Error::new("read", protocol.name(), reason, kind);
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = request.to_vec();
        // nlmsghdr: length u32, type u16, flags u16, sequence u32, port u32.
        if let Some(sequence) = request.get_mut(8..12) {
            sequence.copy_from_slice(&self.sequence.to_ne_bytes());
        }
        rustix::net::send(&self.socket, &request, SendFlags::empty()).map_err(failed)?;
        loop {
            let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            match poll(&mut ready, Some(&ANSWER_TIMEOUT)) {
                Ok(0) => {
                    return Err(broken("no answer within 5 seconds".into(), ErrorKind::TimedOut));
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed(errno)),
            }
            let received = rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::TRUNC);
            let (length, whole) = match received {
                Ok(lengths) => lengths,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let bytes = match self.buffer.get(..length) {
                Some(bytes) if whole <= length => bytes,
                // Cannot happen with dumps, whose size follows the buffer that is offered.
                _ => {
                    let reason = format!("a message of {whole} bytes did not fit {length}");
                    return Err(broken(reason, ErrorKind::Other));
                }
            };
            if bytes.get(8..12).is_some_and(|sequence| sequence != self.sequence.to_ne_bytes()) {
                continue; // the rest of an answer that was given up
            }
            if datagram(bytes).is_break() {
                return Ok(ends_answer(bytes));
            }
        }
    }
}

/// Whether a datagram ends an answer: its last message is NLMSG_DONE or NLMSG_ERROR. Only then is the
/// socket empty.
fn ends_answer(datagram: &[u8]) -> bool {
    wire::netlink::messages(datagram).flatten().any(|message| message.is_end())
}
