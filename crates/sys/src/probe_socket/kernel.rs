//! System calls of a probe socket: opening, options, addresses, sending. Those that receive are in
//! [`message`](super::message).

use std::ffi::c_int;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::address::Address;

/// Opens a socket that never blocks.
#[allow(unsafe_code)]
pub(super) fn socket(family: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd, Errno> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked before it is used.
    let socket = unsafe { libc::socket(family, kind | flags, protocol) };
    if socket < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// The error of the last call.
pub(super) fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The number of a descriptor, for calls of libc.
pub(super) fn raw(socket: &OwnedFd) -> c_int {
    socket.as_raw_fd()
}

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
    // SAFETY: both callers pass a pointer to `length` bytes that outlive the call; the kernel only
    // reads them.
    let result =
        unsafe { libc::setsockopt(raw(socket), level, option, value, length as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads an option that is a number.
#[allow(unsafe_code)]
pub(super) fn get(socket: &OwnedFd, level: c_int, option: c_int) -> Result<c_int, Errno> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes, and both outlive the call.
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

/// The local address of a socket.
#[allow(unsafe_code)]
pub(super) fn local(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    let mut address = Address::empty();
    let mut length = size_of::<Address>() as libc::socklen_t;
    // SAFETY: the union has room for any address, of the size that is passed.
    let result = unsafe {
        libc::getsockname(raw(socket), std::ptr::from_mut(&mut address).cast(), &mut length)
    };
    if result != 0 {
        return Err(last_error());
    }
    address.get().ok_or(Errno::AFNOSUPPORT)
}

/// Sends a packet; without an address, to where the socket is connected.
#[allow(unsafe_code)]
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], to: Option<SocketAddr>) -> Result<(), Errno> {
    let address = to.map(Address::of);
    let (at, length) = match &address {
        Some((address, length)) => (address.as_ptr(), *length),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: the bytes and the address outlive the call, and have the lengths that are passed.
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
