//! The folder of a lab: files of its hosts, logs, captures, and what others need to know to look
//! into it. Labs that were killed leave theirs behind; the next lab sweeps them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const PREFIX: &str = "netwhy-lab-";
const CARD: &str = "lab.json";

/// What others need to know of a running lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Card {
    /// Name of the scenario.
    pub scenario: String,
    /// Process of the lab.
    pub pid: u32,
    /// When that process started, clock ticks since boot: process ids are used again.
    started: u64,
    /// Process 1 of each host, as the machine numbers it.
    pub hosts: BTreeMap<String, u32>,
}

/// The folder of this lab; removed with it.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new folder.
    pub(crate) fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", path.display())))?;
        Ok(Folder(path))
    }

    /// Tells others of this lab.
    pub(crate) fn tell(&self, scenario: &str, hosts: BTreeMap<String, u32>) -> Result<()> {
        let pid = std::process::id();
        let started = started(pid).unwrap_or_default();
        let card = Card { scenario: scenario.to_string(), pid, started, hosts };
        let text = serde_json::to_string(&card).map_err(|error| Error::new(error.to_string()))?;
        let path = self.0.join(CARD);
        std::fs::write(&path, text)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is swept by the next lab.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The labs that run on this machine.
pub fn running() -> Vec<Card> {
    let mut cards: Vec<Card> = folders().filter_map(|path| card(&path)).collect();
    cards.retain(|card| started(card.pid) == Some(card.started));
    cards.sort_by_key(|card| card.pid);
    cards
}

/// Removes what labs have left that were killed: folders, cgroups, a limit of the machine.
pub fn sweep() {
    let gone = |pid: u32| started(pid).is_none();
    for path in folders() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let owner = name.as_deref().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse().ok()) else { continue };
        let reused = card(&path).is_some_and(|card| started(card.pid) != Some(card.started));
        if gone(owner) || reused {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    crate::cgroup::sweep(&gone);
    crate::limit::sweep();
}

/// Folders of labs that belong to this user: in a shared folder, anybody may make the like.
fn folders() -> impl Iterator<Item = PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(move |path| {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        named && path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own)
    })
}

fn card(folder: &Path) -> Option<Card> {
    let text = std::fs::read_to_string(folder.join(CARD)).ok()?;
    serde_json::from_str(&text).ok()
}

/// When a process started, clock ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything: field 22 is the start time.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}
