//! Sockets of probes: packets out with a time to live of their own, answers and errors in, with the
//! time at which the kernel saw them.
//!
//! - [`ProbeSocket`]: the socket
//! - [`message`]: what the kernel says beside a packet: times, hops, errors
//! - [`name_of`]: the name of an address
//!
//! Nothing here waits: who sends and receives polls the sockets.

use std::ffi::{c_int, c_uint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

mod message;
mod names;

pub use message::{ErrorQueueEvent, Received, SocketError};
pub use names::reverse_dns_name;

/// Bytes that a receive buffer is asked to have: a burst of answers must fit.
const RECEIVE_BUFFER_BYTES: c_int = 4 << 20;
/// Times of both directions, taken by the kernel's software; those of sent packets come numbered and
/// without the packet.
const TIMESTAMPING_FLAGS: c_uint = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// Message types of ICMP that a probe wants: echo reply, unreachable, time exceeded, bad header.
const ICMP_TYPES: [u8; 4] = [0, 3, 11, 12];
/// Message types of ICMPv6: unreachable, too big, time exceeded, bad header, echo reply.
const ICMPV6_TYPES: [u8; 5] = [1, 2, 3, 4, 129];

/// What a socket sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// ICMP messages, of any process. Needs CAP_NET_RAW.
    RawIcmp,
    /// TCP segments, of any connection. Needs CAP_NET_RAW.
    RawTcp,
    /// UDP datagrams, of any port. Needs CAP_NET_RAW.
    RawUdp,
    /// ICMP echoes of this process. Needs a group in net.ipv4.ping_group_range.
    Echo,
    /// UDP datagrams of this socket; needs no rights.
    Udp,
    /// Nothing: a TCP port is held, so that no other program gets it; needs no rights.
    ReservedTcpPort,
}

/// How packets are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether the socket is of IPv6.
    pub v6: bool,
    /// Whether IPv4 packets are handed over with their header, made by the sender. Raw only.
    pub with_header: bool,
    /// Type of service, or traffic class; all eight bits.
    pub tos: Option<u8>,
    /// Whether routers may fragment packets; else they say that one is too large.
    pub dont_fragment: bool,
    /// Where packets come from; the kernel chooses without it.
    pub source: Option<IpAddr>,
    /// Interface by which they leave; the kernel chooses without it.
    pub interface: Option<String>,
}

/// A socket of a probe.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: OwnedFd,
    v6: bool,
    /// Whether the kernel hands over IPv4 packets with their header.
    has_header: bool,
    name: &'static str,
}

