//! The applications among the processes: what their configurations say, and what they wrote to
//! their logs in the window.
//!
//! - [`recognise`]: which application a process is
//! - [`configuration`]: the settings that matter, and the logs that are named
//! - [`inside`]: files as a process sees them
//! - [`files`]: the logs that a process has open
//! - [`logs`]: which logs are watched, from where to where
//! - [`window`]: reading what was written
//!
//! Reads logs for the window only, and no line of them is kept but the first of each complaint.
//! Runs no program and asks no status page. A log that goes to a pipe, to a socket or to syslog
//! is a gap.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use model::{Application, Capability, Evidence, Setting, Source};

use crate::{Context, Observe};

mod configuration;
mod files;
mod inside;
mod logs;
mod recognise;
mod window;

#[cfg(test)]
mod tests;

use configuration::Configuration;
use inside::Inside;
use recognise::{Kind, Known};

/// Settings kept for all processes of one instance together: each process carries its own copy.
const MOST_SETTINGS: usize = 4_000;
/// Workers of one instance whose open logs are looked at: no more are named.
const WORKERS_SCANNED: usize = 16;
/// Descriptors looked at in a worker, which has its logs from its master.
const WORKER_FILES: u32 = 64;
/// Processes of unknown programs whose open logs are looked at.
const STRANGERS: usize = 64;

/// The observer.
pub fn observer() -> Box<dyn Observe> {
    Box::new(Applications::default())
}

#[derive(Default)]
struct Applications {
    /// What each process was recognised as.
    known: HashMap<u32, Option<Known>>,
    /// Instances by the process that leads them: a master, or a worker whose master is not seen.
    instances: BTreeMap<u32, Instance>,
    logs: logs::Logs,
    strangers: usize,
}

/// One running application: a master and its workers.
struct Instance {
    kind: Kind,
    settings: Vec<Setting>,
    processes: Vec<u32>,
    inside: Option<Inside>,
}

impl Observe for Applications {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.meet(context);
    }

    fn look(&mut self, context: &mut Context<'_>) {
        self.meet(context);
    }

    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.meet(context);
        // The processes may have been made anew since.
        self.name(context, |_| true);
        evidence.logs = Some(self.logs.read(context));
    }
}

impl Applications {
    /// Takes in the processes that have appeared since.
    fn meet(&mut self, context: &mut Context<'_>) {
        let new: Vec<(u32, u32)> = context
            .processes
            .iter()
            .filter(|p| !self.known.contains_key(&p.pid))
            .map(|p| (p.pid, p.parent))
            .collect();
        if new.is_empty() {
            return;
        }
        let names: HashMap<u32, &str> =
            context.processes.iter().map(|p| (p.pid, p.name.as_str())).collect();
        for process in &context.processes {
            self.known.entry(process.pid).or_insert_with(|| {
                let parent = names.get(&process.parent).copied();
                recognise::recognise(&process.name, &process.command, parent)
            });
        }
        let listening: HashSet<u32> =
            context.listening.iter().flat_map(|i| context.holders_of(*i)).copied().collect();
        for &(pid, parent) in &new {
            match self.known.get(&pid).cloned().flatten() {
                Some(known) => self.join(context, pid, parent, known.kind),
                None if listening.contains(&pid) => self.stranger(context, pid),
                None => {}
            }
        }
        self.name(context, |pid| new.iter().any(|(new, _)| *new == pid));
    }

    /// Puts a process into its instance.
    fn join(&mut self, context: &mut Context<'_>, pid: u32, parent: u32, kind: Kind) {
        let of = |pid: u32| self.known.get(&pid).and_then(Option::as_ref).map(|k| k.kind);
        let leader = if of(parent) == Some(kind) { parent } else { pid };
        if !self.instances.contains_key(&leader) {
            let instance = self.start(context, leader, kind);
            self.instances.insert(leader, instance);
        }
        let Some(instance) = self.instances.get_mut(&leader) else {
            return;
        };
        instance.processes.push(pid);
        if pid == leader || instance.processes.len() > WORKERS_SCANNED {
            return;
        }
        // The leader's gap, if any, says that open files cannot be seen.
        let scan = files::Scan::Below(WORKER_FILES);
        if let (Ok(open), Some(inside)) =
            (files::open_logs(context.machine, pid, scan), &instance.inside)
        {
            self.logs.opened(pid, kind.name(), Some(kind), inside, open);
        }
    }

