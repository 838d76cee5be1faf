//! Packets of one flow by raw sockets, and the packets that routers quote in their errors.
//!
//! All packets have the same addresses, ports and, as far as balancers look at it, the same first
//! bytes of their transport header. Their number is in what does not count: the identification of
//! IPv4, the payload, the sequence number.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use model::{ReplyKind, TraceMethod};
use rustix::io::Errno;
use sys::probe_socket::{ProbeSocket, Received, SocketKind};
use wire::packet::build::{self, V4Header};
use wire::packet::icmp::{Icmp, Quoted};
use wire::packet::{tcp, udp};

use super::Settings;
use super::way::{Answer, Ends, News, Unsent, Way, Which};
use crate::Error;
use crate::numbered::{Moment, NumberedSocket, Said, failed, unsent};

/// Bytes that tell the packets of one trace from those of another, behind the number.
const FLOW: usize = 2;

/// Raw sockets for one flow.
pub(super) struct RawWay {
    flow: Flow,
    dont_fragment: bool,
    out: NumberedSocket,
    /// ICMP, where it is not the one that sends.
    errors: Option<NumberedSocket>,
    /// Keeps the local port from other programs; and knows the MTU of the path.
    _held: ProbeSocket,
    path: ProbeSocket,
    packet: Vec<u8>,
    payload: Vec<u8>,
}

/// What all packets have in common, and how those are known that answer them.
struct Flow {
    method: TraceMethod,
    ends: Ends,
    tos: u8,
    /// Local port, or identifier of echoes.
    port: u16,
    /// Sequence number of the SYN of number 0.
    first: u32,
    /// Checksum of all UDP datagrams of one length; of the latest.
    checksum: Option<u16>,
}

impl RawWay {
    /// Opens the sockets; `None` without the right to.
    pub(super) fn open(settings: &Settings) -> Result<Option<Self>, Error> {
        let to = settings.to;
        let source = crate::ping::raw::source(to, &settings.ping())?;
        let with_header = to.is_ipv4();
        let mut sockets = settings.ping().socket(to.ip());
        sockets.with_header = with_header;
        sockets.dont_fragment = settings.mtu;
        let carries = match settings.method {
            TraceMethod::Udp => SocketKind::RawUdp,
            TraceMethod::Tcp => SocketKind::RawTcp,
            TraceMethod::Icmp => SocketKind::RawIcmp,
        };
        let out = match ProbeSocket::open(carries, &sockets) {
            Ok(socket) => socket,
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        sockets.with_header = false;
        let errors = if settings.method == TraceMethod::Icmp {
            None
        } else {
            out.accept_only_from(to).map_err(failed)?;
            Some(ProbeSocket::open(SocketKind::RawIcmp, &sockets).map_err(failed)?)
        };
        sockets.source = Some(source);
        let held = match settings.method {
            TraceMethod::Tcp => ProbeSocket::open(SocketKind::ReservedTcpPort, &sockets),
            TraceMethod::Udp | TraceMethod::Icmp => ProbeSocket::open(SocketKind::Udp, &sockets),
        };
        let held = held.map_err(failed)?;
        let path = ProbeSocket::open(SocketKind::Udp, &sockets).map_err(failed)?;
        // Only asked for the MTU; nothing is sent.
        let _ = path.connect(std::net::SocketAddr::new(to.ip(), to.port().max(1)));
        let port = held.local().map_err(failed)?.port();
        Ok(Some(RawWay {
            flow: Flow {
                method: settings.method,
                ends: Ends { source, to },
                tos: settings.tos.unwrap_or(0),
                port,
                first: crate::ping::random() as u32,
                checksum: None,
            },
            dont_fragment: settings.mtu,
            out: NumberedSocket::new(out),
            errors: errors.map(NumberedSocket::new),
            _held: held,
            path,
            packet: Vec::new(),
            payload: Vec::new(),
        }))
    }

    /// Bytes of IP and transport headers.
    fn headers(&self) -> usize {
        let ip = if self.flow.v6() { build::V6_HEADER_BYTES } else { build::V4_HEADER_BYTES };
        let transport = match self.flow.method {
            TraceMethod::Tcp => build::SYN_HEADER_BYTES,
            TraceMethod::Udp | TraceMethod::Icmp => build::UDP_HEADER_BYTES,
        };
        ip + transport
    }

    /// The transport of a packet, into `self.packet`.
    fn build(&mut self, number: u64, payload: usize) {
        let low = number as u16;
        let ends = (self.flow.ends.source, self.flow.ends.to.ip());
        let ports = (self.flow.port, self.flow.ends.to.port());
        match self.flow.method {
            TraceMethod::Udp => {
                build::probe_payload(&mut self.payload, low, payload);
                if let Some(flow) =
                    self.payload.get_mut(build::MIN_PAYLOAD_BYTES..build::MIN_PAYLOAD_BYTES + FLOW)
                {
                    flow.copy_from_slice(&self.flow.port.to_be_bytes());
                }
                build::datagram(&mut self.packet, ends, ports, &self.payload);
                let sum = self.packet.get(6..8).map(|sum| u16::from_be_bytes([sum[0], sum[1]]));
                self.flow.checksum = sum;
            }
            TraceMethod::Tcp => {
                self.payload.clear();
                self.payload.resize(payload, 0x2e);
                // Half of the number space for data: the acknowledgement tells the number anyway.
                let sequence = self.flow.first.wrapping_add(u32::from(low) << 16);
                build::syn(&mut self.packet, ends, ports, sequence, &self.payload);
            }
            TraceMethod::Icmp => {
                self.payload.clear();
                // Makes up for the sequence number in the checksum.
                self.payload.extend((!low).to_be_bytes());
                self.payload.resize(payload.max(2), 0x2e);
                let v6 = self.flow.v6();
                build::echo(&mut self.packet, v6, self.flow.port, low, &self.payload);
            }
        }
    }
}

impl Flow {
    fn v6(&self) -> bool {
        self.ends.to.is_ipv6()
    }

