//! Asking by raw sockets: ICMP echoes and TCP SYNs; and ICMP echoes without rights, where the system
//! allows them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use model::ReplyKind;
use sys::probe_socket::{ProbeSocket, SocketKind};
use wire::packet::icmp::{Icmp, Quoted};
use wire::packet::{build, tcp};

use super::way::{Came, News, Number, Way};
use super::{Asked, How, Settings};
use crate::Error;
use crate::numbered::{NumberedSocket, Said, failed, unsent};

/// Local ports that SYNs come from, one after the other: a half-open connection must be over before
/// its port comes again, and so that many are sent in this time.
const HALF_OPEN: Duration = Duration::from_secs(1);
/// Fewest and most of them for a target, and for all together: each is an open file.
const PORTS: std::ops::RangeInclusive<usize> = 2..=128;
const ALL_PORTS: usize = 512;

/// ICMP echoes.
pub(super) struct EchoWay {
    socket: NumberedSocket,
    echoes: Echoes,
    size: usize,
    packet: Vec<u8>,
    payload: Vec<u8>,
}

/// Which echoes are ours.
struct Echoes {
    target: IpAddr,
    id: u16,
    /// Without rights the kernel chooses the identifier, and looks at it.
    raw: bool,
}

impl EchoWay {
    pub(super) fn open(asked: &Asked, settings: &Settings) -> Result<Self, Error> {
        let target = asked.to.ip();
        let socket_settings = settings.socket(target);
        let (socket, raw) = match ProbeSocket::open(SocketKind::RawIcmp, &socket_settings) {
            Ok(socket) => (socket, true),
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => {
                let other = ProbeSocket::open(SocketKind::Echo, &socket_settings);
                (other.map_err(|_| no_right(error))?, false)
            }
            Err(error) => return Err(failed(error)),
        };
        if let Some(hops) = settings.hops {
            socket.set_ttl(hops).map_err(failed)?;
        }
        Ok(EchoWay {
            socket: NumberedSocket::new(socket),
            echoes: Echoes { target, id: super::random() as u16, raw },
            size: asked.size,
            packet: Vec::new(),
            payload: Vec::new(),
        })
    }
}

impl Echoes {
    /// Which one a message of ICMP is about, and what it says; `None`: none of these.
    fn answer(&self, bytes: &[u8]) -> Option<(u16, ReplyKind)> {
        let v6 = self.target.is_ipv6();
        match Icmp::parse(v6, bytes)? {
            Icmp::Reply(echo) if echo.id == self.id || !self.raw => {
                Some((echo.sequence, ReplyKind::EchoReply))
            }
            Icmp::Error(told) => {
                let quoted = told.quoted.filter(|quoted| quoted.destination == self.target)?;
                if quoted.protocol != build::icmp_protocol(v6) {
                    return None;
                }
                let (id, sequence) = quoted.echo()?;
                // A NAT may have changed the identifier; the answer then has it right again.
                (id == self.id).then_some((sequence, told.kind))
            }
            Icmp::Request(_) | Icmp::Reply(_) | Icmp::Other(..) => None,
        }
    }
}

