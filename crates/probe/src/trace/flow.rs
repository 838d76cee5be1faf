//! Packets of one flow, and how replies to them are recognised.
//!
//! All packets have the same addresses, ports and, where load balancers look at them, the same first
//! bytes of the transport header. Their number is in fields that do not affect the flow: the
//! identification of IPv4, the payload, the TCP sequence number.

use std::net::{IpAddr, SocketAddr};

use model::{ReplyKind, TraceMethod};
use sys::probe_socket::Received;
use wire::packet::build::{self, V4Header};
use wire::packet::icmp::{Icmp, Quoted};
use wire::packet::{tcp, udp};

use super::method::{Reply, ReplyTo};
use crate::socket::Timestamp;

/// Bytes after the number in a payload that distinguish this trace from others: the local port.
pub(super) const FLOW_BYTES: usize = 2;

/// What all packets of a trace have in common.
pub(super) struct Flow {
    pub(super) method: TraceMethod,
    pub(super) source: IpAddr,
    pub(super) to: SocketAddr,
    pub(super) tos: u8,
    /// Local port, or identifier of echo requests.
    pub(super) port: u16,
    /// TCP sequence number of the SYN of number 0.
    pub(super) first: u32,
    /// Checksum of the latest UDP datagram; the same for all of one length.
    pub(super) checksum: Option<u16>,
}

impl Flow {
    pub(super) fn v6(&self) -> bool {
        self.to.is_ipv6()
    }

    fn protocol(&self) -> u8 {
        match self.method {
            TraceMethod::Udp => udp::PROTOCOL,
            TraceMethod::Tcp => tcp::PROTOCOL,
            TraceMethod::Icmp => build::icmp_protocol(self.v6()),
        }
    }

    /// Bytes of the IP and transport headers.
    pub(super) fn header_bytes(&self) -> usize {
        let ip = if self.v6() { build::V6_HEADER_BYTES } else { build::V4_HEADER_BYTES };
        let transport = match self.method {
            TraceMethod::Tcp => build::SYN_HEADER_BYTES,
            TraceMethod::Udp | TraceMethod::Icmp => build::UDP_HEADER_BYTES,
        };
        ip + transport
    }

    /// Builds the transport part of a packet; `payload` is a buffer.
    pub(super) fn build(
        &mut self,
        packet: &mut Vec<u8>,
        payload: &mut Vec<u8>,
        number: u64,
        payload_bytes: usize,
    ) {
        let low = number as u16;
        let ends = (self.source, self.to.ip());
        let ports = (self.port, self.to.port());
        match self.method {
            TraceMethod::Udp => {
                build::probe_payload(payload, low, payload_bytes);
                if let Some(flow) =
                    payload.get_mut(build::MIN_PAYLOAD_BYTES..build::MIN_PAYLOAD_BYTES + FLOW_BYTES)
                {
                    flow.copy_from_slice(&self.port.to_be_bytes());
                }
                build::datagram(packet, ends, ports, payload);
                let checksum = packet.get(6..).and_then(|bytes| bytes.first_chunk());
                self.checksum = checksum.map(|bytes| u16::from_be_bytes(*bytes));
            }
            TraceMethod::Tcp => {
                payload.clear();
                payload.resize(payload_bytes, 0x2e);
                // The upper half of the sequence number; the lower half leaves room for the data that
                // an acknowledgement may cover.
                let sequence = self.first.wrapping_add(u32::from(low) << 16);
                build::syn(packet, ends, ports, sequence, payload);
            }
            TraceMethod::Icmp => {
                payload.clear();
                // Balances the sequence number in the checksum.
                payload.extend((!low).to_be_bytes());
                payload.resize(payload_bytes.max(2), 0x2e);
                build::echo(packet, self.v6(), self.port, low, payload);
            }
        }
    }

    /// The IPv4 header of a packet with this TTL and this transport part; `None` for IPv6.
    pub(super) fn v4_header(
        &self,
        number: u64,
        ttl: u8,
        dont_fragment: bool,
        length: usize,
    ) -> Option<[u8; build::V4_HEADER_BYTES]> {
        let (IpAddr::V4(source), IpAddr::V4(target)) = (self.source, self.to.ip()) else {
            return None;
        };
        Some(build::v4_header(&V4Header {
            addresses: (source, target),
            protocol: self.protocol(),
            ttl,
            tos: self.tos,
            // The kernel replaces 0: the number plus one.
            id: (number as u16).wrapping_add(1),
            dont_fragment,
            length,
        }))
    }

    /// The reply in an ICMP message; `None`: it belongs to other packets.
    pub(super) fn icmp_reply(
        &self,
        message: &[u8],
        received: &Received,
        at: Timestamp,
    ) -> Option<Reply> {
        let from = received.from;
        match Icmp::parse(self.v6(), message)? {
            Icmp::Reply(echo) if self.method == TraceMethod::Icmp && echo.id == self.port => {
                let to = ReplyTo::Number(echo.sequence);
                Some(plain_reply(to, ReplyKind::EchoReply, from, at))
            }
            Icmp::Error(error) => {
                let quoted = error.quoted?;
                let to = ReplyTo::Number(self.number(&quoted)?);
                let changes = self.changes(&quoted);
                let (kind, mtu, mpls) = (error.kind, error.mtu, error.mpls);
                Some(Reply { to, kind, from, at, mtu, mpls, changes })
            }
            _ => None,
        }
    }

