//! UDP datagrams without any rights: one socket for each, so that the kernel assigns ICMP errors to
//! them. Their local ports differ, and with them possibly their paths.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd};

use model::ReplyKind;
use rustix::io::Errno;
use sys::probe_socket::{ErrorQueueEvent, ProbeSocket, SocketKind};
use wire::packet::build;
use wire::packet::icmp::error_kind;

use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::settings::{DEFAULT_PACKET_BYTES, Settings};
use crate::error::send_error_text;
use crate::socket::{MAX_PACKET_BYTES, Timestamp};
use crate::{Error, route};

/// Most outstanding datagrams.
const MAX_DATAGRAMS: usize = 512;
/// Most entries of a socket's error queue in one poll: a time stamp, an error, and more of them.
const MAX_EVENTS_PER_SOCKET: usize = 4;
/// TTL of a socket that sends nothing.
const UNUSED_TTL: u8 = 64;

/// One socket for each datagram.
pub(super) struct UnprivilegedUdp {
    settings: Settings,
    outstanding: VecDeque<(u64, ProbeSocket)>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

impl UnprivilegedUdp {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        // Fails at once without a route.
        route::source_address(settings.to, &settings.socket())?;
        Ok(UnprivilegedUdp {
            settings: settings.clone(),
            outstanding: VecDeque::new(),
            buffer: vec![0; MAX_PACKET_BYTES],
            payload: Vec::new(),
        })
    }

    fn header_bytes(&self) -> usize {
        let ip = if self.settings.to.is_ipv6() {
            build::V6_HEADER_BYTES
        } else {
            build::V4_HEADER_BYTES
        };
        ip + build::UDP_HEADER_BYTES
    }

    fn socket(&self, ttl: u8) -> Result<ProbeSocket, NotSent> {
        let to = self.settings.to;
        let mut settings = self.settings.socket();
        settings.dont_fragment = self.settings.find_mtu;
        let failed = |error: sys::Error| NotSent::Failed(error.to_string());
        let socket = ProbeSocket::open(SocketKind::Udp, &settings).map_err(failed)?;
        socket.set_ttl(ttl).map_err(failed)?;
        let connected = socket.connect(to);
        connected.map_err(|errno| NotSent::Failed(send_error_text(errno, to.ip())))?;
        Ok(socket)
    }
}

impl ProbeMethod for UnprivilegedUdp {
    fn send(&mut self, number: u64, ttl: u8, length: usize) -> Result<(), NotSent> {
        let socket = self.socket(ttl)?;
        let payload_bytes = length.saturating_sub(self.header_bytes());
        build::probe_payload(&mut self.payload, number as u16, payload_bytes);
        match socket.send(&self.payload, None) {
            Ok(()) => {}
            Err(Errno::MSGSIZE) => return Err(NotSent::TooLarge),
            Err(errno) => {
                return Err(NotSent::Failed(send_error_text(errno, self.settings.to.ip())));
            }
        }
        self.outstanding.push_back((number, socket));
        if self.outstanding.len() > MAX_DATAGRAMS {
            self.outstanding.pop_front();
        }
        Ok(())
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        let v6 = self.settings.to.is_ipv6();
        let reply = |number: u64, kind, from, kernel, mtu| {
            MethodEvent::Reply(Reply {
                to: ReplyTo::Number(number as u16),
                kind,
                from,
                at: Timestamp::now(kernel),
                mtu,
                mpls: Vec::new(),
                changes: Vec::new(),
            })
        };
        for (number, socket) in &self.outstanding {
            for _ in 0..MAX_EVENTS_PER_SOCKET {
                match socket.read_error_queue(&mut self.buffer)? {
                    None => break,
                    Some(ErrorQueueEvent::Sent { at, .. }) => {
                        report(MethodEvent::Sent(*number, at))
                    }
                    Some(ErrorQueueEvent::Error(error)) => {
                        let (Some((kind, code)), Some(from)) = (error.icmp, error.offender) else {
                            continue;
                        };
                        if let Some(kind) = error_kind(v6, kind, code) {
                            let mtu = Some(error.info).filter(|_| kind == ReplyKind::TooBig);
                            report(reply(*number, kind, from, error.at, mtu));
                        }
                    }
                    Some(ErrorQueueEvent::Other) => {}
                }
            }
            if let Some(received) = socket.receive(&mut self.buffer)? {
                report(reply(*number, ReplyKind::Datagram, received.from, received.at, None));
            }
        }
        Ok(())
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.extend(self.outstanding.iter().map(|(_, socket)| (socket.as_fd(), false)));
    }

    fn forget_before(&mut self, number: u64) {
        while self.outstanding.front().is_some_and(|(known, _)| *known < number) {
            self.outstanding.pop_front();
        }
    }

    fn is_one_flow(&self) -> bool {
        false
    }

    fn default_length(&self) -> usize {
        DEFAULT_PACKET_BYTES.max(self.header_bytes() + build::MIN_PAYLOAD_BYTES)
    }

    fn kernel_path_mtu(&self) -> Option<u32> {
        self.socket(UNUSED_TTL).ok()?.path_mtu()
    }
}
