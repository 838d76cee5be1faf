//! One netlink request for sockets and its answers.

use std::ops::ControlFlow;

use sys::{Error, ErrorKind, Machine, Netlink, Result};
use wire::netlink::messages;
use wire::sock_diag::Record;
use wire::unix_diag;

const ASK: &str = "ask netlink for";

/// Calls for each TCP socket of the answer. A record of a kind that this netwhy does not know is
/// left out: newer kernels may have more states.
///
/// # Errors
///
/// What the machine or the kernel says; bytes that are no netlink messages.
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

/// Hands over each datagram of the answer, whole and free of errors, until its end or until told
/// to stop.
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
    machine.netlink(Netlink::SockDiag, request, &mut |bytes| {
        let mut end = false;
        for message in messages(bytes) {
            match message {
                Err(malformed) => {
                    let what = malformed.to_string();
                    failed = Some(Error::new(ASK, "sockets", what, ErrorKind::Other));
                    return ControlFlow::Break(());
                }
                Ok(message) => {
                    if let Some(errno) = message.error() {
                        failed = Some(Error::from_kernel(ASK, "sockets", errno));
                        return ControlFlow::Break(());
                    }
                    end |= message.is_end();
                }
            }
        }
        let told = datagram(bytes);
        if end { ControlFlow::Break(()) } else { told }
    })?;
    failed.map_or(Ok(()), Err)
}

/// Calls for each TCP socket of one datagram of [`datagrams`].
///
/// # Errors
///
/// The first one that the call gives.
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
