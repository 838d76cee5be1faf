//! Whether anything accepts connections at all: a load on a port where nothing listens ends at once, as
//! wrk and ab end. Once a connection was established, the load goes on, whatever happens to later ones.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use sys::Stop;

use super::non_empty::NonEmpty;
use super::origin::Origin;
use crate::{Error, os_error_text};

/// So many connections that fail before one was established end the load; fewer, if there are fewer.
const MAX_FAILED: u64 = 10;

/// Errors of a server that is not there, or not reachable. After others, such as a reset or a full accept
/// queue, later connections may be established.
const NOTHING_THERE: [Errno; 6] = [
    Errno::CONNREFUSED,
    Errno::NETUNREACH,
    Errno::HOSTUNREACH,
    Errno::NOENT,
    Errno::ACCESS,
    Errno::PERM,
];

/// The first connections of all threads.
#[derive(Debug)]
pub(super) struct FirstConnections {
    limit: u64,
    established: AtomicBool,
    failed: AtomicU64,
    /// Why the first one failed.
    errno: OnceLock<Errno>,
    stop: Stop,
}

impl FirstConnections {
    /// Those of a load with this many connections, which ends with the stop.
    pub(super) fn new(connections: u32, stop: Stop) -> Self {
        FirstConnections {
            limit: MAX_FAILED.min(connections.into()),
            established: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            errno: OnceLock::new(),
            stop,
        }
    }

    /// A connection was established.
    pub(super) fn established(&self) {
        // Mostly known: a shared cache line is not written for each connection.
        if !self.established.load(Ordering::Relaxed) {
            self.established.store(true, Ordering::Relaxed);
        }
    }

    /// A connection could not be established.
    pub(super) fn failed(&self, errno: Errno) {
        if self.established.load(Ordering::Relaxed) || !NOTHING_THERE.contains(&errno) {
            return;
        }
        let _ = self.errno.set(errno);
        if self.failed.fetch_add(1, Ordering::Relaxed) + 1 >= self.limit {
            self.stop.set();
        }
    }

    /// Why the load could not run: no connection was established, and this is the reason.
    pub(super) fn error(&self, origins: &NonEmpty<Origin>) -> Option<Error> {
        let errno = self.errno.get().filter(|_| !self.established.load(Ordering::Relaxed))?;
        let servers: Vec<String> = origins.iter().map(Origin::address_text).collect();
        let why = os_error_text(&std::io::Error::from(*errno));
        let hint = match *errno {
            Errno::CONNREFUSED => "; nothing listens there, or a firewall rejects it",
            Errno::NETUNREACH | Errno::HOSTUNREACH => " (see: ip route get)",
            Errno::PERM => "; a firewall of this host drops it (see: nft list ruleset)",
            _ => "",
        };
        let servers = servers.join(", ");
        Some(Error::Failed(format!("cannot connect to {servers}: {why}{hint}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_end_a_load_unless_a_connection_was_established() {
        for (connections, limit) in [(3, 3), (1000, MAX_FAILED)] {
            let stop = Stop::new();
            let first = FirstConnections::new(connections, stop.clone());
            for _ in 1..limit {
                first.failed(Errno::CONNREFUSED);
            }
            assert!(!stop.is_set());
            first.failed(Errno::CONNREFUSED);
            assert!(stop.is_set());
        }
        let stop = Stop::new();
        let first = FirstConnections::new(1, stop.clone());
        first.established();
        first.failed(Errno::CONNREFUSED);
        assert!(!stop.is_set());
    }
}
