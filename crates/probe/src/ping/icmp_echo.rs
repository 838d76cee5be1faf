//! ICMP echo requests: by raw sockets, or without rights where net.ipv4.ping_group_range allows it.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use model::ReplyKind;
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::build;
use wire::packet::icmp::Icmp;

use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::settings::{PingTarget, Settings};
use crate::socket::{SequencedSocket, SocketEvent};
use crate::{Error, random, route};

/// ICMP echo requests to one target.
pub(super) struct EchoMethod {
    socket: SequencedSocket,
    echoes: Echoes,
    payload_bytes: usize,
    packet: Vec<u8>,
    payload: Vec<u8>,
}

/// How this target's echoes are recognised.
struct Echoes {
    target: IpAddr,
    id: u16,
    /// Whether the socket is raw. On an echo socket the kernel chooses and checks the identifier.
    raw: bool,
}

impl EchoMethod {
    pub(super) fn open(target: &PingTarget, settings: &Settings) -> Result<Self, Error> {
        let address = target.to.ip();
        let socket_settings = settings.socket(address);
        // Fails at once without a route.
        route::source_address(target.to, &socket_settings)?;
        let (socket, raw) = match ProbeSocket::open(SocketKind::RawIcmp, &socket_settings) {
            Ok(socket) => (socket, true),
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => {
                let unprivileged = ProbeSocket::open(SocketKind::Echo, &socket_settings);
                (unprivileged.map_err(|_| not_permitted(error))?, false)
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(ttl) = settings.ttl {
            socket.set_ttl(ttl)?;
        }
        Ok(EchoMethod {
            socket: SequencedSocket::new(socket),
            echoes: Echoes { target: address, id: random::number() as u16, raw },
            payload_bytes: target.payload_bytes,
            packet: Vec::new(),
            payload: Vec::new(),
        })
    }
}

fn not_permitted(error: sys::Error) -> Error {
    Error::Failed(format!(
        "{error}; or permit echoes to users: sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"; \
         or use a method that needs no rights: --tcp, --udp"
    ))
}

impl Echoes {
    /// Sequence number and kind of a reply, and its MTU; `None`: it belongs to other echoes.
    fn reply(&self, message: &[u8]) -> Option<(u16, ReplyKind, Option<u32>)> {
        let v6 = self.target.is_ipv6();
        match Icmp::parse(v6, message)? {
            Icmp::Reply(echo) if echo.id == self.id || !self.raw => {
                Some((echo.sequence, ReplyKind::EchoReply, None))
            }
            Icmp::Error(error) => {
                let quoted = error.quoted.filter(|quoted| quoted.destination == self.target)?;
                if quoted.protocol != build::icmp_protocol(v6) {
                    return None;
                }
                let (id, sequence) = quoted.echo()?;
                // A NAT that changed the identifier restores it in the quoted packet.
                (id == self.id).then_some((sequence, error.kind, error.mtu))
            }
            Icmp::Request(_) | Icmp::Reply(_) | Icmp::Other(..) => None,
        }
    }
}

/// The sequence number in an echo request's header (RFC 792).
fn sequence_of(echo: &[u8]) -> Option<u16> {
    echo.get(6..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

impl ProbeMethod for EchoMethod {
    fn send(&mut self, number: u64) -> Result<(), NotSent> {
        let Echoes { target, id, .. } = self.echoes;
        self.payload.clear();
        self.payload.resize(self.payload_bytes, 0x2e);
        build::echo(&mut self.packet, target.is_ipv6(), id, number as u16, &self.payload);
        let sent = self.socket.send(number, &self.packet, Some(target));
        sent.map_err(|errno| NotSent::new(errno, target))
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        let echoes = &self.echoes;
        self.socket.poll(&mut |event| match event {
            SocketEvent::Sent(number, at) => report(MethodEvent::Sent(number, at)),
            // Echo sockets get ICMP errors this way, with the echo request that they are about.
            SocketEvent::IcmpError { kind, from, mtu, payload, at } if !echoes.raw => {
                if let Some(sequence) = sequence_of(payload) {
                    let to = ReplyTo::Sequence(sequence);
                    report(MethodEvent::Reply(Reply {
                        to,
                        kind,
                        from,
                        ttl: None,
                        bytes: None,
                        mtu,
                        at,
                    }));
                }
            }
            SocketEvent::IcmpError { .. } => {}
            SocketEvent::Packet { bytes, received, at } => {
                if let Some((sequence, kind, mtu)) = echoes.reply(bytes) {
                    report(MethodEvent::Reply(Reply {
                        to: ReplyTo::Sequence(sequence),
                        kind,
                        from: received.from,
                        ttl: received.ttl,
                        bytes: u32::try_from(bytes.len()).ok(),
                        mtu,
                        at,
                    }));
                }
            }
        })
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.socket.as_fd(), false));
    }
}
