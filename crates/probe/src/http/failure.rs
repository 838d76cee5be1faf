//! Why a connection failed, and which error that is counted as.

use rustix::io::Errno;

use super::figures::count;
use super::transport::Stuck;

/// Why a connection failed.
pub(super) enum Failure {
    Connect(Errno),
    Tls(String),
    Write(Errno),
    Read(Errno),
    ClosedBefore,
    ClosedInAnswer,
    TimeoutConnect,
    TimeoutAnswer,
    Malformed(&'static str),
}

impl Failure {
    pub(super) fn of_tls(stuck: Stuck) -> Self {
        match stuck {
            Stuck::Tls(why) => Failure::Tls(why),
            Stuck::System(errno) => Failure::Tls(name(errno)),
            Stuck::Later => Failure::Tls("it goes on".to_string()),
        }
    }

    pub(super) fn of_write(stuck: Stuck) -> Self {
        match stuck {
            Stuck::System(errno) => Failure::Write(errno),
            other => Failure::of_tls(other),
        }
    }

    pub(super) fn of_read(stuck: Stuck) -> Self {
        match stuck {
            Stuck::System(errno) => Failure::Read(errno),
            other => Failure::of_tls(other),
        }
    }

    /// Whether the next try must not come at once.
    pub(super) fn rests(&self) -> bool {
        !matches!(self, Failure::TimeoutConnect | Failure::TimeoutAnswer)
    }

    pub(super) fn count(&self, errors: &mut model::HttpErrors) {
        match self {
            Failure::Connect(errno) => count(&mut errors.connect, &name(*errno)),
            Failure::Tls(why) => count(&mut errors.tls, why),
            Failure::Write(errno) => count(&mut errors.write, &name(*errno)),
            Failure::Read(errno) => count(&mut errors.read, &name(*errno)),
            Failure::ClosedBefore => errors.closed_before_response += 1,
            Failure::ClosedInAnswer => errors.closed_mid_response += 1,
            Failure::TimeoutConnect => errors.timeout_connect += 1,
            Failure::TimeoutAnswer => errors.timeout_response += 1,
            Failure::Malformed(what) => count(&mut errors.malformed, what),
        }
    }
}

/// The name that manual pages have for an error.
fn name(errno: Errno) -> String {
    let known = [
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::CONNABORTED, "ECONNABORTED"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::NETUNREACH, "ENETUNREACH"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::PIPE, "EPIPE"),
        (Errno::MFILE, "EMFILE"),
        (Errno::NFILE, "ENFILE"),
        (Errno::NOBUFS, "ENOBUFS"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::ACCESS, "EACCES"),
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::INVAL, "EINVAL"),
    ];
    let known = known.iter().find(|(other, _)| *other == errno).map(|(_, name)| *name);
    known.map_or_else(|| format!("errno {}", errno.raw_os_error()), str::to_string)
}
