//! A connection whose waits all end: with the stop, a deadline, or a timeout.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use sys::Stop;

use super::sysctl;
use crate::{Error, os_error_text};

/// Longest wait before the stop is checked again.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Appended to the error of a refused connection.
pub(super) const NOTHING_LISTENS: &str = "; nothing listens there";

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectionError {
    /// The stop was set.
    Stopped,
    /// No progress for this long.
    TimedOut(Duration),
    /// The peer closed it.
    Closed,
    /// Another error.
    Failed(String),
}

impl std::fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectionError::Stopped => f.write_str("stopped"),
            ConnectionError::TimedOut(time) => write!(f, "no data for {}", text::duration(*time)),
            ConnectionError::Closed => f.write_str("the peer closed the connection"),
            ConnectionError::Failed(why) => f.write_str(why),
        }
    }
}

impl From<std::io::Error> for ConnectionError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionReset => {
                ConnectionError::Failed("the peer reset the connection".to_string())
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => ConnectionError::Closed,
            _ => ConnectionError::Failed(os_error_text(&error)),
        }
    }
}

/// Whether a system call is to be repeated when the socket is ready.
pub(super) fn is_not_ready(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// A connection, its stop and its timeout.
pub(super) struct Connection<'a> {
    pub(super) stream: TcpStream,
    pub(super) stop: &'a Stop,
    /// Without progress for this long it has failed.
    pub(super) timeout: Duration,
}

impl Connection<'_> {
    /// Waits until the socket is ready, at most until this time; whether it is.
    pub(super) fn wait(&self, flags: PollFlags, until: Instant) -> Result<bool, ConnectionError> {
        wait(&self.stream, flags, self.stop, until)
    }

    /// Reads what is there, and waits for it: how many bytes, 0 at the end of the stream.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, ConnectionError> {
        let until = Instant::now() + self.timeout;
        loop {
            match self.stream.read(into) {
                Ok(length) => return Ok(length),
                Err(error) if is_not_ready(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if !self.wait(PollFlags::IN, until)? && Instant::now() >= until {
                return Err(ConnectionError::TimedOut(self.timeout));
            }
        }
    }

    /// Reads at most `max` bytes into a buffer, as [`Connection::read`].
    pub(super) fn read_up_to(
        &mut self,
        max: u64,
        buffer: &mut [u8],
    ) -> Result<usize, ConnectionError> {
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(buffer.len());
        self.read(buffer.get_mut(..max).unwrap_or_default())
    }

    /// Reads exactly this many bytes. All of them have to arrive within the timeout.
    pub(super) fn read_array<const N: usize>(&mut self) -> Result<[u8; N], ConnectionError> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills a buffer. All bytes have to arrive within the timeout.
    pub(super) fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), ConnectionError> {
        let until = Instant::now() + self.timeout;
        while !into.is_empty() {
            let length = match self.read(into)? {
                0 => return Err(ConnectionError::Closed),
                length => length,
            };
            into = into.get_mut(length..).unwrap_or_default();
            if !into.is_empty() && Instant::now() >= until {
                return Err(ConnectionError::TimedOut(self.timeout));
            }
        }
        Ok(())
    }

    /// Writes all bytes.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        let until = Instant::now() + self.timeout;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Err(error) if is_not_ready(&error) => {
                    if !self.wait(PollFlags::OUT, until)? && Instant::now() >= until {
                        return Err(ConnectionError::TimedOut(self.timeout));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Waits until a socket is ready, at most until this time; whether it is.
pub(super) fn wait(
    socket: &impl std::os::fd::AsFd,
    flags: PollFlags,
    stop: &Stop,
    until: Instant,
) -> Result<bool, ConnectionError> {
    loop {
        if stop.is_set() {
            return Err(ConnectionError::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        let slice = left.min(MAX_WAIT);
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()) };
        match poll(&mut [PollFd::new(socket, flags)], Some(&time)) {
            Ok(0) if left <= MAX_WAIT => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(ConnectionError::Failed(os_error_text(&errno.into()))),
        }
    }
}

/// Sets the congestion control of a socket.
pub(super) fn set_congestion(socket: &impl std::os::fd::AsFd, name: &str) -> Result<(), Error> {
    rustix::net::sockopt::set_tcp_congestion(socket, name).map_err(|errno| {
        let why = match errno {
            rustix::io::Errno::NOENT => "the kernel does not know it".to_string(),
            rustix::io::Errno::PERM => "only root may use it here".to_string(),
            other => os_error_text(&other.into()),
        };
        let available = sysctl::available_congestion_controls().unwrap_or_default();
        let name = text::sanitize::line(name);
        Error::Failed(format!(
            "cannot use the congestion control {name}: {why}; available: {available}"
        ))
    })
}

/// Opens a connection; and how long the handshake took.
pub(super) fn connect<'a>(
    address: SocketAddr,
    congestion: Option<&str>,
    timeout: Duration,
    stop: &'a Stop,
) -> Result<(Connection<'a>, Duration), Error> {
    let failed = |why: &str| Error::Failed(format!("cannot connect to {address}: {why}"));
    let system = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => NOTHING_LISTENS,
            _ => "",
        };
        failed(&format!("{}{hint}", os_error_text(&error)))
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(system)?;
    if let Some(name) = congestion {
        set_congestion(&socket, name)?;
    }
    // A small request must not wait for the acknowledgement of the one before it.
    let _ = socket.set_tcp_nodelay(true);
    let start = Instant::now();
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            let ready = wait(&socket, PollFlags::OUT, stop, start + timeout)
                .map_err(|error| failed(&error.to_string()))?;
            if !ready {
                return Err(failed(&format!(
                    "no reply for {}; is it up, and does a firewall let it through?",
                    text::duration(timeout)
                )));
            }
            if let Some(error) = socket.take_error().map_err(system)? {
                return Err(system(error));
            }
        }
        Err(error) => return Err(system(error)),
    }
    Ok((Connection { stream: socket.into(), stop, timeout }, start.elapsed()))
}
