//! Who holds which socket, found as cheaply as it can be.
//!
//! Reading a link of `/proc/PID/fd` costs 3 microseconds, so a process with 20,000 connections
//! costs 60 ms, which is more than all else in a window. Processes open their listeners first and
//! the kernel hands out the lowest descriptor: a few hundred sockets of each process say who
//! listens and who is who. The rest is read only for sockets that somebody wants to know of.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::Context;

/// Sockets of one process that are read at once.
const SOME: usize = 512;

/// Notes the first sockets that a process holds; whether it is of the namespace that is watched
/// and holds any. All of its sockets when it is in focus.
///
/// # Errors
///
/// The process is gone, or its files may not be read.
pub(crate) fn some(context: &mut Context<'_>, pid: u32) -> sys::Result<bool> {
    let link = PathBuf::from(format!("/proc/{pid}/ns/net"));
    if Some(context.machine.link(&link)?) != context.namespace {
        return Ok(false);
    }
    let all = context.focus.pids.contains(&pid);
    let mut seen = 0;
    let mut more = false;
    let holders = &mut context.holders;
    context.machine.sockets_of(pid, &mut |inode| {
        if seen == SOME && !all {
            more = true;
            return ControlFlow::Break(());
        }
        seen += 1;
        let pids = holders.entry(inode).or_default();
        if let Err(place) = pids.binary_search(&pid) {
            pids.insert(place, pid);
        }
        ControlFlow::Continue(())
    })?;
    if more {
        context.long.insert(pid);
    }
    Ok(seen > 0)
}

/// Looks for the holders that are wanted among the processes with many sockets. What is not found
/// is not looked for again.
pub(crate) fn wanted(context: &mut Context<'_>) {
    let mut wanted = std::mem::take(&mut context.wanted);
    wanted.retain(|inode| !context.holders.contains_key(inode));
    for pid in &context.long {
        if wanted.is_empty() {
            return;
        }
        let holders = &mut context.holders;
        // A process that has ended holds nothing.
        let _ = context.machine.sockets_of(*pid, &mut |inode| {
            if wanted.remove(&inode) {
                holders.entry(inode).or_default().push(*pid);
            }
            if wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    context.unfound.extend(wanted);
}
