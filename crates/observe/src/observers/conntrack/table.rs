//! Reading the table and the statistics of connection tracking by ctnetlink.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sys::{Error, ErrorKind, Machine, NetlinkProtocol};
use wire::conntrack::{self, Entry};
use wire::netlink::messages;

use super::grouping::Grouping;

const ACTION: &str = "read";
const OBJECT: &str = "connection tracking by netlink";
/// EINVAL: what nfnetlink answers when no module handles a request (`nfnetlink_rcv_msg`).
const NO_HANDLER: i32 = 22;

/// Groups the entries of the table that `select` accepts. There are `all` entries; at most `max_read` are
/// read.
///
/// # Errors
///
/// As [`dump`].
pub fn group(
    machine: &dyn Machine,
    max_read: u64,
    all: u64,
    top: usize,
    select: &mut dyn FnMut(&Entry<'_>) -> bool,
) -> sys::Result<model::ConntrackTable> {
    let mut grouping = Grouping::default();
    let mut read = 0;
    dump(machine, &mut |entry| {
        read += 1;
        if select(entry) {
            grouping.add(entry);
        }
        if read < max_read { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // A dump that came to its end has read all there was, whatever the count was.
    let all = if read < max_read { read } else { all.max(read) };
    Ok(grouping.finish(top, read, all))
}

/// Calls for each entry of the table until the call breaks.
///
/// # Errors
///
/// Those of netlink; connection tracking needs CAP_NET_ADMIN, and a kernel with ctnetlink.
pub fn dump(
    machine: &dyn Machine,
    entry: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
) -> sys::Result<()> {
    payloads(machine, &conntrack::request_table(), &mut |payload| match Entry::parse(payload) {
        Ok(parsed) => entry(&parsed),
        Err(_) => ControlFlow::Continue(()), // a kind that this netwhy does not know
    })
}

/// Statistics, summed over the CPUs.
pub(super) fn statistics(machine: &dyn Machine) -> sys::Result<BTreeMap<String, u64>> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    payloads(machine, &conntrack::request_statistics(), &mut |payload| {
        conntrack::statistics(payload, |name, value| {
            *all.entry(name.to_string()).or_default() += value;
        });
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Calls for each message of an answer.
fn payloads(
    machine: &dyn Machine,
    request: &[u8],
    payload: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> sys::Result<()> {
    let mut failed = None;
    machine.netlink().request(NetlinkProtocol::Netfilter, request, &mut |datagram| {
        for message in messages(datagram) {
            match message {
                Err(malformed) => {
                    let reason = malformed.to_string();
                    failed = Some(Error::new(ACTION, OBJECT, reason, ErrorKind::Other));
                    return ControlFlow::Break(());
                }
                Ok(message) => {
                    failed = message.error().map(kernel_error);
                    if message.is_end() || failed.is_some() || payload(message.payload).is_break() {
                        return ControlFlow::Break(());
                    }
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)
}

fn kernel_error(number: i32) -> Error {
    match number {
        NO_HANDLER => {
            let reason = "this kernel has no ctnetlink (modprobe nf_conntrack_netlink)";
            Error::new(ACTION, OBJECT, reason, ErrorKind::Unsupported)
        }
        _ => Error::from_kernel(ACTION, OBJECT, number),
    }
}
