//! Why a request failed, and as which error it is counted.

use std::collections::BTreeMap;

use model::HttpErrors;
use rustix::io::Errno;

use super::transport::TransportError;

/// Most kinds of errors in one category: reasons contain text of the server, in endless variety.
const MAX_KINDS: usize = 32;
/// The kind of those beyond.
const OTHER: &str = "other";

/// Why a request failed.
pub(super) enum Failure {
    Connect(Errno),
    Tls(String),
    Write(Errno),
    Read(Errno),
    ClosedBeforeResponse,
    ClosedMidResponse,
    ConnectTimeout,
    ResponseTimeout,
    Malformed(&'static str),
}

impl Failure {
    pub(super) fn of_tls(error: TransportError) -> Self {
        match error {
            TransportError::Tls(why) => Failure::Tls(why),
            TransportError::System(errno) => Failure::Tls(name(errno)),
            TransportError::NotReady => Failure::Tls("handshake not complete".to_string()),
        }
    }

    pub(super) fn of_write(error: TransportError) -> Self {
        match error {
            TransportError::System(errno) => Failure::Write(errno),
            other => Failure::of_tls(other),
        }
    }

    pub(super) fn of_read(error: TransportError) -> Self {
        match error {
            TransportError::System(errno) => Failure::Read(errno),
            other => Failure::of_tls(other),
        }
    }

    /// Whether the connection waits before its next attempt. After a timeout it has waited already.
    pub(super) fn needs_back_off(&self) -> bool {
        !matches!(self, Failure::ConnectTimeout | Failure::ResponseTimeout)
    }

    /// Counts it.
    pub(super) fn count(&self, errors: &mut HttpErrors) {
        match self {
            Failure::Connect(errno) => count(&mut errors.connect, &name(*errno)),
            Failure::Tls(why) => count(&mut errors.tls, why),
            Failure::Write(errno) => count(&mut errors.write, &name(*errno)),
            Failure::Read(errno) => count(&mut errors.read, &name(*errno)),
            Failure::ClosedBeforeResponse => errors.closed_before_response += 1,
            Failure::ClosedMidResponse => errors.closed_mid_response += 1,
            Failure::ConnectTimeout => errors.timeout_connect += 1,
            Failure::ResponseTimeout => errors.timeout_response += 1,
            Failure::Malformed(why) => count(&mut errors.malformed, why),
        }
    }
}

fn count(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let kind = if kinds.contains_key(kind) || kinds.len() < MAX_KINDS { kind } else { OTHER };
    *kinds.entry(kind.to_string()).or_default() += 1;
}

/// Adds the errors of another thread.
pub(super) fn add_errors(errors: &mut HttpErrors, other: HttpErrors) {
    for (kinds, others) in [
        (&mut errors.connect, other.connect),
        (&mut errors.tls, other.tls),
        (&mut errors.write, other.write),
        (&mut errors.read, other.read),
        (&mut errors.malformed, other.malformed),
    ] {
        for (kind, count) in others {
            *kinds.entry(kind).or_default() += count;
        }
    }
    errors.closed_before_response += other.closed_before_response;
    errors.closed_mid_response += other.closed_mid_response;
    errors.timeout_connect += other.timeout_connect;
    errors.timeout_response += other.timeout_response;
}

/// The name of an error in errno(3).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut kinds = BTreeMap::new();
        for number in 0..1_000 {
            count(&mut kinds, &format!("kind {number}"));
        }
        assert_eq!(kinds.len(), MAX_KINDS + 1);
        assert_eq!(kinds.values().sum::<u64>(), 1_000);
    }
}
