//! What the kernel says beside a packet: when it left or came, how many hops it has left, and which
//! error came back for it. All calls of libc with pointers are here.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;

use super::{last_error, raw};

/// Room for what comes beside a packet: times, hops, and an error with an address.
const CONTROL_BYTES: usize = 512;
/// `SO_EE_ORIGIN_*` of linux/errqueue.h.
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_STAMP: u8 = 4;
/// Bytes of `struct sock_extended_err`.
const EXTENDED_ERROR_BYTES: usize = 16;

/// A packet that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its bytes, at the front of the buffer. Raw IPv4 has its header.
    pub length: usize,
    /// Who sent it.
    pub from: IpAddr,
    /// Time to live, or hop limit, that it arrived with.
    pub ttl: Option<u8>,
    /// When the kernel received it: time since 1970-01-01 UTC.
    pub at: Option<Duration>,
}

/// What the kernel says of a packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorQueueEvent {
    /// It left.
    Sent {
        /// Which one: sent packets are counted from 0.
        key: u32,
        /// When: time since 1970-01-01 UTC.
        at: Duration,
    },
    /// An error came back.
    Error(SocketError),
    /// Something that says nothing of use.
    Other,
}

/// An error that came back for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketError {
    /// Type and code of the ICMP message; `None`: this host itself says so.
    pub icmp: Option<(u8, u8)>,
    /// Number of the system's error.
    pub errno: u32,
    /// MTU of the next link, bytes, if a packet was too large.
    pub info: u32,
    /// Who sent the message.
    pub offender: Option<IpAddr>,
    /// When the kernel received it: time since 1970-01-01 UTC.
    pub at: Option<Duration>,
    /// Bytes of the payload of the packet that it is about, at the front of the buffer.
    pub length: usize,
}

/// An address as the kernel has it.
#[repr(C)]
pub(super) union Address {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    room: libc::sockaddr_storage,
}