impl ProbeSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// No right to do so, no such source or interface.
    pub fn open(carries: SocketKind, settings: &Settings) -> Result<Self> {
        let (kind, protocol, name) = carries.kernel(settings.v6);
        let tried = "open a socket for";
        let family = if settings.v6 { libc::AF_INET6 } else { libc::AF_INET };
        let socket = socket(family, kind, protocol).map_err(|errno| {
            let mut error = Error::from_errno(tried, name, errno);
            if error.kind == ErrorKind::PermissionDenied {
                error.reason.push_str("; it needs CAP_NET_RAW: run as root (sudo netwhy)");
            }
            error
        })?;
        let has_header = kind == libc::SOCK_RAW && !settings.v6;
        let this = ProbeSocket { socket, v6: settings.v6, has_header, name };
        this.set_options(carries, settings)?;
        Ok(this)
    }

    fn set_options(&self, carries: SocketKind, settings: &Settings) -> Result<()> {
        // Larger than the limit only with rights; the smaller one does too.
        if self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER_BYTES).is_err() {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER_BYTES);
        }
        if let Some(interface) = &settings.interface {
            self.set_bytes(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes()).map_err(
                |errno| Error::from_errno("send by the interface", interface.as_str(), errno),
            )?;
        }
        let (level, discover, class, hops) = if self.v6 {
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_TCLASS,
                libc::IPV6_RECVHOPLIMIT,
            )
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_TOS, libc::IP_RECVTTL)
        };
        // PROBE: as large as asked, whatever is known of the path. DONT: routers may fragment.
        let with = if settings.dont_fragment || settings.with_header {
            libc::IP_PMTUDISC_PROBE
        } else {
            libc::IP_PMTUDISC_DONT
        };
        self.set_required(level, discover, &with)?;
        if self.v6 && settings.dont_fragment {
            self.set_required(level, libc::IPV6_DONTFRAG, &1)?;
        }
        if let Some(tos) = settings.tos {
            self.set_required(level, class, &c_int::from(tos))?;
        }
        if settings.with_header && !self.v6 {
            self.set_required(level, libc::IP_HDRINCL, &1)?;
        }
        self.set_required(level, hops, &1)?;
        match carries {
            SocketKind::RawIcmp => self.accept_only_replies()?,
            // Errors about what this socket sent come to it.
            SocketKind::Udp | SocketKind::Echo => {
                let errors = if self.v6 { libc::IPV6_RECVERR } else { libc::IP_RECVERR };
                self.set_required(level, errors, &1)?;
            }
            _ => {}
        }
        // Without them the process takes the time itself.
        if carries != SocketKind::ReservedTcpPort {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &TIMESTAMPING_FLAGS);
        }
        let any: IpAddr =
            if self.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let holds_port = matches!(carries, SocketKind::ReservedTcpPort | SocketKind::Udp);
        if settings.source.is_some() || holds_port {
            let source = settings.source.unwrap_or(any);
            message::bind(&self.socket, SocketAddr::new(source, 0))
                .map_err(|errno| Error::from_errno("send from", source.to_string(), errno))?;
        }
        Ok(())
    }

    /// Lets only the messages through that a probe may be answered with.
    fn accept_only_replies(&self) -> Result<()> {
        if self.v6 {
            // `struct icmp6_filter`: a bit for each type that is blocked.
            let mut blocked = [u32::MAX; 8];
            for kind in ICMPV6_TYPES {
                blocked[usize::from(kind >> 5)] &= !(1 << (kind & 31));
            }
            return self.set_required(libc::IPPROTO_ICMPV6, 1, &blocked);
        }
        // `ICMP_FILTER` of linux/icmp.h.
        let blocked = ICMP_TYPES.iter().fold(u32::MAX, |blocked, kind| blocked & !(1 << kind));
        self.set_required(libc::SOL_RAW, 1, &blocked)
    }

    /// Lets only segments or datagrams from this address and port through. For raw sockets of TCP
    /// and UDP, which else receive those of all connections of the host.
    ///
    /// # Errors
    ///
    /// The kernel takes no filter.
    pub fn accept_only_from(&self, from: SocketAddr) -> Result<()> {
        // Classic BPF: load a word or half word, leap if it is not equal, keep or drop.
        const WORD: u16 = 0x20;
        const HALF: u16 = 0x28;
        const HALF_FROM_X: u16 = 0x48;
        const X_IS_HEADER: u16 = 0xb1;
        const EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let (words, at): (Vec<u32>, u32) = match from.ip() {
            IpAddr::V4(address) => (vec![u32::from(address)], 12),
            IpAddr::V6(address) => {
                let words = address.octets().as_chunks::<4>().0.to_vec();
                (words.into_iter().map(u32::from_be_bytes).collect(), 8)
            }
        };
        let mut steps: Vec<(u16, u32)> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            // From the start of the network header, wherever the socket's data begin.
            let offset = (libc::SKF_NET_OFF as u32).wrapping_add(at + 4 * index as u32);
            steps.extend([(WORD, offset), (EQUAL, *word)]);
        }
        if self.v6 {
            steps.push((HALF, 0));
        } else {
            steps.extend([(X_IS_HEADER, 0), (HALF_FROM_X, 0)]);
        }
        steps.extend([(EQUAL, u32::from(from.port())), (RETURN, u32::MAX), (RETURN, 0)]);
        let drop = steps.len() - 1;
        let mut program: Vec<libc::sock_filter> = (steps.iter().enumerate())
            .map(|(index, (code, k))| {
                // At most a dozen steps.
                let jf = if *code == EQUAL { (drop - index - 1) as u8 } else { 0 };
                libc::sock_filter { code: *code, jt: 0, jf, k: *k }
            })
            .collect();
        message::attach(&self.socket, &mut program)
            .map_err(|errno| Error::from_errno("filter the socket for", self.name, errno))
    }

    /// Sets the time to live, or hop limit, of what is sent from now on. Of no meaning where
    /// packets are sent with their header.
    ///
    /// # Errors
    ///
    /// The kernel does not take it: zero.
    pub fn set_ttl(&self, hops: u8) -> Result<()> {
        let hops = c_int::from(hops);
        if self.v6 {
            self.set_required(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &hops)
        } else {
            self.set_required(libc::IPPROTO_IP, libc::IP_TTL, &hops)
        }
    }

    /// Fixes the other end. Only what comes from there is received.
    ///
    /// # Errors
    ///
    /// No route.
    pub fn connect(&self, to: SocketAddr) -> std::result::Result<(), Errno> {
        message::connect(&self.socket, to)
    }

    /// Its own address and port.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn local(&self) -> Result<SocketAddr> {
        message::local(&self.socket).map_err(|errno| {
            Error::from_errno("ask for the address of the socket for", self.name, errno)
        })
    }

    /// Whether it is of IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Whether what is received begins with the header of IPv4.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// The MTU of the path to where it is connected, as the kernel knows it; bytes.
    pub fn path_mtu(&self) -> Option<u32> {
        let (level, option) = if self.v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU)
        };
        let mtu: c_int = message::get(&self.socket, level, option).ok()?;
        u32::try_from(mtu).ok()
    }

    /// Sends a packet; without an address to where it is connected.
    ///
    /// # Errors
    ///
    /// As the kernel has them: no route, too large, forbidden by a filter, no room now.
    pub fn send(&self, bytes: &[u8], to: Option<IpAddr>) -> std::result::Result<(), Errno> {
        // Raw sockets of IPv6 take no port but zero.
        message::send(&self.socket, bytes, to.map(|to| SocketAddr::new(to, 0)))
    }

    /// Forgets an error that came back for a packet sent before, which else fails the next one; it is
    /// still in the queue of errors.
    pub fn clear_pending_error(&self) {
        let _ = message::get(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR);
    }

    /// Counts the stamps of sent packets from 0 again: after a packet that could not be sent, nobody
    /// knows whether the kernel counted it.
    pub fn restart_timestamp_ids(&self) {
        for stamps in [TIMESTAMPING_FLAGS & !libc::SOF_TIMESTAMPING_OPT_ID, TIMESTAMPING_FLAGS] {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &stamps);
        }
    }

    /// Takes the next packet; `None` when there is none now. Errors that belong to packets sent
    /// before are no errors here: [`ProbeSocket::told`] has them.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub fn receive(&self, into: &mut [u8]) -> Result<Option<Received>> {
        message::receive(&self.socket, into, self.has_header)
            .map_err(|errno| Error::from_errno("receive from the socket for", self.name, errno))
    }

    /// Takes what the kernel says of packets that were sent: when they left, or an error that came
    /// back for one, the front of whose payload is then in `into`. `None` when there is nothing.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub fn read_error_queue(&self, into: &mut [u8]) -> Result<Option<ErrorQueueEvent>> {
        message::read_error_queue(&self.socket, into).map_err(|errno| {
            Error::from_errno("receive errors from the socket for", self.name, errno)
        })
    }

    fn set_required<T>(&self, level: c_int, option: c_int, value: &T) -> Result<()> {
        self.set(level, option, value)
            .map_err(|errno| Error::from_errno("set an option of the socket for", self.name, errno))
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> std::result::Result<(), Errno> {
        message::set(&self.socket, level, option, value)
    }

    fn set_bytes(
        &self,
        level: c_int,
        option: c_int,
        bytes: &[u8],
    ) -> std::result::Result<(), Errno> {
        message::set_bytes(&self.socket, level, option, bytes)
    }
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl SocketKind {
    /// Type, protocol, and a name for errors.
    fn kernel(self, v6: bool) -> (c_int, c_int, &'static str) {
        let icmp = if v6 { libc::IPPROTO_ICMPV6 } else { libc::IPPROTO_ICMP };
        match self {
            SocketKind::RawIcmp => (libc::SOCK_RAW, icmp, "raw ICMP"),
            SocketKind::RawTcp => (libc::SOCK_RAW, libc::IPPROTO_TCP, "raw TCP"),
            SocketKind::RawUdp => (libc::SOCK_RAW, libc::IPPROTO_UDP, "raw UDP"),
            SocketKind::Echo => (libc::SOCK_DGRAM, icmp, "ICMP echoes"),
            SocketKind::Udp => (libc::SOCK_DGRAM, libc::IPPROTO_UDP, "UDP"),
            SocketKind::ReservedTcpPort => (libc::SOCK_STREAM, libc::IPPROTO_TCP, "TCP"),
        }
    }
}

/// Waits until one of the sockets has something, or for so long at most. Those with `true` are waited
/// for until they can be written to as well.
///
/// # Errors
///
/// The kernel cannot wait for them. A signal is none.
pub fn wait(sockets: &[(BorrowedFd<'_>, bool)], time: Duration) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let what = |writing| if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut all: Vec<PollFd<'_>> = (sockets.iter())
        .map(|(socket, writing)| PollFd::from_borrowed_fd(*socket, what(*writing)))
        .collect();
    let time = Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    match poll(&mut all, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::from_errno("wait for", "the sockets of the probe", errno)),
    }
}

#[allow(unsafe_code)]
fn socket(family: c_int, kind: c_int, protocol: c_int) -> std::result::Result<OwnedFd, Errno> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked before it is used.
    let socket = unsafe { libc::socket(family, kind | flags, protocol) };
    if socket < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel just gave this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// The error of the last call.
fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The number of a descriptor, for calls of libc.
fn raw(socket: &OwnedFd) -> c_int {
    socket.as_raw_fd()
}
