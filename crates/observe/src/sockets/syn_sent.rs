//! Connections that this host tries to open, by destination, and how often their SYN was repeated.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use model::{SynSent, TcpState};

use super::port_use::most_frequent;
use crate::Context;

/// Most connections followed.
const FOLLOWED: usize = 20_000;
/// Most destinations told of.
const TOLD: usize = 64;

/// Connections seen in SYN_SENT.
#[derive(Default)]
pub(super) struct SynSents {
    sockets: HashMap<u64, Seen>,
    established: HashMap<SocketAddr, u64>,
}

struct Seen {
    remote: SocketAddr,
    inode: u32,
    tries: u8,
    completed: bool,
}

impl SynSents {
    /// Takes one socket in, whatever its state.
    pub(super) fn add(
        &mut self,
        cookie: u64,
        inode: u32,
        remote: SocketAddr,
        state: TcpState,
        tries: u8,
    ) {
        if state == TcpState::SynSent {
            if let Some(seen) = self.sockets.get_mut(&cookie) {
                seen.tries = seen.tries.max(tries);
            } else if self.sockets.len() < FOLLOWED {
                self.sockets.insert(cookie, Seen { remote, inode, tries, completed: false });
            }
        } else if !self.sockets.is_empty()
            && let Some(seen) = self.sockets.get_mut(&cookie)
        {
            seen.completed = true;
        }
    }

    /// Counts an established connection, at the last look.
    pub(super) fn established(&mut self, remote: SocketAddr) {
        if !self.sockets.is_empty() {
            *self.established.entry(remote).or_default() += 1;
        }
    }

    /// Closes one look: the holders of sockets that retry are wanted.
    pub(super) fn end_of_look(&self, context: &mut Context<'_>) {
        let retrying = self.sockets.values().filter(|seen| seen.tries > 0).take(64);
        for seen in retrying {
            context.want(seen.inode);
        }
    }

    /// Connections that repeated their SYN so far.
    pub(super) fn retrying(&self) -> usize {
        self.sockets.values().filter(|seen| seen.tries > 0).count()
    }

    /// Destinations with a connection that repeated its SYN, most first.
    pub(super) fn finish(self, context: &Context<'_>) -> Vec<SynSent> {
        let retried: HashSet<SocketAddr> =
            self.sockets.values().filter(|s| s.tries > 0).map(|s| s.remote).collect();
        let mut all: Vec<SynSent> = retried
            .into_iter()
            .map(|remote| {
                let sockets = || self.sockets.values().filter(|s| s.remote == remote);
                SynSent {
                    remote,
                    pids: most_frequent(
                        sockets().flat_map(|s| context.holders_of(s.inode)).copied(),
                    ),
                    retransmitting: sockets().filter(|s| s.tries > 0).count() as u64,
                    connections: sockets().count() as u64,
                    completed: sockets().filter(|s| s.tries > 0 && s.completed).count() as u64,
                    max_retransmissions: sockets().map(|s| s.tries).max().unwrap_or(0),
                    established: self.established.get(&remote).copied().unwrap_or(0),
                }
            })
            .collect();
        all.sort_by(|a, b| b.retransmitting.cmp(&a.retransmitting).then(a.remote.cmp(&b.remote)));
        all.truncate(TOLD);
        all
    }
}
