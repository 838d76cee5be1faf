//! Connections of this host, grouped for findings.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, ProcessName, Socket};

/// Groups sockets by process, or by a port where their process is not known: one finding each.
pub(crate) fn by_process<'a>(
    sockets: &[&'a Socket],
    port: impl Fn(&Socket) -> u16,
) -> Vec<Vec<&'a Socket>> {
    let mut groups: Vec<Vec<&Socket>> = Vec::new();
    for socket in sockets {
        // Each client has a port of its own: only their process joins them.
        let same = |known: &&Socket| {
            known.pid == socket.pid && (known.pid.is_some() || port(known) == port(socket))
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(socket),
            None => groups.push(vec![socket]),
        }
    }
    groups
}

/// The process that owns a socket.
pub(crate) fn owner(evidence: &Evidence, socket: &Socket) -> Option<ProcessName> {
    let process = evidence.process(socket.pid?)?;
    Some(ProcessName { name: process.name.clone(), pid: process.pid })
}

/// The processes on this host that own the ends of captured connections, each once: an end and its peer.
pub(crate) fn owners_of_ends(
    evidence: &Evidence,
    ends: impl Iterator<Item = (SocketAddr, SocketAddr)>,
) -> Vec<ProcessName> {
    let ends: HashSet<(SocketAddr, SocketAddr)> = ends.collect();
    let sockets = evidence.sockets.iter().flat_map(|table| &table.sockets);
    let mut owners: Vec<ProcessName> = sockets
        .filter(|socket| ends.contains(&(canonical(socket.local), canonical(socket.remote))))
        .filter_map(|socket| owner(evidence, socket))
        .collect();
    owners.sort_by_key(|process| process.pid);
    owners.dedup_by_key(|process| process.pid);
    owners
}

/// The end that all of them share, for the subject.
pub(crate) fn common_end(
    group: &[&Socket],
    end: impl Fn(&Socket) -> SocketAddr,
) -> Option<SocketAddr> {
    let first = end(group.first()?);
    group.iter().all(|socket| end(socket) == first).then_some(first)
}

/// An end as packets show it: IPv4 addresses that are mapped to IPv6 as IPv4.
pub(crate) fn canonical(end: SocketAddr) -> SocketAddr {
    (end.ip().to_canonical(), end.port()).into()
}
