//! TCP SYNs by raw sockets: the kernel resets the connection when the SYN-ACK arrives.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use model::ReplyKind;
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::icmp::{Icmp, Quoted};
use wire::packet::{build, tcp};

use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::settings::{MIN_FLOOD_RATE, PingTarget, Settings};
use crate::socket::{SequencedSocket, SocketEvent};
use crate::{Error, random, route};

/// How long a half-open connection may last: its local port is not used again within this time.
const HALF_OPEN: Duration = Duration::from_secs(1);
/// Fewest and most local ports for a target, and most for all targets: each is an open file.
const PORTS_PER_TARGET: std::ops::RangeInclusive<usize> = 2..=128;
const MAX_PORTS: usize = 512;

/// TCP SYNs to one target.
pub(super) struct SynMethod {
    segments: SequencedSocket,
    errors: SequencedSocket,
    /// Reserve the local ports.
    _reserved: Vec<ProbeSocket>,
    syns: Syns,
    packet: Vec<u8>,
}

/// How this target's SYNs are recognised.
struct Syns {
    source: IpAddr,
    target: IpAddr,
    /// Local ports, used in turn.
    local_ports: Vec<u16>,
    port: u16,
    /// TCP sequence number of the packet of number 0.
    first: u32,
    payload: Vec<u8>,
}

impl SynMethod {
    /// Opens the sockets; `None` without the right to raw sockets. `targets`: how many are pinged.
    pub(super) fn open(
        target: &PingTarget,
        settings: &Settings,
        targets: usize,
    ) -> Result<Option<Self>, Error> {
        let to = target.to;
        let mut socket_settings = settings.socket(to.ip());
        let segments = match ProbeSocket::open(SocketKind::RawTcp, &socket_settings) {
            Ok(socket) => socket,
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        segments.accept_only_from(to)?;
        let errors = ProbeSocket::open(SocketKind::RawIcmp, &socket_settings)?;
        let source = route::source_address(to, &socket_settings)?;
        if let Some(ttl) = settings.ttl {
            segments.set_ttl(ttl)?;
        }
        socket_settings.source = Some(source);
        let reserved: Vec<ProbeSocket> = (0..local_port_count(settings, targets))
            .map(|_| Ok(ProbeSocket::open(SocketKind::ReservedTcpPort, &socket_settings)?))
            .collect::<Result<_, Error>>()?;
        let local_ports = reserved.iter().map(|socket| Ok(socket.local()?.port()));
        let local_ports = local_ports.collect::<Result<_, Error>>()?;
        Ok(Some(SynMethod {
            segments: SequencedSocket::new(segments),
            errors: SequencedSocket::new(errors),
            _reserved: reserved,
            syns: Syns {
                source,
                target: to.ip(),
                local_ports,
                port: to.port(),
                first: random::number() as u32,
                payload: vec![0x2e; target.payload_bytes],
            },
            packet: Vec::new(),
        }))
    }
}

impl Syns {
    /// Which SYN a segment replies to, and the kind of reply; `None`: it belongs to other connections.
    fn reply(&self, segment: &[u8], from: IpAddr) -> Option<(ReplyTo, ReplyKind)> {
        let head: &[u8; 20] = segment.first_chunk()?;
        let local_port = u16::from_be_bytes([head[2], head[3]]);
        if !self.local_ports.contains(&local_port) || from != self.target {
            return None;
        }
        let flags = tcp::Flags(u16::from(head[13]));
        let kind = if flags.all(tcp::Flags(tcp::Flags::SYN.0 | tcp::Flags::ACK.0)) {
            ReplyKind::SynAck
        } else if flags.any(tcp::Flags::RST) {
            ReplyKind::Reset
        } else {
            return None;
        };
        let acknowledged = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        // The acknowledgement covers the SYN's data, or the SYN alone.
        let offset = acknowledged.wrapping_sub(self.first).wrapping_sub(1);
        Some((ReplyTo::Sequence((offset / self.sequence_step()) as u16), kind))
    }

    /// Which SYN an ICMP error is about, its kind and MTU; `None`: it belongs to other packets.
    fn icmp_error(&self, message: &[u8]) -> Option<(ReplyTo, ReplyKind, Option<u32>)> {
        let Icmp::Error(error) = Icmp::parse(self.target.is_ipv6(), message)? else { return None };
        Some((self.quoted(&error.quoted?)?, error.kind, error.mtu))
    }

