//! What observers share in one window.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Capability, Focus, MissingEvidence, Process, Source};
use sys::{Error, ErrorKind, Machine};

use crate::socket_owners::SocketOwners;

/// What observers share in one window.
pub struct Context<'a> {
    /// The machine that is observed.
    pub machine: &'a dyn Machine,
    /// What the user restricted the window to.
    pub focus: Focus,
    /// [`sys::Clock::now`] when the window began.
    pub began: Duration,
    /// When the current sample was taken: milliseconds since the window began.
    pub at_ms: u64,
    /// Number of the current sample, of those that were due: 0 at the beginning.
    pub sample: u32,
    /// What could not be observed so far.
    pub missing_evidence: Vec<MissingEvidence>,
    /// Owners of sockets; the processes observer finds them.
    pub owners: SocketOwners,
    /// Inodes of listening sockets; kept by the sockets observer.
    pub listening: HashSet<u32>,
    /// The network namespace that is observed, as `/proc/PID/ns/net` names it; kept by the processes
    /// observer.
    pub namespace: Option<PathBuf>,
    /// Processes found so far that own sockets here, and their parents; kept by the processes observer,
    /// which runs before the observers that read this. `None`: processes cannot be read.
    pub processes: Option<Vec<Process>>,
    /// A buffer to read into, so that samples do not allocate.
    pub buffer: Vec<u8>,
}

impl<'a> Context<'a> {
    /// The context at the beginning of a window.
    pub fn new(machine: &'a dyn Machine, focus: &Focus) -> Self {
        Context {
            machine,
            focus: focus.clone(),
            began: machine.clock().now(),
            at_ms: 0,
            sample: 0,
            missing_evidence: Vec::new(),
            owners: SocketOwners::default(),
            listening: HashSet::new(),
            namespace: None,
            processes: Some(Vec::new()),
            buffer: Vec::new(),
        }
    }

    /// Time since the window began.
    pub fn elapsed(&self) -> Duration {
        self.machine.clock().now().saturating_sub(self.began)
    }

    /// The processes found so far.
    pub fn known_processes(&self) -> &[Process] {
        self.processes.as_deref().unwrap_or_default()
    }

    /// Notes that something could not be observed. The same part of a source is noted once.
    pub fn missing(&mut self, source: Source, what: impl Into<String>, error: &Error) {
        let capability = capability(source, error.kind);
        let how_to_observe =
            (capability == Capability::NotPermitted).then_some("run as root (sudo netwhy)");
        self.missing_because(source, capability, what, error.to_string(), how_to_observe);
    }

    /// Notes that something could not be observed, for a reason in words.
    pub fn missing_because(
        &mut self,
        source: Source,
        capability: Capability,
        what: impl Into<String>,
        why: impl Into<String>,
        how_to_observe: Option<&str>,
    ) {
        let (what, why) = (what.into(), why.into());
        if self.missing_evidence.iter().any(|known| known.source == source && known.what == what) {
            return;
        }
        let how_to_observe = how_to_observe.map(str::to_string);
        self.missing_evidence.push(MissingEvidence {
            source,
            capability,
            what,
            why,
            how_to_observe,
        });
    }

    /// Reads a file as text into the shared buffer. If it cannot be read, this is noted.
    pub fn text(&mut self, source: Source, what: &str, path: &str) -> Option<&str> {
        if let Err(error) = self.machine.files().read(Path::new(path), &mut self.buffer) {
            self.missing(source, what, &error);
            return None;
        }
        Some(std::str::from_utf8(&self.buffer).unwrap_or(""))
    }

    /// Reads a file as text that need not exist, such as those of IPv6.
    pub fn optional_text(&mut self, path: &str) -> Option<&str> {
        self.machine.files().read(Path::new(path), &mut self.buffer).ok()?;
        std::str::from_utf8(&self.buffer).ok()
    }
}

/// What an error means for the source that was read.
fn capability(source: Source, kind: ErrorKind) -> Capability {
    match (kind, source) {
        (ErrorKind::PermissionDenied, _) => Capability::NotPermitted,
        (ErrorKind::Unsupported, _) => Capability::Unsupported,
        // Files of applications, and /dev/kmsg, which most containers do not have.
        (ErrorKind::NotFound, Source::Logs | Source::KernelLog) => Capability::NotApplicable,
        // A file under /proc that this kernel does not have, a protocol of sock_diag without a handler.
        (ErrorKind::NotFound, _) => Capability::Unsupported,
        (ErrorKind::TimedOut | ErrorKind::Other, _) => Capability::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_capabilities() {
        let focus = Focus::default();
        let mut context = Context::new(&sys::Absent, &focus);
        for (source, kind, expected) in [
            (Source::Conntrack, ErrorKind::PermissionDenied, Capability::NotPermitted),
            (Source::Softnet, ErrorKind::NotFound, Capability::Unsupported),
            (Source::Sockets, ErrorKind::Unsupported, Capability::Unsupported),
            (Source::Logs, ErrorKind::NotFound, Capability::NotApplicable),
            (Source::KernelLog, ErrorKind::NotFound, Capability::NotApplicable),
            (Source::Counters, ErrorKind::Other, Capability::Broken),
            (Source::Listeners, ErrorKind::TimedOut, Capability::Broken),
        ] {
            let error = Error::new("read", "it", "reason", kind);
            context.missing(source, "a part", &error);
            context.missing(source, "a part", &error);
            let noted: Vec<_> =
                context.missing_evidence.iter().filter(|m| m.source == source).collect();
            assert_eq!(noted.len(), 1, "noted once");
            assert_eq!(noted[0].capability, expected);
            let root = noted[0].how_to_observe.as_deref().is_some_and(|how| how.contains("root"));
            assert_eq!(root, expected == Capability::NotPermitted);
        }
    }
}
