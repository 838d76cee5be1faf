//! `nf_conntrack_max`, which belongs to the whole machine: one lab at a time changes it, and it is
//! restored whatever happens.
//!
//! Dropping the value restores it. If the lab is killed, a guard process restores it as soon as its
//! pipe breaks. If the guard is killed too, the next lab finds the value in a file and restores it
//! before it begins.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::Stop;

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};
use crate::state_folder;

const LIMIT_FILE: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// The folder of both files.
const STATE_FOLDER: &str = "/run/netwhy";
/// Locked while the limit is changed, by any test or lab on this machine.
const LOCK_FILE: &str = "/run/netwhy/conntrack.lock";
/// Holds the original limit.
const SAVED_FILE: &str = "/run/netwhy/conntrack.before";
/// The guard: waits for the end of its input, then restores the limit, unless another lab has done
/// so and holds the lock by now.
const GUARD_SCRIPT: &str =
    "cat; flock $3 sh -c '[ ! -e $2 ] || { cat $2 >$1 && rm -f $2; }' sh $1 $2";

/// `nf_conntrack_max`, changed.
pub(crate) struct ConntrackMax {
    _lock: File,
    guard: Child,
}

impl ConntrackMax {
    /// Takes the lock, then changes the limit.
    pub(crate) fn set(value: &str, stop: &Stop) -> Result<Self> {
        if !Path::new(LIMIT_FILE).exists() {
            return Err(Error::new(
                "this kernel has no connection tracking (modprobe nf_conntrack)",
            ));
        }
        let lock = lock(stop)?;
        restore();
        let failed = |what: &str, error: std::io::Error| {
            Error::new(format!("cannot {what}: {error}; the limit was not changed"))
        };
        let before =
            std::fs::read_to_string(LIMIT_FILE).map_err(|e| failed("read the limit", e))?;
        state_folder::write(Path::new(SAVED_FILE), true)
            .and_then(|mut file| file.write_all(before.as_bytes()))
            .map_err(|e| failed("save the limit", e))?;
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD_SCRIPT, "guard", LIMIT_FILE, SAVED_FILE, LOCK_FILE])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is meant for the lab.
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
            Error::new(format!("nf_conntrack_max must be a number of connections, not {value}"))
        })?;
        std::fs::write(LIMIT_FILE, number.to_string())
            .map_err(|error| Error::new(format!("cannot set nf_conntrack_max: {error}")))
    }
}

impl Drop for ConntrackMax {
    fn drop(&mut self) {
        restore();
        // Before its pipe breaks: it would wait for the lock held here.
        let _ = self.guard.kill();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn lock(stop: &Stop) -> Result<File> {
    let failed = |what: String| Error::new(format!("cannot lock {LOCK_FILE}: {what}"));
    state_folder::open(STATE_FOLDER)?;
    let file = state_folder::write(Path::new(LOCK_FILE), false)
        .map_err(|error| failed(error.to_string()))?;
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

/// Restores the limit if it was changed; the caller holds the lock.
fn restore() {
    if let Ok(before) = state_folder::read(Path::new(SAVED_FILE))
        && let Ok(limit) = before.trim().parse::<u32>()
        && std::fs::write(LIMIT_FILE, limit.to_string()).is_ok()
    {
        let _ = std::fs::remove_file(SAVED_FILE);
    }
}

/// Restores the limit if a lab that is gone had changed it.
pub(crate) fn sweep() {
    if Path::new(SAVED_FILE).exists()
        && state_folder::open(STATE_FOLDER).is_ok()
        && let Ok(file) = state_folder::write(Path::new(LOCK_FILE), false)
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        restore();
    }
}