    /// The reply in a segment or datagram of the target; `None`: it belongs to other packets.
    pub(super) fn transport_reply(
        &self,
        bytes: &[u8],
        received: &Received,
        at: Timestamp,
    ) -> Option<Reply> {
        let head: &[u8; 8] = bytes.first_chunk()?;
        let local_port = u16::from_be_bytes([head[2], head[3]]);
        if local_port != self.port || received.from != self.to.ip() {
            return None;
        }
        let (to, kind) = match self.method {
            TraceMethod::Udp => {
                let number = bytes.get(build::UDP_HEADER_BYTES..).and_then(build::probe_number);
                (number.map_or(ReplyTo::AnyAtTarget, ReplyTo::Number), ReplyKind::Datagram)
            }
            TraceMethod::Tcp => {
                let head: &[u8; 20] = bytes.first_chunk()?;
                let flags = tcp::Flags(u16::from(head[13]));
                let kind = if flags.any(tcp::Flags::RST) {
                    ReplyKind::Reset
                } else if flags.all(tcp::Flags(tcp::Flags::SYN.0 | tcp::Flags::ACK.0)) {
                    ReplyKind::SynAck
                } else {
                    return None;
                };
                let acknowledged = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
                // The acknowledgement covers the SYN's data, or the SYN alone.
                let number = acknowledged.wrapping_sub(self.first).wrapping_sub(1) >> 16;
                (ReplyTo::Number(number as u16), kind)
            }
            TraceMethod::Icmp => return None,
        };
        Some(plain_reply(to, kind, received.from, at))
    }

    /// Number of a quoted packet; `None`: it is not of this flow.
    fn number(&self, quoted: &Quoted<'_>) -> Option<u16> {
        if quoted.protocol != self.protocol() {
            return None;
        }
        match self.method {
            TraceMethod::Udp => {
                // A NAT may have changed the ports; the flow bytes in the payload stay.
                let same_ports = quoted.ports()? == (self.port, self.to.port());
                let flow = quoted
                    .payload()
                    .get(build::MIN_PAYLOAD_BYTES..build::MIN_PAYLOAD_BYTES + FLOW_BYTES);
                let same_flow = flow.map(|flow| flow == self.port.to_be_bytes());
                if same_flow == Some(false) || (same_flow.is_none() && !same_ports) {
                    return None;
                }
                let by_id = quoted.id.filter(|_| same_ports).map(|id| id.wrapping_sub(1));
                build::probe_number(quoted.payload()).or(by_id)
            }
            TraceMethod::Tcp => {
                let offset = quoted.tcp_sequence()?.wrapping_sub(self.first);
                // Some firewalls change sequence numbers; the identification stays.
                let same_ports = quoted.ports()? == (self.port, self.to.port());
                let by_id = quoted.id.filter(|_| same_ports).map(|id| id.wrapping_sub(1));
                if offset & 0xffff == 0 { Some((offset >> 16) as u16) } else { by_id }
            }
            TraceMethod::Icmp => {
                let (id, sequence) = quoted.echo()?;
                let complement = quoted.payload().first_chunk::<2>();
                let ours = id == self.port
                    || complement.is_some_and(|complement| {
                        quoted.destination == self.to.ip()
                            && *complement == (!sequence).to_be_bytes()
                    });
                ours.then_some(sequence)
            }
        }
    }

    /// Header fields of a quoted packet that differ from what was sent.
    fn changes(&self, quoted: &Quoted<'_>) -> Vec<String> {
        let mut changes = Vec::new();
        if quoted.tos != self.tos {
            changes.push(format!(
                "type of service changed from {:#04x} to {:#04x}",
                self.tos, quoted.tos
            ));
        }
        let mut translated = false;
        let mut nat = |what: &str, sent: &dyn std::fmt::Display, quoted: &dyn std::fmt::Display| {
            translated = true;
            changes.push(format!("NAT: {what} {sent} changed to {quoted}"));
        };
        if quoted.source != self.source {
            nat("source", &self.source, &quoted.source);
        }
        if quoted.destination != self.to.ip() {
            nat("destination", &self.to.ip(), &quoted.destination);
        }
        if self.method == TraceMethod::Icmp {
            if let Some((id, _)) = quoted.echo()
                && id != self.port
            {
                nat("echo identifier", &self.port, &id);
            }
        } else if let Some((source, destination)) = quoted.ports() {
            if source != self.port {
                nat("source port", &self.port, &source);
            }
            if destination != self.to.port() {
                nat("destination port", &self.to.port(), &destination);
            }
        }
        // Zero: the router did not quote it. A NAT that restores addresses and ports in the quoted
        // packet may leave its own checksum there.
        if self.method == TraceMethod::Udp
            && !translated
            && let Some((_, checksum)) = quoted.udp_length_and_checksum()
            && checksum != 0
            && self.checksum.is_some_and(|sent| sent != checksum)
        {
            changes.push("NAT: checksum changed, and so addresses or ports".to_string());
        }
        changes
    }
}

/// A reply that quotes nothing.
fn plain_reply(to: ReplyTo, kind: ReplyKind, from: IpAddr, at: Timestamp) -> Reply {
    Reply { to, kind, from, at, mtu: None, mpls: Vec::new(), changes: Vec::new() }
}
