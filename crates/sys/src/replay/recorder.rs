//! The recorder: a machine that asks another one and keeps its answers in a folder.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::format::{
    error_text, event_line, hexadecimal, opened_text, path_in_folder, path_of, request_name,
    version_path,
};
use crate::error::Result;
use crate::machine::{
    Clock, EventSource, EventStream, Events, FileName, Files, MAX_FILE_BYTES, Machine, Netlink,
    NetlinkProtocol, Opened, OwnProcess, ProcessFiles, Stat,
};

/// Records what another machine answers. The clock and this process are not recorded.
pub struct Recorder<M> {
    machine: M,
    folder: Arc<Folder>,
}

impl<M: Machine> Recorder<M> {
    /// Records into a folder, which is made.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn new(machine: M, root: impl Into<PathBuf>) -> std::io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        let (clock, process) = (machine.clock(), machine.own_process());
        let facts = format!(
            "start_ms {}\nunix_ms {}\nuser {}\npid {}\npage_bytes {}\nclock_ticks {}\n",
            clock.now().as_millis(),
            clock.unix_time().as_millis(),
            process.user(),
            process.pid(),
            process.page_bytes(),
            process.clock_ticks()
        );
        fs::write(root.join("machine"), facts)?;
        Ok(Recorder { machine, folder: Arc::new(Folder::new(root)) })
    }

    /// Ends the recording.
    ///
    /// # Errors
    ///
    /// The first answer that could not be written; the requests themselves went on.
    pub fn finish(self) -> std::io::Result<()> {
        self.folder.state().failed.take().map_or(Ok(()), Err)
    }
}

/// The folder that is written.
struct Folder {
    root: PathBuf,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    versions: HashMap<PathBuf, u32>,
    failed: Option<std::io::Error>,
}

impl Folder {
    fn new(root: PathBuf) -> Self {
        Folder { root, started: Instant::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps the next version of an answer; its file.
    fn keep(&self, kind: &str, path: &Path, bytes: &[u8]) -> PathBuf {
        let base = self.root.join(kind).join(path_in_folder(path));
        let mut state = self.state();
        let number = state.versions.entry(base.clone()).or_insert(0);
        *number += 1;
        let file = version_path(&base, *number);
        let written =
            base.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, bytes));
        if let Err(error) = written {
            state.failed.get_or_insert(error);
        }
        file
    }

    /// Keeps one more event.
    fn keep_event(&self, file: &Path, event: &[u8]) {
        let line = event_line(self.started.elapsed().as_millis(), event);
        let written = fs::OpenOptions::new()
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            self.state().failed.get_or_insert(error);
        }
    }

    /// Keeps an answer or an error, and returns it.
    fn pass<T>(
        &self,
        kind: &str,
        path: &Path,
        result: Result<T>,
        bytes: impl FnOnce(&T) -> Vec<u8>,
    ) -> Result<T> {
        match &result {
            Ok(value) => self.keep(kind, path, &bytes(value)),
            Err(error) => self.keep(kind, path, error_text(error).as_bytes()),
        };
        result
    }
}

impl<M: Machine> Machine for Recorder<M> {
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
        self.machine.clock()
    }

    fn own_process(&self) -> &dyn OwnProcess {
        self.machine.own_process()
    }
}

impl<M: Machine> Files for Recorder<M> {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        let result = self.machine.files().read(path, into);
        let bytes = into.clone();
        self.folder.pass("files", path, result, |()| bytes)
    }

    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>> {
        let files = self.machine.files().of_process(pid)?;
        Ok(Arc::new(RecordedFiles { files, folder: Arc::clone(&self.folder), pid }))
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let mut names = String::new();
        let result = self.machine.files().list(path, &mut |each| {
            names.push_str(each);
            names.push('\n');
            name(each);
        });
        self.folder.pass("lists", path, result, |()| names.into_bytes())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let result = self.machine.files().link(path);
        self.folder.pass("links", path, result, |to| to.to_string_lossy().into_owned().into_bytes())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let result = self.machine.files().stat(path);
        self.folder.pass("stats", path, result, |stat| {
            let regular = u8::from(stat.regular);
            format!("{} {} {} {regular}\n", stat.size, stat.inode, stat.device).into_bytes()
        })
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let mut inodes = String::new();
        let result = self.machine.files().sockets_of(pid, &mut |each| {
            inodes.push_str(&format!("{each}\n"));
            inode(each)
        });
        let path = pid.to_string();
        self.folder.pass("sockets", Path::new(&path), result, |()| inodes.into_bytes())
    }
}

/// Files of a process, which are kept as they are opened.
struct RecordedFiles {
    files: Arc<dyn ProcessFiles>,
    folder: Arc<Folder>,
    pid: u32,
}

impl ProcessFiles for RecordedFiles {
    fn user(&self) -> u32 {
        self.files.user()
    }

