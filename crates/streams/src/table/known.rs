//! Connections that were open before the capture.

use std::collections::HashMap;
use std::net::SocketAddr;

use model::Side;

use crate::known_socket::KnownSocket;
use crate::stream::Stream;

/// Sockets by their own and their peer's address.
#[derive(Debug, Clone, Default)]
pub struct KnownSockets(HashMap<[SocketAddr; 2], KnownSocket>);

impl FromIterator<([SocketAddr; 2], KnownSocket)> for KnownSockets {
    fn from_iter<T: IntoIterator<Item = ([SocketAddr; 2], KnownSocket)>>(sockets: T) -> Self {
        KnownSockets(sockets.into_iter().collect())
    }
}

impl KnownSockets {
    /// The first packet of a stream: if it is in the middle of a connection, the stream gets what is
    /// known of it. Each socket is used once, as its ports may be used again.
    pub(super) fn tell(&mut self, stream: &mut Stream, is_syn: bool) {
        let [client, server] = stream.addresses();
        let sockets = [self.0.remove(&[client, server]), self.0.remove(&[server, client])];
        if is_syn || sockets == [None, None] {
            return;
        }
        for (side, socket) in [Side::Client, Side::Server].into_iter().zip(sockets) {
            if let Some(socket) = socket {
                stream.take_known_socket(side, socket);
            }
        }
        let [first, second] = sockets.map(|socket| socket.map(|socket| socket.is_server));
        stream.take_known_roles(first == Some(true) || second == Some(false));
    }
}