    fn protocol(&self) -> u8 {
        match self.method {
            TraceMethod::Udp => udp::PROTOCOL,
            TraceMethod::Tcp => tcp::PROTOCOL,
            TraceMethod::Icmp => build::icmp_protocol(self.v6()),
        }
    }

    /// The answer in a message of ICMP.
    fn icmp(&self, bytes: &[u8], received: &Received, at: Moment) -> Option<Answer> {
        let from = received.from;
        let none = (None, Vec::new(), Vec::new());
        let (which, kind, (mtu, mpls, changes)) = match Icmp::parse(self.v6(), bytes)? {
            Icmp::Reply(echo) if self.method == TraceMethod::Icmp && echo.id == self.port => {
                (echo.sequence, ReplyKind::EchoReply, none)
            }
            Icmp::Error(told) => {
                let quoted = told.quoted?;
                let number = self.number(&quoted)?;
                (number, told.kind, (told.mtu, told.mpls, self.changes(&quoted)))
            }
            _ => return None,
        };
        Some(Answer { which: Which::Low(which), kind, from, at, mtu, mpls, changes })
    }

    /// Which packet is quoted; `None`: none of these.
    fn number(&self, quoted: &Quoted<'_>) -> Option<u16> {
        if quoted.protocol != self.protocol() {
            return None;
        }
        match self.method {
            TraceMethod::Udp => {
                // A NAT may have changed ports; then the flow behind the number tells.
                let ports = quoted.ports()?;
                let ours = ports == (self.port, self.ends.to.port());
                let flow =
                    quoted.payload().get(build::MIN_PAYLOAD_BYTES..build::MIN_PAYLOAD_BYTES + FLOW);
                let flow = flow.map(|flow| flow == self.port.to_be_bytes());
                if flow == Some(false) || (flow.is_none() && !ours) {
                    return None;
                }
                let by_id = quoted.id.filter(|_| ours).map(|id| id.wrapping_sub(1));
                build::probe_number(quoted.payload()).or(by_id)
            }
            TraceMethod::Tcp => {
                let offset = quoted.tcp_sequence()?.wrapping_sub(self.first);
                // Some firewalls change sequence numbers: then the identification tells.
                let ours = quoted.ports()? == (self.port, self.ends.to.port());
                let by_id = quoted.id.filter(|_| ours).map(|id| id.wrapping_sub(1));
                if offset & 0xffff == 0 { Some((offset >> 16) as u16) } else { by_id }
            }
            TraceMethod::Icmp => {
                let (id, sequence) = quoted.echo()?;
                let back = quoted.payload().first_chunk::<2>();
                let ours = id == self.port
                    || back.is_some_and(|back| {
                        quoted.destination == self.ends.to.ip()
                            && *back == (!sequence).to_be_bytes()
                    });
                ours.then_some(sequence)
            }
        }
    }

