//! One netlink request for sockets and its answer.

use std::ops::ControlFlow;

use sys::{Error, ErrorKind, Machine, NetlinkProtocol, Result};
use wire::netlink::messages;
use wire::sock_diag::Record;
use wire::unix_diag;

const ACTION: &str = "read";

/// Calls for each TCP socket of the answer. Records that cannot be parsed are skipped: newer kernels may
/// have more states.
///
/// # Errors
///
/// Those of netlink; bytes that are not netlink messages.
pub fn sockets(
    machine: &dyn Machine,
    request: &[u8],
    socket: &mut dyn FnMut(&Record<'_>),
) -> Result<()> {
    datagrams(machine, request, &mut |datagram| {
        for message in messages(datagram).flatten().filter(|message| !message.is_end()) {
            if let Ok(record) = Record::parse(message.payload) {
                socket(&record);
            }
        }
        ControlFlow::Continue(())
    })
}

/// Calls for each Unix socket of the answer.
///
/// # Errors
///
/// As [`sockets`].
pub fn unix(
    machine: &dyn Machine,
    request: &[u8],
    socket: &mut dyn FnMut(&unix_diag::Record<'_>),
) -> Result<()> {
    datagrams(machine, request, &mut |datagram| {
        for message in messages(datagram).flatten().filter(|message| !message.is_end()) {
            if let Ok(record) = unix_diag::Record::parse(message.payload) {
                socket(&record);
            }
        }
        ControlFlow::Continue(())
    })
}

/// Calls for each datagram of the answer, whole and free of errors, until its end or until the call
/// breaks.
///
/// # Errors
///
/// As [`sockets`].
pub fn datagrams(
    machine: &dyn Machine,
    request: &[u8],
    datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut failed = None;
    machine.netlink().request(NetlinkProtocol::SockDiag, request, &mut |bytes| {
        let mut end = false;
        for message in messages(bytes) {
            match message {
                Err(malformed) => {
                    let reason = malformed.to_string();
                    failed =
                        Some(Error::new(ACTION, "sockets by netlink", reason, ErrorKind::Other));
                    return ControlFlow::Break(());
                }
                Ok(message) => {
                    if let Some(errno) = message.error() {
                        failed = Some(Error::from_kernel(ACTION, "sockets by netlink", errno));
                        return ControlFlow::Break(());
                    }
                    end |= message.is_end();
                }
            }
        }
        let flow = datagram(bytes);
        if end { ControlFlow::Break(()) } else { flow }
    })?;
    failed.map_or(Ok(()), Err)
}

/// Calls for each TCP socket of one datagram of [`datagrams`].
///
/// # Errors
///
/// The first one that the call returns.
pub fn records<E>(
    datagram: &[u8],
    socket: &mut dyn FnMut(&Record<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    for message in messages(datagram).flatten().filter(|message| !message.is_end()) {
        if let Ok(record) = Record::parse(message.payload) {
            socket(&record)?;
        }
    }
    Ok(())
}
