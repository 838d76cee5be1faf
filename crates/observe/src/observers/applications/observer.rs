//! The applications among the processes: instances of a program, with settings and logs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use model::{Application, Capability, Evidence, Series, Setting, Source};
use sys::ErrorKind;

use super::configuration::{self, Configuration};
use super::logs::Logs;
use super::open_logs::{Descriptors, open_logs};
use super::process_files::ProcessFiles;
use super::recognise::{Program, Recognised, recognise};
use crate::context::Context;
use crate::observer::Observe;

/// Settings kept for all processes of one instance together: each process has its own copy.
const MAX_SETTINGS: usize = 4_000;
/// Bytes of settings kept for all processes of one instance together.
const MAX_SETTINGS_BYTES: usize = 16 << 20;
/// Instances of one user whose configuration is read, and of all users but root together: a user who
/// starts very many must not keep netwhy from those of others.
const MAX_INSTANCES_OF_USER: usize = 8;
const MAX_INSTANCES_OF_USERS: usize = 32;
/// Workers of one instance whose open logs are read: no more are named with a log.
const MAX_WORKERS_READ: usize = 16;
/// Descriptors read in a worker, which has inherited its logs from its master.
const WORKER_DESCRIPTORS: Descriptors = Descriptors::Below(64);
/// Processes of unknown programs whose open logs are read.
const MAX_UNKNOWN_PROGRAMS: usize = 64;
/// Files of one configuration that are noted as unreadable one by one.
const MAX_UNREADABLE_NOTED: usize = 3;

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<ApplicationsObserver>::default()
}

#[derive(Default)]
struct ApplicationsObserver {
    /// The program of each process.
    programs: HashMap<u32, Option<Recognised>>,
    /// Instances by the process that leads them: a master, or a worker whose master is not known.
    instances: BTreeMap<u32, Instance>,
    logs: Logs,
    unknown_programs: usize,
    /// Instances whose configuration was read, by user.
    instances_read: HashMap<u32, usize>,
}

/// One running application: a master and its workers.
struct Instance {
    program: Program,
    settings: Vec<Setting>,
    settings_bytes: usize,
    processes: Vec<u32>,
    files: Option<ProcessFiles>,
}

/// Which of its instance's processes one is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// In the order in which they were found.
    number: usize,
    /// The leader, or the first worker.
    is_first: bool,
}

impl Observe for ApplicationsObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.add_new_processes(context);
    }

    fn sample(&mut self, context: &mut Context<'_>) {
        self.add_new_processes(context);
    }

    fn series(&self, into: &mut Vec<Series>) {
        into.push(Series::count("applications", self.instances.len() as u64));
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.add_new_processes(context);
        self.set_applications(context, |_| true);
        evidence.logs = Some(self.logs.read(context));
    }
}

impl ApplicationsObserver {
    /// Adds the processes that have been found since.
    fn add_new_processes(&mut self, context: &mut Context<'_>) {
        let new: Vec<(u32, u32)> = context
            .known_processes()
            .iter()
            .filter(|p| !self.programs.contains_key(&p.pid))
            .map(|p| (p.pid, p.parent))
            .collect();
        if new.is_empty() {
            return;
        }
        let names: HashMap<u32, &str> =
            context.known_processes().iter().map(|p| (p.pid, p.name.as_str())).collect();
        for process in context.known_processes() {
            self.programs.entry(process.pid).or_insert_with(|| {
                let parent = names.get(&process.parent).copied();
                recognise(&process.name, &process.command, parent)
            });
        }
        let listening: HashSet<u32> =
            context.listening.iter().flat_map(|inode| context.owners.of(*inode)).copied().collect();
        for &(pid, parent) in &new {
            match self.program_of(pid) {
                Some(program) => self.add_to_instance(context, pid, parent, program),
                None if listening.contains(&pid) => self.add_unknown_program(context, pid),
                None => {}
            }
        }
        let new: HashSet<u32> = new.into_iter().map(|(pid, _)| pid).collect();
        self.set_applications(context, |pid| new.contains(&pid));
    }

