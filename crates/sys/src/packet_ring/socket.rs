//! Packet sockets: the system calls. Every unsafe call of the ring is here or in
//! [`map`](super::map).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Instruction;

#[allow(unsafe_code)]
pub(super) fn packet_socket(kind: c_int, name: &str) -> Result<OwnedFd> {
    // SAFETY: no memory is passed. The result, if not negative, is a new descriptor that nothing
    // else owns.
    let made = unsafe {
        match libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) {
            -1 => Err(last_error()),
            made => Ok(OwnedFd::from_raw_fd(made)),
        }
    };
    made.map_err(|errno| {
        let mut error = Error::from_errno("capture on", name, errno);
        match errno {
            Errno::PERM | Errno::ACCESS => {
                error
                    .reason
                    .push_str("; capturing needs CAP_NET_RAW: run as root (sudo netwhy capture)");
            }
            Errno::AFNOSUPPORT => {
                error.kind = ErrorKind::Unsupported;
                error.reason = "this kernel has no packet sockets (CONFIG_PACKET)".to_string();
            }
            _ => {}
        }
        error
    })
}

fn address(protocol: u16, index: u32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

#[allow(unsafe_code)]
pub(super) fn bind(socket: &OwnedFd, protocol: u16, index: u32) -> rustix::io::Result<()> {
    let address = address(protocol, index);
    // SAFETY: the address is of this family and of the size that is passed, and outlives the call.
    check(unsafe {
        let length = size_of_val(&address) as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    })
}

/// The type (`ARPHRD_*`) of the device to which a socket is bound.
#[allow(unsafe_code)]
pub(super) fn device_type(socket: &OwnedFd) -> Option<u16> {
    let mut address = address(0, 0);
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the address, which is all plain numbers
    // and outlives the call.
    check(unsafe {
        let to = (&raw mut address).cast();
        libc::getsockname(socket.as_raw_fd(), to, &raw mut length)
    })
    .ok()?;
    Some(address.sll_hatype)
}

/// A value of an option of a packet socket.
///
/// # Safety
///
/// Numbers only, with the kernel's layout: any bytes are a value.
#[allow(unsafe_code)]
pub(super) unsafe trait Plain: Copy {}
// SAFETY: a number.
#[allow(unsafe_code)]
unsafe impl Plain for c_int {}
// SAFETY: repr(C), numbers only.
#[allow(unsafe_code)]
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: repr(C), numbers only.
#[allow(unsafe_code)]
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: repr(C), numbers only.
#[allow(unsafe_code)]
unsafe impl Plain for libc::tpacket_stats_v3 {}

/// Sets an option of the level SOL_PACKET.
#[allow(unsafe_code)]
pub(super) fn set<T: Plain>(socket: &OwnedFd, option: c_int, value: &T) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads the value, of the size that is passed; `Plain` has no pointers.
    check(unsafe {
        let (from, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, from, length)
    })
}

#[allow(unsafe_code)]
pub(super) fn get<T: Plain>(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    into: &mut T,
) -> rustix::io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the value, and any bytes are one.
    check(unsafe {
        let to = std::ptr::from_mut(into).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, to, &raw mut length)
    })
}

/// Makes a program the filter of a socket, replacing the one before.
#[allow(unsafe_code)]
pub(super) fn attach(socket: &OwnedFd, program: &[Instruction]) -> rustix::io::Result<()> {
    const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: SO_ATTACH_FILTER reads a sock_fprog and the instructions it points to, `length` of
    // them, laid out as the kernel's; it writes to neither, and checks the program itself.
    check(unsafe {
        let (from, size) = (&raw const program, size_of_val(&program) as libc::socklen_t);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
        libc::setsockopt(socket.as_raw_fd(), level, option, from.cast(), size)
    })
}

fn check(returned: c_int) -> rustix::io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(last_error()) }
}

pub(super) fn last_error() -> Errno {
    io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
