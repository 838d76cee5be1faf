//! Local ports in use towards each destination: what runs out when a host opens too many
//! connections to one address and port. A port counts as used by TIME_WAIT too.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use model::{Gauge, PortUse, Source, TcpState};
use wire::ports::PortSet;

use crate::Context;

/// Most destinations that are told of.
const TOLD: usize = 64;
/// Most processes named for one destination.
const PIDS: usize = 8;
/// Sockets of one destination whose holders are asked for.
const INODES: usize = 64;
/// From this share of its ports on, the holders of a destination's sockets are wanted at once.
const WANTED_FROM: f64 = 0.5;

/// Ports in use, look by look.
#[derive(Default)]
pub(super) struct Ports {
    range: Option<PortSet>,
    groups: HashMap<(IpAddr, SocketAddr), Group>,
    looks: u32,
}

#[derive(Default)]
struct Group {
    in_use: Gauge,
    time_wait: Gauge,
    new_sockets: u64,
    before: HashMap<u16, u64>,
    now: HashMap<u16, u64>,
    now_time_wait: u64,
    inodes: HashSet<u32>,
}

impl Ports {
    /// Reads the range of ports that connect() may take.
    pub(super) fn begin(&mut self, context: &mut Context<'_>) {
        let what = "the range of local ports";
        let Some(range) =
            context.text(Source::Sockets, what, "/proc/sys/net/ipv4/ip_local_port_range")
        else {
            return;
        };
        let range = range.to_string();
        let reserved = context
            .text(Source::Sockets, what, "/proc/sys/net/ipv4/ip_local_reserved_ports")
            .unwrap_or_default();
        self.range = PortSet::available(&range, reserved).ok();
    }

    /// Whether connect() could have taken this local port.
    pub(super) fn has(&self, port: u16) -> bool {
        self.range.as_ref().is_some_and(|range| range.contains(port))
    }

    /// Takes one socket in, whose local port is in the range and not a listener's.
    pub(super) fn add(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        state: TcpState,
        inode: u32,
        cookie: u64,
    ) {
        let group = self.groups.entry((local.ip(), remote)).or_default();
        group.now.insert(local.port(), cookie);
        if state == TcpState::TimeWait {
            group.now_time_wait += 1;
        }
        if inode != 0 && group.inodes.len() < INODES {
            group.inodes.insert(inode);
        }
    }

    /// Closes one look at the whole table.
    pub(super) fn end_of_look(&mut self, context: &mut Context<'_>) {
        let available = self.range.as_ref().map_or(0, PortSet::len);
        self.looks += 1;
        let first = self.looks == 1;
        for group in self.groups.values_mut() {
            // A destination that was not seen at earlier looks had no port in use then.
            while group.in_use.samples + 1 < self.looks {
                group.in_use.sample(0);
                group.time_wait.sample(0);
            }
            group.in_use.sample(group.now.len() as u64);
            group.time_wait.sample(group.now_time_wait);
            if !first {
                group.new_sockets += group
                    .now
                    .iter()
                    .filter(|(port, cookie)| group.before.get(port) != Some(cookie))
                    .count() as u64;
            }
            if group.now.len() as f64 >= WANTED_FROM * f64::from(available) {
                group.inodes.iter().for_each(|inode| context.want(*inode));
            }
            group.now_time_wait = 0;
            std::mem::swap(&mut group.before, &mut group.now);
            group.now.clear();
        }
        // Destinations of single sockets come and go: only the fuller ones are worth keeping.
        self.groups.retain(|_, group| !group.before.is_empty() || group.in_use.max > 1);
    }

    /// Wants to know who connects to destinations that use up their ports.
    pub(super) fn want(&self, context: &mut Context<'_>) {
        let available = self.range.as_ref().map_or(0, PortSet::len);
        let wanted = WANTED_FROM * f64::from(available);
        for group in self.groups.values().filter(|group| group.in_use.max as f64 >= wanted) {
            group.inodes.iter().for_each(|inode| context.want(*inode));
        }
    }

    /// The most used destinations.
    pub(super) fn finish(self, context: &Context<'_>) -> Vec<PortUse> {
        let available = self.range.as_ref().map_or(0, PortSet::len);
        let mut all: Vec<_> = self.groups.into_iter().collect();
        all.sort_by(|a, b| b.1.in_use.max.cmp(&a.1.in_use.max).then(a.0.cmp(&b.0)));
        all.truncate(TOLD);
        all.into_iter()
            .map(|((local, remote), group)| PortUse {
                local,
                remote,
                pids: most_frequent(
                    group.inodes.iter().flat_map(|inode| context.holders_of(*inode)).copied(),
                ),
                in_use: group.in_use,
                time_wait: group.time_wait,
                new_sockets: group.new_sockets,
                available,
            })
            .collect()
    }
}

/// The most frequent process ids, at most [`PIDS`].
pub(super) fn most_frequent(pids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for pid in pids {
        *counts.entry(pid).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts.into_iter().take(PIDS).map(|(pid, _)| pid).collect()
}
