//! A host of the lab: its own network, mounts, process ids and host name, in unnamed namespaces. Its
//! process 1 lives as long as the lab; when it ends, however the lab ended, the kernel kills the
//! host's processes and removes its network. Nothing is left behind.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::mount::MountFlags;
use rustix::process::{Signal, WaitOptions};

use crate::error::{Error, Result};

/// What process 1 prints once the host is set up.
const READY_LINE: &str = "ready";
/// Appended to PATH: servers are in sbin, which users do not have there.
const EXTRA_PATHS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The machine's configuration, which hosts read.
const CONFIGURATION: &str = "/etc";

/// A host of the lab.
pub(crate) struct Host {
    pub(crate) name: String,
    /// The PID of process 1 on the machine.
    pub(crate) pid: u32,
    /// Its directory.
    pub(crate) dir: PathBuf,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Host {
    /// Starts a host; `init` is the command that runs [`init`].
    pub(crate) fn start(name: &str, dir: PathBuf, init: &[OsString]) -> Result<Self> {
        std::fs::create_dir_all(&dir)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", dir.display())))?;
        let (jobs, inbox) = channel::<Job>();
        let (result, started) = channel();
        let (host_name, command) = (name.to_string(), init.to_vec());
        let thread = std::thread::Builder::new()
            .name(format!("lab {name}"))
            .spawn(move || {
                let mut process_1 = match start_init(&host_name, &command) {
                    Ok(process_1) => process_1,
                    Err(error) => {
                        let _ = result.send(Err(error));
                        return;
                    }
                };
                let _ = result.send(Ok(process_1.id()));
                for job in inbox {
                    job();
                }
                // At the end of its input it ends, and with it all processes of the host.
                drop(process_1.stdin.take());
                let _ = process_1.wait();
            })
            .map_err(|error| Error::new(format!("cannot start a thread for {name}: {error}")))?;
        let gone = || Error::new(format!("the host {name} ended before it was set up"));
        let pid = started.recv().map_err(|_| gone())??;
        Ok(Host { name: name.to_string(), pid, dir, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a closure on the thread of this host, in its namespaces.
    pub(crate) fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let gone = || Error::new(format!("the host {} has ended", self.name));
        let (result, done) = channel();
        let job = Box::new(move || {
            let _ = result.send(work());
        });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        done.recv().map_err(|_| gone())
    }

    /// Starts a shell line, which leads its own process group; its output goes to files.
    pub(crate) fn start_line(&self, line: &str, stdout: File, stderr: File) -> Result<Child> {
        let mut command = self.command(line);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let started = self.inside(move || command.spawn())?;
        started.map_err(|error| Error::new(format!("cannot start «{line}»: {error}")))
    }

    /// Runs a shell line to its end; returns its output. It must succeed.
    pub(crate) fn run(&self, line: &str) -> Result<String> {
        let mut command = self.command(line);
        let output = self.inside(move || command.stdin(Stdio::null()).output())?;
        let output =
            output.map_err(|error| Error::new(format!("cannot start «{line}»: {error}")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let printed = [text(&output.stderr), text(&output.stdout)].join("\n");
        let (host, status) = (&self.name, output.status);
        Err(Error::new(format!("on {host}, «{line}» failed: {status}\n{}", printed.trim())))
    }

    /// Whether a shell line succeeds.
    pub(crate) fn succeeds(&self, line: &str) -> Result<bool> {
        let mut command = self.command(line);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(self.inside(move || command.status())?.is_ok_and(|status| status.success()))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).current_dir(&self.dir).process_group(0);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{EXTRA_PATHS}")).env("LC_ALL", "C");
        command
    }

    /// Sets a `net.*` sysctl of the host.
    pub(crate) fn set(&self, sysctl: &str, value: &str) -> Result<()> {
        if !sysctl.starts_with("net.") || sysctl.contains("..") || sysctl.contains('/') {
            return Err(Error::new(format!(
                "cannot set {sysctl}: only net.* belongs to a host, others would change this machine"
            )));
        }
        let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
        let (file, text) = (path.clone(), value.to_string());
        self.inside(move || std::fs::write(file, text))?.map_err(|error| {
            Error::new(format!("cannot set {sysctl} to {value} on {}: {error}", self.name))
        })
    }

    /// Writes a file of the host. A relative name is in its directory; an absolute one is mounted
    /// over the machine's file of that name, for this host only.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let failed = |path: &Path, error: std::io::Error| {
            Error::new(format!("cannot write {} of {}: {error}", path.display(), self.name))
        };
        let mounted_over = name.starts_with('/');
        let path = if mounted_over {
            self.dir.join("over").join(name.replace('/', "_"))
        } else {
            self.dir.join(name)
        };
        if Path::new(name).components().any(|part| part.as_os_str() == "..") {
            return Err(Error::new(format!(
                "the file {name} of {} is outside its directory",
                self.name
            )));
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        if mounted_over {
            let target = name.to_string();
            self.inside(move || rustix::mount::mount_bind(path, target))?.map_err(|errno| {
                Error::new(format!(
                    "cannot mount a file over {name} for {}: {errno} (a file of that name must \
                     exist)",
                    self.name
                ))
            })?;
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a folder of the machine, and what is mounted below it, read-only for this host: what a scenario's
/// lines write there would outlive the lab. Files of the host's own are mounted over it.
fn protect(folder: &str) -> Result<()> {
    let failed = |what: &str, errno: rustix::io::Errno| {
        Error::new(format!("cannot make {what} read-only for a host: {errno}"))
    };
    rustix::mount::mount_bind_recursive(folder, folder).map_err(|errno| failed(folder, errno))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")
        .map_err(|error| Error::new(format!("cannot read /proc/self/mounts: {error}")))?;
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(unescaped);
    for place in places.filter(|place| Path::new(place).starts_with(folder)) {
        rustix::mount::mount_remount(&place, MountFlags::BIND | MountFlags::RDONLY, "")
            .map_err(|errno| failed(&place, errno))?;
    }
    Ok(())
}

/// A path of `/proc/self/mounts`, in which white space and backslashes are octal numbers.
fn unescaped(path: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(path.to_string(), |path, (octal, character)| path.replace(octal, character))
}

/// Moves the calling thread into new namespaces and starts process 1 there.
fn start_init(name: &str, init: &[OsString]) -> Result<Child> {
    sys::namespace::isolate(name)?;
    let Some((program, arguments)) = init.split_first() else {
        return Err(Error::new("no command for process 1 of a host"));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| Error::new(format!("cannot start {}: {error}", program.display())))?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut line);
    }
    if line.trim() != READY_LINE {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::new(format!("process 1 of {name} did not start: {line}")));
    }
    Ok(child)
}

/// Process 1 of a host: mounts its `/proc`, protects the machine's `/etc`, reaps orphans, and ends with its
/// input.
///
/// # Errors
///
/// `/proc` cannot be mounted, or `/etc` not be made read-only.
pub fn init() -> Result<()> {
    // The end of the lab shows in two ways: its pipe is closed, and this signal.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let none = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", none, None)
        .map_err(|errno| Error::new(format!("cannot mount /proc: {errno}")))?;
    protect(CONFIGURATION)?;
    println!("{READY_LINE}");
    std::thread::spawn(|| {
        loop {
            if rustix::process::wait(WaitOptions::empty()).is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_unescaped() {
        assert_eq!(unescaped("/etc/my\\040folder\\134040"), "/etc/my folder\\040");
        assert_eq!(unescaped("/etc/hosts"), "/etc/hosts");
    }
}
