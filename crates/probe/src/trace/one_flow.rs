//! Packets of one flow by raw sockets.

use std::os::fd::{AsFd as _, BorrowedFd};

use model::TraceMethod;
use rustix::io::Errno;
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::build;

use super::flow::{FLOW_BYTES, Flow};
use super::method::{MethodEvent, NotSent, ProbeMethod};
use super::settings::{DEFAULT_PACKET_BYTES, Settings};
use crate::error::send_error_text;
use crate::socket::{SequencedSocket, SocketEvent};
use crate::{Error, random, route};

/// Raw sockets of one flow.
pub(super) struct OneFlow {
    flow: Flow,
    dont_fragment: bool,
    socket: SequencedSocket,
    /// Receives ICMP errors; `None`: `socket` does.
    icmp: Option<SequencedSocket>,
    /// Reserves the local port.
    _reserved: ProbeSocket,
    /// Connected to the target: knows the path MTU, sends nothing.
    connected: ProbeSocket,
    packet: Vec<u8>,
    payload: Vec<u8>,
}

impl OneFlow {
    /// Opens the sockets; `None` without the right to raw sockets.
    pub(super) fn open(settings: &Settings) -> Result<Option<Self>, Error> {
        let to = settings.to;
        let source = route::source_address(to, &settings.socket())?;
        let mut sockets = sys::probe_socket::Settings {
            with_header: to.is_ipv4(),
            dont_fragment: settings.find_mtu,
            ..settings.socket()
        };
        let carries = match settings.method {
            TraceMethod::Udp => SocketKind::RawUdp,
            TraceMethod::Tcp => SocketKind::RawTcp,
            TraceMethod::Icmp => SocketKind::RawIcmp,
        };
        let socket = match ProbeSocket::open(carries, &sockets) {
            Ok(socket) => socket,
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        sockets.with_header = false;
        let icmp = if settings.method == TraceMethod::Icmp {
            None
        } else {
            socket.accept_only_from(to)?;
            Some(ProbeSocket::open(SocketKind::RawIcmp, &sockets)?)
        };
        sockets.source = Some(source);
        let reserved = match settings.method {
            TraceMethod::Tcp => ProbeSocket::open(SocketKind::ReservedTcpPort, &sockets)?,
            TraceMethod::Udp | TraceMethod::Icmp => ProbeSocket::open(SocketKind::Udp, &sockets)?,
        };
        let connected = ProbeSocket::open(SocketKind::Udp, &sockets)?;
        // Without it the path MTU is not known.
        let _ = connected.connect(std::net::SocketAddr::new(to.ip(), to.port().max(1)));
        let port = reserved.local()?.port();
        Ok(Some(OneFlow {
            flow: Flow {
                method: settings.method,
                source,
                to,
                tos: settings.tos.unwrap_or(0),
                port,
                first: random::number() as u32,
                checksum: None,
            },
            dont_fragment: settings.find_mtu,
            socket: SequencedSocket::new(socket),
            icmp: icmp.map(SequencedSocket::new),
            _reserved: reserved,
            connected,
            packet: Vec::new(),
            payload: Vec::new(),
        }))
    }
}

impl ProbeMethod for OneFlow {
    fn send(&mut self, number: u64, ttl: u8, length: usize) -> Result<(), NotSent> {
        let payload_bytes = length.saturating_sub(self.flow.header_bytes());
        self.flow.build(&mut self.packet, &mut self.payload, number, payload_bytes);
        let target = self.flow.to.ip();
        let header = self.flow.v4_header(number, ttl, self.dont_fragment, self.packet.len());
        let sent = match header {
            Some(header) => {
                let packet = [&header[..], &self.packet].concat();
                self.socket.send(number, &packet, Some(target))
            }
            None => {
                self.socket.set_ttl(ttl).map_err(|error| NotSent::Failed(error.to_string()))?;
                self.socket.send(number, &self.packet, Some(target))
            }
        };
        sent.map_err(|errno| match errno {
            Errno::MSGSIZE => NotSent::TooLarge,
            errno => NotSent::Failed(send_error_text(errno, target)),
        })
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        let flow = &self.flow;
        let mut report = |event: SocketEvent<'_>, is_icmp: bool| match event {
            SocketEvent::Sent(number, at) => report(MethodEvent::Sent(number, at)),
            SocketEvent::IcmpError { .. } => {}
            SocketEvent::Packet { bytes, received, at } => {
                let reply = if is_icmp {
                    flow.icmp_reply(bytes, received, at)
                } else {
                    flow.transport_reply(bytes, received, at)
                };
                if let Some(reply) = reply {
                    report(MethodEvent::Reply(reply));
                }
            }
        };
        let is_icmp = flow.method == TraceMethod::Icmp;
        self.socket.poll(&mut |event| report(event, is_icmp))?;
        match &mut self.icmp {
            Some(icmp) => icmp.poll(&mut |event| report(event, true)),
            None => Ok(()),
        }
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.socket.as_fd(), false));
        into.extend(self.icmp.as_ref().map(|icmp| (icmp.as_fd(), false)));
    }

    fn is_one_flow(&self) -> bool {
        true
    }

    fn default_length(&self) -> usize {
        let headers = self.flow.header_bytes();
        match self.flow.method {
            // Many filters drop a SYN with data.
            TraceMethod::Tcp => headers,
            TraceMethod::Udp | TraceMethod::Icmp => {
                DEFAULT_PACKET_BYTES.max(headers + build::MIN_PAYLOAD_BYTES + FLOW_BYTES)
            }
        }
    }

    fn kernel_path_mtu(&self) -> Option<u32> {
        self.connected.path_mtu()
    }
}
