//! Files as a process sees them: through its root, with symbolic links followed inside of it.
//!
//! `/proc/PID/root` leads into a container; an absolute link found there would lead out of it
//! again, into netwhy's own files, were it left to the kernel to follow.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use sys::{Error, ErrorKind, Machine, Result, Stat};

/// Most links followed in one path, as the kernel does (`MAXSYMLINKS`).
const MOST_LINKS: u32 = 40;
/// Largest configuration file that is read.
pub(super) const LARGEST_CONFIGURATION: u64 = 1 << 20;

/// The files that one process sees.
#[derive(Debug, Clone)]
pub(super) struct Inside {
    pid: u32,
    /// `/proc/PID/root`, or empty when that may not be followed.
    root: String,
}

impl Inside {
    /// The files of a process.
    ///
    /// # Errors
    /// Its root may not be followed, and it is in a container, so that its paths mean something
    /// else here.
    pub(super) fn of(machine: &dyn Machine, pid: u32) -> Result<Inside> {
        let root = format!("/proc/{pid}/root");
        match machine.list(Path::new(&format!("{root}/")), &mut |_| {}) {
            Err(error) if error.kind == ErrorKind::PermissionDenied => {
                // Without root: the same paths hold when it lives in this PID namespace, which
                // containers never do.
                if nested(machine, pid) {
                    return Err(error);
                }
                Ok(Inside { pid, root: String::new() })
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                Ok(Inside { pid, root: String::new() })
            }
            _ => Ok(Inside { pid, root }),
        }
    }

    /// Where `seen`, a path as the process writes it, is here. Relative paths are taken from its
    /// root.
    pub(super) fn path(&self, machine: &dyn Machine, seen: &str) -> PathBuf {
        let mut left: VecDeque<String> = parts(seen);
        let mut done: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            // `/proc/self` of the process, not of netwhy; and its files by the number that the
            // process has here.
            if done == ["proc"] && (part == "self" || part == "thread-self") {
                let rest: Vec<String> = left.into();
                return PathBuf::from(format!("/proc/{}/{}", self.pid, rest.join("/")));
            }
            done.push(part);
            let here = self.here(&done);
            let Ok(target) = machine.link(&here) else {
                continue;
            };
            links += 1;
            let target = target.to_string_lossy().into_owned();
            // `pipe:[12]` and the like are no paths.
            if links > MOST_LINKS || (!target.starts_with('/') && target.contains(":[")) {
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
        self.here(&done)
    }

    fn here(&self, parts: &[String]) -> PathBuf {
        PathBuf::from(format!("{}/{}", self.root, parts.join("/")))
    }

    /// What `stat` says of a file.
    pub(super) fn stat(&self, machine: &dyn Machine, seen: &str) -> Result<Stat> {
        machine.stat(&self.path(machine, seen))
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// As [`Machine::read`]; or it is no regular file, or larger than
    /// [`LARGEST_CONFIGURATION`].
    pub(super) fn read(&self, machine: &dyn Machine, seen: &str) -> Result<Vec<u8>> {
        let path = self.path(machine, seen);
        let stat = machine.stat(&path)?;
        if !stat.regular {
            return Err(Error::new("read", seen, "it is no regular file", ErrorKind::Other));
        }
        if stat.size > LARGEST_CONFIGURATION {
            let what = format!("it is longer than {LARGEST_CONFIGURATION} bytes");
            return Err(Error::new("read", seen, what, ErrorKind::Other));
        }
        let mut bytes = Vec::new();
        machine.read(&path, &mut bytes)?;
        Ok(bytes)
    }

    /// The files that a pattern names (`*`, `?`, `[a-z]` as in glob(7)), sorted, at most `most`.
    /// A path without pattern is given back whether it exists or not.
    pub(super) fn expand(&self, machine: &dyn Machine, pattern: &str, most: usize) -> Vec<String> {
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
                let mut names = Vec::new();
                // A folder that is not there has no files that match.
                let _ = machine.list(&self.path(machine, &folder), &mut |name| {
                    if matches(part.as_bytes(), name.as_bytes()) {
                        names.push(format!("{folder}/{name}"));
                    }
                });
                next.append(&mut names);
                if next.len() > most {
                    break;
                }
            }
            next.sort();
            next.truncate(most);
            found = next;
        }
        found
    }
}

/// Whether a process lives in a PID namespace below netwhy's: `NSpid` of its status has one
/// number for each namespace from here down.
fn nested(machine: &dyn Machine, pid: u32) -> bool {
    let mut status = Vec::new();
    if machine.read(Path::new(&format!("/proc/{pid}/status")), &mut status).is_err() {
        return true;
    }
    let status = String::from_utf8_lossy(&status);
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_whitespace().count() != 1)
}

fn parts(path: &str) -> VecDeque<String> {
    path.split('/').filter(|p| !p.is_empty() && *p != ".").map(str::to_string).collect()
}

/// Whether a name matches a pattern of one path component, as glob(7) has it: a dot at the
/// beginning matches only itself.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(b'[') if class(&pattern[p..], name[n]).is_some_and(|(fits, _)| fits) => {
                p += class(&pattern[p..], name[n]).map_or(1, |(_, length)| length);
                n += 1;
                continue;
            }
            Some(b'?') => {
                p += 1;
                n += 1;
                continue;
            }
            Some(byte) if *byte == name[n] && *byte != b'[' => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        // Let the last star take one more byte.
        let Some((at, taken)) = star else {
            return false;
        };
        p = at + 1;
        n = taken + 1;
        star = Some((at, n));
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Whether a byte is in the class at the beginning of a pattern, and the length of the class;
/// `None` when it has no end.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|b| *b == b']')?;
    let set = &pattern[start..end];
    let mut fits = false;
    let mut at = 0;
    while at < set.len() {
        if let [low, b'-', high, ..] = set[at..] {
            fits |= (low..=high).contains(&byte);
            at += 3;
        } else {
            fits |= set[at] == byte;
            at += 1;
        }
    }
    Some((fits != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_of_one_component() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyyb", false),
            ("[a-c]?.x", "b1.x", true),
            ("[!a-c]?.x", "b1.x", false),
            ("[]x]y", "]y", true),
            ("[x", "[x", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_does_harm(pattern in "[ab*?\\[\\]!^\\-]{0,20}", name in "[ab.\\[\\]-]{0,20}") {
            matches(pattern.as_bytes(), name.as_bytes());
            prop_assert!(name.starts_with('.') || matches(b"*", name.as_bytes()));
        }
    }
}
