//! The connections that are open now, before a window begins.

use std::collections::HashSet;

use model::{Socket, TcpState};
use sys::Machine;
use wire::sock_diag::{Extensions, Family, States, request};

use super::dump;

/// Most connections that are read: more are busy enough to show themselves.
const MAX_CONNECTIONS: usize = 65_536;

/// Each connection that is open, and whether a listener has its local port. None where sockets cannot be
/// read: the observer of sockets says why.
pub fn open_connections(machine: &dyn Machine) -> Vec<(Socket, bool)> {
    let mut sockets: Vec<Socket> = Vec::new();
    let mut listening: HashSet<u16> = HashSet::new();
    let listeners = request(Family::Both, States::only(TcpState::Listen), Extensions::NONE);
    let open = request(Family::Both, States::only(TcpState::Established), Extensions::INFO);
    let read = dump::sockets(machine, &listeners, &mut |record| {
        listening.insert(record.local().port());
    })
    .and_then(|()| {
        dump::sockets(machine, &open, &mut |record| {
            if sockets.len() < MAX_CONNECTIONS {
                sockets.push(record.to_socket());
            }
        })
    });
    if read.is_err() {
        return Vec::new();
    }
    let is_accepted = |socket: &Socket| listening.contains(&socket.local.port());
    sockets
        .into_iter()
        .map(|socket| {
            let accepted = is_accepted(&socket);
            (socket, accepted)
        })
        .collect()
}
