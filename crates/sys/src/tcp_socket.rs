//! What the kernel knows about a TCP socket of this process: `TCP_INFO`, `SO_MEMINFO`.

use std::os::fd::{AsFd, AsRawFd as _};

use model::{SocketMemory, TcpInfo};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Room for `struct tcp_info`: 280 bytes in Linux 6.18, and it grows.
const TCP_INFO_BYTES: usize = 512;
/// Nine words (`SK_MEMINFO_VARS`), and room for more.
const MEMINFO_BYTES: usize = 64;
/// `SO_MEMINFO` of asm-generic/socket.h, since Linux 4.12.
const SO_MEMINFO: i32 = 55;

/// The kernel's `tcp_info` of a TCP socket. A field that this kernel does not have is `None`.
///
/// # Errors
///
/// It is not a TCP socket.
pub fn tcp_info(socket: &impl AsFd) -> Result<TcpInfo> {
    let mut bytes = [0; TCP_INFO_BYTES];
    let what = "TCP_INFO of a socket";
    let length = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
        .map_err(|errno| Error::from_errno("read", what, errno))?;
    let found = wire::sock_diag::tcp_info(bytes.get(..length).unwrap_or(&bytes));
    found.ok_or_else(|| Error::from_errno("read", what, Errno::NODATA))
}

/// Buffer memory of a socket.
///
/// # Errors
///
/// It is not a socket, or the kernel is older than Linux 4.12.
pub fn socket_memory(socket: &impl AsFd) -> Result<SocketMemory> {
    let mut bytes = [0; MEMINFO_BYTES];
    let what = "SO_MEMINFO of a socket";
    let length = option(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut bytes)
        .map_err(|errno| Error::from_errno("read", what, errno))?;
    let found = wire::sock_diag::socket_memory(bytes.get(..length).unwrap_or(&bytes));
    found.ok_or_else(|| Error::from_errno("read", what, Errno::NODATA))
}

/// Reads an option of a socket; returns how many bytes the kernel wrote.
#[allow(unsafe_code)]
fn option(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    into: &mut [u8],
) -> std::result::Result<usize, Errno> {
    let file = socket.as_fd();
    let mut length = libc::socklen_t::try_from(into.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the descriptor is open for as long as it is borrowed; the kernel writes at most
    // `length` bytes, which `into` has, and into `length` how many it wrote.
    let done = unsafe {
        libc::getsockopt(
            file.as_raw_fd(),
            level,
            name,
            into.as_mut_ptr().cast::<libc::c_void>(),
            &raw mut length,
        )
    };
    if done == 0 {
        Ok(usize::try_from(length).unwrap_or(0).min(into.len()))
    } else {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_loopback_connection_has_figures() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        one.write_all(&[7; 5000]).unwrap();
        let info = tcp_info(&one).unwrap();
        assert_eq!(info.bytes_sent, Some(5000));
        assert!(info.snd_cwnd.unwrap() >= 1 && info.snd_mss.unwrap() > 500);
        let held = socket_memory(&other).unwrap();
        assert!(held.receive_buffer_bytes > 5000 && held.receive_bytes > 0, "{held:?}");
    }

    #[test]
    fn a_udp_socket_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = tcp_info(&socket).unwrap_err().to_string();
        assert!(error.contains("TCP_INFO of a socket"), "{error}");
    }
}