    fn program_of(&self, pid: u32) -> Option<Program> {
        self.programs.get(&pid)?.as_ref().map(|recognised| recognised.program)
    }

    /// Adds a process to its instance.
    fn add_to_instance(
        &mut self,
        context: &mut Context<'_>,
        pid: u32,
        parent: u32,
        program: Program,
    ) {
        let leader = if self.program_of(parent) == Some(program) { parent } else { pid };
        if !self.instances.contains_key(&leader) {
            let instance = self.new_instance(context, leader, program);
            self.instances.insert(leader, instance);
        }
        let Some(instance) = self.instances.get_mut(&leader) else {
            return;
        };
        instance.processes.push(pid);
        if pid == leader || instance.processes.len() > MAX_WORKERS_READ {
            return;
        }
        // If open files cannot be read, this is noted for the leader.
        if let (Ok(open), Some(files)) =
            (open_logs(context.machine.files(), pid, WORKER_DESCRIPTORS), &instance.files)
        {
            self.logs.add_open(pid, program.name(), Some(program), files, open);
        }
    }

    /// Reads an instance's configuration and finds its logs.
    fn new_instance(
        &mut self,
        context: &mut Context<'_>,
        leader: u32,
        program: Program,
    ) -> Instance {
        let files = context.machine.files();
        let name = program.name();
        let mut instance = Instance {
            program,
            settings: Vec::new(),
            settings_bytes: 0,
            processes: Vec::new(),
            files: None,
        };
        let process = match ProcessFiles::of(files, leader) {
            Ok(process) => process,
            Err(error) => {
                let what = format!("the configuration and logs of {name} {leader}");
                context.missing(Source::Logs, what, &error);
                return instance;
            }
        };
        if let Some(why) = self.too_many_instances(process.user()) {
            let what = format!("the configuration and logs of more of {name}");
            context.missing_because(Source::Logs, Capability::Available, what, why, None);
            return instance;
        }
        match open_logs(files, leader, Descriptors::All) {
            Ok(open) => self.logs.add_open(leader, name, Some(program), &process, open),
            Err(error) => {
                context.missing(Source::Logs, format!("which logs {name} has open"), &error);
            }
        }
        let cwd = files.link(Path::new(&format!("/proc/{leader}/cwd"))).ok();
        let cwd = cwd.as_deref().and_then(Path::to_str);
        let command = command(context, leader);
        let found = configuration::load(&process, program, &command, cwd);
        note_missing(context, program, &found);
        for declared in found.logs {
            self.logs.add_declared(context, program, &process, declared);
        }
        instance.settings_bytes = found.settings_bytes;
        instance.settings = found.settings;
        instance.files = Some(process);
        instance
    }

    /// Counts one more instance of a user; why it is not read, if it is not.
    fn too_many_instances(&mut self, user: u32) -> Option<String> {
        let of_users: usize =
            self.instances_read.iter().filter(|(user, _)| **user != 0).map(|(_, read)| *read).sum();
        let read = self.instances_read.entry(user).or_default();
        if user != 0 && *read >= MAX_INSTANCES_OF_USER {
            return Some(format!(
                "user {user} runs more than {MAX_INSTANCES_OF_USER} applications"
            ));
        }
        if user != 0 && of_users >= MAX_INSTANCES_OF_USERS {
            return Some(format!(
                "users other than root run more than {MAX_INSTANCES_OF_USERS} applications"
            ));
        }
        *read += 1;
        None
    }

    /// Adds the open logs of a process whose program is not known.
    fn add_unknown_program(&mut self, context: &mut Context<'_>, pid: u32) {
        if self.unknown_programs >= MAX_UNKNOWN_PROGRAMS {
            return;
        }
        self.unknown_programs += 1;
        // Nothing is noted: that netwhy does not know a program is not a fault of the machine.
        let files = context.machine.files();
        let Ok(mut open) = open_logs(files, pid, Descriptors::All) else {
            return;
        };
        open.retain(|open| open.path.ends_with(".log"));
        if open.is_empty() {
            return;
        }
        let Ok(process) = ProcessFiles::of(files, pid) else {
            return;
        };
        let name = context.known_processes().iter().find(|p| p.pid == pid).map(|p| p.name.clone());
        self.logs.add_open(pid, &name.unwrap_or_default(), None, &process, open);
    }

