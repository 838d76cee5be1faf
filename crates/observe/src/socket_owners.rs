//! Which process owns which socket, found as cheaply as possible.
//!
//! Reading a link of `/proc/PID/fd` costs 3 microseconds, so that a process with 20,000 connections
//! costs 60 ms, more than all else in a window. Processes open their listeners first, and the kernel
//! hands out the lowest descriptor: a few hundred sockets of each process show which processes there
//! are and which of them listen. The others are read only for sockets whose owner was requested.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use sys::Files;

/// Sockets that are read at first of one process.
const FIRST_SOCKETS: usize = 512;

/// Owners of sockets, by inode.
#[derive(Debug, Default)]
pub struct SocketOwners {
    /// Processes by inode of a socket, lowest id first.
    by_inode: HashMap<u32, Vec<u32>>,
    /// Processes with more sockets than are read of each.
    with_more_sockets: BTreeSet<u32>,
    /// Inodes of sockets whose owner is requested and not known.
    pending: HashSet<u32>,
    /// Inodes that were requested and whose owner was not found.
    not_found: HashSet<u32>,
}

impl SocketOwners {
    /// Processes that own a socket, lowest id first.
    pub fn of(&self, inode: u32) -> &[u32] {
        self.by_inode.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// Requests the owner of a socket, unless it is known or could not be found.
    pub fn request(&mut self, inode: u32) {
        if inode != 0 && !self.by_inode.contains_key(&inode) && !self.not_found.contains(&inode) {
            self.pending.insert(inode);
        }
    }

    /// Whether an owner is requested and not known.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds an owner.
    pub fn add(&mut self, inode: u32, pid: u32) {
        let pids = self.by_inode.entry(inode).or_default();
        if let Err(place) = pids.binary_search(&pid) {
            pids.insert(place, pid);
        }
    }

    /// Reads the first sockets of a process, or all of them; whether it is in this network namespace and
    /// owns any.
    ///
    /// # Errors
    ///
    /// The process has ended, or its files may not be read.
    pub fn read_process(
        &mut self,
        files: &dyn Files,
        pid: u32,
        namespace: Option<&PathBuf>,
        all: bool,
    ) -> sys::Result<bool> {
        let link = PathBuf::from(format!("/proc/{pid}/ns/net"));
        if Some(&files.link(&link)?) != namespace {
            return Ok(false);
        }
        let mut read = 0;
        let mut more = false;
        files.sockets_of(pid, &mut |inode| {
            if read == FIRST_SOCKETS && !all {
                more = true;
                return ControlFlow::Break(());
            }
            read += 1;
            self.add(inode, pid);
            ControlFlow::Continue(())
        })?;
        if more {
            self.with_more_sockets.insert(pid);
        }
        Ok(read > 0)
    }

    /// Searches the owners that are pending among the processes with many sockets. Those that are not
    /// found are not searched again.
    pub fn find_pending(&mut self, files: &dyn Files) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|inode| !self.by_inode.contains_key(inode));
        for pid in &self.with_more_sockets {
            if pending.is_empty() {
                return;
            }
            let by_inode = &mut self.by_inode;
            // A process that has ended owns nothing.
            let _ = files.sockets_of(*pid, &mut |inode| {
                if pending.remove(&inode) {
                    by_inode.entry(inode).or_default().push(*pid);
                }
                if pending.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        self.not_found.extend(pending);
    }
}
