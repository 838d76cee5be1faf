//! The recorder: a machine that writes down what it is asked and what it answers.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::{hexadecimal, inside, recorded, request_name, version};
use crate::error::Result;
use crate::{KernelLog, Machine, Netlink, OwnCost, Stat};

/// Records what another machine answers.
pub struct Recorder<M> {
    machine: M,
    root: PathBuf,
    versions: Mutex<HashMap<PathBuf, u32>>,
    failed: Mutex<Option<std::io::Error>>,
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
        let facts = format!(
            "start_ms {}\nunix_ms {}\nuser {}\npid {}\npage_bytes {}\nclock_ticks {}\n",
            machine.now().as_millis(),
            machine.unix_time().as_millis(),
            machine.user(),
            machine.pid(),
            machine.page_bytes(),
            machine.clock_ticks()
        );
        fs::write(root.join("machine"), facts)?;
        Ok(Recorder { machine, root, versions: Mutex::default(), failed: Mutex::default() })
    }

    /// Ends the recording.
    ///
    /// # Errors
    ///
    /// The first thing that could not be written: the window itself was not held up.
    pub fn finish(self) -> std::io::Result<()> {
        let failed = self.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        failed.map_or(Ok(()), Err)
    }

    fn keep(&self, kind: &str, path: &Path, bytes: &[u8]) {
        let base = self.root.join(kind).join(inside(path));
        let mut versions = self.versions.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = versions.entry(base.clone()).or_insert(0);
        *number += 1;
        let written = base
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(version(&base, *number), bytes));
        if let Err(error) = written {
            let mut failed = self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            failed.get_or_insert(error);
        }
    }

    /// Keeps an answer or an error, and hands it on.
    fn pass<T>(
        &self,
        kind: &str,
        path: &Path,
        result: Result<T>,
        bytes: impl FnOnce(&T) -> Vec<u8>,
    ) -> Result<T> {
        match &result {
            Ok(value) => self.keep(kind, path, &bytes(value)),
            Err(error) => self.keep(kind, path, recorded(error).as_bytes()),
        }
        result
    }
}

impl<M: Machine> Machine for Recorder<M> {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        let result = self.machine.read(path, into);
        let bytes = into.clone();
        self.pass("files", path, result, |()| bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<usize> {
        // The whole file is kept, once for each part that is read: logs of a fixture are short.
        let mut whole = Vec::new();
        let _ = self.read(path, &mut whole);
        self.machine.read_at(path, offset, into)
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let mut names = String::new();
        let result = self.machine.list(path, &mut |each| {
            names.push_str(each);
            names.push('\n');
            name(each);
        });
        self.pass("lists", path, result, |()| names.into_bytes())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let result = self.machine.link(path);
        self.pass("links", path, result, |to| to.to_string_lossy().into_owned().into_bytes())
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let mut inodes = String::new();
        let result = self.machine.sockets_of(pid, &mut |each| {
            inodes.push_str(&format!("{each}\n"));
            inode(each)
        });
        self.pass("sockets", Path::new(&pid.to_string()), result, |()| inodes.into_bytes())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let result = self.machine.stat(path);
        self.pass("stats", path, result, |stat| {
            let regular = u8::from(stat.regular);
            format!("{} {} {} {regular}\n", stat.size, stat.inode, stat.device).into_bytes()
        })
    }

    fn netlink(
        &self,
        protocol: Netlink,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut datagrams = String::new();
        let result = self.machine.netlink(protocol, request, &mut |bytes| {
            datagrams.push_str(&hexadecimal(bytes));
            datagrams.push('\n');
            datagram(bytes)
        });
        let name = request_name(protocol, request);
        self.pass("netlink", Path::new(&name), result, |()| datagrams.into_bytes())
    }

    fn kernel_log(&self) -> Result<Box<dyn KernelLog>> {
        // Records come while the window lasts: they are added to the fixture by hand.
        let result = self.machine.kernel_log();
        self.pass("files", Path::new("dev/kmsg"), result, |_| Vec::new())
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn unix_time(&self) -> Duration {
        self.machine.unix_time()
    }

    fn sleep_until(&self, until: Duration) {
        self.machine.sleep_until(until);
    }

    fn own_cost(&self) -> OwnCost {
        self.machine.own_cost()
    }

    fn user(&self) -> u32 {
        self.machine.user()
    }

    fn pid(&self) -> u32 {
        self.machine.pid()
    }

    fn page_bytes(&self) -> u64 {
        self.machine.page_bytes()
    }

    fn clock_ticks(&self) -> u64 {
        self.machine.clock_ticks()
    }
}
