//! The door to files that a process names: in its configuration, its command line, as its logs.
//!
//! A process may name what only root may read, what leads out of its container, what blocks the
//! program that opens it, or what has effects when it is opened. So names are opened with the rights of the process
//! that gives them, and only regular files are read.

use std::sync::Arc;

use super::stat::Stat;
use crate::error::Result;

/// Files as one process may read them.
pub trait ProcessFiles: Send + Sync {
    /// The user of the process.
    fn user(&self) -> u32;

    /// Opens a regular file for reading, or says what the name leads to instead.
    fn open(&self, name: &FileName) -> Result<Opened>;

    /// The names in a folder, in no particular order. A folder with very many names is an error.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
}

/// A file, as a process names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileName {
    /// A path. A relative one starts at the root.
    Path(String),
    /// A file that the process has open.
    Descriptor(u32),
}

/// What a name leads to.
#[derive(Clone)]
pub enum Opened {
    /// A regular file, open for reading.
    File(Arc<dyn OpenFile>),
    /// Something that is not opened.
    Other(FileKind),
}

/// A file that is open for reading.
pub trait OpenFile: Send + Sync {
    /// Size, inode and device when it was opened.
    fn stat(&self) -> Stat;

    /// Reads at most `into.len()` bytes from an offset; 0 at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize>;
}

/// What is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A folder.
    Folder,
    /// A pipe, named or not.
    Pipe,
    /// A socket.
    Socket,
    /// `/dev/null`.
    Null,
    /// A terminal.
    Terminal,
    /// Another device.
    Device,
    /// A file of the kernel's, such as those in `/proc`: reading one may block or have effects.
    Kernel,
}

impl FileKind {
    /// All of them.
    pub(crate) const ALL: [FileKind; 7] = [
        FileKind::Folder,
        FileKind::Pipe,
        FileKind::Socket,
        FileKind::Null,
        FileKind::Terminal,
        FileKind::Device,
        FileKind::Kernel,
    ];

    /// What it is: `a pipe`.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Folder => "a folder",
            FileKind::Pipe => "a pipe",
            FileKind::Socket => "a socket",
            FileKind::Null => "/dev/null",
            FileKind::Terminal => "a terminal",
            FileKind::Device => "a device",
            FileKind::Kernel => "a file of the kernel",
        }
    }
}

/// The descriptor that a path stands for in the process that names it: `/dev/stderr`,
/// `/proc/self/fd/2`.
pub fn descriptor_of(path: &str) -> Option<u32> {
    match path {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let folders = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
    folders.iter().find_map(|folder| path.strip_prefix(folder))?.parse().ok()
}
