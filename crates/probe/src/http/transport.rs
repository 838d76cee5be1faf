//! The bytes of a connection, with or without TLS, without blocking.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::origin::Address;

/// Most reads in a row that bring no data: a record arrives in a few, and tickets of sessions are few.
const MAX_READS_WITHOUT_DATA: usize = 1000;

/// A socket, with or without TLS.
pub(super) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// Whether the kernel time-stamps received bytes.
    timestamped: bool,
    /// When the kernel received the bytes that were read last, since 1970-01-01 UTC.
    received_at: Option<Duration>,
}

/// Why no bytes were sent or received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TransportError {
    /// The socket is not ready.
    NotReady,
    /// A system call failed.
    System(Errno),
    /// TLS failed.
    Tls(String),
}

impl From<Errno> for TransportError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN | Errno::INTR => TransportError::NotReady,
            errno => TransportError::System(errno),
        }
    }
}

impl Transport {
    /// Starts to connect. `nodelay`: more than one request may be in flight on it (TCP_NODELAY);
    /// `timestamped`: the kernel time-stamps received bytes.
    pub(super) fn connect(
        address: &Address,
        nodelay: bool,
        timestamped: bool,
    ) -> Result<Self, Errno> {
        let family = match address {
            Address::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            Address::Tcp(_) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let result = match address {
            Address::Tcp(address) => {
                if nodelay {
                    // A request must not wait for the acknowledgement of the one before it.
                    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
                }
                connect(&socket, address)
            }
            Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path.as_path())?),
        };
        // Without time stamps the times are this thread's own.
        let timestamped =
            timestamped && sys::timestamps::enable_receive_timestamps(&socket).is_ok();
        match result {
            Ok(()) | Err(Errno::INPROGRESS) => {
                Ok(Transport { socket, tls: None, timestamped, received_at: None })
            }
            Err(errno) => Err(errno),
        }
    }

    /// Why it could not connect; `None`: no error.
    pub(super) fn connect_error(&self) -> Option<Errno> {
        rustix::net::sockopt::socket_error(&self.socket).map_or_else(Some, Result::err)
    }

    /// How often its SYN was retransmitted.
    pub(super) fn syn_retransmissions(&self) -> u8 {
        let info = sys::tcp_socket::tcp_info(&self.socket).ok();
        info.and_then(|info| info.total_retrans).map_or(0, |n| u8::try_from(n).unwrap_or(u8::MAX))
    }

    /// Starts TLS.
    pub(super) fn start_tls(
        &mut self,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), TransportError> {
        let tls = ClientConnection::new(Arc::clone(config), name);
        self.tls = Some(Box::new(tls.map_err(tls_error)?));
        Ok(())
    }

    /// Continues the TLS handshake; whether it is complete.
    pub(super) fn handshake(&mut self) -> Result<bool, TransportError> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.is_handshaking() {
            flush(tls, &self.socket)?;
            if !tls.is_handshaking() {
                break;
            }
            match fill(tls, &self.socket) {
                // Sends the alert that tells the server why, if there is room for it.
                Err(error @ TransportError::Tls(_)) => {
                    let _ = flush(tls, &self.socket);
                    return Err(error);
                }
                Err(TransportError::NotReady) => return Ok(false),
                Err(error) => return Err(error),
                Ok(0) => {
                    let why = "connection closed during the handshake".to_string();
                    return Err(TransportError::Tls(why));
                }
                Ok(_) => {}
            }
        }
        match flush(tls, &self.socket) {
            Ok(()) | Err(TransportError::NotReady) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Writes: how many of the bytes the kernel, or TLS, has taken.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, TransportError> {
        let Some(tls) = &mut self.tls else {
            return Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?);
        };
        flush(tls, &self.socket)?;
        let taken = tls.writer().write(bytes).map_err(tls_error)?;
        match flush(tls, &self.socket) {
            Ok(()) | Err(TransportError::NotReady) => Ok(taken),
            Err(error) => Err(error),
        }
    }

    /// Writes what TLS has taken and the kernel has not; whether some of it is left.
    pub(super) fn has_unsent(&mut self) -> Result<bool, TransportError> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        match flush(tls, &self.socket) {
            Ok(()) => Ok(false),
            Err(TransportError::NotReady) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, TransportError> {
        let Some(tls) = &mut self.tls else {
            if self.timestamped {
                let (read, received_at) = sys::timestamps::receive(&self.socket, into)?;
                self.received_at = received_at;
                return Ok(read);
            }
            return Ok(recv(&self.socket, into, RecvFlags::empty())?.0);
        };
        for _ in 0..MAX_READS_WITHOUT_DATA {
            match tls.reader().read(into) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Closed without close_notify: HTTP knows whether the response is complete.
                Err(_) => return Ok(0),
            }
            fill(tls, &self.socket)?;
        }
        Err(TransportError::Tls("TLS messages without data, and no end of them".to_string()))
    }

    /// How long the bytes that were read last lay in the socket; `None`: without a kernel time stamp.
    pub(super) fn read_delay(&self) -> Option<Duration> {
        let received_at = self.received_at?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        now.checked_sub(received_at)
    }

    /// Whether a read of fewer bytes than requested has emptied the socket.
    pub(super) fn short_read_is_all(&self) -> bool {
        self.tls.is_none()
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket as rustls reads and writes it.
struct Raw<'a>(&'a OwnedFd);

impl std::io::Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(recv(self.0, into, RecvFlags::empty())?.0)
    }
}

impl std::io::Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn io_error(error: std::io::Error) -> TransportError {
    match Errno::from_io_error(&error) {
        Some(errno) => errno.into(),
        None => TransportError::Tls(error.to_string()),
    }
}

fn tls_error(error: impl std::fmt::Display) -> TransportError {
    TransportError::Tls(error.to_string())
}

/// Writes all that TLS has for the socket.
fn flush(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<(), TransportError> {
    while tls.wants_write() {
        tls.write_tls(&mut Raw(socket)).map_err(io_error)?;
    }
    Ok(())
}

/// Reads from the socket into TLS.
fn fill(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<usize, TransportError> {
    let read = tls.read_tls(&mut Raw(socket)).map_err(io_error)?;
    tls.process_new_packets().map_err(tls_error)?;
    Ok(read)
}
