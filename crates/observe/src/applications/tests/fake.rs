//! A made-up machine whose files can change in the window.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use model::{Focus, Process};
use sys::{Error, ErrorKind, KernelLog, Machine, Netlink, OwnCost, Result, Stat};

use crate::Context;

#[derive(Debug, Clone)]
enum Node {
    File {
        bytes: Vec<u8>,
        inode: u64,
        regular: bool,
    },
    /// A link; with an inode, one of `/proc/PID/fd` that leads to its file whatever its name.
    Link {
        target: String,
        inode: Option<u64>,
    },
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, Node>,
    denied: Vec<String>,
    inodes: u64,
    /// Files without a name that processes still have open.
    nameless: BTreeMap<u64, Vec<u8>>,
}

/// A machine of files and links in memory.
#[derive(Default)]
pub(super) struct Fake(Mutex<State>);

impl Fake {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Makes a file, with a new inode.
    pub(super) fn file(&self, path: &str, bytes: impl AsRef<[u8]>) {
        self.node(path, bytes.as_ref(), true);
    }

    /// Makes a pipe or the like.
    pub(super) fn special(&self, path: &str) {
        self.node(path, b"", false);
    }

    fn node(&self, path: &str, bytes: &[u8], regular: bool) {
        let mut state = self.state();
        state.inodes += 1;
        let inode = state.inodes;
        let node = Node::File { bytes: bytes.to_vec(), inode, regular };
        state.names.insert(path.to_string(), node);
    }

    pub(super) fn link_to(&self, path: &str, target: &str) {
        let link = Node::Link { target: target.to_string(), inode: None };
        self.state().names.insert(path.to_string(), link);
    }

    /// A process opens a file for appending; `seen` is the path that its link shows.
    pub(super) fn open(&self, pid: u32, fd: u32, file: &str, seen: &str) {
        let inode = match self.state().names.get(file) {
            Some(Node::File { inode, .. }) => *inode,
            other => panic!("{file} is {other:?}"),
        };
        let link = Node::Link { target: seen.to_string(), inode: Some(inode) };
        self.state().names.insert(format!("/proc/{pid}/fd/{fd}"), link);
        self.file(&format!("/proc/{pid}/fdinfo/{fd}"), "pos:\t0\nflags:\t0102001\n");
    }

    pub(super) fn append(&self, path: &str, more: impl AsRef<[u8]>) {
        match self.state().names.get_mut(path) {
            Some(Node::File { bytes, .. }) => bytes.extend_from_slice(more.as_ref()),
            other => panic!("{path} is {other:?}"),
        }
    }

    pub(super) fn truncate(&self, path: &str) {
        match self.state().names.get_mut(path) {
            Some(Node::File { bytes, .. }) => bytes.clear(),
            other => panic!("{path} is {other:?}"),
        }
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        let node = self.state().names.remove(from).unwrap();
        self.state().names.insert(to.to_string(), node);
    }

    /// Takes a file's name away; those who have it open keep it.
    pub(super) fn unlink(&self, path: &str) {
        let node = self.state().names.remove(path).unwrap();
        if let Node::File { bytes, inode, .. } = node {
            self.state().nameless.insert(inode, bytes);
        }
    }

    pub(super) fn close(&self, pid: u32, fd: u32) {
        self.state().names.remove(&format!("/proc/{pid}/fd/{fd}")).unwrap();
    }

    /// Denies everything below a path.
    pub(super) fn deny(&self, path: &str) {
        self.state().denied.push(path.to_string());
    }

    /// A process with its root and its command line, and the context's entry for it.
    pub(super) fn process(&self, pid: u32, parent: u32, name: &str, command: &str) -> Process {
        self.link_to(&format!("/proc/{pid}/root"), "/");
        self.link_to(&format!("/proc/{pid}/cwd"), "/");
        self.file(&format!("/proc/{pid}/cmdline"), command.replace(' ', "\0"));
        self.file(&format!("/proc/{pid}/status"), format!("Name:\t{name}\nNSpid:\t{pid}\n"));
        Process {
            pid,
            parent,
            name: name.to_string(),
            command: command.to_string(),
            ..Process::default()
        }
    }

    pub(super) fn context<'a>(&'a self, focus: &'a Focus, processes: Vec<Process>) -> Context<'a> {
        Context { processes, ..Context::new(self, focus) }
    }
}

