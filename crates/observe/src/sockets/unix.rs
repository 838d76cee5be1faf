//! Stream listeners on Unix sockets: web servers and their upstreams often meet there.
//!
//! unix_diag lists the sockets of one network namespace, so only those are seen.

use std::collections::HashMap;

use model::{Gauge, Source, UnixListener};

use crate::Context;

/// Most listeners followed.
const FOLLOWED: usize = 4096;

/// Unix listeners by inode.
#[derive(Default)]
pub(super) struct UnixListeners {
    by_inode: HashMap<u32, UnixListener>,
    failed: bool,
    looks: u32,
}

impl UnixListeners {
    /// One look.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        if self.failed {
            return;
        }
        let by_inode = &mut self.by_inode;
        let request = wire::unix_diag::request_listeners();
        let done = super::dump::unix(context.machine, &request, &mut |record| {
            if by_inode.len() >= FOLLOWED && !by_inode.contains_key(&record.inode) {
                return;
            }
            let listener = by_inode.entry(record.inode).or_insert_with(|| UnixListener {
                path: record.name(),
                inode: record.inode,
                pids: Vec::new(),
                limit: record.limit,
                queue: Gauge::default(),
                samples_full: 0,
                samples_waiting: 0,
            });
            listener.limit = record.limit;
            listener.queue.sample(u64::from(record.queue));
            // unix_recvq_full: above the limit.
            listener.samples_full += u32::from(record.queue > record.limit);
            listener.samples_waiting += u32::from(record.queue > 0);
        });
        match done {
            Ok(()) => self.looks += 1,
            Err(error) => {
                self.failed = true;
                context.missing(Source::UnixListeners, "Unix listeners", &error);
            }
        }
    }

    /// The listeners that a known process holds, by path.
    pub(super) fn finish(self, context: &Context<'_>) -> Option<Vec<UnixListener>> {
        if self.looks == 0 {
            return None;
        }
        let mut all: Vec<UnixListener> = self.by_inode.into_values().collect();
        for listener in &mut all {
            listener.pids = context.holders_of(listener.inode).to_vec();
        }
        all.retain(|listener| !listener.pids.is_empty() || listener.queue.max > 0);
        all.sort_by(|a, b| a.path.cmp(&b.path).then(a.inode.cmp(&b.inode)));
        Some(all)
    }
}
