//! A connection that never blocks for long: every wait ends with the stop, a deadline, or silence.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::target::plain;
use sys::Stop;

use crate::Error;

/// How long a wait lasts at most before the stop is looked at.
const SLICE: Duration = Duration::from_millis(20);

/// What is said of a port that refuses.
pub(super) const NOBODY: &str = "; nothing listens there";

/// Why a connection goes no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The probe is to end.
    Stopped,
    /// Nothing moved for so long.
    Silent(Duration),
    /// The peer closed it.
    Closed,
    /// The system said no.
    Failed(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Stopped => f.write_str("it was stopped"),
            Ended::Silent(time) => write!(f, "nothing came for {:.0} s", time.as_secs_f64()),
            Ended::Closed => f.write_str("the peer closed the connection"),
            Ended::Failed(words) => f.write_str(words),
        }
    }
}

impl From<&std::io::Error> for Ended {
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionReset => Ended::Failed("the peer reset the connection".into()),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Ended::Closed,
            _ => Ended::Failed(plain(error)),
        }
    }
}

/// Whether a call has to be made again later.
pub(super) fn later(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// A connection, and when to give up.
pub(super) struct Line<'a> {
    pub(super) stream: TcpStream,
    pub(super) stop: &'a Stop,
    /// So long nothing may move.
    pub(super) patience: Duration,
}

impl Line<'_> {
    /// Waits until the socket is ready for this, no longer than until `until`; whether it is.
    pub(super) fn ready(&self, flags: PollFlags, until: Instant) -> Result<bool, Ended> {
        wait(&self.stream, flags, self.stop, until)
    }

    /// Reads what is there, waiting for it: how many bytes, 0 at the end of the stream.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Ended> {
        let until = Instant::now() + self.patience;
        loop {
            match self.stream.read(into) {
                Ok(length) => return Ok(length),
                Err(error) if later(&error) => {}
                Err(error) => return Err(Ended::from(&error)),
            }
            if !self.ready(PollFlags::IN, until)? && Instant::now() >= until {
                return Err(Ended::Silent(self.patience));
            }
        }
    }

    /// Reads exactly so many bytes. However slowly they come, they are here within the patience.
    pub(super) fn exactly<const N: usize>(&mut self) -> Result<[u8; N], Ended> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The same into a slice.
    pub(super) fn fill(&mut self, into: &mut [u8]) -> Result<(), Ended> {
        let until = Instant::now() + self.patience;
        let mut have = 0;
        while have < into.len() {
            match self.read(&mut into[have..])? {
                0 => return Err(Ended::Closed),
                more => have += more,
            }
            if have < into.len() && Instant::now() >= until {
                return Err(Ended::Silent(self.patience));
            }
        }
        Ok(())
    }

    /// Writes all of it.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Ended> {
        let until = Instant::now() + self.patience;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(Ended::Closed),
                Ok(length) => bytes = &bytes[length..],
                Err(error) if later(&error) => {
                    if !self.ready(PollFlags::OUT, until)? && Instant::now() >= until {
                        return Err(Ended::Silent(self.patience));
                    }
                }
                Err(error) => return Err(Ended::from(&error)),
            }
        }
        Ok(())
    }
}

/// Waits until a socket is ready, no longer than until `until`; whether it is.
pub(super) fn wait(
    socket: &impl std::os::fd::AsFd,
    flags: PollFlags,
    stop: &Stop,
    until: Instant,
) -> Result<bool, Ended> {
    loop {
        if stop.is_set() {
            return Err(Ended::Stopped);
        }
        let left = until.saturating_duration_since(Instant::now());
        let slice = left.min(SLICE);
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()) };
        match poll(&mut [PollFd::new(socket, flags)], Some(&time)) {
            Ok(0) if left <= SLICE => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(Ended::Failed(plain(&errno.into()))),
        }
    }
}

/// Sets the congestion control of a socket.
pub(super) fn set_congestion(socket: &impl std::os::fd::AsFd, name: &str) -> Result<(), Error> {
    rustix::net::sockopt::set_tcp_congestion(socket, name).map_err(|errno| {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let known = known.unwrap_or_default();
        let what = match errno {
            rustix::io::Errno::NOENT => "the kernel has none of that name".to_string(),
            rustix::io::Errno::PERM => "only root may use it here".to_string(),
            other => plain(&other.into()),
        };
        Error::Failed(format!(
            "cannot use the congestion control {name}: {what}; there are: {}",
            known.trim()
        ))
    })
}

/// Opens a connection, and how long the handshake took.
pub(super) fn connect<'a>(
    address: SocketAddr,
    congestion: Option<&str>,
    patience: Duration,
    stop: &'a Stop,
) -> Result<(Line<'a>, Duration), Error> {
    let failed = |what: &str, more: &str| {
        Error::Failed(format!("cannot connect to {address}: {what}{more}"))
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(|error| failed(&plain(&error), ""))?;
    if let Some(name) = congestion {
        set_congestion(&socket, name)?;
    }
    // A request is small and must not wait for the acknowledgement of the one before.
    let _ = socket.set_tcp_nodelay(true);
    let began = Instant::now();
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            let ready = wait(&socket, PollFlags::OUT, stop, began + patience)
                .map_err(|ended| failed(&ended.to_string(), ""))?;
            if !ready {
                let time = format!("no answer for {:.0} s", patience.as_secs_f64());
                return Err(failed(&time, "; is it up, and does a firewall let it through?"));
            }
            if let Some(error) = socket.take_error().map_err(|error| failed(&plain(&error), ""))? {
                return Err(refused(&failed, &error));
            }
        }
        Err(error) => return Err(refused(&failed, &error)),
    }
    Ok((Line { stream: socket.into(), stop, patience }, began.elapsed()))
}

fn refused(failed: &impl Fn(&str, &str) -> Error, error: &std::io::Error) -> Error {
    let more = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => NOBODY,
        _ => "",
    };
    failed(&plain(error), more)
}
