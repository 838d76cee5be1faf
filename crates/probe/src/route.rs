//! The local address from which packets to a target are sent.

use std::net::{IpAddr, SocketAddr};

use sys::probe_socket::{ProbeSocket, Settings, SocketKind};

use crate::Error;

/// The source address that the kernel's routing selects for packets to this target.
///
/// # Errors
///
/// No route.
pub(crate) fn source_address(to: SocketAddr, settings: &Settings) -> Result<IpAddr, Error> {
    let socket = ProbeSocket::open(SocketKind::Udp, settings)?;
    // connect(2) needs a port; nothing is sent.
    let to = SocketAddr::new(to.ip(), to.port().max(1));
    socket.connect(to).map_err(|errno| Error::send(errno, to.ip()))?;
    Ok(socket.local()?.ip())
}
