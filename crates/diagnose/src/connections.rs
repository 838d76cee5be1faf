//! Connections of this host, grouped for findings.

use std::net::SocketAddr;

use model::{Evidence, ProcessName, Socket};

/// Groups sockets by process and a port: one finding each.
pub(crate) fn by_process<'a>(
    sockets: &[&'a Socket],
    port: impl Fn(&Socket) -> u16,
) -> Vec<Vec<&'a Socket>> {
    let mut groups: Vec<Vec<&Socket>> = Vec::new();
    for socket in sockets {
        // Clients have a port of their own each: their process alone joins them.
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

/// The process that holds a socket.
pub(crate) fn owner(evidence: &Evidence, socket: &Socket) -> Option<ProcessName> {
    let process = evidence.process(socket.pid?)?;
    Some(ProcessName { name: process.name.clone(), pid: process.pid })
}

/// The end that most of them share, for the subject.
pub(crate) fn common_end(
    group: &[&Socket],
    end: impl Fn(&Socket) -> SocketAddr,
) -> Option<SocketAddr> {
    let first = end(group.first()?);
    group.iter().all(|socket| end(socket) == first).then_some(first)
}

/// An address as packets have it.
pub(crate) fn canonical(end: SocketAddr) -> SocketAddr {
    (end.ip().to_canonical(), end.port()).into()
}