    /// Writes the applications into the processes.
    fn set_applications(&self, context: &mut Context<'_>, which: impl Fn(u32) -> bool) {
        let mut instance_of: HashMap<u32, (Place, &Instance)> = HashMap::new();
        for (leader, instance) in &self.instances {
            let first_worker = instance.processes.iter().filter(|pid| *pid != leader).min();
            for (number, pid) in instance.processes.iter().enumerate() {
                let is_first = pid == leader || Some(pid) == first_worker;
                instance_of.insert(*pid, (Place { number, is_first }, instance));
            }
        }
        let processes = context.processes.iter_mut().flatten();
        for process in processes.filter(|process| which(process.pid)) {
            let Some(Some(recognised)) = self.programs.get(&process.pid) else {
                continue;
            };
            let settings = instance_of
                .get(&process.pid)
                .map(|(place, instance)| instance.settings_of(*place, recognised))
                .unwrap_or_default();
            process.application = Some(Application {
                name: recognised.program.name().to_string(),
                role: recognised.role.to_string(),
                pool: recognised.pool.clone(),
                settings,
            });
        }
    }
}

impl Instance {
    /// The settings that apply to a process: all of nginx's; of php-fpm's those of its pool. If there are
    /// very many, only the leader and the first worker have them.
    fn settings_of(&self, place: Place, recognised: &Recognised) -> Vec<Setting> {
        if (place.number + 1).saturating_mul(self.settings_bytes) > MAX_SETTINGS_BYTES {
            return Vec::new();
        }
        let many = self.settings.len() * self.processes.len() > MAX_SETTINGS;
        let applies = |setting: &&Setting| match &recognised.pool {
            Some(pool) => setting.section == *pool || setting.section == "global",
            None => true,
        };
        if many && recognised.pool.is_none() && !place.is_first {
            return Vec::new();
        }
        debug_assert_eq!(self.program, recognised.program);
        self.settings.iter().filter(applies).cloned().collect()
    }
}

/// The whole command line of a process, its arguments divided by spaces.
fn command(context: &mut Context<'_>, pid: u32) -> String {
    let path = format!("/proc/{pid}/cmdline");
    match context.machine.files().read(Path::new(&path), &mut context.buffer) {
        Ok(()) => {
            let bytes: Vec<u8> =
                context.buffer.iter().map(|b| if *b == 0 { b' ' } else { *b }).collect();
            String::from_utf8_lossy(&bytes).trim_end().to_string()
        }
        Err(_) => String::new(), // it has ended
    }
}

fn note_missing(context: &mut Context<'_>, program: Program, found: &Configuration) {
    let name = program.name();
    for (file, error) in found.unreadable.iter().take(MAX_UNREADABLE_NOTED) {
        let what = format!("the configuration of {name} ({file})");
        if error.kind == ErrorKind::NotFound {
            // The program runs: it must have one, and it is not where it is expected.
            let why = error.to_string();
            context.missing_because(Source::Logs, Capability::Broken, what, why, None);
        } else {
            context.missing(Source::Logs, what, error);
        }
    }
    if let Some(more @ 1..) = found.unreadable.len().checked_sub(MAX_UNREADABLE_NOTED) {
        context.missing_because(
            Source::Logs,
            Capability::Broken,
            format!("more of the configuration of {name}"),
            format!("{more} more files could not be read"),
            None,
        );
    }
    if let Some(why) = found.limit_reached {
        let what = format!("the whole configuration of {name}");
        context.missing_because(Source::Logs, Capability::Available, what, why, None);
    }
}