impl Way for EchoWay {
    fn send(&mut self, number: u64) -> Result<(), String> {
        let Echoes { target, id, .. } = self.echoes;
        self.payload.clear();
        self.payload.resize(self.size, 0x2e);
        build::echo(&mut self.packet, target.is_ipv6(), id, number as u16, &self.payload);
        let sent = self.socket.send(number, &self.packet, Some(target));
        sent.map_err(|errno| unsent(errno, target))
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        let echoes = &self.echoes;
        self.socket.take(&mut |said| match said {
            Said::Left(number, at) => tell(News::Left(number, at)),
            // Without rights errors come this way, with the echo that they are about.
            Said::Error { kind, from, sent, at } if !echoes.raw => {
                if let Some(sequence) = sent.get(6..8) {
                    let number = Number::Low(u16::from_be_bytes([sequence[0], sequence[1]]));
                    tell(News::Came(Came { number, kind, from, hops: None, bytes: None, at }));
                }
            }
            Said::Error { .. } => {}
            Said::Packet { bytes, received, at } => {
                if let Some((number, kind)) = echoes.answer(bytes) {
                    tell(News::Came(Came {
                        number: Number::Low(number),
                        kind,
                        from: received.from,
                        hops: received.ttl,
                        bytes: u32::try_from(bytes.len()).ok(),
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

fn no_right(error: sys::Error) -> Error {
    Error::Failed(format!(
        "{error}; or let users send echoes: sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"; \
         or ask without rights: --tcp, --udp"
    ))
}

/// TCP SYNs whose answer ends the connection before it is one.
pub(super) struct SynWay {
    segments: NumberedSocket,
    errors: NumberedSocket,
    /// Keep local ports from other programs.
    _held: Vec<ProbeSocket>,
    syns: Syns,
    packet: Vec<u8>,
}

/// Which SYNs are ours.
struct Syns {
    ends: (IpAddr, IpAddr),
    /// Local ports, one after the other.
    ports: Vec<u16>,
    port: u16,
    /// Sequence number of a packet of number 0.
    first: u32,
    payload: Vec<u8>,
}

impl SynWay {
    /// Opens the sockets; `None` without the right to.
    pub(super) fn open(
        asked: &Asked,
        settings: &Settings,
        targets: usize,
    ) -> Result<Option<Self>, Error> {
        let to = asked.to;
        let mut socket_settings = settings.socket(to.ip());
        let segments = match ProbeSocket::open(SocketKind::RawTcp, &socket_settings) {
            Ok(socket) => socket,
            Err(error) if error.kind == sys::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        segments.accept_only_from(to).map_err(failed)?;
        let errors = ProbeSocket::open(SocketKind::RawIcmp, &socket_settings).map_err(failed)?;
        let source = source(to, settings)?;
        if let Some(hops) = settings.hops {
            segments.set_ttl(hops).map_err(failed)?;
        }
        socket_settings.source = Some(source);
        let held: Vec<ProbeSocket> = (0..ports(settings, targets))
            .map(|_| {
                ProbeSocket::open(SocketKind::ReservedTcpPort, &socket_settings).map_err(failed)
            })
            .collect::<Result<_, Error>>()?;
        let ports = held.iter().map(|socket| Ok(socket.local().map_err(failed)?.port()));
        let ports = ports.collect::<Result<_, Error>>()?;
        Ok(Some(SynWay {
            segments: NumberedSocket::new(segments),
            errors: NumberedSocket::new(errors),
            _held: held,
            syns: Syns {
                ends: (source, to.ip()),
                ports,
                port: to.port(),
                first: super::random() as u32,
                payload: vec![0x2e; asked.size],
            },
            packet: Vec::new(),
        }))
    }
}

impl Syns {
    /// Which one a segment answers, and how; `None`: none of these.
    fn answer(&self, segment: &[u8], from: IpAddr) -> Option<(Number, ReplyKind)> {
        let head: &[u8; 20] = segment.first_chunk()?;
        let port = u16::from_be_bytes([head[2], head[3]]);
        if !self.ports.contains(&port) || from != self.ends.1 {
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
        // What carried data may be acknowledged with it or without it.
        let with = acknowledged.wrapping_sub(self.first).wrapping_sub(1);
        Some((Number::Low((with / self.step()) as u16), kind))
    }

    /// Which one an error of ICMP is about, and what it says; `None`: none of these.
    fn error(&self, message: &[u8]) -> Option<(Number, ReplyKind)> {
        let Icmp::Error(told) = Icmp::parse(self.ends.1.is_ipv6(), message)? else { return None };
        Some((self.quoted(&told.quoted?)?, told.kind))
    }

    /// From the sequence number of one packet to that of the next.
    fn step(&self) -> u32 {
        (self.payload.len() as u32 + 1).next_power_of_two()
    }

    fn sequence(&self, number: u64) -> u32 {
        // Low bits alone, as the answers have them: they repeat long after they were forgotten.
        self.first.wrapping_add(u32::from(number as u16).wrapping_mul(self.step()))
    }

    fn quoted(&self, quoted: &Quoted<'_>) -> Option<Number> {
        let (source, destination) = quoted.ports()?;
        let ours = quoted.protocol == tcp::PROTOCOL
            && quoted.destination == self.ends.1
            && destination == self.port
            && self.ports.contains(&source);
        let sequence = quoted.tcp_sequence().filter(|_| ours)?;
        Some(Number::Low((sequence.wrapping_sub(self.first) / self.step()) as u16))
    }
}

impl Way for SynWay {
    fn send(&mut self, number: u64) -> Result<(), String> {
        let Syns { ends, ports, port, payload, .. } = &self.syns;
        let from = ports[number as usize % ports.len()];
        let sequence = self.syns.sequence(number);
        build::syn(&mut self.packet, *ends, (from, *port), sequence, payload);
        let sent = self.segments.send(number, &self.packet, Some(ends.1));
        sent.map_err(|errno| unsent(errno, ends.1))
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        let syns = &self.syns;
        let mut tell = |said: Said<'_>, are_errors: bool| match said {
            Said::Left(number, at) => tell(News::Left(number, at)),
            Said::Error { .. } => {}
            Said::Packet { bytes, received, at } => {
                let (from, hops) = (received.from, received.ttl);
                let answer = if are_errors { syns.error(bytes) } else { syns.answer(bytes, from) };
                if let Some((number, kind)) = answer {
                    tell(News::Came(Came { number, kind, from, hops, bytes: None, at }));
                }
            }
        };
        self.segments.take(&mut |said| tell(said, false))?;
        self.errors.take(&mut |said| tell(said, true))
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.push((self.segments.as_fd(), false));
        into.push((self.errors.as_fd(), false));
    }
}

/// The address that packets there come from, as the kernel chooses it.
///
/// # Errors
///
/// No route.
pub(crate) fn source(to: SocketAddr, settings: &Settings) -> Result<IpAddr, Error> {
    let socket = ProbeSocket::open(SocketKind::Udp, &settings.socket(to.ip())).map_err(failed)?;
    // A port is needed, and of no meaning: nothing is sent.
    let to = SocketAddr::new(to.ip(), to.port().max(1));
    socket.connect(to).map_err(|errno| Error::Failed(unsent(errno, to.ip())))?;
    Ok(socket.local().map_err(failed)?.ip())
}

/// How many local ports the SYNs to one of so many targets come from.
fn ports(settings: &Settings, targets: usize) -> usize {
    let interval = match settings.flood {
        Some(rate) => Duration::from_secs(1) / rate.clamp(1, super::FLOOD_LEAST),
        None => settings.interval,
    };
    let sent = HALF_OPEN.as_secs_f64() / interval.as_secs_f64().max(1e-3);
    let most = (ALL_PORTS / targets.max(1)).clamp(*PORTS.start(), *PORTS.end());
    (sent.ceil() as usize + 1).clamp(*PORTS.start(), most)
}

/// The way for one of so many targets; and what it is called.
pub(super) fn open(
    asked: &Asked,
    settings: &Settings,
    targets: usize,
) -> Result<(Box<dyn Way>, model::PingMethod), Error> {
    Ok(match asked.how {
        How::Icmp => {
            // Tells at once when there is no route.
            source(asked.to, settings)?;
            (Box::new(EchoWay::open(asked, settings)?), model::PingMethod::Icmp)
        }
        How::Tcp => match SynWay::open(asked, settings, targets)? {
            Some(way) => (Box::new(way), model::PingMethod::TcpSyn),
            None => (
                Box::new(super::plain::ConnectWay::new(asked.to, settings)?),
                model::PingMethod::TcpConnect,
            ),
        },
        How::Udp => {
            (Box::new(super::plain::UdpWay::open(asked, settings)?), model::PingMethod::Udp)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_as_many_as_a_second_needs_and_files_allow() {
        let every = |ms, flood| Settings {
            interval: Duration::from_millis(ms),
            flood,
            ..Settings::default()
        };
        assert_eq!(ports(&every(1000, None), 1), 2);
        assert_eq!(ports(&every(10, None), 1), 101);
        assert_eq!(ports(&every(1000, Some(1000)), 1), 101);
        assert_eq!(ports(&every(1, None), 1), 128);
        assert_eq!(ports(&every(1, None), super::super::TARGETS), 8);
    }
}
