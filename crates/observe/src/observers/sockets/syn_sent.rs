//! Connections that this host is opening, by destination, and how often their SYN was retransmitted.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use model::{SynSent, TcpState};

use super::pids::most_frequent;
use crate::context::Context;

/// Most connections followed.
const MAX_FOLLOWED: usize = 20_000;
/// Most destinations in the evidence.
const MAX_DESTINATIONS: usize = 64;
/// Most connections of a sample whose owner is requested.
const MAX_OWNERS_REQUESTED: usize = 64;

/// Connections that were sampled in SYN_SENT.
#[derive(Default)]
pub(super) struct SynSents {
    /// By cookie.
    connections: HashMap<u64, Opening>,
    /// Established connections at the last full sample, by remote address.
    established: HashMap<SocketAddr, u64>,
}

struct Opening {
    remote: SocketAddr,
    inode: u32,
    retransmissions: u8,
    completed: bool,
}

impl SynSents {
    /// Adds one socket of the current sample, in any state.
    pub(super) fn add(
        &mut self,
        cookie: u64,
        inode: u32,
        remote: SocketAddr,
        state: TcpState,
        retransmissions: u8,
    ) {
        if state == TcpState::SynSent {
            if let Some(known) = self.connections.get_mut(&cookie) {
                known.retransmissions = known.retransmissions.max(retransmissions);
            } else if self.connections.len() < MAX_FOLLOWED {
                let opening = Opening { remote, inode, retransmissions, completed: false };
                self.connections.insert(cookie, opening);
            }
        } else if !self.connections.is_empty()
            && let Some(known) = self.connections.get_mut(&cookie)
        {
            known.completed = true;
        }
    }

    /// Begins the final sample, at which established connections are counted.
    pub(super) fn begin_final_sample(&mut self) {
        self.established.clear();
    }

    /// Counts an established connection of the final sample.
    pub(super) fn add_established(&mut self, remote: SocketAddr) {
        if !self.connections.is_empty() {
            *self.established.entry(remote).or_default() += 1;
        }
    }

    /// Ends the current sample: requests the owners of connections that retransmit.
    pub(super) fn end_of_sample(&self, context: &mut Context<'_>) {
        for opening in self.retransmitting().take(MAX_OWNERS_REQUESTED) {
            context.owners.request(opening.inode);
        }
    }

    /// Number of connections whose SYN was retransmitted so far.
    pub(super) fn count_retransmitting(&self) -> usize {
        self.retransmitting().count()
    }

    fn retransmitting(&self) -> impl Iterator<Item = &Opening> {
        self.connections.values().filter(|opening| opening.retransmissions > 0)
    }

    /// Destinations with a connection whose SYN was retransmitted, most first.
    pub(super) fn evidence(&self, context: &Context<'_>) -> Vec<SynSent> {
        let destinations: HashSet<SocketAddr> =
            self.retransmitting().map(|opening| opening.remote).collect();
        let mut all: Vec<SynSent> =
            destinations.into_iter().map(|remote| self.destination(context, remote)).collect();
        all.sort_by(|a, b| b.retransmitting.cmp(&a.retransmitting).then(a.remote.cmp(&b.remote)));
        all.truncate(MAX_DESTINATIONS);
        all
    }

    fn destination(&self, context: &Context<'_>, remote: SocketAddr) -> SynSent {
        let to_remote = || self.connections.values().filter(|opening| opening.remote == remote);
        let retransmitting = || to_remote().filter(|opening| opening.retransmissions > 0);
        SynSent {
            remote,
            pids: most_frequent(to_remote().flat_map(|o| context.owners.of(o.inode)).copied()),
            retransmitting: retransmitting().count() as u64,
            connections: to_remote().count() as u64,
            completed: retransmitting().filter(|opening| opening.completed).count() as u64,
            max_retransmissions: to_remote().map(|o| o.retransmissions).max().unwrap_or(0),
            established: self.established.get(&remote).copied().unwrap_or(0),
        }
    }
}
