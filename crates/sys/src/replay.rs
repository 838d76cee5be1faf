//! A machine recorded in a folder, and the recorder that makes such folders.
//!
//! A folder holds, all as text so that a person can read and change it:
//!
//! | file | what |
//! |---|---|
//! | `files/PATH~1`, `files/PATH~2`, … | what reads of a file gave, one after the other |
//! | `lists/PATH~1` | names in a folder, one a line |
//! | `links/PATH~1` | where a symbolic link points |
//! | `stats/PATH~1` | size, inode, device, whether it is a regular file |
//! | `sockets/PID~1` | inodes of the sockets of a process, one a line |
//! | `netlink/REQUEST~1` | the answer to a request, a datagram in hexadecimal a line |
//! | `files/dev/kmsg~1` | records of the kernel log, a line each: milliseconds, blank, record |
//! | `machine` | start, Unix time, user and process id, page bytes, clock ticks |
//!
//! An error is kept as a file that begins with `!` and its kind. Versions are served in the order
//! in which they were recorded, the last one again and again. Time moves only when somebody
//! sleeps, so that a window of ten seconds takes no time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::{KernelLog, Machine, Netlink, OwnCost, Stat};

mod recorder;

pub use recorder::Recorder;

/// Kinds of errors by the word that stands for them in a recording.
const KINDS: [(&str, ErrorKind); 5] = [
    ("not-found", ErrorKind::NotFound),
    ("permission", ErrorKind::PermissionDenied),
    ("unsupported", ErrorKind::Unsupported),
    ("timeout", ErrorKind::TimedOut),
    ("other", ErrorKind::Other),
];

/// A machine recorded in a folder.
pub struct RecordedMachine {
    root: PathBuf,
    now_ms: AtomicU64,
    facts: HashMap<String, u64>,
    /// How often each thing was asked for: which version comes next.
    asked: Mutex<HashMap<PathBuf, u32>>,
}

impl RecordedMachine {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// The folder has no file `machine`.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let path = root.join("machine");
        let text = fs::read_to_string(&path).map_err(|error| {
            Error::new("open", path.display().to_string(), error.to_string(), ErrorKind::NotFound)
        })?;
        let facts = text.lines().filter_map(|line| line.split_once(' '));
        let facts: HashMap<String, u64> = facts
            .filter_map(|(name, value)| Some((name.to_string(), value.trim().parse().ok()?)))
            .collect();
        let now_ms = AtomicU64::new(facts.get("start_ms").copied().unwrap_or(0));
        Ok(RecordedMachine { root, now_ms, facts, asked: Mutex::default() })
    }

    fn fact(&self, name: &str) -> u64 {
        self.facts.get(name).copied().unwrap_or(0)
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next version of a recording, or the last one again.
    fn next(&self, tried: &'static str, kind: &str, path: &Path) -> Result<Vec<u8>> {
        let base = self.root.join(kind).join(inside(path));
        let mut asked = self.asked();
        let times = asked.entry(base.clone()).or_insert(0);
        let on = path.display().to_string();
        let bytes = match fs::read(version(&base, *times + 1)) {
            Ok(bytes) => {
                *times += 1;
                bytes
            }
            Err(_) if *times > 0 => fs::read(version(&base, *times)).unwrap_or_default(),
            Err(_) => {
                return Err(Error::new(tried, on, "it was not recorded", ErrorKind::NotFound));
            }
        };
        match failure(&bytes) {
            Some((what, kind)) => Err(Error::new(tried, on, what, kind)),
            None => Ok(bytes),
        }
    }

    fn text(&self, tried: &'static str, kind: &str, path: &Path) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.next(tried, kind, path)?).into_owned())
    }
}

