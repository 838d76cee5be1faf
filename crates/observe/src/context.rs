//! What observers share: the machine, gaps, who holds which socket.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Capability, Focus, MissingEvidence, Process, Source};
use sys::{Error, ErrorKind, Machine};

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
    /// What could not be observed so far.
    pub missing_evidence: Vec<MissingEvidence>,
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
            missing_evidence: Vec::new(),
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

    /// Notes that something could not be observed. The same part of a source is noted once.
    pub fn missing(&mut self, source: Source, what: impl Into<String>, error: &Error) {
        let (capability, how_to_observe) = match error.kind {
            ErrorKind::PermissionDenied => {
                (Capability::NotPermitted, Some("run as root (sudo netwhy)".into()))
            }
            ErrorKind::Unsupported => (Capability::Unsupported, None),
            ErrorKind::NotFound => (Capability::NotApplicable, None),
            ErrorKind::TimedOut | ErrorKind::Other => (Capability::Broken, None),
        };
        let (what, why) = (what.into(), error.to_string());
        self.note(MissingEvidence { source, capability, what, why, how_to_observe });
    }

    /// Notes in words what could not be observed, and why.
    pub fn missing_because(
        &mut self,
        source: Source,
        capability: Capability,
        what: impl Into<String>,
        why: impl Into<String>,
        how_to_observe: Option<&str>,
    ) {
        let how_to_observe = how_to_observe.map(str::to_string);
        let (what, why) = (what.into(), why.into());
        self.note(MissingEvidence { source, capability, what, why, how_to_observe });
    }

    fn note(&mut self, missing: MissingEvidence) {
        let same =
            |known: &MissingEvidence| known.source == missing.source && known.what == missing.what;
        if !self.missing_evidence.iter().any(same) {
            self.missing_evidence.push(missing);
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

    /// Reads a file as text into the shared buffer; notes it and gives `None` when it cannot.
    pub fn text(&mut self, source: Source, what: &str, path: &str) -> Option<&str> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.machine.read(Path::new(path), &mut buffer);
        self.buffer = buffer;
        if let Err(error) = read {
            self.missing(source, what, &error);
            return None;
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Some(text),
            Err(_) => Some(""),
        }
    }
}
