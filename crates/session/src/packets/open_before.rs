//! Connections that were open before the packets: their sockets know what the handshakes showed.

use std::net::SocketAddr;

use model::Socket;
use observe::sockets::open_connections;
use streams::{KnownSocket, KnownSockets, Nanos};
use sys::Machine;

/// `TCPI_OPT_WSCALE`: both SYNs offered a window scale.
const WINDOW_SCALE: u8 = 4;

/// What the sockets of this host know of connections that are open.
pub(crate) fn open_before(machine: &dyn Machine) -> KnownSockets {
    open_connections(machine).iter().filter_map(known).collect()
}

fn known((socket, is_server): &(Socket, bool)) -> Option<([SocketAddr; 2], KnownSocket)> {
    let tcp = socket.tcp.as_deref()?;
    let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let scales = || Some([tcp.rcv_wscale?, tcp.snd_wscale?]);
    let round_trip = tcp.min_rtt_us.filter(|us| (1..u32::MAX).contains(us));
    let known = KnownSocket {
        is_server: *is_server,
        mss: u16::try_from(tcp.snd_mss?).unwrap_or(u16::MAX),
        window_scales: tcp.options.filter(|bits| bits & WINDOW_SCALE != 0).and_then(|_| scales()),
        min_round_trip: round_trip.map(|us| Nanos::from(us) * 1_000),
    };
    Some(([canonical(socket.local), canonical(socket.remote)], known))
}