/// A path without its root and without steps that lead out of the folder.
fn inside(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The file of one version. Always with a number: a path may be a folder and a file in one
/// recording (`stats/proc/7/fd~1`, `links/proc/7/fd/3~1`).
fn version(base: &Path, number: u32) -> PathBuf {
    let mut name = base.as_os_str().to_os_string();
    name.push(format!("~{number}"));
    PathBuf::from(name)
}

/// The error that a recording stands for.
fn failure(bytes: &[u8]) -> Option<(String, ErrorKind)> {
    let text = std::str::from_utf8(bytes.strip_prefix(b"!")?).ok()?;
    let (word, what) = text.split_once(' ')?;
    let (_, kind) = KINDS.iter().find(|(known, _)| *known == word)?;
    Some((what.trim_end().to_string(), *kind))
}

/// An error as it is recorded.
fn recorded(error: &Error) -> String {
    let word = KINDS.iter().find(|(_, kind)| *kind == error.kind).map_or("other", |(word, _)| word);
    format!("!{word} {}", error.reason)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn binary(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Requests differ by protocol and bytes; the sequence number is whoever's sends them.
fn request_name(protocol: Netlink, request: &[u8]) -> String {
    let mut request = request.to_vec();
    if let Some(sequence) = request.get_mut(8..12) {
        sequence.fill(0);
    }
    // FNV-1a: a name that is the same on every machine.
    let hash = request.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let protocol = match protocol {
        Netlink::SockDiag => "sock-diag",
        Netlink::Netfilter => "netfilter",
    };
    format!("{protocol}-{hash:016x}")
}

impl Machine for RecordedMachine {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        into.extend_from_slice(&self.next("read", "files", path)?);
        Ok(())
    }

    fn read_at(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<usize> {
        let bytes = self.next("read", "files", path)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let length = into.len().min(bytes.len() - from);
        into[..length].copy_from_slice(&bytes[from..from + length]);
        Ok(length)
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        self.text("list", "lists", path)?.lines().for_each(name);
        Ok(())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        Ok(PathBuf::from(self.text("follow", "links", path)?.trim_end()))
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let text = self.text("list", "sockets", Path::new(&pid.to_string()))?;
        let mut inodes = text.lines().filter_map(|line| line.parse().ok());
        // Stopping early is no error.
        let _ = inodes.try_for_each(inode);
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let text = self.text("examine", "stats", path)?;
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0);
        Ok(Stat { size: next(), inode: next(), device: next(), regular: next() != 0 })
    }

    fn netlink(
        &self,
        protocol: Netlink,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let name = request_name(protocol, request);
        let text = self.text("ask netlink for", "netlink", Path::new(&name))?;
        for line in text.lines() {
            if datagram(&binary(line)).is_break() {
                return Ok(());
            }
        }
        Err(Error::new("ask netlink for", name, "the answer has no end", ErrorKind::TimedOut))
    }

    fn kernel_log(&self) -> Result<Box<dyn KernelLog>> {
        let text = self.text("read", "files", Path::new("dev/kmsg"))?;
        let records = text.lines().filter_map(|line| {
            let (_, record) = line.split_once(' ')?;
            Some(record.as_bytes().to_vec())
        });
        Ok(Box::new(Records(records.collect::<Vec<_>>().into_iter())))
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn unix_time(&self) -> Duration {
        let since = self.now().as_millis() as u64 - self.fact("start_ms");
        Duration::from_millis(self.fact("unix_ms").saturating_add(since))
    }

    fn sleep_until(&self, until: Duration) {
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.fetch_max(until, Ordering::Relaxed);
    }

    fn own_cost(&self) -> OwnCost {
        OwnCost::default()
    }

    fn user(&self) -> u32 {
        self.fact("user") as u32
    }

    fn pid(&self) -> u32 {
        self.fact("pid") as u32
    }

    fn page_bytes(&self) -> u64 {
        self.fact("page_bytes")
    }

    fn clock_ticks(&self) -> u64 {
        self.fact("clock_ticks")
    }
}

/// Records of the kernel's log: all that the window saw are there at once.
struct Records(std::vec::IntoIter<Vec<u8>>);

impl KernelLog for Records {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, RecordedMachine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(root.path().join("machine"), "start_ms 500\nunix_ms 9000\npid 7\n").unwrap();
        let machine = RecordedMachine::open(root.path()).unwrap();
        (root, machine)
    }

    #[test]
    fn versions_are_served_in_order_and_the_last_one_again() {
        let (_root, machine) = folder(&[
            ("files/proc/a~1", "one"),
            ("files/proc/a~2", "two"),
            ("files/b~1", "!permission no"),
        ]);
        let read = || {
            let mut into = Vec::new();
            machine.read(Path::new("/proc/a"), &mut into).unwrap();
            String::from_utf8(into).unwrap()
        };
        assert_eq!([read(), read(), read()], ["one", "two", "two"]);
        let error = machine.read(Path::new("/b"), &mut Vec::new()).unwrap_err();
        assert_eq!((error.kind, error.reason.as_str()), (ErrorKind::PermissionDenied, "no"));
        let error = machine.read(Path::new("/c"), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let (root, machine) = folder(&[("files/x~1", "in")]);
        fs::write(root.path().join("secret~1"), "out").unwrap();
        let mut into = Vec::new();
        assert!(machine.read(Path::new("/../secret"), &mut into).is_err());
        assert!(machine.read(Path::new("/y/../../secret"), &mut into).is_err());
    }

    #[test]
    fn time_moves_when_somebody_sleeps() {
        let (_root, machine) = folder(&[]);
        machine.sleep_until(Duration::from_secs(3));
        machine.sleep_until(Duration::from_secs(2));
        assert_eq!(machine.now(), Duration::from_secs(3));
        assert_eq!(machine.unix_time(), Duration::from_millis(11_500));
    }

    #[test]
    fn bytes_are_written_and_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(binary(&hexadecimal(&bytes)), bytes);
        assert_eq!(binary("0g1"), [1]);
    }
}
