//! UDP datagrams, without any rights. A reply, or the ICMP error that nothing listens on the port,
//! completes a round trip.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use model::ReplyKind;
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::build;

use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::settings::{PingTarget, Settings};
use crate::Error;
use crate::socket::{SequencedSocket, SocketEvent};

/// UDP datagrams to one target.
pub(super) struct UdpMethod {
    socket: SequencedSocket,
    to: SocketAddr,
    payload_bytes: usize,
    payload: Vec<u8>,
}

impl UdpMethod {
    pub(super) fn open(target: &PingTarget, settings: &Settings) -> Result<Self, Error> {
        let to = target.to;
        let socket = ProbeSocket::open(SocketKind::Udp, &settings.socket(to.ip()))?;
        if let Some(ttl) = settings.ttl {
            socket.set_ttl(ttl)?;
        }
        socket.connect(to).map_err(|errno| Error::send(errno, to.ip()))?;
        Ok(UdpMethod {
            socket: SequencedSocket::new(socket),
            to,
            payload_bytes: target.payload_bytes,
            payload: Vec::new(),
        })
    }
}

impl ProbeMethod for UdpMethod {
    fn send(&mut self, number: u64) -> Result<(), NotSent> {
        build::probe_payload(&mut self.payload, number as u16, self.payload_bytes);
        self.socket.clear_pending_error();
        let sent = self.socket.send(number, &self.payload, None);
        sent.map_err(|errno| NotSent::new(errno, self.to.ip()))
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        // A server may send something else than the payload back, or cut it off.
        let to = |payload: &[u8]| {
            build::probe_number(payload).map_or(ReplyTo::Oldest, ReplyTo::Sequence)
        };
        self.socket.poll(&mut |event| {
            report(match event {
                SocketEvent::Sent(number, at) => MethodEvent::Sent(number, at),
                SocketEvent::IcmpError { kind, from, mtu, payload, at } => {
                    let to = to(payload);
                    MethodEvent::Reply(Reply { to, kind, from, ttl: None, bytes: None, mtu, at })
                }
                SocketEvent::Packet { bytes, received, at } => MethodEvent::Reply(Reply {
                    to: to(bytes),
                    kind: ReplyKind::Datagram,
                    from: received.from,
                    ttl: received.ttl,
                    bytes: u32::try_from(bytes.len()).ok(),
                    mtu: None,
                    at,
                }),
            });
        })
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.socket.as_fd(), false));
    }
}
