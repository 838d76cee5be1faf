//! What observers share: the machine, gaps, who holds which socket.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Focus, MissingEvidence, Process, Source};
use sys::{Error, Kind, Machine};

/// What observers share in one window.
pub struct Context<'a> {
    /// The machine that is watched.
    pub machine: &'a dyn Machine,
    /// What the user asked to look at.
    pub focus: &'a Focus,
    /// [`Machine::now`] when the window began.
    pub began: Duration,
    /// Milliseconds since the window began, of the look that is being made.
    pub at_ms: u64,
    /// Which look this is: 0 at the beginning.
    pub look: u32,
    /// What could not be seen so far.
    pub gaps: Vec<MissingEvidence>,
    /// Processes that hold sockets, by inode of the socket; kept by the processes observer.
    pub holders: HashMap<u32, Vec<u32>>,
    /// Inodes of listening sockets; kept by the sockets observer.
    pub listening: HashSet<u32>,
    /// The network namespace that is watched, as `/proc/PID/ns/net` names it; kept by the
    /// processes observer.
    pub namespace: Option<PathBuf>,
    /// Processes that hold more sockets than are read of each.
    pub long: BTreeSet<u32>,
    /// Inodes of sockets whose holder is wanted and not known: the processes observer looks for
    /// them when that is cheap.
    pub wanted: HashSet<u32>,
    /// Inodes that were wanted and whose holder was not found.
    pub unfound: HashSet<u32>,
    /// Processes seen so far that hold sockets here, and their parents; kept by the processes
    /// observer, which runs before the observers that read this.
    pub processes: Vec<Process>,
    /// A buffer to read into, so that looks do not allocate.
    pub buffer: Vec<u8>,
}

impl<'a> Context<'a> {
    /// A context at the beginning of a window.
    pub fn new(machine: &'a dyn Machine, focus: &'a Focus) -> Self {
        Context {
            machine,
            focus,
            began: machine.now(),
            at_ms: 0,
            look: 0,
            gaps: Vec::new(),
            holders: HashMap::new(),
            listening: HashSet::new(),
            namespace: None,
            long: BTreeSet::new(),
            wanted: HashSet::new(),
            unfound: HashSet::new(),
            processes: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Notes that something could not be seen. The same gap is noted once.
    pub fn gap(&mut self, source: Source, what: impl Into<String>, error: &Error) {
        let closes_with = match error.kind {
            Kind::Permission => Some("run as root (sudo netwhy)".to_string()),
            _ => None,
        };
        self.gap_because(source, what, error.to_string(), closes_with);
    }

    /// Notes a gap in words.
    pub fn gap_because(
        &mut self,
        source: Source,
        what: impl Into<String>,
        why: impl Into<String>,
        closes_with: Option<String>,
    ) {
        let gap = MissingEvidence {
            source,
            what: what.into(),
            why: why.into(),
            how_to_observe: closes_with,
        };
        if !self.gaps.iter().any(|g| g.source == gap.source && g.what == gap.what) {
            self.gaps.push(gap);
        }
    }

    /// Asks for the holder of a socket, unless it is known or was looked for in vain.
    pub fn want(&mut self, inode: u32) {
        if inode != 0 && !self.holders.contains_key(&inode) && !self.unfound.contains(&inode) {
            self.wanted.insert(inode);
        }
    }

    /// Processes that hold a socket, lowest id first.
    pub fn holders_of(&self, inode: u32) -> &[u32] {
        self.holders.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// Reads a file as text into the shared buffer; notes a gap and gives `None` when it cannot.
    pub fn text(&mut self, source: Source, what: &str, path: &str) -> Option<&str> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.machine.read(Path::new(path), &mut buffer);
        self.buffer = buffer;
        if let Err(error) = read {
            self.gap(source, what, &error);
            return None;
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Some(text),
            Err(_) => Some(""),
        }
    }
}
