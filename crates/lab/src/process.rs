//! Programs that run on hosts of the lab: started, waited for, started again, ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use sys::Stop;

use rustix::process::{Pid, Signal};

use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::scenario::types::Process;

/// How long a program may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a program may take to end when asked.
const FAREWELL: Duration = Duration::from_secs(3);
/// How often somebody looks whether something is so.
const GLANCE: Duration = Duration::from_millis(20);
/// Lines of a program's output in an error.
const TAIL: usize = 12;

/// A program that runs.
pub(crate) struct Running {
    name: String,
    child: Child,
    log: PathBuf,
    // Outlives the child: a cgroup with a process in it cannot be removed.
    _cgroup: Option<Cgroup>,
}

impl Running {
    /// Starts it; it need not be ready yet.
    pub(crate) fn start(host: &Host, process: &Process, line: &str) -> Result<Self> {
        let name = process.name.get_ref().clone();
        let cgroup = process.cpu.map(|cpu| Cgroup::new(&name, cpu.0)).transpose()?;
        let line = match &cgroup {
            Some(cgroup) => format!("{}; {line}", cgroup.enter()),
            None => line.to_string(),
        };
        let log = host.dir.join(format!("{name}.log"));
        let (out, err) = log_file(&log)?;
        let child = host.start_line(&line, out, err)?;
        Ok(Running { name, child, log, _cgroup: cgroup })
    }

    /// Waits until it is ready; `fill` puts in what names in its conditions stand for.
    pub(crate) fn wait_until_ready(
        &mut self,
        host: &Host,
        process: &Process,
        fill: &dyn Fn(&str) -> Result<String>,
        stop: &Stop,
    ) -> Result<()> {
        let ready = &process.ready;
        let patience = Instant::now() + PATIENCE;
        let file = ready.file.as_ref().map(|text| fill(text.get_ref())).transpose()?;
        let command = ready.command.as_ref().map(|text| fill(text.get_ref())).transpose()?;
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
            self.is_alive()?;
            if stop.is_set() {
                return Err(Error::new("interrupted"));
            }
            if Instant::now() > patience {
                let (name, host) = (&self.name, &host.name);
                return Err(Error::new(format!(
                    "{name} on {host} was not ready after {} s\n{}",
                    PATIENCE.as_secs(),
                    self.tail()
                )));
            }
            std::thread::sleep(GLANCE);
        }
        std::thread::sleep(ready.after.map_or(Duration::ZERO, |after| after.0));
        self.is_alive()
    }

    /// That it has not ended.
    fn is_alive(&mut self) -> Result<()> {
        match self.child.try_wait() {
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

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Asks a process group to end, then makes it.
pub(crate) fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let tell = |signal| group.map(|group| rustix::process::kill_process_group(group, signal));
    let _ = tell(Signal::TERM);
    let patience = Instant::now() + FAREWELL;
    while Instant::now() < patience {
        // Of its children, some may take longer: those are asked for by their group.
        let gone = !matches!(child.try_wait(), Ok(None));
        let alone =
            group.is_none_or(|group| rustix::process::test_kill_process_group(group).is_err());
        if gone && alone {
            return;
        }
        std::thread::sleep(GLANCE);
    }
    let _ = tell(Signal::KILL);
    let _ = child.wait();
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

/// A file for the output of a program, twice: its errors go there too.
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
    let last = &lines[lines.len().saturating_sub(TAIL)..];
    last.iter().map(|line| format!("  {line}\n")).collect()
}
