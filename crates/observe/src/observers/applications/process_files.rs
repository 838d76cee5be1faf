//! Files as a process sees them: through its root, with symbolic links followed inside of it.
//!
//! `/proc/PID/root` leads into a container. If the kernel followed an absolute link found there, the link
//! would lead out again, to the files of netwhy's own root.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use sys::{Error, ErrorKind, Files, Result, Stat};

use super::glob;

/// Most links followed in one path, as in the kernel (`MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;
/// Largest configuration file that is read.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// The files that one process sees.
#[derive(Debug, Clone)]
pub(super) struct ProcessFiles {
    pid: u32,
    /// `/proc/PID/root`, or empty when that may not be followed.
    root: String,
}

impl ProcessFiles {
    /// The files of a process.
    ///
    /// # Errors
    /// Its root may not be followed, and it is in a container, where its paths mean something else than
    /// here.
    pub(super) fn of(files: &dyn Files, pid: u32) -> Result<ProcessFiles> {
        let root = format!("/proc/{pid}/root");
        match files.list(Path::new(&format!("{root}/")), &mut |_| {}) {
            Err(error) if error.kind == ErrorKind::PermissionDenied => {
                // Without root: the paths are the same here if the process is in this PID namespace,
                // which containers never are.
                if is_in_nested_namespace(files, pid) {
                    return Err(error);
                }
                Ok(ProcessFiles { pid, root: String::new() })
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                Ok(ProcessFiles { pid, root: String::new() })
            }
            _ => Ok(ProcessFiles { pid, root }),
        }
    }

    /// The path here of `seen`, a path as the process writes it. Relative paths start at its root.
    pub(super) fn path(&self, files: &dyn Files, seen: &str) -> PathBuf {
        let mut left: VecDeque<String> = parts(seen);
        let mut done: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            // `/proc/self` is that of the process, not netwhy's; its id is the one that it has here.
            if done == ["proc"] && (part == "self" || part == "thread-self") {
                let rest: Vec<String> = left.into();
                return PathBuf::from(format!("/proc/{}/{}", self.pid, rest.join("/")));
            }
            done.push(part);
            let Ok(target) = files.link(&self.under_root(&done)) else {
                continue;
            };
            links += 1;
            let target = target.to_string_lossy().into_owned();
            // `pipe:[12]` and the like are not paths.
            if links > MAX_LINKS || (!target.starts_with('/') && target.contains(":[")) {
                continue;
            }
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            for part in parts(&target).into_iter().rev() {
                left.push_front(part);
            }
        }
        self.under_root(&done)
    }

    fn under_root(&self, parts: &[String]) -> PathBuf {
        PathBuf::from(format!("{}/{}", self.root, parts.join("/")))
    }

    /// Size, inode and device of a file.
    pub(super) fn stat(&self, files: &dyn Files, seen: &str) -> Result<Stat> {
        files.stat(&self.path(files, seen))
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// As [`Files::read`]; or it is not a regular file, or larger than [`MAX_CONFIGURATION_BYTES`].
    pub(super) fn read_configuration(&self, files: &dyn Files, seen: &str) -> Result<Vec<u8>> {
        let path = self.path(files, seen);
        let stat = files.stat(&path)?;
        if !stat.regular {
            return Err(Error::new("read", seen, "it is not a regular file", ErrorKind::Other));
        }
        if stat.size > MAX_CONFIGURATION_BYTES {
            let reason = format!("it is longer than {MAX_CONFIGURATION_BYTES} bytes");
            return Err(Error::new("read", seen, reason, ErrorKind::Other));
        }
        let mut bytes = Vec::new();
        files.read(&path, &mut bytes)?;
        Ok(bytes)
    }

    /// The files that match a pattern (`*`, `?`, `[a-z]` as in glob(7)), sorted, at most `max`. A path
    /// that is not a pattern is returned whether it exists or not.
    pub(super) fn expand(&self, files: &dyn Files, pattern: &str, max: usize) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in parts(pattern) {
            if !part.contains(['*', '?', '[']) {
                for path in &mut found {
                    path.push('/');
                    path.push_str(&part);
                }
                continue;
            }
            let mut next = Vec::new();
            for folder in found {
                // A folder that does not exist has no files that match.
                let _ = files.list(&self.path(files, &folder), &mut |name| {
                    if glob::matches(part.as_bytes(), name.as_bytes()) {
                        next.push(format!("{folder}/{name}"));
                    }
                });
                if next.len() > max {
                    break;
                }
            }
            next.sort();
            next.truncate(max);
            found = next;
        }
        found
    }
}

/// Whether a process is in a PID namespace below netwhy's: `NSpid` of its status has one id for each
/// namespace from here down.
fn is_in_nested_namespace(files: &dyn Files, pid: u32) -> bool {
    let mut status = Vec::new();
    if files.read(Path::new(&format!("/proc/{pid}/status")), &mut status).is_err() {
        return true;
    }
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_none_or(|ids| ids.split_whitespace().count() != 1)
}

/// The components of a path.
fn parts(path: &str) -> VecDeque<String> {
    path.split('/').filter(|p| !p.is_empty() && *p != ".").map(str::to_string).collect()
}
