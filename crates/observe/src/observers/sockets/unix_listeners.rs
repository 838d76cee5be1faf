//! Stream listeners on Unix sockets: web servers and their upstreams often meet there.
//!
//! unix_diag lists the sockets of one network namespace: others are not observed.

use std::collections::HashMap;

use model::{Gauge, Series, Source, UnixListener};
use wire::unix_diag::Record;

use super::dump;
use crate::context::Context;

/// Most listeners followed.
const MAX_FOLLOWED: usize = 4096;
/// Most listeners that are given as series.
const MAX_IN_SERIES: usize = 4;

/// Unix listeners by inode.
#[derive(Default)]
pub(super) struct UnixListeners {
    by_inode: HashMap<u32, UnixListener>,
    failed: Option<sys::Error>,
    samples: u32,
}

impl UnixListeners {
    /// Takes a sample.
    pub(super) fn sample(&mut self, context: &mut Context<'_>) {
        if self.failed.is_some() {
            return;
        }
        let request = wire::unix_diag::request_listeners();
        let done = dump::unix(context.machine, &request, &mut |record| self.add(record));
        match done {
            Ok(()) => self.samples += 1,
            Err(error) => {
                context.missing(Source::UnixListeners, "Unix listeners", &error);
                self.failed = Some(error);
            }
        }
    }

    fn add(&mut self, record: &Record<'_>) {
        let by_inode = &mut self.by_inode;
        if by_inode.len() >= MAX_FOLLOWED && !by_inode.contains_key(&record.inode) {
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
    }

    /// The listeners with the fullest queue.
    pub(super) fn series(&self, into: &mut Vec<Series>) {
        let mut worst: Vec<&UnixListener> =
            self.by_inode.values().filter(|listener| listener.samples_waiting > 0).collect();
        worst.sort_by_key(|l| (std::cmp::Reverse((l.samples_full, l.queue.last)), l.inode));
        for listener in worst.into_iter().take(MAX_IN_SERIES) {
            let figures = [
                ("unix_listen_queue", listener.queue.last),
                ("unix_listen_queue_limit", u64::from(listener.limit)),
                ("unix_listen_queue_full_samples", u64::from(listener.samples_full)),
            ];
            for (name, value) in figures {
                into.push(Series::count(name, value).with_label("listener", &listener.path));
            }
        }
    }

    /// The listeners that a known process owns, by path.
    pub(super) fn evidence(&self, context: &mut Context<'_>) -> Option<Vec<UnixListener>> {
        if let Some(error) = &self.failed {
            context.missing(Source::UnixListeners, "Unix listeners", error);
        }
        if self.samples == 0 {
            return None;
        }
        let mut all: Vec<UnixListener> = self.by_inode.values().cloned().collect();
        for listener in &mut all {
            listener.pids = context.owners.of(listener.inode).to_vec();
        }
        all.retain(|listener| !listener.pids.is_empty() || listener.queue.max > 0);
        all.sort_by(|a, b| a.path.cmp(&b.path).then(a.inode.cmp(&b.inode)));
        Some(all)
    }
}
