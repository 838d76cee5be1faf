//! The local address from which packets to a target are sent, and how large they may be.

use std::net::{IpAddr, SocketAddr};

use sys::probe_socket::{ProbeSocket, Settings, SocketKind};

use crate::Error;

/// The source address that the kernel's routing selects for packets to this target.
///
/// # Errors
///
/// No route.
pub(crate) fn source_address(to: SocketAddr, settings: &Settings) -> Result<IpAddr, Error> {
    Ok(connected(to, settings)?.local()?.ip())
}

/// The MTU of this host's interface or route to this target; `None`: there is no route.
pub(crate) fn mtu(to: SocketAddr, settings: &Settings) -> Option<u32> {
    connected(to, settings).ok()?.path_mtu()
}

/// A socket that sends nothing.
fn connected(to: SocketAddr, settings: &Settings) -> Result<ProbeSocket, Error> {
    let socket = ProbeSocket::open(SocketKind::Udp, settings)?;
    // connect(2) needs a port.
    let to = SocketAddr::new(to.ip(), to.port().max(1));
    socket.connect(to).map_err(|errno| Error::send(errno, to.ip()))?;
    Ok(socket)
}
