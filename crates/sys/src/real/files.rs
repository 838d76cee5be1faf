//! Files of this machine.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::bounded_calls::BoundedCalls;
use super::process_files::RealProcessFiles;
use super::rights::credentials_of;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{Files, MAX_FILE_BYTES, ProcessFiles, Stat, socket_inode};

#[derive(Default)]
pub(super) struct RealFiles {
    calls: Arc<BoundedCalls>,
}

impl Files for RealFiles {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        match process_of_command_line(path) {
            Some(process) => self.read_command_line(&process, path, into),
            None => read(path, into),
        }
    }

    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>> {
        Ok(Arc::new(RealProcessFiles::of(&self.calls, pid)?))
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let failed = |errno| Error::from_errno("list", path.display().to_string(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(&*of_this_thread(path), flags, Mode::empty()).map_err(failed)?;
        for entry in Dir::new(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Nobody here asks for a name that is not UTF-8.
            if let Ok(text) = entry.file_name().to_str()
                && text != "."
                && text != ".."
            {
                name(text);
            }
        }
        Ok(())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let target = rustix::fs::readlink(path, Vec::new())
            .map_err(|errno| Error::from_errno("follow", path.display().to_string(), errno))?;
        Ok(PathBuf::from(target.to_string_lossy().into_owned()))
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let path = format!("/proc/{pid}/fd");
        let failed = |errno| Error::from_errno("list", path.clone(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
        let mut target = [std::mem::MaybeUninit::uninit(); 64];
        for entry in Dir::read_from(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Relative to the open folder: a third of the time that whole paths take. A file that
            // was closed since is not an error.
            let read = rustix::fs::readlinkat_raw(&folder, entry.file_name(), &mut target);
            if let Ok((link, _)) = read
                && let Some(number) = socket_inode(link)
                && inode(number).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::empty())
            .map_err(|errno| Error::from_errno("examine", path.display().to_string(), errno))?;
        Ok(Stat {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            device: stat.st_dev,
            regular: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        })
    }
}

impl RealFiles {
    /// Reads a command line, which lies in the memory of its process: a page of a file there may be one
    /// that the process itself provides, or not.
    fn read_command_line(&self, process: &Path, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let failed = |errno| Error::from_errno("read", path.display().to_string(), errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(process, flags, Mode::empty()).map_err(failed)?;
        let [user, ..] = credentials_of(folder.as_fd())?.users;
        let file = path.to_path_buf();
        let answer = self.calls.call(user, move || {
            let mut bytes = Vec::new();
            read(&file, &mut bytes).map(|()| bytes)
        });
        *into = answer.map_err(|reason| {
            Error::new("read", path.display().to_string(), reason, ErrorKind::TimedOut)
        })??;
        Ok(())
    }
}

/// Reads a whole file of `/proc` or `/sys`.
pub(super) fn read(path: &Path, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    let failed = |errno| Error::from_errno("read", path.display().to_string(), errno);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(&*of_this_thread(path), flags, Mode::empty()).map_err(failed)?;
    into.reserve(8 << 10);
    loop {
        if into.capacity() == into.len() {
            into.reserve(into.len());
        }
        match rustix::io::read(&file, rustix::buffer::spare_capacity(into)) {
            Ok(0) => return Ok(()),
            Ok(_) if into.len() > MAX_FILE_BYTES => {
                let reason = format!("it is longer than {MAX_FILE_BYTES} bytes");
                let path = path.display().to_string();
                return Err(Error::new("read", path, reason, ErrorKind::Other));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
}

/// `/proc/PID` for the path of a command line there.
fn process_of_command_line(path: &Path) -> Option<PathBuf> {
    let process = path.strip_prefix("/proc").ok()?.parent()?;
    (path.ends_with("cmdline") && process.components().count() == 1)
        .then(|| Path::new("/proc").join(process))
}

/// `/proc/net` shows the network namespace of the process's first thread; what is wanted is that of
/// the calling thread.
fn of_this_thread(path: &Path) -> Cow<'_, Path> {
    match path.strip_prefix("/proc/net") {
        Ok(rest) => Path::new("/proc/thread-self/net").join(rest).into(),
        Err(_) => path.into(),
    }
}
