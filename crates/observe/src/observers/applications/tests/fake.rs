//! A machine of files and links in memory, whose files can change in the window.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::{Focus, Process};
use sys::{
    Absent, Clock, Error, ErrorKind, Events, FileKind, FileName, Files, Machine, Netlink, OpenFile,
    Opened, OwnProcess, ProcessFiles, Result, Stat, descriptor_of,
};

use crate::context::Context;

#[derive(Debug, Clone)]
enum Node {
    File {
        bytes: Vec<u8>,
        inode: u64,
        regular: bool,
    },
    /// A link; with an inode, one of `/proc/PID/fd`, which leads to its file whatever the file's name.
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
    /// Users of processes that are not root's.
    users: BTreeMap<u32, u32>,
    /// Deleted files that processes still have open.
    deleted: BTreeMap<u64, Vec<u8>>,
}

/// A machine of files and links in memory.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<State>>);

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

    /// Opens a file for appending; `seen` is the path in the link of the descriptor.
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

    /// Deletes a file; processes that have it open keep it.
    pub(super) fn unlink(&self, path: &str) {
        let node = self.state().names.remove(path).unwrap();
        if let Node::File { bytes, inode, .. } = node {
            self.state().deleted.insert(inode, bytes);
        }
    }

    pub(super) fn close(&self, pid: u32, fd: u32) {
        self.state().names.remove(&format!("/proc/{pid}/fd/{fd}")).unwrap();
    }

    pub(super) fn set_user(&self, pid: u32, user: u32) {
        self.state().users.insert(pid, user);
    }

    /// Denies everything below a path.
    pub(super) fn deny(&self, path: &str) {
        self.state().denied.push(path.to_string());
    }

    /// Adds a process with its root and command line; its entry for the context.
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
        Context { processes: Some(processes), ..Context::new(self, focus) }
    }
}

impl State {
    fn error(&self, path: &Path, kind: ErrorKind) -> Error {
        let what =
            if kind == ErrorKind::PermissionDenied { "permission denied" } else { "no such file" };
        Error::new("read", path.display().to_string(), what, kind)
    }

    /// The path with its links followed, but for a link in the last part.
    fn resolve(&self, path: &Path) -> Result<String> {
        let text = path.to_string_lossy().into_owned();
        if self.denied.iter().any(|d| text == *d || text.starts_with(&format!("{d}/"))) {
            return Err(self.error(path, ErrorKind::PermissionDenied));
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
                return self.resolve(Path::new(&next));
            }
        }
        Ok(done)
    }

    /// Bytes, inode and whether it is regular, of the file that a path leads to.
    fn file(&self, path: &Path) -> Result<(Vec<u8>, u64, bool)> {
        let path_here = self.resolve(path)?;
        match self.names.get(&path_here) {
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
                        Err(self.error(path, ErrorKind::PermissionDenied))
                    }
                    Some((_, bytes, regular)) => Ok((bytes, *wanted, regular)),
                    None => Ok((self.deleted[wanted].clone(), *wanted, true)),
                }
            }
            Some(Node::Link { target, .. }) if target.starts_with('/') => {
                self.file(Path::new(target))
            }
            Some(Node::Link { .. }) => Ok((Vec::new(), 0, false)),
            None => Err(self.error(path, ErrorKind::NotFound)),
        }
    }
}

impl Machine for Fake {
    fn files(&self) -> &dyn Files {
        self
    }

    fn netlink(&self) -> &dyn Netlink {
        &Absent
    }

    fn events(&self) -> &dyn Events {
        &Absent
    }

    fn clock(&self) -> &dyn Clock {
        &Absent
    }

    fn own_process(&self) -> &dyn OwnProcess {
        &Absent
    }
}

impl Files for Fake {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        *into = self.state().file(path)?.0;
        Ok(())
    }

    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>> {
        let here = format!("/proc/{pid}/root");
        let nested = || {
            let (status, ..) = self.state().file(Path::new(&format!("/proc/{pid}/status")))?;
            let status = String::from_utf8_lossy(&status).into_owned();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
            Ok(ids.split_whitespace().count() > 1)
        };
        let root = match self.link(Path::new(&here)) {
            Ok(root) => root.to_string_lossy().trim_end_matches('/').to_string(),
            Err(error) if error.kind != ErrorKind::PermissionDenied || nested()? => {
                return Err(error);
            }
            Err(_) => String::new(),
        };
        Ok(Arc::new(FakeFiles { fake: self.clone(), pid, root }))
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let state = self.state();
        let mut folder = state.resolve(&path.join(""))?;
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
        if any { Ok(()) } else { Err(state.error(path, ErrorKind::NotFound)) }
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let state = self.state();
        match state.names.get(&state.resolve(path)?) {
            Some(Node::Link { target, .. }) => Ok(PathBuf::from(target)),
            Some(Node::File { .. }) => Err(Error::new(
                "follow",
                path.display().to_string(),
                "not a link",
                ErrorKind::Other,
            )),
            None => Err(state.error(path, ErrorKind::NotFound)),
        }
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        if path.ends_with("fd") {
            let mut size = 0;
            self.list(path, &mut |_| size += 1)?;
            return Ok(Stat { size, ..Stat::default() });
        }
        let (bytes, inode, regular) = self.state().file(path)?;
        Ok(Stat { size: bytes.len() as u64, inode, device: 1, regular })
    }
}

/// The files of a process, below its root.
struct FakeFiles {
    fake: Fake,
    pid: u32,
    root: String,
}

impl ProcessFiles for FakeFiles {
    fn user(&self) -> u32 {
        self.fake.state().users.get(&self.pid).copied().unwrap_or(0)
    }

    fn open(&self, name: &FileName) -> Result<Opened> {
        let mut path = match name {
            FileName::Descriptor(number) => format!("/proc/{}/fd/{number}", self.pid),
            FileName::Path(path) => self.below_root(path),
        };
        for _ in 0..40 {
            let seen = path.strip_prefix(&self.root).unwrap_or(&path);
            if let Some(number) = descriptor_of(seen) {
                path = format!("/proc/{}/fd/{number}", self.pid);
            }
            let node = self.fake.state().names.get(&path).cloned();
            match node {
                Some(Node::Link { target, inode: None }) if target.starts_with("pipe:") => {
                    return Ok(Opened::Other(FileKind::Pipe));
                }
                Some(Node::Link { target, inode: None }) => path = self.below_root(&target),
                _ => {
                    let (bytes, inode, regular) = self.fake.state().file(Path::new(&path))?;
                    let file = FakeFile { bytes, inode };
                    return Ok(if regular {
                        Opened::File(Arc::new(file))
                    } else {
                        Opened::Other(FileKind::Pipe)
                    });
                }
            }
        }
        Err(Error::new("read", path, "too many links", ErrorKind::Other))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let path = self.below_root(folder);
        self.fake.list(Path::new(&path), &mut |name| names.push(name.to_string()))?;
        Ok(names)
    }
}

impl FakeFiles {
    fn below_root(&self, path: &str) -> String {
        format!("{}/{}", self.root, path.trim_start_matches('/'))
    }
}

struct FakeFile {
    bytes: Vec<u8>,
    inode: u64,
}

impl OpenFile for FakeFile {
    fn stat(&self) -> Stat {
        Stat { size: self.bytes.len() as u64, inode: self.inode, device: 1, regular: true }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}