impl State {
    fn no(&self, path: &Path, kind: ErrorKind) -> Error {
        let what =
            if kind == ErrorKind::PermissionDenied { "permission denied" } else { "no such file" };
        Error::new("read", path.display().to_string(), what, kind)
    }

    /// The path without links on the way; the last part's link is kept.
    fn way(&self, path: &Path) -> Result<String> {
        let text = path.to_string_lossy().into_owned();
        if self.denied.iter().any(|d| text == *d || text.starts_with(&format!("{d}/"))) {
            return Err(self.no(path, ErrorKind::PermissionDenied));
        }
        let mut done = String::new();
        let mut parts = text.split('/').filter(|p| !p.is_empty()).peekable();
        while let Some(part) = parts.next() {
            done.push('/');
            done.push_str(part);
            if parts.peek().is_none() && !text.ends_with('/') {
                break;
            }
            if let Some(Node::Link { target, inode: None }) = self.names.get(&done) {
                let rest: Vec<&str> = parts.collect();
                let next = format!("{}/{}", target.trim_end_matches('/'), rest.join("/"));
                return self.way(Path::new(&next));
            }
        }
        Ok(done)
    }

    fn end(&self, path: &Path) -> Result<(Vec<u8>, u64, bool)> {
        let way = self.way(path)?;
        match self.names.get(&way) {
            Some(Node::File { bytes, inode, regular }) => Ok((bytes.clone(), *inode, *regular)),
            Some(Node::Link { inode: Some(wanted), .. }) => {
                let named = self.names.iter().find_map(|(name, node)| match node {
                    Node::File { bytes, inode, regular } if inode == wanted => {
                        Some((name, bytes.clone(), *regular))
                    }
                    _ => None,
                });
                match named {
                    Some((name, ..)) if self.denied.contains(name) => {
                        Err(self.no(path, ErrorKind::PermissionDenied))
                    }
                    Some((_, bytes, regular)) => Ok((bytes, *wanted, regular)),
                    None => Ok((self.nameless[wanted].clone(), *wanted, true)),
                }
            }
            Some(Node::Link { target, .. }) if target.starts_with('/') => {
                self.end(Path::new(target))
            }
            Some(Node::Link { .. }) => Ok((Vec::new(), 0, false)),
            None => Err(self.no(path, ErrorKind::NotFound)),
        }
    }
}

impl Machine for Fake {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        *into = self.state().end(path)?.0;
        Ok(())
    }

    fn read_at(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (bytes, ..) = self.state().end(path)?;
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let state = self.state();
        let mut folder = state.way(&path.join(""))?;
        folder.push('/');
        let mut last = "";
        let mut any = false;
        for known in state.names.keys().filter_map(|n| n.strip_prefix(&folder)) {
            let first = known.split('/').next().unwrap_or(known);
            any = true;
            if first != last {
                name(first);
            }
            last = first;
        }
        if any { Ok(()) } else { Err(state.no(path, ErrorKind::NotFound)) }
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let state = self.state();
        match state.names.get(&state.way(path)?) {
            Some(Node::Link { target, .. }) => Ok(PathBuf::from(target)),
            Some(Node::File { .. }) => Err(Error::new(
                "follow",
                path.display().to_string(),
                "is no link",
                ErrorKind::Other,
            )),
            None => Err(state.no(path, ErrorKind::NotFound)),
        }
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        if path.ends_with("fd") {
            let mut size = 0;
            self.list(path, &mut |_| size += 1)?;
            return Ok(Stat { size, ..Stat::default() });
        }
        let (bytes, inode, regular) = self.state().end(path)?;
        Ok(Stat { size: bytes.len() as u64, inode, device: 1, regular })
    }

    fn netlink(
        &self,
        _protocol: Netlink,
        _request: &[u8],
        _datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        Err(Error::new("ask netlink", "this fake", "it has none", ErrorKind::Unsupported))
    }

    fn kernel_log(&self) -> Result<Box<dyn KernelLog>> {
        Err(Error::new("open", "the kernel log", "this fake has none", ErrorKind::Unsupported))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _until: Duration) {}

    fn own_cost(&self) -> OwnCost {
        OwnCost::default()
    }

    fn pid(&self) -> u32 {
        1
    }

    fn user(&self) -> u32 {
        0
    }

    fn page_bytes(&self) -> u64 {
        4096
    }

    fn clock_ticks(&self) -> u64 {
        100
    }
}