    fn open(&self, name: &FileName) -> Result<Opened> {
        let path = path_of(self.pid, name);
        let result = self.files.open(name);
        if let Ok(Opened::File(file)) = &result {
            // The whole file is kept each time: logs of a fixture are short.
            let length = usize::try_from(file.stat().size).unwrap_or(usize::MAX);
            let mut whole = vec![0; length.min(MAX_FILE_BYTES)];
            let bytes = file.read_at(0, &mut whole).map(|read| {
                whole.truncate(read);
                whole
            });
            let _ = self.folder.pass("files", &path, bytes, Vec::clone);
        }
        self.folder.pass("opened", &path, result, |opened| opened_text(opened).into_bytes())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = path_of(self.pid, &FileName::Path(folder.to_string()));
        let result = self.files.list(folder);
        self.folder.pass("lists", &path, result, |names| names.join("\n").into_bytes())
    }
}

impl<M: Machine> Netlink for Recorder<M> {
    fn request(
        &self,
        protocol: NetlinkProtocol,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut datagrams = String::new();
        let result = self.machine.netlink().request(protocol, request, &mut |bytes| {
            datagrams.push_str(&hexadecimal(bytes));
            datagrams.push('\n');
            datagram(bytes)
        });
        let name = request_name(protocol, request);
        self.folder.pass("netlink", Path::new(&name), result, |()| datagrams.into_bytes())
    }
}

impl<M: Machine> Events for Recorder<M> {
    fn open(&self, source: EventSource) -> Result<Box<dyn EventStream>> {
        let path = Path::new(source.name());
        match self.machine.events().open(source) {
            Ok(stream) => {
                let file = self.folder.keep("events", path, b"");
                Ok(Box::new(RecordedStream { stream, folder: Arc::clone(&self.folder), file }))
            }
            Err(error) => self.folder.pass("events", path, Err(error), |_| Vec::new()),
        }
    }
}

/// A stream whose events are kept as they come.
struct RecordedStream {
    stream: Box<dyn EventStream>,
    folder: Arc<Folder>,
    file: PathBuf,
}

impl EventStream for RecordedStream {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let event = self.stream.next()?;
        if let Some(event) = &event {
            self.folder.keep_event(&self.file, event);
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::replay::RecordedMachine;

    #[test]
    fn what_was_recorded_is_served_the_same() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let request = request_name(NetlinkProtocol::SockDiag, b"?");
        for (path, text) in [
            ("machine", "start_ms 0\npid 7\n"),
            ("files/a~1", "one"),
            ("lists/b~1", "x\ny\n"),
            ("links/c~1", "!permission permission denied"),
            ("sockets/9~1", "4\n5\n"),
            ("opened/proc/9/root/log~1", "file 5 1 2\n"),
            ("files/proc/9/root/log~1", "hello"),
            ("lists/proc/9/root/etc~1", "a\nb"),
            (&*format!("netlink/{request}~1"), "00ff\n"),
            ("events/kernel-log~1", "0 a\\nb\n"),
        ] {
            let path = first.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let answers = |machine: &dyn Machine| {
            let (mut file, mut names, mut inodes) = (Vec::new(), Vec::new(), Vec::new());
            machine.files().read(Path::new("/a"), &mut file).unwrap();
            machine.files().list(Path::new("/b"), &mut |name| names.push(name.into())).unwrap();
            let refused = machine.files().link(Path::new("/c")).unwrap_err().to_string();
            let collect = &mut |inode| {
                inodes.push(inode);
                ControlFlow::Continue(())
            };
            machine.files().sockets_of(9, collect).unwrap();
            let files = machine.files().of_process(9).unwrap();
            let Ok(Opened::File(log)) = files.open(&FileName::Path("/log".into())) else {
                panic!("the log is a file");
            };
            let mut text = [0; 9];
            let read = log.read_at(1, &mut text).unwrap();
            let log = (text[..read].to_vec(), files.list("/etc").unwrap());
            let mut events = machine.events().open(EventSource::KernelLog).unwrap();
            // Events come at the time at which they were recorded.
            machine.clock().sleep_until(Duration::from_secs(60));
            let event = events.next().unwrap();
            let (mut datagrams, netlink) = (Vec::new(), machine.netlink());
            let asked = netlink.request(NetlinkProtocol::SockDiag, b"?", &mut |datagram| {
                datagrams.push(datagram.to_vec());
                ControlFlow::Break(())
            });
            let names: Vec<String> = names;
            (file, names, refused, inodes, event, datagrams, asked.is_ok(), log)
        };
        let recorder =
            Recorder::new(RecordedMachine::open(first.path()).unwrap(), second.path()).unwrap();
        let expected = answers(&recorder);
        recorder.finish().unwrap();
        assert_eq!(expected.4.as_deref(), Some(&b"a\nb"[..]));
        assert_eq!(expected.7, (b"ello".to_vec(), vec!["a".to_string(), "b".to_string()]));
        assert_eq!(answers(&RecordedMachine::open(second.path()).unwrap()), expected);
    }
}
