//! A machine that answers from a folder.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::format::{
    parse_error, parse_event_line, parse_hexadecimal, parse_opened, path_in_folder, path_of,
    request_name, version_path,
};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{
    Clock, EventSource, EventStream, Events, FileName, Files, Machine, Netlink, NetlinkProtocol,
    OpenFile, Opened, OwnCost, OwnProcess, ProcessFiles, Stat,
};

/// A machine recorded in a folder.
pub struct RecordedMachine {
    answers: Arc<Answers>,
    start_ms: u64,
    now_ms: Arc<AtomicU64>,
    facts: HashMap<String, u64>,
}

/// The answers in the folder.
struct Answers {
    root: PathBuf,
    /// The version that each answer was last served in.
    served: Mutex<HashMap<PathBuf, u32>>,
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
            let path = path.display().to_string();
            Error::new("open", path, error.to_string(), ErrorKind::NotFound)
        })?;
        let facts: HashMap<String, u64> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, value)| Some((name.to_string(), value.trim().parse().ok()?)))
            .collect();
        let start_ms = facts.get("start_ms").copied().unwrap_or(0);
        let now_ms = Arc::new(AtomicU64::new(start_ms));
        let answers = Arc::new(Answers { root, served: Mutex::default() });
        Ok(RecordedMachine { answers, start_ms, now_ms, facts })
    }

    fn fact(&self, name: &str) -> u64 {
        self.facts.get(name).copied().unwrap_or(0)
    }

    fn next(&self, action: &'static str, kind: &str, path: &Path) -> Result<Vec<u8>> {
        self.answers.next(action, kind, path)
    }

    fn text(&self, action: &'static str, kind: &str, path: &Path) -> Result<String> {
        self.answers.text(action, kind, path)
    }
}

impl Answers {
    fn served(&self) -> MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.served.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next version of an answer, or the last one again.
    fn next(&self, action: &'static str, kind: &str, path: &Path) -> Result<Vec<u8>> {
        let base = self.root.join(kind).join(path_in_folder(path));
        let mut served = self.served();
        let version = served.entry(base.clone()).or_insert(0);
        let object = path.display().to_string();
        let bytes = match fs::read(version_path(&base, *version + 1)) {
            Ok(bytes) => {
                *version += 1;
                bytes
            }
            Err(_) if *version > 0 => fs::read(version_path(&base, *version)).unwrap_or_default(),
            Err(_) => {
                let reason = "it was not recorded";
                return Err(Error::new(action, object, reason, ErrorKind::NotFound));
            }
        };
        match parse_error(&bytes) {
            Some((reason, kind)) => Err(Error::new(action, object, reason, kind)),
            None => Ok(bytes),
        }
    }

    fn text(&self, action: &'static str, kind: &str, path: &Path) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.next(action, kind, path)?).into_owned())
    }
}

impl Machine for RecordedMachine {
    fn files(&self) -> &dyn Files {
        self
    }

    fn netlink(&self) -> &dyn Netlink {
        self
    }

    fn events(&self) -> &dyn Events {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn own_process(&self) -> &dyn OwnProcess {
        self
    }
}

impl Files for RecordedMachine {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        into.extend_from_slice(&self.next("read", "files", path)?);
        Ok(())
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        self.text("list", "lists", path)?.lines().for_each(name);
        Ok(())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        Ok(PathBuf::from(self.text("follow", "links", path)?.trim_end()))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let text = self.text("examine", "stats", path)?;
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0);
        Ok(Stat { size: next(), inode: next(), device: next(), regular: next() != 0 })
    }

    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>> {
        Ok(Arc::new(RecordedFiles { answers: Arc::clone(&self.answers), pid }))
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let text = self.text("list", "sockets", Path::new(&pid.to_string()))?;
        let mut inodes = text.lines().filter_map(|line| line.parse().ok());
        // Breaking early is not an error.
        let _ = inodes.try_for_each(inode);
        Ok(())
    }
}

/// Files that a process of the machine named.
struct RecordedFiles {
    answers: Arc<Answers>,
    pid: u32,
}

impl ProcessFiles for RecordedFiles {
    /// Root: a recording is not hostile.
    fn user(&self) -> u32 {
        0
    }

