//! Asking without any rights: UDP datagrams, and TCP connections.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use model::ReplyKind;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::build;

use super::way::{Came, News, Number, Way};
use super::{Asked, Settings};
use crate::Error;
use crate::numbered::{Moment, NumberedSocket, Said, failed, unsent};

/// Most connections that are waited for at once.
const CONNECTIONS: usize = 256;

/// UDP datagrams. An answer, or an error that nothing listens on the port, is a round trip.
pub(super) struct UdpWay {
    socket: NumberedSocket,
    to: SocketAddr,
    size: usize,
    payload: Vec<u8>,
}

impl UdpWay {
    pub(super) fn open(asked: &Asked, settings: &Settings) -> Result<Self, Error> {
        let to = asked.to;
        let socket =
            ProbeSocket::open(SocketKind::Udp, &settings.socket(to.ip())).map_err(failed)?;
        if let Some(hops) = settings.hops {
            socket.set_ttl(hops).map_err(failed)?;
        }
        socket.connect(to).map_err(|errno| Error::Failed(unsent(errno, to.ip())))?;
        let socket = NumberedSocket::new(socket);
        Ok(UdpWay { socket, to, size: asked.size, payload: Vec::new() })
    }
}

impl Way for UdpWay {
    fn send(&mut self, number: u64) -> Result<(), String> {
        build::probe_payload(&mut self.payload, number as u16, self.size);
        self.socket.clear_pending_error();
        let sent = self.socket.send(number, &self.payload, None);
        sent.map_err(|errno| unsent(errno, self.to.ip()))
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        // Which datagram a payload is of, if it is one of these, whole enough.
        let number =
            |payload: &[u8]| build::probe_number(payload).map_or(Number::Oldest, Number::Low);
        self.socket.take(&mut |said| {
            tell(match said {
                Said::Left(number, at) => News::Left(number, at),
                Said::Error { kind, from, sent, at } => {
                    let number = number(sent);
                    News::Came(Came { number, kind, from, hops: None, bytes: None, at })
                }
                Said::Packet { bytes, received, at } => News::Came(Came {
                    number: number(bytes),
                    kind: ReplyKind::Datagram,
                    from: received.from,
                    hops: received.ttl,
                    bytes: u32::try_from(bytes.len()).ok(),
                    at,
                }),
            });
        })
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.socket.as_fd(), false));
    }
}

/// TCP connections that are opened and at once ended by a reset.
pub(super) struct ConnectWay {
    to: SocketAddr,
    settings: Settings,
    open: VecDeque<(u64, Socket)>,
    /// Those that were over before they were waited for.
    done: Vec<(u64, Result<(), Errno>, Instant)>,
}

impl ConnectWay {
    pub(super) fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        super::raw::source(to, settings)?;
        let settings = settings.clone();
        Ok(ConnectWay { to, settings, open: VecDeque::new(), done: Vec::new() })
    }

    fn socket(&self) -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // Ended by a reset: no port is kept for a connection that carried nothing.
        socket.set_linger(Some(std::time::Duration::ZERO))?;
        if let Some(interface) = &self.settings.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(source) = self.settings.source {
            socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
        }
        if let Some(tos) = self.settings.tos {
            if self.to.is_ipv6() {
                socket.set_tclass_v6(u32::from(tos))?;
            } else {
                socket.set_tos_v4(u32::from(tos))?;
            }
        }
        if let Some(hops) = self.settings.hops {
            if self.to.is_ipv6() {
                socket.set_unicast_hops_v6(u32::from(hops))?;
            } else {
                socket.set_ttl_v4(u32::from(hops))?;
            }
        }
        Ok(socket)
    }
}

impl Way for ConnectWay {
    fn send(&mut self, number: u64) -> Result<(), String> {
        let target = self.to.ip();
        let plainly = |error: std::io::Error| {
            unsent(Errno::from_io_error(&error).unwrap_or(Errno::IO), target)
        };
        let socket = self.socket().map_err(plainly)?;
        match socket.connect(&SockAddr::from(self.to)) {
            Ok(()) => self.done.push((number, Ok(()), Instant::now())),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INPROGRESS) => self.open.push_back((number, socket)),
                Some(Errno::CONNREFUSED) => {
                    self.done.push((number, Err(Errno::CONNREFUSED), Instant::now()));
                }
                _ => return Err(plainly(error)),
            },
        }
        while self.open.len() > CONNECTIONS {
            self.open.pop_front();
        }
        Ok(())
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        let mut over = std::mem::take(&mut self.done);
        self.open.retain(|(number, socket)| {
            let result = match socket.take_error() {
                Ok(Some(error)) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                _ if socket.peer_addr().is_ok() => Ok(()),
                _ => return true,
            };
            over.push((*number, result, Instant::now()));
            false
        });
        for (number, result, at) in over {
            let kind = match result {
                Ok(()) => ReplyKind::SynAck,
                Err(Errno::CONNREFUSED) => ReplyKind::Reset,
                Err(Errno::HOSTUNREACH) => ReplyKind::HostUnreachable,
                Err(Errno::NETUNREACH) => ReplyKind::NetUnreachable,
                Err(Errno::ACCESS) => ReplyKind::Prohibited,
                // The kernel gave up: silence.
                Err(Errno::TIMEDOUT) => continue,
                Err(_) => ReplyKind::OtherError,
            };
            tell(News::Came(Came {
                number: Number::Low(number as u16),
                kind,
                // Who sent an error is not told without rights.
                from: self.to.ip(),
                hops: None,
                bytes: None,
                at: Moment { process: at, kernel: None },
            }));
        }
        Ok(())
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.extend(self.open.iter().map(|(_, socket)| (socket.as_fd(), true)));
    }

    fn forget(&mut self, before: u64) {
        self.open.retain(|(number, _)| *number >= before);
    }
}

/// Whether an answer is one of the target itself, and not of a router that reports its silence.
pub(super) fn is_by_target(came: &Came, target: IpAddr) -> bool {
    match came.kind {
        ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset | ReplyKind::Datagram => true,
        ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable | ReplyKind::Prohibited => {
            came.from == target
        }
        _ => false,
    }
}