    /// Reads an instance's configuration and finds its logs.
    fn start(&mut self, context: &mut Context<'_>, leader: u32, kind: Kind) -> Instance {
        let mut instance =
            Instance { kind, settings: Vec::new(), processes: Vec::new(), inside: None };
        let inside = match Inside::of(context.machine, leader) {
            Ok(inside) => inside,
            Err(error) => {
                let what = format!("the configuration and logs of {} {leader}", kind.name());
                context.missing(Source::Logs, what, &error);
                return instance;
            }
        };
        match files::open_logs(context.machine, leader, files::Scan::All) {
            Ok(open) => self.logs.opened(leader, kind.name(), Some(kind), &inside, open),
            Err(error) => {
                context.missing(
                    Source::Logs,
                    format!("which logs {} has open", kind.name()),
                    &error,
                );
            }
        }
        let cwd = context.machine.link(Path::new(&format!("/proc/{leader}/cwd"))).ok();
        let cwd = cwd.as_deref().and_then(Path::to_str);
        let command = command(context, leader);
        let found = configuration::load(context.machine, &inside, kind, &command, cwd);
        note_gaps(context, kind, &found);
        for declared in found.logs {
            self.logs.declared(context, leader, kind, &inside, declared);
        }
        instance.settings = found.settings;
        instance.inside = Some(inside);
        instance
    }

    /// A process of a program that is not known: its open logs, when it listens.
    fn stranger(&mut self, context: &mut Context<'_>, pid: u32) {
        let listens = context.listening.iter().any(|i| context.holders_of(*i).contains(&pid));
        if !listens || self.strangers >= STRANGERS {
            return;
        }
        self.strangers += 1;
        // No gap: that nothing is known of this program is no fault of the machine.
        let Ok(mut open) = files::open_logs(context.machine, pid, files::Scan::All) else {
            return;
        };
        open.retain(|open| open.path.ends_with(".log"));
        if open.is_empty() {
            return;
        }
        let Ok(inside) = Inside::of(context.machine, pid) else {
            return;
        };
        let name = context.processes.iter().find(|p| p.pid == pid).map(|p| p.name.clone());
        self.logs.opened(pid, &name.unwrap_or_default(), None, &inside, open);
    }

    /// Writes into the processes what they are.
    fn name(&self, context: &mut Context<'_>, which: impl Fn(u32) -> bool) {
        let mut instance_of: HashMap<u32, (u32, &Instance)> = HashMap::new();
        for (leader, instance) in &self.instances {
            for pid in &instance.processes {
                instance_of.insert(*pid, (*leader, instance));
            }
        }
        for process in context.processes.iter_mut().filter(|p| which(p.pid)) {
            let Some(Some(known)) = self.known.get(&process.pid) else {
                continue;
            };
            let settings = instance_of
                .get(&process.pid)
                .map(|(leader, instance)| instance.settings_for(process.pid, *leader, known))
                .unwrap_or_default();
            process.application = Some(Application {
                name: known.kind.name().to_string(),
                role: known.role.to_string(),
                pool: known.pool.clone(),
                settings,
            });
        }
    }
}

impl Instance {
    /// The settings that a process goes by: all of nginx's; of php-fpm's those of its pool. When
    /// there are very many, the leader and the first worker carry them for all.
    fn settings_for(&self, pid: u32, leader: u32, known: &Known) -> Vec<Setting> {
        let many = self.settings.len() * self.processes.len() > MOST_SETTINGS;
        let first = self.processes.iter().filter(|p| **p != leader).min();
        let mine = |setting: &&Setting| match &known.pool {
            Some(pool) => setting.section == *pool || setting.section == "global",
            None => true,
        };
        if many && known.pool.is_none() && pid != leader && Some(&pid) != first {
            return Vec::new();
        }
        debug_assert_eq!(self.kind, known.kind);
        self.settings.iter().filter(mine).cloned().collect()
    }
}

/// The command line of a process, whole, its arguments divided by spaces.
fn command(context: &mut Context<'_>, pid: u32) -> String {
    let path = format!("/proc/{pid}/cmdline");
    match context.machine.read(Path::new(&path), &mut context.buffer) {
        Ok(()) => {
            let bytes: Vec<u8> =
                context.buffer.iter().map(|b| if *b == 0 { b' ' } else { *b }).collect();
            String::from_utf8_lossy(&bytes).trim_end().to_string()
        }
        Err(_) => String::new(), // it ended: so will its listing
    }
}

fn note_gaps(context: &mut Context<'_>, kind: Kind, found: &Configuration) {
    let name = kind.name();
    for (file, error) in found.gaps.iter().take(3) {
        context.missing(Source::Logs, format!("the configuration of {name} ({file})"), error);
    }
    if found.gaps.len() > 3 {
        context.missing_because(
            Source::Logs,
            Capability::Broken,
            format!("more of the configuration of {name}"),
            format!("{} more files could not be read", found.gaps.len() - 3),
            None,
        );
    }
    if let Some(why) = found.cut {
        let what = format!("the whole configuration of {name}");
        context.missing_because(Source::Logs, Capability::Available, what, why, None);
    }
}
