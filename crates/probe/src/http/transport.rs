//! A connection's bytes, with TLS or without. Never blocks.

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

use super::site::Address;

/// A socket, and the TLS on it.
pub(super) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    stamped: bool,
    /// When the bytes read last arrived, time since 1970.
    arrived: Option<Duration>,
}

/// Why bytes did not move.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// They may later.
    Later,
    /// The system says so.
    System(Errno),
    /// TLS says so.
    Tls(String),
}

impl From<Errno> for Stuck {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN | Errno::INTR => Stuck::Later,
            errno => Stuck::System(errno),
        }
    }
}

impl Transport {
    /// Begins to connect. `many`: more than one piece will be sent on it; `stamped`: the kernel
    /// is to tell when bytes arrive.
    pub(super) fn open(address: &Address, many: bool, stamped: bool) -> Result<Self, Errno> {
        let family = match address {
            Address::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            Address::Tcp(_) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let begun = match address {
            Address::Tcp(address) => {
                if many {
                    // One behind another must not wait for its acknowledgement.
                    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
                }
                connect(&socket, address)
            }
            Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path.as_path())?),
        };
        // Without stamps the times are this thread's own.
        let stamped = stamped && sys::timestamps::enable_receive_timestamps(&socket).is_ok();
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => {
                Ok(Transport { socket, tls: None, stamped, arrived: None })
            }
            Err(errno) => Err(errno),
        }
    }

    /// Why it could not connect, if it could not.
    pub(super) fn refused(&self) -> Option<Errno> {
        rustix::net::sockopt::socket_error(&self.socket).map_or_else(Some, Result::err)
    }

    /// How often its SYN was repeated.
    pub(super) fn syns_repeated(&self) -> u8 {
        let info = sys::tcp_socket::tcp_info(&self.socket).ok();
        info.and_then(|info| info.total_retrans).map_or(0, |n| u8::try_from(n).unwrap_or(u8::MAX))
    }

    /// From now on TLS is spoken.
    pub(super) fn secure(
        &mut self,
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
    ) -> Result<(), Stuck> {
        let tls = ClientConnection::new(Arc::clone(config), name.clone());
        self.tls = Some(Box::new(tls.map_err(|error| Stuck::Tls(error.to_string()))?));
        Ok(())
    }

    /// Goes on with the TLS handshake; true once it is over.
    pub(super) fn handshake(&mut self) -> Result<bool, Stuck> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.is_handshaking() {
            flush(tls, &self.socket)?;
            if !tls.is_handshaking() {
                break;
            }
            match fill(tls, &self.socket) {
                // An alert says why; it is sent if there is room for it.
                Err(stuck @ Stuck::Tls(_)) => {
                    let _ = flush(tls, &self.socket);
                    return Err(stuck);
                }
                Err(Stuck::Later) => return Ok(false),
                Err(stuck) => return Err(stuck),
                Ok(0) => return Err(Stuck::Tls("closed in the handshake".to_string())),
                Ok(_) => {}
            }
        }
        match flush(tls, &self.socket) {
            Ok(()) | Err(Stuck::Later) => Ok(true),
            Err(stuck) => Err(stuck),
        }
    }

    /// Writes: how many of these bytes are the kernel's, or TLS's, now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Stuck> {
        let Some(tls) = &mut self.tls else {
            return Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?);
        };
        flush(tls, &self.socket)?;
        let taken = tls.writer().write(bytes).map_err(|error| Stuck::Tls(error.to_string()))?;
        match flush(tls, &self.socket) {
            Ok(()) | Err(Stuck::Later) => Ok(taken),
            Err(stuck) => Err(stuck),
        }
    }

    /// Whether there are bytes that TLS took and the kernel did not.
    pub(super) fn owes(&mut self) -> Result<bool, Stuck> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        match flush(tls, &self.socket) {
            Ok(()) => Ok(false),
            Err(Stuck::Later) => Ok(true),
            Err(stuck) => Err(stuck),
        }
    }

    /// Reads; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Stuck> {
        let Some(tls) = &mut self.tls else {
            if self.stamped {
                let (read, arrived) = sys::timestamps::receive(&self.socket, into)?;
                self.arrived = arrived;
                return Ok(read);
            }
            return Ok(recv(&self.socket, into, RecvFlags::empty())?.0);
        };
        loop {
            match tls.reader().read(into) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // The end without a farewell: what came is whole or not, HTTP says it.
                Err(_) => return Ok(0),
            }
            fill(tls, &self.socket)?;
        }
    }

    /// How long ago the bytes arrived that were read last; nothing when the kernel did not tell.
    pub(super) fn waited(&self) -> Option<Duration> {
        let arrived = self.arrived?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        now.checked_sub(arrived)
    }

    /// Whether fewer bytes than were asked for mean that there are no more.
    pub(super) fn short_is_all(&self) -> bool {
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

fn stuck(error: &std::io::Error) -> Stuck {
    match Errno::from_io_error(error) {
        Some(errno) => errno.into(),
        None => Stuck::Tls(error.to_string()),
    }
}

fn flush(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<(), Stuck> {
    while tls.wants_write() {
        tls.write_tls(&mut Raw(socket)).map_err(|error| stuck(&error))?;
    }
    Ok(())
}

fn fill(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<usize, Stuck> {
    let read = tls.read_tls(&mut Raw(socket)).map_err(|error| stuck(&error))?;
    tls.process_new_packets().map_err(|error| Stuck::Tls(error.to_string()))?;
    Ok(read)
}
