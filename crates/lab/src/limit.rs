//! Settings of the whole machine that a scenario changes: one lab at a time, and put back whatever
//! happens.
//!
//! Three things see to that: the value is dropped; if the lab is killed, a guard that outlives it
//! puts it back as soon as its pipe breaks; and if the guard is killed too, the next lab finds the
//! value in a file and puts it back before it begins.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::Stop;

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Held while the limit is changed, by whatever test or lab on this machine.
const LOCK: &str = "/run/lock/netwhy-conntrack.lock";
/// The limit as it was.
const BEFORE: &str = "/run/lock/netwhy-conntrack.before";
/// What the guard runs: waits for the end of its input, then puts the limit back, unless another
/// lab has done so and holds the lock by now.
const GUARD: &str = "cat; flock $3 sh -c '[ ! -e $2 ] || { cat $2 >$1 && rm -f $2; }' sh $1 $2";

/// `nf_conntrack_max`, changed.
pub(crate) struct ConntrackMax {
    _lock: File,
    guard: Child,
}

impl ConntrackMax {
    /// Takes the lock, then changes the limit.
    pub(crate) fn set(value: &str, stop: &Stop) -> Result<Self> {
        if !Path::new(MAX).exists() {
            return Err(Error::new("this kernel tracks no connections (modprobe nf_conntrack)"));
        }
        let lock = lock(stop)?;
        put_back();
        let failed = |what: &str, error: std::io::Error| {
            Error::new(format!("cannot {what}: {error}; the limit was left as it was"))
        };
        let before = std::fs::read_to_string(MAX).map_err(|e| failed("read the limit", e))?;
        std::fs::write(BEFORE, &before).map_err(|e| failed("remember the limit", e))?;
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "guard", MAX, BEFORE, LOCK])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the lab.
            .process_group(0)
            .spawn()
            .map_err(|e| failed("start a guard for the limit", e))?;
        let limit = ConntrackMax { _lock: lock, guard };
        limit.change(value)?;
        Ok(limit)
    }

    /// Changes it again.
    pub(crate) fn change(&self, value: &str) -> Result<()> {
        let number: Option<u32> = value.trim().parse().ok();
        let number = number.ok_or_else(|| {
            Error::new(format!("nf_conntrack_max is a number of connections, not {value}"))
        })?;
        std::fs::write(MAX, number.to_string())
            .map_err(|error| Error::new(format!("cannot set nf_conntrack_max: {error}")))
    }
}

impl Drop for ConntrackMax {
    fn drop(&mut self) {
        put_back();
        // Before its pipe breaks: it would wait for the lock that is held here.
        let _ = self.guard.kill();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn lock(stop: &Stop) -> Result<File> {
    let failed = |what: String| Error::new(format!("cannot lock {LOCK}: {what}"));
    let file = File::create(LOCK).map_err(|error| failed(error.to_string()))?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if !stop.is_set() => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::new("interrupted")),
            Err(errno) => return Err(failed(errno.to_string())),
        }
    }
}

/// Puts the limit back if somebody has changed it; the lock is held.
fn put_back() {
    if let Ok(before) = std::fs::read_to_string(BEFORE)
        && std::fs::write(MAX, before.trim()).is_ok()
    {
        let _ = std::fs::remove_file(BEFORE);
    }
}

/// Puts the limit back if it was changed by a lab that is gone.
pub(crate) fn sweep() {
    if Path::new(BEFORE).exists()
        && let Ok(file) = File::create(LOCK)
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        put_back();
    }
}
