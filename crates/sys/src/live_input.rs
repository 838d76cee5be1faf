//! Captures that are still being written: files that grow, and pipes that pause.
//!
//! A file is looked at again and again; that its writer has closed it, inotify tells where the file
//! system has it. A pipe is read as far as it goes at the moment, so that whoever reads can do
//! something else meanwhile.

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

/// How often a file is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a pipe is waited for before whoever reads gets the word.
const READ_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A file that may grow.
#[derive(Debug)]
pub struct GrowingFile {
    path: PathBuf,
    events: Option<OwnedFd>,
}

impl GrowingFile {
    /// Watches a file from now on.
    pub fn watch(path: &Path) -> Self {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let events = events.filter(|events| {
            inotify::add_watch(events, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).is_ok()
        });
        GrowingFile { path: path.to_path_buf(), events }
    }

    /// Waits a moment; whether a writer has closed the file since the last time and nobody has
    /// written to it after that.
    pub fn wait(&mut self) -> bool {
        std::thread::sleep(POLL_INTERVAL);
        let Some(events) = &self.events else { return false };
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut room);
        let mut closed = false;
        while let Ok(event) = reader.next() {
            closed = event.events().contains(ReadFlags::CLOSE_WRITE);
        }
        closed
    }

    /// Bytes that it has now; `None`: it is gone.
    pub fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|meta| meta.len())
    }
}

/// A pipe as far as it goes at the moment: reading it gives nothing when nothing comes for a
/// tenth of a second, and goes on later.
pub struct LivePipe {
    file: File,
    ended: Arc<AtomicBool>,
    /// Whether the first bytes came: until then it waits, they tell the format.
    begun: bool,
    stop: Box<dyn Fn() -> bool + Send>,
}

impl LivePipe {
    /// A pipe, or standard input (`-`), until it ends or `stop` says so; and what will tell that it
    /// has ended.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(
        path: &Path,
        stop: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<(Self, Arc<AtomicBool>)> {
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
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
        let read = self.file.read(into)?;
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
    fn that_a_writer_has_closed_is_told_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut growth = GrowingFile::watch(file.path());
        let mut writer = std::fs::OpenOptions::new().append(true).open(file.path()).unwrap();
        writer.write_all(b"one").unwrap();
        assert!(!growth.wait());
        assert_eq!(growth.length(), Some(3));
        drop(writer);
        assert!(growth.wait());
        assert!(!growth.wait());
        drop(file);
        assert_eq!(growth.length(), None);
    }
}
