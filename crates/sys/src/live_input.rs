//! Captures that are still being written: files that grow, and pipes that pause.
//!
//! A growing file is polled; inotify reports that its writer has closed it, on file systems that have
//! inotify. A pipe is read as far as it goes at the moment, so that its reader can do something else
//! meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};

use crate::stop::Stop;

/// Time between two polls of a growing file.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a read of a pipe waits for bytes.
const READ_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A file that may grow.
#[derive(Debug)]
pub struct GrowingFile {
    path: PathBuf,
    inotify: Option<OwnedFd>,
}

impl GrowingFile {
    /// Watches a file from now on.
    pub fn watch(path: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let inotify = inotify.filter(|inotify| {
            inotify::add_watch(inotify, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).is_ok()
        });
        GrowingFile { path: path.to_path_buf(), inotify }
    }

    /// Waits for 100 ms; whether a writer has closed the file since the last call, and nobody has
    /// written to it after that.
    pub fn wait(&mut self) -> bool {
        std::thread::sleep(POLL_INTERVAL);
        let Some(inotify) = &self.inotify else { return false };
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify, &mut room);
        let mut closed = false;
        while let Ok(event) = reader.next() {
            closed = event.events().contains(ReadFlags::CLOSE_WRITE);
        }
        closed
    }

    /// Its length in bytes; `None` when it has been deleted.
    pub fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|meta| meta.len())
    }
}

/// Opens a file, or standard input (`-`). Opening does not wait for a writer of a pipe.
///
/// # Errors
///
/// It cannot be opened.
pub(crate) fn open_input(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// A pipe, a socket or a terminal: a read waits until something comes, or a token is set.
pub(crate) struct StoppableInput {
    file: File,
    stop: Stop,
}

impl StoppableInput {
    pub(crate) fn new(file: File, stop: &Stop) -> Self {
        StoppableInput { file, stop: stop.clone() }
    }
}

impl Read for StoppableInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.stop.is_set() {
            let mut ready = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)];
            match poll(&mut ready, Some(&READ_TIMEOUT)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                _ => {}
            }
            match self.file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
        Err(io::Error::other("interrupted by a signal"))
    }
}

/// A pipe that is read as far as it goes: a read returns 0 bytes when none come for 100 ms, and may be
/// repeated later.
pub struct LivePipe {
    file: File,
    ended: Arc<AtomicBool>,
    /// Whether the first bytes have come. Until then a read waits: they show the format.
    begun: bool,
    stop: Box<dyn Fn() -> bool + Send>,
}

impl LivePipe {
    /// A pipe, or standard input (`-`), until it ends or `stop` returns `true`; and a flag that is
    /// set at the end of the pipe.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(
        path: &Path,
        stop: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<(Self, Arc<AtomicBool>)> {
        let file = open_input(path)?;
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Box::new(stop);
        Ok((LivePipe { file, ended: Arc::clone(&ended), begun: false, stop }, ended))
    }
}

impl Read for LivePipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)];
            match poll(&mut ready, Some(&READ_TIMEOUT)) {
                Ok(0) | Err(rustix::io::Errno::INTR) if self.begun || (self.stop)() => {
                    return Ok(0);
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        let read = match self.file.read(into) {
            // Somebody else has read it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            read => read?,
        };
        self.begun = true;
        if read == 0 {
            self.ended.store(true, Ordering::Relaxed);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_closed_writer_is_reported_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut growing = GrowingFile::watch(file.path());
        let mut writer = std::fs::OpenOptions::new().append(true).open(file.path()).unwrap();
        writer.write_all(b"one").unwrap();
        assert!(!growing.wait());
        assert_eq!(growing.length(), Some(3));
        drop(writer);
        assert!(growing.wait());
        assert!(!growing.wait());
        drop(file);
        assert_eq!(growing.length(), None);
    }
}
