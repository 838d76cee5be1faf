//! Programs on hosts of the lab: start, wait until ready, restart, end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use sys::Stop;

use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::scenario::types::Process;

/// How long a program may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a program may take to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of a program's output that an error shows.
const TAIL_LINES: usize = 12;

/// The leader of a process group; dropping it ends the group.
pub(crate) struct ProcessGroup(pub(crate) Child);

/// A program that runs.
pub(crate) struct Running {
    name: String,
    group: ProcessGroup,
    log: PathBuf,
    // Dropped after the group: a cgroup with processes cannot be removed.
    _cgroup: Option<Cgroup>,
}

impl ProcessGroup {
    fn id(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }

    /// Sends a signal to every process of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // It fails when they have ended.
        let _ = self.id().map(|group| rustix::process::kill_process_group(group, signal));
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + TERM_TIMEOUT;
        while Instant::now() < deadline {
            let leader_ended = !matches!(self.0.try_wait(), Ok(None));
            // Its children may take longer.
            let group = self.id();
            let all_ended =
                group.is_none_or(|group| rustix::process::test_kill_process_group(group).is_err());
            if leader_ended && all_ended {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it, without waiting until it is ready.
    pub(crate) fn start(host: &Host, process: &Process, line: &str) -> Result<Self> {
        let name = process.name.get_ref().clone();
        let cgroup = process.cpu_quota.map(|cpu| Cgroup::new(&name, cpu.0)).transpose()?;
        let line = match &cgroup {
            Some(cgroup) => format!("{}; {line}", cgroup.enter()),
            None => line.to_string(),
        };
        let log = host.dir.join(format!("{name}.log"));
        let (out, err) = log_file(&log)?;
        let group = ProcessGroup(host.start_line(&line, out, err)?);
        Ok(Running { name, group, log, _cgroup: cgroup })
    }

    /// Waits until it is ready; `substitute` replaces names in its conditions.
    pub(crate) fn wait_until_ready(
        &mut self,
        host: &Host,
        process: &Process,
        substitute: &dyn Fn(&str) -> Result<String>,
        stop: &Stop,
    ) -> Result<()> {
        let ready = &process.ready;
        let deadline = Instant::now() + READY_TIMEOUT;
        let file = ready.file.as_ref().map(|text| substitute(text.get_ref())).transpose()?;
        let command = ready.command.as_ref().map(|text| substitute(text.get_ref())).transpose()?;
        loop {
            let listens = match ready.listens {
                Some(port) => listens(host, port)?,
                None => true,
            };
            let exists = file.as_ref().is_none_or(|file| Path::new(file).exists());
            let succeeds = match &command {
                Some(line) if listens && exists => host.succeeds(line)?,
                _ => true,
            };
            if listens && exists && succeeds {
                break;
            }
            self.check_running()?;
            if stop.is_set() {
                return Err(Error::new("interrupted"));
            }
            if Instant::now() > deadline {
                let (name, host) = (&self.name, &host.name);
                return Err(Error::new(format!(
                    "{name} on {host} was not ready after {} s\n{}",
                    READY_TIMEOUT.as_secs(),
                    self.tail()
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        std::thread::sleep(ready.after.map_or(Duration::ZERO, |after| after.0));
        self.check_running()
    }

    /// An error when it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.group.0.try_wait() {
            Ok(Some(status)) => {
                let name = &self.name;
                Err(Error::new(format!("{name} ended: {status}\n{}", self.tail())))
            }
            _ => Ok(()),
        }
    }

    fn tail(&self) -> String {
        tail(&self.log)
    }
}

/// Whether something listens on a TCP port of a host, IPv4 or IPv6.
fn listens(host: &Host, port: u16) -> Result<bool> {
    let wanted = format!(":{port:04X}");
    let read =
        host.inside(|| ["/proc/1/net/tcp", "/proc/1/net/tcp6"].map(std::fs::read_to_string))?;
    Ok(read.iter().flatten().flat_map(|text| text.lines()).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&wanted));
        // 0A is TCP_LISTEN.
        local && fields.nth(1) == Some("0A")
    }))
}

/// A file for the output and the errors of a program.
fn log_file(path: &Path) -> Result<(File, File)> {
    let failed =
        |error: std::io::Error| Error::new(format!("cannot write {}: {error}", path.display()));
    let mut options = File::options();
    let file = options.create(true).append(true).open(path).map_err(failed)?;
    let same = file.try_clone().map_err(failed)?;
    Ok((file, same))
}

/// The last lines of a file.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(TAIL_LINES));
    last.map(|line| format!("  {line}\n")).collect()
}