    /// How a quoted packet differs from what was sent.
    fn changes(&self, quoted: &Quoted<'_>) -> Vec<String> {
        let mut changes = Vec::new();
        if quoted.tos != self.tos {
            changes.push(format!(
                "its type of service was changed from {:#04x} to {:#04x}",
                self.tos, quoted.tos
            ));
        }
        let ends = (self.ends.source, self.ends.to.ip());
        let mut translated = false;
        for (what, was, is) in
            [("source", ends.0, quoted.source), ("destination", ends.1, quoted.destination)]
        {
            if was != is {
                translated = true;
                changes.push(format!("NAT: its {what} {was} was changed to {is}"));
            }
        }
        let ports = (self.port, self.ends.to.port());
        if self.method != TraceMethod::Icmp
            && let Some(is) = quoted.ports()
        {
            for (what, was, is) in [("source", ports.0, is.0), ("destination", ports.1, is.1)] {
                if was != is {
                    translated = true;
                    changes.push(format!("NAT: its {what} port {was} was changed to {is}"));
                }
            }
        }
        if self.method == TraceMethod::Icmp
            && let Some((id, _)) = quoted.echo()
            && id != self.port
        {
            translated = true;
            changes.push(format!("NAT: its identifier {} was changed to {id}", self.port));
        }
        // Zero: a router left it out. Who translates and puts all back but this forgot it.
        if self.method == TraceMethod::Udp
            && !translated
            && let Some((_, sum)) = quoted.udp_length_and_checksum()
            && sum != 0
            && self.checksum.is_some_and(|sent| sent != sum)
        {
            changes
                .push("NAT: its checksum was changed, and so its addresses or ports".to_string());
        }
        changes
    }

    /// The answer in a segment or datagram of the target itself.
    fn direct(&self, bytes: &[u8], received: &Received, at: Moment) -> Option<Answer> {
        let head: &[u8; 8] = bytes.first_chunk()?;
        let port = u16::from_be_bytes([head[2], head[3]]);
        if port != self.port || received.from != self.ends.to.ip() {
            return None;
        }
        let (which, kind) = match self.method {
            TraceMethod::Udp => {
                let number = bytes.get(build::UDP_HEADER_BYTES..).and_then(build::probe_number);
                (number.map_or(Which::AtTarget, Which::Low), ReplyKind::Datagram)
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
                let next = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
                // With the data of the SYN, or without.
                let number = next.wrapping_sub(self.first).wrapping_sub(1) >> 16;
                (Which::Low(number as u16), kind)
            }
            TraceMethod::Icmp => return None,
        };
        let from = received.from;
        Some(Answer { which, kind, from, at, mtu: None, mpls: Vec::new(), changes: Vec::new() })
    }
}

impl Way for RawWay {
    fn send(&mut self, number: u64, hops: u8, length: usize) -> Result<(), Unsent> {
        self.build(number, length.saturating_sub(self.headers()));
        let Ends { source, to } = self.flow.ends;
        let sent = match (source, to.ip()) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let header = build::v4_header(&V4Header {
                    addresses: (source, target),
                    protocol: self.flow.protocol(),
                    ttl: hops,
                    tos: self.flow.tos,
                    // Zero is replaced by the kernel: the number is one less.
                    id: (number as u16).wrapping_add(1),
                    dont_fragment: self.dont_fragment,
                    length: self.packet.len(),
                });
                let whole = [&header[..], &self.packet[..]].concat();
                self.out.send(number, &whole, Some(to.ip()))
            }
            _ => {
                let hops = self.out.set_ttl(hops).map_err(|error| error.to_string());
                hops.map_err(Unsent::Other)?;
                self.out.send(number, &self.packet, Some(to.ip()))
            }
        };
        sent.map_err(|errno| match errno {
            Errno::MSGSIZE => Unsent::TooLarge,
            errno => Unsent::Other(unsent(errno, to.ip())),
        })
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        let flow = &self.flow;
        let mut tell = |said: Said<'_>, is_icmp: bool| match said {
            Said::Left(number, at) => tell(News::Left(number, at)),
            Said::Error { .. } => {}
            Said::Packet { bytes, received, at } => {
                let answer = match is_icmp {
                    true => flow.icmp(bytes, received, at),
                    false => flow.direct(bytes, received, at),
                };
                if let Some(answer) = answer {
                    tell(News::Came(answer));
                }
            }
        };
        let is_icmp = flow.method == TraceMethod::Icmp;
        self.out.take(&mut |said| tell(said, is_icmp))?;
        match &mut self.errors {
            Some(errors) => errors.take(&mut |said| tell(said, true)),
            None => Ok(()),
        }
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.out.as_fd(), false));
        into.extend(self.errors.as_ref().map(|errors| (errors.as_fd(), false)));
    }

    fn is_one_flow(&self) -> bool {
        true
    }

    fn usual(&self) -> usize {
        match self.flow.method {
            // Many filters drop a SYN with data.
            TraceMethod::Tcp => self.headers(),
            TraceMethod::Udp | TraceMethod::Icmp => {
                super::LENGTH.max(self.headers() + build::MIN_PAYLOAD_BYTES + FLOW)
            }
        }
    }

    fn known_mtu(&self) -> Option<u32> {
        self.path.path_mtu()
    }
}
