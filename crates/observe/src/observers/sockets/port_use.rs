//! Local ports in use towards each destination: what runs out when a host opens too many connections to
//! one address and port. TIME_WAIT uses a port too.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use model::{Gauge, PortUse, Source, TcpState};
use wire::ports::PortSet;

use super::pids::most_frequent;
use crate::context::Context;

/// Most destinations in the evidence.
const MAX_DESTINATIONS: usize = 64;
/// Most sockets of one destination whose owner is requested.
const MAX_INODES: usize = 64;
/// From this share of its ports on, the owners of a destination's sockets are requested at once.
const MIN_SHARE_FOR_OWNERS: f64 = 0.5;

/// Local ports in use, over the samples of the table.
#[derive(Default)]
pub(super) struct PortsInUse {
    /// Ports that connect() may use.
    range: Option<PortSet>,
    /// By local address and destination.
    destinations: HashMap<(IpAddr, SocketAddr), Destination>,
    samples: u32,
}

#[derive(Default)]
struct Destination {
    in_use: Gauge,
    time_wait: Gauge,
    new_sockets: u64,
    /// Cookies by port, at the sample before and at the current one.
    before: HashMap<u16, u64>,
    now: HashMap<u16, u64>,
    now_time_wait: u64,
    inodes: HashSet<u32>,
}

impl PortsInUse {
    /// Reads the range of ports that connect() may use.
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

    /// Whether connect() may have chosen this local port.
    pub(super) fn contains(&self, port: u16) -> bool {
        self.range.as_ref().is_some_and(|range| range.contains(port))
    }

    fn available(&self) -> u32 {
        self.range.as_ref().map_or(0, PortSet::len)
    }

    /// Adds one socket of the current sample, whose local port is in the range and not a listener's.
    pub(super) fn add(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        state: TcpState,
        inode: u32,
        cookie: u64,
    ) {
        let destination = self.destinations.entry((local.ip(), remote)).or_default();
        destination.now.insert(local.port(), cookie);
        if state == TcpState::TimeWait {
            destination.now_time_wait += 1;
        }
        if inode != 0 && destination.inodes.len() < MAX_INODES {
            destination.inodes.insert(inode);
        }
    }

    /// Ends the current sample.
    pub(super) fn end_of_sample(&mut self, context: &mut Context<'_>) {
        let many = MIN_SHARE_FOR_OWNERS * f64::from(self.available());
        self.samples += 1;
        let first = self.samples == 1;
        for destination in self.destinations.values_mut() {
            // A destination that earlier samples did not have used no port then.
            while destination.in_use.samples + 1 < self.samples {
                destination.in_use.sample(0);
                destination.time_wait.sample(0);
            }
            destination.in_use.sample(destination.now.len() as u64);
            destination.time_wait.sample(destination.now_time_wait);
            if !first {
                let is_new =
                    |(port, cookie): &(&u16, &u64)| destination.before.get(*port) != Some(*cookie);
                destination.new_sockets += destination.now.iter().filter(is_new).count() as u64;
            }
            if destination.now.len() as f64 >= many {
                destination.inodes.iter().for_each(|inode| context.owners.request(*inode));
            }
            destination.now_time_wait = 0;
            std::mem::swap(&mut destination.before, &mut destination.now);
            destination.now.clear();
        }
        // Destinations of single sockets come and go: only the fuller ones are worth keeping.
        self.destinations
            .retain(|_, destination| !destination.before.is_empty() || destination.in_use.max > 1);
    }

    /// Requests the owners of sockets to destinations that use up their ports.
    pub(super) fn request_owners(&self, context: &mut Context<'_>) {
        let many = MIN_SHARE_FOR_OWNERS * f64::from(self.available());
        for destination in self.destinations.values() {
            if destination.in_use.max as f64 >= many {
                destination.inodes.iter().for_each(|inode| context.owners.request(*inode));
            }
        }
    }

    /// The destinations with most ports in use.
    pub(super) fn evidence(&self, context: &Context<'_>) -> Vec<PortUse> {
        let mut all: Vec<_> = self.destinations.iter().collect();
        all.sort_by(|a, b| b.1.in_use.max.cmp(&a.1.in_use.max).then(a.0.cmp(b.0)));
        all.truncate(MAX_DESTINATIONS);
        all.into_iter()
            .map(|((local, remote), destination)| PortUse {
                local: *local,
                remote: *remote,
                pids: most_frequent(
                    destination.inodes.iter().flat_map(|inode| context.owners.of(*inode)).copied(),
                ),
                in_use: destination.in_use,
                time_wait: destination.time_wait,
                new_sockets: destination.new_sockets,
                available: self.available(),
            })
            .collect()
    }
}