    fn open(&self, name: &FileName) -> Result<Opened> {
        let path = path_of(self.pid, name);
        let text = self.answers.text("read", "opened", &path)?;
        let opened = parse_opened(&text).ok_or_else(|| {
            let reason = "the recording has something else";
            Error::new("read", path.display().to_string(), reason, ErrorKind::Other)
        })?;
        Ok(match opened {
            Ok(stat) => {
                let bytes = self.answers.next("read", "files", &path)?;
                Opened::File(Arc::new(RecordedFile { bytes, stat }))
            }
            Err(kind) => Opened::Other(kind),
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = path_of(self.pid, &FileName::Path(folder.to_string()));
        let names = self.answers.text("list", "lists", &path)?;
        Ok(names.lines().map(str::to_string).collect())
    }
}

struct RecordedFile {
    bytes: Vec<u8>,
    stat: Stat,
}

impl OpenFile for RecordedFile {
    fn stat(&self) -> Stat {
        self.stat
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        into.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        Ok(into.len().min(rest.len()))
    }
}

impl Netlink for RecordedMachine {
    fn request(
        &self,
        protocol: NetlinkProtocol,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let name = request_name(protocol, request);
        let text = self.text("read", "netlink", Path::new(&name))?;
        for line in text.lines() {
            if datagram(&parse_hexadecimal(line)).is_break() {
                return Ok(());
            }
        }
        Err(Error::new("read", name, "the answer has no end", ErrorKind::TimedOut))
    }
}

impl Events for RecordedMachine {
    fn open(&self, source: EventSource) -> Result<Box<dyn EventStream>> {
        let text = self.text("read", "events", Path::new(source.name()))?;
        let mut events: Vec<(u64, Vec<u8>)> = text.lines().filter_map(parse_event_line).collect();
        events.sort_by_key(|(at_ms, _)| *at_ms);
        Ok(Box::new(RecordedEvents {
            start_ms: self.start_ms,
            now_ms: Arc::clone(&self.now_ms),
            events: events.into_iter().peekable(),
        }))
    }
}

/// Recorded events, each served once the clock has reached its time.
struct RecordedEvents {
    start_ms: u64,
    now_ms: Arc<AtomicU64>,
    events: std::iter::Peekable<std::vec::IntoIter<(u64, Vec<u8>)>>,
}

impl EventStream for RecordedEvents {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let elapsed_ms = self.now_ms.load(Ordering::Relaxed).saturating_sub(self.start_ms);
        Ok(self.events.next_if(|(at_ms, _)| *at_ms <= elapsed_ms).map(|(_, event)| event))
    }
}

impl Clock for RecordedMachine {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn unix_time(&self) -> Duration {
        let elapsed_ms = self.now_ms.load(Ordering::Relaxed).saturating_sub(self.start_ms);
        Duration::from_millis(self.fact("unix_ms").saturating_add(elapsed_ms))
    }

    fn sleep_until(&self, until: Duration) {
        let until_ms = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.fetch_max(until_ms, Ordering::Relaxed);
    }
}

impl OwnProcess for RecordedMachine {
    fn cost(&self) -> OwnCost {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::FileKind;

    fn recording(files: &[(&str, &str)]) -> (tempfile::TempDir, RecordedMachine) {
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
    fn versions_are_served_in_order_and_the_last_one_repeatedly() {
        let (_root, machine) = recording(&[
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
    fn files_of_a_process_are_served_as_they_were_opened() {
        let (_root, machine) = recording(&[
            ("opened/proc/8/root/log~1", "file 10 3 4\n"),
            ("files/proc/8/root/log~1", "0123456789"),
            ("opened/proc/8/fd/2~1", "other a pipe\n"),
            ("opened/proc/8/root/bad~1", "other a ghost\n"),
            ("lists/proc/8/root/etc~1", "a\nb\n"),
        ]);
        let files = machine.of_process(8).unwrap();
        let open = |path: &str| files.open(&FileName::Path(path.into()));
        let Ok(Opened::File(log)) = open("/log") else { panic!("a file was recorded") };
        let stat = log.stat();
        assert_eq!((stat.size, stat.inode, stat.device, stat.regular), (10, 3, 4, true));
        let read = |offset, length| {
            let mut into = vec![0; length];
            let read = log.read_at(offset, &mut into).unwrap();
            String::from_utf8(into[..read].to_vec()).unwrap()
        };
        assert_eq!(read(3, 4), "3456");
        assert_eq!(read(8, 4), "89");
        assert_eq!(read(10, 4), "");
        assert_eq!(read(u64::MAX, 4), "");
        let opened = files.open(&FileName::Descriptor(2));
        assert!(matches!(opened, Ok(Opened::Other(FileKind::Pipe))));
        assert_eq!(files.list("/etc").unwrap(), ["a", "b"]);
        assert!(open("/bad").is_err() && open("/none").is_err());
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let (root, machine) = recording(&[("files/x~1", "in")]);
        fs::write(root.path().join("secret~1"), "out").unwrap();
        let mut into = Vec::new();
        assert!(machine.read(Path::new("/../secret"), &mut into).is_err());
        assert!(machine.read(Path::new("/y/../../secret"), &mut into).is_err());
    }

    #[test]
    fn time_moves_when_somebody_sleeps() {
        let (_root, machine) = recording(&[]);
        machine.sleep_until(Duration::from_secs(3));
        machine.sleep_until(Duration::from_secs(2));
        assert_eq!(machine.now(), Duration::from_secs(3));
        assert_eq!(machine.unix_time(), Duration::from_millis(11_500));
    }

    #[test]
    fn events_come_when_their_time_has_come() {
        let (_root, machine) = recording(&[("events/kernel-log~1", "120 a\\nb\n340 c\n")]);
        let mut events = machine.events().open(EventSource::KernelLog).unwrap();
        assert_eq!(events.next().unwrap(), None);
        machine.sleep_until(Duration::from_millis(620));
        assert_eq!(events.next().unwrap().as_deref(), Some(&b"a\nb"[..]));
        assert_eq!(events.next().unwrap(), None);
        machine.sleep_until(Duration::from_secs(9));
        assert_eq!(events.next().unwrap().as_deref(), Some(&b"c"[..]));
        assert_eq!(events.next().unwrap(), None);
    }
}
