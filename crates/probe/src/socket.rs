//! A socket that numbers its packets, so that the kernel's time stamps can be assigned to them.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use model::ReplyKind;
use rustix::io::Errno;
use sys::probe_socket::{ErrorQueueEvent, ProbeSocket, Received};
use wire::packet::icmp::error_kind;

use crate::Error;

/// The kernel starts to time-stamp packets this long after the first socket of the system requests
/// it.
pub(crate) const TIMESTAMPING_STARTUP: Duration = Duration::from_millis(10);
/// Most packets that are read in one go, so that sending goes on meanwhile.
const MAX_PACKETS_PER_POLL: usize = 4096;
/// Largest packet.
pub(crate) const MAX_PACKET_BYTES: usize = 65_536;

/// When a packet was received, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp {
    /// When this process had read it.
    pub(crate) process: Instant,
    /// When the kernel received it, since 1970-01-01 UTC; `None`: without a kernel time stamp.
    pub(crate) kernel: Option<Duration>,
}

impl Timestamp {
    pub(crate) fn now(kernel: Option<Duration>) -> Self {
        Timestamp { process: Instant::now(), kernel }
    }
}

/// What a socket reports.
#[derive(Debug)]
pub(crate) enum SocketEvent<'a> {
    /// The kernel sent the packet of this number at this time since 1970-01-01 UTC.
    Sent(u64, Duration),
    /// An ICMP error came back for a packet.
    IcmpError {
        kind: ReplyKind,
        from: IpAddr,
        /// MTU of the next link, bytes, if the packet was too large.
        mtu: Option<u32>,
        /// The front of the packet's payload.
        payload: &'a [u8],
        at: Timestamp,
    },
    /// A packet was received; its bytes without an IPv4 header.
    Packet { bytes: &'a [u8], received: &'a Received, at: Timestamp },
}

/// A socket that numbers the packets it sends.
pub(crate) struct SequencedSocket {
    socket: ProbeSocket,
    /// The number of the packet that the kernel counts as 0.
    first: Option<u64>,
    buffer: Vec<u8>,
}

impl SequencedSocket {
    pub(crate) fn new(socket: ProbeSocket) -> Self {
        SequencedSocket { socket, first: None, buffer: vec![0; MAX_PACKET_BYTES] }
    }

    /// Sends a packet; numbers increase by one.
    ///
    /// # Errors
    ///
    /// That of the system. The kernel's counter then restarts at 0, since it is unknown whether it
    /// counted this packet.
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

    /// Reports all that is in the socket's queues.
    ///
    /// # Errors
    ///
    /// The socket cannot be used any more.
    pub(crate) fn poll(&mut self, report: &mut dyn FnMut(SocketEvent<'_>)) -> Result<(), Error> {
        for _ in 0..MAX_PACKETS_PER_POLL {
            match self.socket.read_error_queue(&mut self.buffer)? {
                None => break,
                Some(ErrorQueueEvent::Sent { key, at }) => {
                    if let Some(first) = self.first {
                        report(SocketEvent::Sent(first.saturating_add(u64::from(key)), at));
                    }
                }
                Some(ErrorQueueEvent::Error(error)) => {
                    let (Some((kind, code)), Some(from)) = (error.icmp, error.offender) else {
                        continue;
                    };
                    if let Some(kind) = error_kind(self.socket.is_v6(), kind, code) {
                        let payload = self.buffer.get(..error.length).unwrap_or_default();
                        let at = Timestamp::now(error.at);
                        let is_mtu = kind == ReplyKind::TooBig && error.info > 0;
                        let mtu = is_mtu.then_some(error.info);
                        report(SocketEvent::IcmpError { kind, from, mtu, payload, at });
                    }
                }
                Some(ErrorQueueEvent::Other) => {}
            }
        }
        for _ in 0..MAX_PACKETS_PER_POLL {
            let received = self.socket.receive(&mut self.buffer)?;
            let Some(received) = &received else { break };
            let at = Timestamp::now(received.at);
            let bytes = self.buffer.get(..received.length).unwrap_or_default();
            let header = match bytes.first().filter(|_| self.socket.has_header()) {
                // The low four bits count 32-bit words (RFC 791, section 3.1).
                Some(first) => usize::from(first & 15) * 4,
                None => 0,
            };
            if let Some(bytes) = bytes.get(header..) {
                report(SocketEvent::Packet { bytes, received, at });
            }
        }
        Ok(())
    }
}

impl std::ops::Deref for SequencedSocket {
    type Target = ProbeSocket;

    fn deref(&self) -> &ProbeSocket {
        &self.socket
    }
}

impl AsFd for SequencedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
