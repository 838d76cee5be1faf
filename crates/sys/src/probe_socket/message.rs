//! Packets in, with their control messages: when they came, their time to live, and the ICMP errors
//! and send times in the error queue. The system calls that receive are here.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;

use super::address::Address;
use super::kernel::{last_error, raw};

/// Room for control messages: times, time to live, and an error with an address.
const CONTROL_BYTES: usize = 512;
/// `SO_EE_ORIGIN_*` of linux/errqueue.h.
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_TIMESTAMPING: u8 = 4;
/// Bytes of `struct sock_extended_err`.
const EXTENDED_ERROR_BYTES: usize = 16;
/// Most pending errors that one call skips.
const MAX_ERRORS_SKIPPED: usize = 64;

/// A packet that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length; its bytes are at the front of the buffer. Raw IPv4 has its header.
    pub length: usize,
    /// Sender.
    pub from: IpAddr,
    /// Time to live, or hop limit, with which it arrived.
    pub ttl: Option<u8>,
    /// When the kernel received it: time since 1970-01-01 UTC.
    pub at: Option<Duration>,
}

/// What the kernel reports about a packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorQueueEvent {
    /// It left.
    Sent {
        /// Its number: sent packets are counted from 0.
        key: u32,
        /// When: time since 1970-01-01 UTC.
        at: Duration,
    },
    /// An error came back.
    Error(SocketError),
    /// Anything else.
    Other,
}

/// An error that came back for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketError {
    /// Type and code of the ICMP message; `None`: the error is from this host.
    pub icmp: Option<(u8, u8)>,
    /// The system's error number.
    pub errno: u32,
    /// MTU of the next link, bytes, if a packet was too large.
    pub info: u32,
    /// Sender of the ICMP message.
    pub offender: Option<IpAddr>,
    /// When the kernel received it: time since 1970-01-01 UTC.
    pub at: Option<Duration>,
    /// Length of the quoted payload of the packet, at the front of the buffer.
    pub length: usize,
}

/// Room for control messages, aligned as their headers are.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The result of one `recvmsg`.
struct Message {
    length: usize,
    from: Option<SocketAddr>,
    control: Control,
    control_length: usize,
}

/// Receives one packet; `None`: there is none now.
#[allow(unsafe_code)]
fn receive_message(
    socket: &OwnedFd,
    into: &mut [u8],
    flags: c_int,
) -> Result<Option<Message>, Errno> {
    let mut address = Address::empty();
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all zero is a value of `msghdr`: no pointers that are followed, no lengths.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_name = std::ptr::from_mut(&mut address).cast();
    header.msg_namelen = size_of::<Address>() as libc::socklen_t;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header points to an address, one part and room for control messages, each as long as
    // its length and each outliving the call.
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
        control,
        control_length: header.msg_controllen,
    }))
}

/// Receives the next packet.
pub(super) fn receive(
    socket: &OwnedFd,
    into: &mut [u8],
    has_header: bool,
) -> Result<Option<Received>, Errno> {
    // The kernel returns pending errors of earlier packets here first, one by one.
    for _ in 0..MAX_ERRORS_SKIPPED {
        let message = match receive_message(socket, into, 0) {
            Ok(None) => return Ok(None),
            Ok(Some(message)) => message,
            Err(
                errno @ (Errno::BADF | Errno::NOTSOCK | Errno::INVAL | Errno::FAULT | Errno::NOMEM),
            ) => return Err(errno),
            Err(_) => continue,
        };
        let mut ttl = None;
        let mut at = None;
        for (level, kind, data) in control_messages(&message) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at = software_time(data),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    ttl = u32_at(data, 0).and_then(|ttl| u8::try_from(ttl).ok());
                }
                _ => {}
            }
        }
        if has_header {
            ttl = into.get(8).copied();
        }
        let Some(from) = message.from else { continue };
        return Ok(Some(Received { length: message.length, from: from.ip(), ttl, at }));
    }
    Ok(None)
}

/// Reads the next event of the error queue.
pub(super) fn read_error_queue(
    socket: &OwnedFd,
    into: &mut [u8],
) -> Result<Option<ErrorQueueEvent>, Errno> {
    let Some(message) = receive_message(socket, into, libc::MSG_ERRQUEUE)? else { return Ok(None) };
    let mut at = None;
    let mut error = None;
    for (level, kind, data) in control_messages(&message) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at = software_time(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                error = data.split_first_chunk::<EXTENDED_ERROR_BYTES>();
            }
            _ => {}
        }
    }
    let Some((error, address)) = error else { return Ok(Some(ErrorQueueEvent::Other)) };
    // `struct sock_extended_err`: errno, origin, type, code, padding, info, data; then an address.
    let (origin, kind, code) = (error[4], error[5], error[6]);
    let word = |at| u32_at(error, at).unwrap_or(0);
    Ok(Some(match (origin, at) {
        (ORIGIN_TIMESTAMPING, Some(at)) => ErrorQueueEvent::Sent { key: word(12), at },
        (ORIGIN_LOCAL | ORIGIN_ICMP | ORIGIN_ICMP6, at) => ErrorQueueEvent::Error(SocketError {
            icmp: (origin != ORIGIN_LOCAL).then_some((kind, code)),
            errno: word(0),
            info: word(8),
            offender: offender(address),
            at,
            length: message.length,
        }),
        _ => ErrorQueueEvent::Other,
    }))
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

/// The first of three times, which is that of software; zero is none.
fn software_time(data: &[u8]) -> Option<Duration> {
    let long = |at: usize| -> Option<i64> {
        Some(i64::from_ne_bytes(*data.get(at..)?.first_chunk::<8>()?))
    };
    let (seconds, nanoseconds) = (u64::try_from(long(0)?).ok()?, u32::try_from(long(8)?).ok()?);
    let time = Duration::new(seconds, nanoseconds.min(999_999_999));
    (!time.is_zero()).then_some(time)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk::<4>()?))
}

/// Control messages: level, type, content. Walked by hand on bytes: a header of a length, a level and a
/// type, then the content, each aligned to the size of a length.
fn control_messages(message: &Message) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
    let control = &message.control.0;
    let mut rest = control.get(..message.control_length).unwrap_or(control);
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
    fn control_messages_end_at_damage() {
        let control = Control([0; CONTROL_BYTES]);
        let mut message = Message { length: 0, from: None, control, control_length: 40 };
        message.control.0[..8].copy_from_slice(&20usize.to_ne_bytes());
        message.control.0[16..20].copy_from_slice(&7u32.to_ne_bytes());
        message.control.0[24..32].copy_from_slice(&usize::MAX.to_ne_bytes());
        let all: Vec<_> = control_messages(&message).collect();
        assert_eq!(all, [(0, 0, &7u32.to_ne_bytes()[..])]);
    }
}