impl Address {
    /// An address and its length.
    pub(super) fn of(address: SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (Address { v4 }, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (Address { v6 }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }

    #[allow(unsafe_code)]
    fn empty() -> Self {
        // SAFETY: all zero is a value of `sockaddr_storage`, which has numbers alone.
        Address { room: unsafe { MaybeUninit::zeroed().assume_init() } }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::from_ref(self).cast()
    }

    /// What it says; `None`: neither IPv4 nor IPv6.
    #[allow(unsafe_code)]
    fn get(&self) -> Option<SocketAddr> {
        // SAFETY: every member begins with the family, and any bytes are a value of each of them;
        // the whole union was set before.
        let family = unsafe { self.any.sa_family };
        match c_int::from(family) {
            libc::AF_INET => {
                // SAFETY: as above.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { self.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Room beside a packet, aligned as headers in it are.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Sets an option.
pub(super) fn set<T>(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    value: &T,
) -> Result<(), Errno> {
    set_at(socket, level, option, std::ptr::from_ref(value).cast(), size_of::<T>())
}

/// Sets an option that is text.
pub(super) fn set_bytes(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    bytes: &[u8],
) -> Result<(), Errno> {
    set_at(socket, level, option, bytes.as_ptr().cast(), bytes.len())
}

#[allow(unsafe_code)]
fn set_at(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    value: *const libc::c_void,
    length: usize,
) -> Result<(), Errno> {
    // SAFETY: both callers hand over a place with so many bytes, which outlives the call; the kernel
    // only reads it.
    let result =
        unsafe { libc::setsockopt(raw(socket), level, option, value, length as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads an option that is a number.
#[allow(unsafe_code)]
pub(super) fn get(socket: &OwnedFd, level: c_int, option: c_int) -> Result<c_int, Errno> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` has room for as many bytes as are told, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            raw(socket),
            level,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(last_error()) }
}

/// Attaches a filter.
pub(super) fn attach(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> Result<(), Errno> {
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // The kernel copies the program, which outlives the call.
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

#[allow(unsafe_code)]
pub(super) fn bind(socket: &OwnedFd, to: SocketAddr) -> Result<(), Errno> {
    let (address, length) = Address::of(to);
    // SAFETY: the address has this length and outlives the call.
    let result = unsafe { libc::bind(raw(socket), address.as_ptr(), length) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

#[allow(unsafe_code)]
pub(super) fn connect(socket: &OwnedFd, to: SocketAddr) -> Result<(), Errno> {
    let (address, length) = Address::of(to);
    // SAFETY: the address has this length and outlives the call.
    let result = unsafe { libc::connect(raw(socket), address.as_ptr(), length) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

#[allow(unsafe_code)]
pub(super) fn local(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    let mut address = Address::empty();
    let mut length = size_of::<Address>() as libc::socklen_t;
    // SAFETY: the union has room for any address and as many bytes as are told.
    let result = unsafe {
        libc::getsockname(raw(socket), std::ptr::from_mut(&mut address).cast(), &mut length)
    };
    if result != 0 {
        return Err(last_error());
    }
    address.get().ok_or(Errno::AFNOSUPPORT)
}

#[allow(unsafe_code)]
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], to: Option<SocketAddr>) -> Result<(), Errno> {
    let address = to.map(Address::of);
    let (at, length) = match &address {
        Some((address, length)) => (address.as_ptr(), *length),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: the bytes and the address outlive the call, and have the lengths that are told.
    let sent = unsafe {
        libc::sendto(
            raw(socket),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            at,
            length,
        )
    };
    if sent < 0 { Err(last_error()) } else { Ok(()) }
}

/// What one call of `recvmsg` gave.
struct Message {
    length: usize,
    from: Option<SocketAddr>,
    control: Control,
    control_length: usize,
}

/// Receives one packet; `None`: nothing there now.
#[allow(unsafe_code)]
fn receive_message(
    socket: &OwnedFd,
    into: &mut [u8],
    flags: c_int,
) -> Result<Option<Message>, Errno> {
    let mut address = Address::empty();
    let mut beside = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all zero is a value of `msghdr`: no pointers that are followed, no lengths.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_name = std::ptr::from_mut(&mut address).cast();
    header.msg_namelen = size_of::<Address>() as libc::socklen_t;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = beside.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header points to an address, one part and room beside, each as long as is told and
    // each outliving the call.
    let length = unsafe { libc::recvmsg(raw(socket), &mut header, flags | libc::MSG_DONTWAIT) };
    if length < 0 {
        return match last_error() {
            Errno::AGAIN | Errno::INTR => Ok(None),
            errno => Err(errno),
        };
    }
    let from = if header.msg_namelen > 0 { address.get() } else { None };
    Ok(Some(Message {
        length: usize::try_from(length).unwrap_or(0).min(into.len()),
        from,
        control: beside,
        control_length: header.msg_controllen.min(CONTROL_BYTES),
    }))
}

/// Takes the next packet.
pub(super) fn receive(
    socket: &OwnedFd,
    into: &mut [u8],
    has_header: bool,
) -> Result<Option<Received>, Errno> {
    // Errors that ICMP reported for earlier packets are read here first, one by one.
    for _ in 0..64 {
        let message = match receive_message(socket, into, 0) {
            Ok(None) => return Ok(None),
            Ok(Some(message)) => message,
            Err(
                errno @ (Errno::BADF | Errno::NOTSOCK | Errno::INVAL | Errno::FAULT | Errno::NOMEM),
            ) => return Err(errno),
            Err(_) => continue,
        };
        let mut hops = None;
        let mut at = None;
        for (level, kind, data) in control_messages(&message) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at = stamp(data),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    hops = number(data, 0).and_then(|hops| u8::try_from(hops).ok());
                }
                _ => {}
            }
        }
        if has_header {
            hops = into.get(8).copied();
        }
        let Some(from) = message.from else { continue };
        return Ok(Some(Received { length: message.length, from: from.ip(), ttl: hops, at }));
    }
    Ok(None)
}

/// Takes what the kernel says of packets that were sent.
pub(super) fn read_error_queue(
    socket: &OwnedFd,
    into: &mut [u8],
) -> Result<Option<ErrorQueueEvent>, Errno> {
    let Some(message) = receive_message(socket, into, libc::MSG_ERRQUEUE)? else { return Ok(None) };
    let mut at = None;
    let mut error = None;
    for (level, kind, data) in control_messages(&message) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at = stamp(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                error = Some(data);
            }
            _ => {}
        }
    }
    let Some(data) = error.filter(|data| data.len() >= EXTENDED_ERROR_BYTES) else {
        return Ok(Some(ErrorQueueEvent::Other));
    };
    // `struct sock_extended_err`: errno, origin, type, code, padding, info, data; then an address.
    let (origin, kind, code) = (data[4], data[5], data[6]);
    let word = |at| number(data, at).unwrap_or(0);
    match (origin, at) {
        (ORIGIN_STAMP, Some(at)) => Ok(Some(ErrorQueueEvent::Sent { key: word(12), at })),
        (ORIGIN_LOCAL | ORIGIN_ICMP | ORIGIN_ICMP6, at) => {
            Ok(Some(ErrorQueueEvent::Error(SocketError {
                icmp: (origin != ORIGIN_LOCAL).then_some((kind, code)),
                errno: word(0),
                info: word(8),
                offender: offender(&data[EXTENDED_ERROR_BYTES..]),
                at,
                length: message.length,
            })))
        }
        _ => Ok(Some(ErrorQueueEvent::Other)),
    }
}

/// The address after an extended error.
fn offender(bytes: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    match c_int::from(family) {
        libc::AF_INET => Some(IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => Some(IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// The first of three times, which is the one of software; zero is none.
fn stamp(data: &[u8]) -> Option<Duration> {
    let long = |at: usize| -> Option<i64> {
        Some(i64::from_ne_bytes(*data.get(at..)?.first_chunk::<8>()?))
    };
    let (seconds, nanoseconds) = (u64::try_from(long(0)?).ok()?, u32::try_from(long(8)?).ok()?);
    let time = Duration::new(seconds, nanoseconds.min(999_999_999));
    (!time.is_zero()).then_some(time)
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk::<4>()?))
}

/// The parts beside a packet: level, type, content. Walked by hand on bytes: a header of a length, a
/// level and a type, then the content, each aligned to the size of a length.
fn control_messages(message: &Message) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
    let mut rest = &message.control.0[..message.control_length];
    std::iter::from_fn(move || {
        const WORD: usize = size_of::<usize>();
        const HEADER: usize = WORD + 8;
        let length = usize::from_ne_bytes(*rest.first_chunk::<WORD>()?);
        let level = i32::from_ne_bytes(*rest.get(WORD..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*rest.get(WORD + 4..)?.first_chunk()?);
        let content = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some((level, kind, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        for text in ["198.18.0.1:80", "[fd00::1]:443"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::of(address).0.get(), Some(address));
        }
    }

    #[test]
    fn parts_end_at_damage() {
        let mut message = Message {
            length: 0,
            from: None,
            control: Control([0; CONTROL_BYTES]),
            control_length: 40,
        };
        message.control.0[..8].copy_from_slice(&20usize.to_ne_bytes());
        message.control.0[16..20].copy_from_slice(&7u32.to_ne_bytes());
        message.control.0[24..32].copy_from_slice(&usize::MAX.to_ne_bytes());
        let all: Vec<_> = control_messages(&message).collect();
        assert_eq!(all, [(0, 0, &7u32.to_ne_bytes()[..])]);
    }
}