    fn quoted(&self, quoted: &Quoted<'_>) -> Option<ReplyTo> {
        let (source, destination) = quoted.ports()?;
        let ours = quoted.protocol == tcp::PROTOCOL
            && quoted.destination == self.target
            && destination == self.port
            && self.local_ports.contains(&source);
        let sequence = quoted.tcp_sequence().filter(|_| ours)?;
        let offset = sequence.wrapping_sub(self.first);
        Some(ReplyTo::Sequence((offset / self.sequence_step()) as u16))
    }

    /// Difference between the TCP sequence numbers of consecutive packets.
    fn sequence_step(&self) -> u32 {
        (self.payload.len() as u32 + 1).next_power_of_two()
    }

    fn tcp_sequence(&self, number: u64) -> u32 {
        // The low 16 bits, which replies are matched by; they repeat long after the packet is forgotten.
        self.first.wrapping_add(u32::from(number as u16).wrapping_mul(self.sequence_step()))
    }

    fn local_port(&self, number: u64) -> Option<u16> {
        let index = number.checked_rem(self.local_ports.len() as u64)?;
        self.local_ports.get(index as usize).copied()
    }
}

impl ProbeMethod for SynMethod {
    fn send(&mut self, number: u64) -> Result<(), NotSent> {
        let Syns { source, target, port, payload, .. } = &self.syns;
        let Some(local_port) = self.syns.local_port(number) else {
            let why = "there is no local port to send from".to_string();
            return Err(NotSent { why, too_large: false });
        };
        let (ends, ports) = ((*source, *target), (local_port, *port));
        let sequence = self.syns.tcp_sequence(number);
        build::syn(&mut self.packet, ends, ports, sequence, payload);
        let sent = self.segments.send(number, &self.packet, Some(*target));
        sent.map_err(|errno| NotSent::new(errno, *target))
    }

    fn poll(&mut self, report: &mut dyn FnMut(MethodEvent)) -> Result<(), Error> {
        let syns = &self.syns;
        let mut report = |event: SocketEvent<'_>, is_icmp: bool| match event {
            SocketEvent::Sent(number, at) => report(MethodEvent::Sent(number, at)),
            SocketEvent::IcmpError { .. } => {}
            SocketEvent::Packet { bytes, received, at } => {
                let (from, ttl) = (received.from, received.ttl);
                let reply = match is_icmp {
                    true => syns.icmp_error(bytes),
                    false => syns.reply(bytes, from).map(|(to, kind)| (to, kind, None)),
                };
                if let Some((to, kind, mtu)) = reply {
                    let reply = Reply { to, kind, from, ttl, bytes: None, mtu, at };
                    report(MethodEvent::Reply(reply));
                }
            }
        };
        self.segments.poll(&mut |event| report(event, false))?;
        self.errors.poll(&mut |event| report(event, true))
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.segments.as_fd(), false));
        into.push((self.errors.as_fd(), false));
    }
}

/// How many local ports the SYNs to one of `targets` targets use: one for each SYN that is sent while a
/// half-open connection lasts.
fn local_port_count(settings: &Settings, targets: usize) -> usize {
    let interval = match settings.flood {
        Some(rate) => Duration::from_secs(1) / rate.clamp(1, MIN_FLOOD_RATE),
        None => settings.interval,
    };
    let sent = HALF_OPEN.as_secs_f64() / interval.as_secs_f64().max(1e-3);
    let (min, max) = (*PORTS_PER_TARGET.start(), *PORTS_PER_TARGET.end());
    let max = (MAX_PORTS / targets.max(1)).clamp(min, max);
    (sent.ceil() as usize + 1).clamp(min, max)
}

#[cfg(test)]
mod tests {
    use super::super::settings::MAX_TARGETS;
    use super::*;

    #[test]
    fn there_are_as_many_local_ports_as_a_second_needs_within_the_limits() {
        let settings = |ms, flood| Settings {
            interval: Duration::from_millis(ms),
            flood,
            ..Settings::default()
        };
        assert_eq!(local_port_count(&settings(1000, None), 1), 2);
        assert_eq!(local_port_count(&settings(10, None), 1), 101);
        assert_eq!(local_port_count(&settings(1000, Some(1000)), 1), 101);
        assert_eq!(local_port_count(&settings(1, None), 1), 128);
        assert_eq!(local_port_count(&settings(1, None), MAX_TARGETS), 8);
    }
}
