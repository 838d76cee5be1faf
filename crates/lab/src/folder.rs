//! The directory of a lab: files of its hosts, logs, captures, and what other processes need to
//! enter it. A lab that was killed leaves its directory behind; the next lab removes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const PREFIX: &str = "netwhy-lab-";
const INFO_FILE: &str = "lab.json";

/// What other processes need to enter a running lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LabInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// Process of the lab.
    pub pid: u32,
    /// When that process started, clock ticks since boot: PIDs are reused.
    start_time: u64,
    /// Process 1 of each host, by its PID on the machine.
    pub hosts: BTreeMap<String, u32>,
}

/// The directory of this lab; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new directory.
    pub(crate) fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", path.display())))?;
        Ok(Folder(path))
    }

    /// Writes down what other processes need to enter this lab.
    pub(crate) fn publish(&self, scenario: &str, hosts: BTreeMap<String, u32>) -> Result<()> {
        let pid = std::process::id();
        let started = start_time(pid).unwrap_or_default();
        let info = LabInfo { scenario: scenario.to_string(), pid, start_time: started, hosts };
        let text = serde_json::to_string(&info).map_err(|error| Error::new(error.to_string()))?;
        let path = self.0.join(INFO_FILE);
        std::fs::write(&path, text)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next lab removes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The labs that run on this machine.
pub fn running() -> Vec<LabInfo> {
    let mut labs: Vec<LabInfo> = folders().filter_map(|path| read_info(&path)).collect();
    labs.retain(|lab| start_time(lab.pid) == Some(lab.start_time));
    labs.sort_by_key(|lab| lab.pid);
    labs
}

/// Removes what killed labs have left behind: directories, cgroups, a limit of the machine.
pub fn sweep() {
    let gone = |pid: u32| start_time(pid).is_none();
    for path in folders() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let owner = name.as_deref().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse().ok()) else { continue };
        let reused =
            read_info(&path).is_some_and(|lab| start_time(lab.pid) != Some(lab.start_time));
        if gone(owner) || reused {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    crate::cgroup::sweep(&gone);
    crate::conntrack_max::sweep();
}

/// Directories of labs that belong to this user: anybody can make such names in a shared directory.
fn folders() -> impl Iterator<Item = PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(move |path| {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        named && path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own)
    })
}

fn read_info(folder: &Path) -> Option<LabInfo> {
    let text = std::fs::read_to_string(folder.join(INFO_FILE)).ok()?;
    serde_json::from_str(&text).ok()
}

/// When a process started, clock ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22, counted from behind the name, which may contain anything.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}
