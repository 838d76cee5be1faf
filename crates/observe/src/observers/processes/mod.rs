//! Processes of this network namespace that own sockets: who they are, how much CPU time they got and
//! waited for, how many files they have open.
//!
//! A process belongs here when its `/proc/PID/ns/net` is the namespace that is observed and it owns a
//! socket, or when it is the parent, of the same name, of one that does (nginx, php-fpm). All of `/proc`
//! is scanned at both ends of the window, and in between when the owner of a socket is requested.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use model::{Capability, Evidence, Gauge, Process, Series, Source};
use sys::{Error, ErrorKind};

use crate::context::Context;
use crate::observer::Observe;

mod read;

/// Most threads of one process whose run delay is read.
const MAX_THREADS: usize = 256;
/// Time between samples of states and open files.
const SAMPLE_INTERVAL_MS: u64 = 500;
/// A scan that took a time is followed by another one after this many times as long: scans take at most
/// 1 in 200 of the window.
const SCAN_SPACING_PER_COST: u32 = 200;
/// Most processes whose states and open files are sampled.
const MAX_SAMPLED: usize = 64;
/// Most processes whose open files are given as series.
const MAX_IN_SERIES: usize = 4;
/// Why processes as a whole are missing.
const ALL_PROCESSES: &str = "processes";

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<ProcessesObserver>::default()
}

#[derive(Default)]
struct ProcessesObserver {
    first: HashMap<u32, FirstUsage>,
    states: HashMap<u32, BTreeMap<char, u32>>,
    open_files: HashMap<u32, Gauge>,
    sampled_at_ms: u64,
    scanned_at: Duration,
    scan_cost: Duration,
    not_permitted: HashSet<u32>,
}

/// What a process had used when it was found.
struct FirstUsage {
    started_ticks: u64,
    at_ms: u64,
    cpu_ticks: u64,
    run_delay_ns: Option<u64>,
}

impl Observe for ProcessesObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        match context.machine.files().link(Path::new("/proc/thread-self/ns/net")) {
            Ok(namespace) => context.namespace = Some(namespace),
            Err(error) => {
                context.processes = None;
                return context.missing(Source::Processes, ALL_PROCESSES, &error);
            }
        }
        self.scan(context);
    }

    fn sample(&mut self, context: &mut Context<'_>) {
        if context.at_ms >= self.sampled_at_ms + SAMPLE_INTERVAL_MS {
            self.sampled_at_ms = context.at_ms;
            self.sample_processes(context);
        }
        let clock = context.machine.clock();
        if context.owners.has_pending()
            && clock.now() >= self.scanned_at + self.scan_cost * SCAN_SPACING_PER_COST
        {
            self.scan(context);
            context.owners.find_pending(context.machine.files());
            self.scan_cost += clock.now().saturating_sub(self.scanned_at);
        }
    }

    fn series(&self, into: &mut Vec<Series>) {
        into.push(Series::count("processes_with_sockets", self.first.len() as u64));
        let mut most: Vec<(u64, u32)> =
            self.open_files.iter().map(|(pid, files)| (files.last, *pid)).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        for (files, pid) in most.into_iter().take(MAX_IN_SERIES) {
            let series = Series::count("process_open_files", files);
            into.push(series.with_label("pid", pid.to_string()));
        }
    }

    fn evidence(&mut self, context: &mut Context<'_>, _evidence: &mut Evidence) {
        if context.namespace.is_none() {
            return;
        }
        self.scan(context);
        self.sample_processes(context);
        if let Some(mut processes) = context.processes.take() {
            for process in &mut processes {
                self.fill_in(context, process);
            }
            context.processes = Some(processes);
        }
        self.note_not_permitted(context);
    }
}

