//! Reading `/proc/PID`. What cannot be read is `None`; the observer notes it once for all processes.

use std::path::PathBuf;

use model::Process;

use crate::context::Context;

/// What a process has used so far.
pub(super) struct Usage {
    /// Start, clock ticks since boot: distinguishes processes with the same id.
    pub(super) started_ticks: u64,
    /// User and system time of all threads, clock ticks.
    pub(super) cpu_ticks: u64,
    /// Threads.
    pub(super) threads: u32,
    /// Time that its threads were runnable but not running, nanoseconds.
    pub(super) run_delay_ns: Option<u64>,
}

fn file<'a>(context: &'a mut Context<'_>, path: &str) -> Option<&'a [u8]> {
    context.machine.files().read(&PathBuf::from(path), &mut context.buffer).ok()?;
    Some(&context.buffer)
}

/// Identity of a process: ids, name, command line.
pub(super) fn identity(context: &mut Context<'_>, pid: u32) -> Option<Process> {
    let stat = wire::proc_pid::stat(file(context, &format!("/proc/{pid}/stat"))?).ok()?;
    let command = match file(context, &format!("/proc/{pid}/cmdline")) {
        Some(bytes) => wire::proc_pid::command(bytes),
        None => String::new(),
    };
    Some(Process { pid, parent: stat.parent, name: stat.name, command, ..Process::default() })
}

/// Name of a process.
pub(super) fn name(context: &mut Context<'_>, pid: u32) -> Option<String> {
    Some(wire::proc_pid::stat(file(context, &format!("/proc/{pid}/stat"))?).ok()?.name)
}

/// State letter of the main thread.
pub(super) fn state(context: &mut Context<'_>, pid: u32) -> Option<char> {
    Some(wire::proc_pid::stat(file(context, &format!("/proc/{pid}/stat"))?).ok()?.state)
}

/// CPU time of a process, and run delay of at most `max_threads` of its threads.
pub(super) fn usage(context: &mut Context<'_>, pid: u32, max_threads: usize) -> Option<Usage> {
    let stat = wire::proc_pid::stat(file(context, &format!("/proc/{pid}/stat"))?).ok()?;
    let mut run_delay_ns = None;
    if stat.threads <= 1 {
        run_delay_ns = run_delay(context, &format!("/proc/{pid}/schedstat"));
    } else {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let mut names = Vec::new();
        // A process that ends while it is listed has no run delay.
        let _ = context.machine.files().list(&tasks, &mut |name| {
            if names.len() < max_threads {
                names.push(name.to_string());
            }
        });
        for task in names {
            let path = format!("/proc/{pid}/task/{task}/schedstat");
            if let Some(delay) = run_delay(context, &path) {
                run_delay_ns = Some(run_delay_ns.unwrap_or(0u64).saturating_add(delay));
            }
        }
    }
    Some(Usage {
        started_ticks: stat.started_ticks,
        cpu_ticks: stat.user_ticks.saturating_add(stat.system_ticks),
        threads: stat.threads,
        run_delay_ns,
    })
}

fn run_delay(context: &mut Context<'_>, path: &str) -> Option<u64> {
    Some(wire::proc_pid::schedstat(file(context, path)?).ok()?.run_delay_ns)
}

/// Number of open files: the size of `/proc/PID/fd` since Linux 6.2, counted on older kernels.
pub(super) fn open_files(context: &mut Context<'_>, pid: u32) -> Option<u64> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let size = context.machine.files().stat(&folder).ok()?.size;
    if size > 0 {
        return Some(size);
    }
    let mut files = 0;
    context.machine.files().list(&folder, &mut |_| files += 1).ok()?;
    Some(files)
}

/// Soft limit of open files.
pub(super) fn open_files_limit(context: &mut Context<'_>, pid: u32) -> Option<u64> {
    wire::proc_pid::limits(file(context, &format!("/proc/{pid}/limits"))?).ok()?.open_files
}
