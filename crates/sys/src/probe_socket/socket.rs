//! The socket of a probe: what it sends and receives, its options, its filters.

use std::ffi::{c_int, c_uint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

use super::kernel;
use super::message::{self, ErrorQueueEvent, Received};

/// Receive buffer that is requested: a burst of replies must fit.
const RECEIVE_BUFFER_BYTES: c_int = 4 << 20;
/// Time stamps of both directions, by the kernel's software; those of sent packets come with a number
/// and without the packet.
const TIMESTAMPING_FLAGS: c_uint = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// ICMP types that a probe may get back: echo reply, unreachable, time exceeded, parameter problem.
const ICMP_TYPES: [u8; 4] = [0, 3, 11, 12];
/// The same of ICMPv6: unreachable, packet too big, time exceeded, parameter problem, echo reply.
const ICMPV6_TYPES: [u8; 5] = [1, 2, 3, 4, 129];

/// What a socket sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// ICMP messages of all processes. Needs CAP_NET_RAW.
    RawIcmp,
    /// TCP segments of all connections. Needs CAP_NET_RAW.
    RawTcp,
    /// UDP datagrams of all ports. Needs CAP_NET_RAW.
    RawUdp,
    /// ICMP echoes of this socket. Needs a group in net.ipv4.ping_group_range.
    Echo,
    /// UDP datagrams of this socket; needs no rights.
    Udp,
    /// Nothing: it reserves a TCP port, so that no other program gets it; needs no rights.
    ReservedTcpPort,
}

/// How packets are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether the socket is of IPv6.
    pub v6: bool,
    /// Whether the sender makes the IPv4 header (IP_HDRINCL). Raw only.
    pub with_header: bool,
    /// Type of service, or traffic class; all eight bits.
    pub tos: Option<u8>,
    /// Whether routers must not fragment packets, but report those that are too large.
    pub dont_fragment: bool,
    /// Source address; the kernel chooses one without it.
    pub source: Option<IpAddr>,
    /// Interface on which packets leave; the kernel chooses one without it.
    pub interface: Option<String>,
}

/// A socket of a probe.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: OwnedFd,
    v6: bool,
    /// Whether received IPv4 packets have their header.
    has_header: bool,
    name: &'static str,
}

