//! TCP connections, opened and immediately reset: the substitute for SYNs without CAP_NET_RAW.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use model::ReplyKind;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::settings::Settings;
use crate::socket::Timestamp;
use crate::{Error, route};

/// Most outstanding connections.
const MAX_CONNECTIONS: usize = 256;

/// TCP connections to one target.
pub(super) struct ConnectMethod {
    to: SocketAddr,
    settings: Settings,
    connecting: VecDeque<(u64, Socket)>,
    /// Those that connect(2) completed at once.
    completed: Vec<(u64, Result<(), Errno>, Instant)>,
}

impl ConnectMethod {
    pub(super) fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        // Fails at once without a route.
        route::source_address(to, &settings.socket(to.ip()))?;
        let settings = settings.clone();
        Ok(ConnectMethod { to, settings, connecting: VecDeque::new(), completed: Vec::new() })
    }

    fn socket(&self) -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // close(2) then sends a reset, which leaves no TIME_WAIT and frees the port.
        socket.set_linger(Some(Duration::ZERO))?;
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
        if let Some(ttl) = self.settings.ttl {
            if self.to.is_ipv6() {
                socket.set_unicast_hops_v6(u32::from(ttl))?;
            } else {
                socket.set_ttl_v4(u32::from(ttl))?;
            }
        }
        Ok(socket)
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl ProbeMethod for ConnectMethod {
    fn send(&mut self, number: u64) -> Result<(), NotSent> {
        let failed = |error: std::io::Error| NotSent::new(errno(&error), self.to.ip());
        let socket = self.socket().map_err(failed)?;
        match socket.connect(&SockAddr::from(self.to)) {
            Ok(()) => self.completed.push((number, Ok(()), Instant::now())),
            Err(error) => match errno(&error) {
                Errno::INPROGRESS => self.connecting.push_back((number, socket)),
                Errno::CONNREFUSED => {
                    self.completed.push((number, Err(Errno::CONNREFUSED), Instant::now()));
                }
                _ => return Err(failed(error)),
            },
        }
        while self.connecting.len() > MAX_CONNECTIONS {
            self.connecting.pop_front();
        }
        Ok(())
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        let mut completed = std::mem::take(&mut self.completed);
        self.connecting.retain(|(number, socket)| {
            let result = match socket.take_error() {
                Ok(Some(error)) => Err(errno(&error)),
                _ if socket.peer_addr().is_ok() => Ok(()),
                _ => return true,
            };
            completed.push((*number, result, Instant::now()));
            false
        });
        for (number, result, at) in completed {
            let kind = match result {
                Ok(()) => ReplyKind::SynAck,
                Err(Errno::CONNREFUSED) => ReplyKind::Reset,
                Err(Errno::HOSTUNREACH) => ReplyKind::HostUnreachable,
                Err(Errno::NETUNREACH) => ReplyKind::NetUnreachable,
                Err(Errno::ACCESS) => ReplyKind::Prohibited,
                // The kernel gave up retransmitting its SYN: no reply.
                Err(Errno::TIMEDOUT) => continue,
                Err(_) => ReplyKind::OtherError,
            };
            report(MethodEvent::Reply(Reply {
                to: ReplyTo::Sequence(number as u16),
                kind,
                // connect(2) does not report which router sent an error.
                from: self.to.ip(),
                ttl: None,
                bytes: None,
                mtu: None,
                at: Timestamp { process: at, kernel: None },
            }));
        }
        Ok(())
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.extend(self.connecting.iter().map(|(_, socket)| (socket.as_fd(), true)));
    }

    fn forget_before(&mut self, number: u64) {
        self.connecting.retain(|(known, _)| *known >= number);
    }
}
