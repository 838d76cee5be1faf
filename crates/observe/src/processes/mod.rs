//! Processes of this network namespace that hold sockets: who they are, what CPU they got and
//! waited for, how many files they have open.
//!
//! A process belongs here when its `/proc/PID/ns/net` is the one that is watched and it holds a
//! socket, or when it is the parent, of the same name, of one that does (nginx, php-fpm). All are
//! looked for at both ends of the window, and between when a holder is wanted that is not known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use model::{Capability, Evidence, Gauge, Process, Source};
use sys::{Error, ErrorKind};

use crate::{Context, Observe, holders};

mod read;

/// Most threads of one process whose run delay is read.
const THREADS: usize = 256;
/// Between samples of states and open files.
const SAMPLE_MS: u64 = 500;
/// The share of the window that looking for wanted holders may take: 1 in 200.
const RESCAN_SHARE: u32 = 200;
/// Most processes whose states and open files are sampled.
const SAMPLED: usize = 64;

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<Processes>::default()
}

#[derive(Default)]
struct Processes {
    began: HashMap<u32, Began>,
    states: HashMap<u32, BTreeMap<char, u32>>,
    open_files: HashMap<u32, Gauge>,
    sampled_ms: u64,
    scanned: Duration,
    scan_took: Duration,
    denied: HashSet<u32>,
}

/// What a process had used when it was first seen.
struct Began {
    started_ticks: u64,
    at_ms: u64,
    cpu_ticks: u64,
    run_delay_ns: Option<u64>,
}

impl Observe for Processes {
    fn begin(&mut self, context: &mut Context<'_>) {
        match context.machine.link(Path::new("/proc/thread-self/ns/net")) {
            Ok(namespace) => context.namespace = Some(namespace),
            Err(error) => return context.missing(Source::Processes, "processes", &error),
        }
        self.scan(context);
    }

    fn look(&mut self, context: &mut Context<'_>) {
        if context.at_ms >= self.sampled_ms + SAMPLE_MS {
            self.sampled_ms = context.at_ms;
            self.sample(context);
        }
        if !context.wanted.is_empty()
            && context.machine.now() >= self.scanned + self.scan_took * RESCAN_SHARE
        {
            self.scan(context);
            holders::wanted(context);
            self.scan_took = context.machine.now().saturating_sub(self.scanned) + self.scan_took;
        }
    }

    fn end(&mut self, context: &mut Context<'_>, _evidence: &mut Evidence) {
        if context.namespace.is_none() {
            return;
        }
        self.scan(context);
        self.sample(context);
        let ticks = context.machine.clock_ticks().max(1) as f64;
        let mut processes = std::mem::take(&mut context.processes);
        for process in &mut processes {
            process.states = self.states.remove(&process.pid).unwrap_or_default();
            process.open_files = self.open_files.remove(&process.pid);
            process.open_files_limit = read::open_files_limit(context, process.pid);
            let Some(began) = self.began.get(&process.pid) else {
                continue;
            };
            process.observed_ms = context.at_ms.saturating_sub(began.at_ms);
            let Some(now) = read::usage(context, process.pid, THREADS) else {
                continue;
            };
            if now.started_ticks != began.started_ticks {
                continue; // another process with the same id
            }
            process.threads = now.threads;
            process.cpu_ms = now.cpu_ticks.saturating_sub(began.cpu_ticks) as f64 * 1e3 / ticks;
            process.run_delay_ms = match (now.run_delay_ns, began.run_delay_ns) {
                (Some(after), Some(before)) => Some(after.saturating_sub(before) as f64 / 1e6),
                _ => None,
            };
        }
        context.processes = processes;
        if !self.denied.is_empty() {
            let example = self.denied.iter().min().copied().unwrap_or(0);
            let root = context.machine.user() == 0;
            let (what, closes_with) = if root {
                ("the sockets of guarded processes", None)
            } else {
                ("who holds the sockets of other users", Some("run as root (sudo netwhy)"))
            };
            let why = match self.denied.len() {
                1 => format!("cannot read the open files of process {example}: permission denied"),
                all => format!(
                    "cannot read the open files of {all} processes, {example} among them: \
                     permission denied"
                ),
            };
            context.missing_because(
                Source::Processes,
                Capability::NotPermitted,
                what,
                why,
                closes_with,
            );
        }
    }
}

impl Processes {
    /// Finds the processes of this namespace and the sockets that they hold.
    fn scan(&mut self, context: &mut Context<'_>) {
        let before = context.machine.now();
        let own = context.machine.pid();
        let mut pids = Vec::new();
        let listed = context.machine.list(Path::new("/proc"), &mut |name| {
            // netwhy itself is not what is watched.
            if let Ok(pid) = name.parse::<u32>()
                && pid != own
            {
                pids.push(pid);
            }
        });
        if let Err(error) = listed {
            return context.missing(Source::Processes, "processes", &error);
        }
        pids.sort_unstable();
        let mut holding = Vec::new();
        for pid in pids {
            match holders::some(context, pid) {
                Ok(true) => holding.push(pid),
                Ok(false) => {}
                Err(Error { kind: ErrorKind::PermissionDenied, .. }) => {
                    self.denied.insert(pid);
                }
                Err(_) => {} // it ended meanwhile
            }
        }
        for pid in holding {
            self.meet(context, pid);
        }
        let parents: Vec<u32> = context
            .processes
            .iter()
            .filter(|p| p.parent > 1 && !self.began.contains_key(&p.parent))
            .map(|p| p.parent)
            .collect();
        for pid in parents {
            let name = read::name(context, pid);
            if context.processes.iter().any(|p| p.parent == pid && Some(&p.name) == name.as_ref()) {
                self.meet(context, pid);
            }
        }
        self.scanned = context.machine.now();
        self.scan_took = self.scanned.saturating_sub(before);
    }

    /// Takes a process in, once.
    fn meet(&mut self, context: &mut Context<'_>, pid: u32) {
        if self.began.contains_key(&pid) {
            return;
        }
        let Some(identity) = read::identity(context, pid) else {
            return;
        };
        let Some(usage) = read::usage(context, pid, THREADS) else {
            return;
        };
        self.began.insert(
            pid,
            Began {
                started_ticks: usage.started_ticks,
                at_ms: context.at_ms,
                cpu_ticks: usage.cpu_ticks,
                run_delay_ns: usage.run_delay_ns,
            },
        );
        context.processes.push(Process { threads: usage.threads, ..identity });
    }

    /// Samples states and open files of the processes that listen, and of some others.
    fn sample(&mut self, context: &mut Context<'_>) {
        let mut pids: Vec<u32> = context
            .listening
            .iter()
            .flat_map(|inode| context.holders_of(*inode).iter().copied())
            .collect();
        pids.sort_unstable();
        pids.dedup();
        let others =
            context.processes.iter().map(|p| p.pid).filter(|p| pids.binary_search(p).is_err());
        let others: Vec<u32> = others.collect();
        pids.extend(others);
        pids.truncate(SAMPLED);
        for pid in pids {
            if let Some(usage) = read::state(context, pid) {
                *self.states.entry(pid).or_default().entry(usage).or_default() += 1;
            }
            if let Some(open) = read::open_files(context, pid) {
                self.open_files.entry(pid).or_default().sample(open);
            }
        }
    }
}