impl ProbeSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// No right to open it, no such source address or interface.
    pub fn open(carries: SocketKind, settings: &Settings) -> Result<Self> {
        let (kind, protocol, name) = carries.kernel(settings.v6);
        let action = "open a socket for";
        let family = if settings.v6 { libc::AF_INET6 } else { libc::AF_INET };
        let socket = kernel::socket(family, kind, protocol).map_err(|errno| {
            let mut error = Error::from_errno(action, name, errno);
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
        // Above the limit only with rights; the limit will do too.
        if self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER_BYTES).is_err() {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER_BYTES);
        }
        if let Some(interface) = &settings.interface {
            self.set_bytes(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes()).map_err(
                |errno| Error::from_errno("send on the interface", interface.as_str(), errno),
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
        // PROBE: any size, whatever path MTU is known. DONT: routers may fragment.
        let path_mtu_discovery = if settings.dont_fragment || settings.with_header {
            libc::IP_PMTUDISC_PROBE
        } else {
            libc::IP_PMTUDISC_DONT
        };
        self.set_required(level, discover, &path_mtu_discovery)?;
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
            // ICMP errors about packets of this socket go to its error queue.
            SocketKind::Udp | SocketKind::Echo => {
                let errors = if self.v6 { libc::IPV6_RECVERR } else { libc::IP_RECVERR };
                self.set_required(level, errors, &1)?;
            }
            _ => {}
        }
        // Without time stamps the process takes the time itself.
        if carries != SocketKind::ReservedTcpPort {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &TIMESTAMPING_FLAGS);
        }
        let any: IpAddr =
            if self.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let needs_port = matches!(carries, SocketKind::ReservedTcpPort | SocketKind::Udp);
        if settings.source.is_some() || needs_port {
            let source = settings.source.unwrap_or(any);
            kernel::bind(&self.socket, SocketAddr::new(source, 0))
                .map_err(|errno| Error::from_errno("send from", source.to_string(), errno))?;
        }
        Ok(())
    }

    /// Receives only the ICMP messages that a probe may get back.
    fn accept_only_replies(&self) -> Result<()> {
        if self.v6 {
            // `struct icmp6_filter`: a bit for each type that is blocked, 32 types in a word.
            let blocked: [u32; 8] = std::array::from_fn(|word| {
                let here = ICMPV6_TYPES.iter().filter(|kind| usize::from(**kind >> 5) == word);
                here.fold(u32::MAX, |blocked, kind| blocked & !(1 << (kind & 31)))
            });
            return self.set_required(libc::IPPROTO_ICMPV6, 1, &blocked);
        }
        // `ICMP_FILTER` of linux/icmp.h.
        let blocked = ICMP_TYPES.iter().fold(u32::MAX, |blocked, kind| blocked & !(1 << kind));
        self.set_required(libc::SOL_RAW, 1, &blocked)
    }

    /// Receives only segments or datagrams from this address and port. For raw sockets of TCP and UDP,
    /// which otherwise receive those of all connections of the host.
    ///
    /// # Errors
    ///
    /// The kernel does not accept the filter.
    pub fn accept_only_from(&self, from: SocketAddr) -> Result<()> {
        // Classic BPF: load a word or half word, jump if it is not equal, keep or drop.
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
            // Relative to the network header, wherever the socket's data begin.
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
        kernel::attach(&self.socket, &mut program)
            .map_err(|errno| Error::from_errno("filter the socket for", self.name, errno))
    }

    /// Sets the time to live, or hop limit, of packets from now on. Without effect where the sender
    /// makes the header.
    ///
    /// # Errors
    ///
    /// The kernel does not accept it: zero.
    pub fn set_ttl(&self, ttl: u8) -> Result<()> {
        let ttl = c_int::from(ttl);
        if self.v6 {
            self.set_required(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &ttl)
        } else {
            self.set_required(libc::IPPROTO_IP, libc::IP_TTL, &ttl)
        }
    }

    /// Sets the remote address. Only packets from there are received.
    ///
    /// # Errors
    ///
    /// No route.
    pub fn connect(&self, to: SocketAddr) -> std::result::Result<(), Errno> {
        kernel::connect(&self.socket, to)
    }

    /// Its local address and port.
    ///
    /// # Errors
    ///
    /// The socket is unusable.
    pub fn local(&self) -> Result<SocketAddr> {
        kernel::local(&self.socket).map_err(|errno| {
            Error::from_errno("get the address of the socket for", self.name, errno)
        })
    }

    /// Whether it is of IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Whether received packets begin with an IPv4 header.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// The kernel's path MTU to where it is connected; bytes.
    pub fn path_mtu(&self) -> Option<u32> {
        let (level, option) = if self.v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU)
        };
        let mtu: c_int = kernel::get(&self.socket, level, option).ok()?;
        u32::try_from(mtu).ok()
    }

    /// Sends a packet; without an address, to where it is connected.
    ///
    /// # Errors
    ///
    /// Those of sendto(2): no route, too large, prohibited by a filter, no room now.
    pub fn send(&self, bytes: &[u8], to: Option<IpAddr>) -> std::result::Result<(), Errno> {
        // Raw sockets of IPv6 accept no port but zero.
        kernel::send(&self.socket, bytes, to.map(|to| SocketAddr::new(to, 0)))
    }

    /// Clears the pending error of an earlier packet, which would otherwise fail the next one. The error
    /// stays in the error queue.
    pub fn clear_pending_error(&self) {
        let _ = kernel::get(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR);
    }

    /// Restarts the numbers of send time stamps at 0: after a packet that could not be sent it is not
    /// known whether the kernel counted it.
    pub fn restart_timestamp_ids(&self) {
        for flags in [TIMESTAMPING_FLAGS & !libc::SOF_TIMESTAMPING_OPT_ID, TIMESTAMPING_FLAGS] {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags);
        }
    }

    /// Receives the next packet; `None` when there is none now. Errors of packets that were sent are not
    /// errors here: [`ProbeSocket::read_error_queue`] returns them.
    ///
    /// # Errors
    ///
    /// The socket is unusable.
    pub fn receive(&self, into: &mut [u8]) -> Result<Option<Received>> {
        message::receive(&self.socket, into, self.has_header)
            .map_err(|errno| Error::from_errno("receive from the socket for", self.name, errno))
    }

    /// Reads the next event about packets that were sent: when one left, or an error that came back, with
    /// the front of the packet's payload in `into`. `None` when there is none now.
    ///
    /// # Errors
    ///
    /// The socket is unusable.
    pub fn read_error_queue(&self, into: &mut [u8]) -> Result<Option<ErrorQueueEvent>> {
        message::read_error_queue(&self.socket, into).map_err(|errno| {
            Error::from_errno("read the error queue of the socket for", self.name, errno)
        })
    }

    fn set_required<T>(&self, level: c_int, option: c_int, value: &T) -> Result<()> {
        self.set(level, option, value)
            .map_err(|errno| Error::from_errno("set an option of the socket for", self.name, errno))
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> std::result::Result<(), Errno> {
        kernel::set(&self.socket, level, option, value)
    }

    fn set_bytes(
        &self,
        level: c_int,
        option: c_int,
        bytes: &[u8],
    ) -> std::result::Result<(), Errno> {
        kernel::set_bytes(&self.socket, level, option, bytes)
    }
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl SocketKind {
    /// Type, protocol, and a name for error messages.
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

/// Waits until one of the sockets can be read, or the time is over. Those with `true` may also be
/// written to.
///
/// # Errors
///
/// The kernel cannot wait for them. A signal is not an error.
pub fn wait(sockets: &[(BorrowedFd<'_>, bool)], time: Duration) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let events = |writing| if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut all: Vec<PollFd<'_>> = (sockets.iter())
        .map(|(socket, writing)| PollFd::from_borrowed_fd(*socket, events(*writing)))
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