impl ProcessesObserver {
    /// Finds the processes of this namespace and the sockets that they own.
    fn scan(&mut self, context: &mut Context<'_>) {
        let clock = context.machine.clock();
        let before = clock.now();
        let own = context.machine.own_process().pid();
        let mut pids = Vec::new();
        let listed = context.machine.files().list(Path::new("/proc"), &mut |name| {
            // netwhy does not observe itself.
            if let Ok(pid) = name.parse::<u32>()
                && pid != own
            {
                pids.push(pid);
            }
        });
        if let Err(error) = listed {
            context.processes = None;
            return context.missing(Source::Processes, ALL_PROCESSES, &error);
        }
        pids.sort_unstable();
        let mut with_sockets = Vec::new();
        for pid in pids {
            let all = context.focus.pids.contains(&pid);
            let (files, namespace) = (context.machine.files(), context.namespace.as_ref());
            match context.owners.read_process(files, pid, namespace, all) {
                Ok(true) => with_sockets.push(pid),
                Ok(false) => {}
                Err(Error { kind: ErrorKind::PermissionDenied, .. }) => {
                    self.not_permitted.insert(pid);
                }
                Err(_) => {} // it has ended
            }
        }
        for pid in with_sockets {
            self.add(context, pid);
        }
        let parents: Vec<u32> = context
            .known_processes()
            .iter()
            .filter(|p| p.parent > 1 && !self.first.contains_key(&p.parent))
            .map(|p| p.parent)
            .collect();
        for pid in parents {
            let name = read::name(context, pid);
            let mut processes = context.known_processes().iter();
            if processes.any(|p| p.parent == pid && Some(&p.name) == name.as_ref()) {
                self.add(context, pid);
            }
        }
        self.scanned_at = clock.now();
        self.scan_cost = self.scanned_at.saturating_sub(before);
    }

    /// Adds a process, once.
    fn add(&mut self, context: &mut Context<'_>, pid: u32) {
        if self.first.contains_key(&pid) {
            return;
        }
        let Some(identity) = read::identity(context, pid) else {
            return;
        };
        let Some(usage) = read::usage(context, pid, MAX_THREADS) else {
            return;
        };
        self.first.insert(
            pid,
            FirstUsage {
                started_ticks: usage.started_ticks,
                at_ms: context.at_ms,
                cpu_ticks: usage.cpu_ticks,
                run_delay_ns: usage.run_delay_ns,
            },
        );
        if let Some(processes) = &mut context.processes {
            processes.push(Process { threads: usage.threads, ..identity });
        }
    }

    /// Samples states and open files of the processes that listen, and of some others.
    fn sample_processes(&mut self, context: &mut Context<'_>) {
        let mut pids: Vec<u32> = context
            .listening
            .iter()
            .flat_map(|inode| context.owners.of(*inode).iter().copied())
            .collect();
        pids.sort_unstable();
        pids.dedup();
        let others = context.known_processes().iter().map(|p| p.pid);
        let others: Vec<u32> = others.filter(|p| pids.binary_search(p).is_err()).collect();
        pids.extend(others);
        pids.truncate(MAX_SAMPLED);
        for pid in pids {
            if let Some(state) = read::state(context, pid) {
                *self.states.entry(pid).or_default().entry(state).or_default() += 1;
            }
            if let Some(open) = read::open_files(context, pid) {
                self.open_files.entry(pid).or_default().sample(open);
            }
        }
    }

    /// Fills in what a process has used since it was found, and what was sampled.
    fn fill_in(&self, context: &mut Context<'_>, process: &mut Process) {
        process.states = self.states.get(&process.pid).cloned().unwrap_or_default();
        process.open_files = self.open_files.get(&process.pid).copied();
        process.open_files_limit = read::open_files_limit(context, process.pid);
        let Some(first) = self.first.get(&process.pid) else {
            return;
        };
        process.observed_ms = context.at_ms.saturating_sub(first.at_ms);
        let Some(now) = read::usage(context, process.pid, MAX_THREADS) else {
            return;
        };
        if now.started_ticks != first.started_ticks {
            return; // another process with the same id
        }
        let ticks_per_second = context.machine.own_process().clock_ticks().max(1) as f64;
        let cpu_ticks = now.cpu_ticks.saturating_sub(first.cpu_ticks);
        process.threads = now.threads;
        process.cpu_ms = cpu_ticks as f64 * 1e3 / ticks_per_second;
        process.run_delay_ms = match (now.run_delay_ns, first.run_delay_ns) {
            (Some(after), Some(before)) => Some(after.saturating_sub(before) as f64 / 1e6),
            _ => None,
        };
    }

    fn note_not_permitted(&self, context: &mut Context<'_>) {
        let Some(example) = self.not_permitted.iter().min() else {
            return;
        };
        let (what, how_to_observe) = if context.machine.own_process().user() == 0 {
            ("the sockets of protected processes", None)
        } else {
            ("the owners of sockets of other users", Some("run as root (sudo netwhy)"))
        };
        let why = match self.not_permitted.len() {
            1 => format!("cannot read the open files of process {example}: permission denied"),
            all => format!(
                "cannot read the open files of {all} processes, {example} among them: permission \
                 denied"
            ),
        };
        context.missing_because(
            Source::Processes,
            Capability::NotPermitted,
            what,
            why,
            how_to_observe,
        );
    }
}
