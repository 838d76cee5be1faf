//! The door to files: reading, listing, following links. Nothing here writes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::process_files::ProcessFiles;
use super::stat::Stat;
use crate::error::Result;

/// Longest file that [`Files::read`] reads.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Files and folders of a machine.
pub trait Files: Send + Sync {
    /// Reads a whole file into `into`, which is cleared first. A file longer than
    /// [`MAX_FILE_BYTES`] is an error.
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()>;

    /// Calls for each name in a folder, in no particular order.
    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()>;

    /// The target of a symbolic link, as it is written in the link.
    fn link(&self, path: &Path) -> Result<PathBuf>;

    /// Size, inode and device of a file, following links.
    fn stat(&self, path: &Path) -> Result<Stat>;

    /// The files that a process names, as it may read them: inside its root, with its rights. Whatever
    /// another user's process names is opened here only.
    ///
    /// # Errors
    ///
    /// The process has ended, or this process may not follow its root and it is in a container, where
    /// its paths mean something else than here.
    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>>;

    /// Calls for the inode of each socket that a process has open (`/proc/PID/fd`), lowest descriptor
    /// first, until the call breaks. Override it where there is a faster way: processes with 20,000
    /// open files are common.
    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let folder = PathBuf::from(format!("/proc/{pid}/fd"));
        let mut names = Vec::new();
        self.list(&folder, &mut |name| names.push(name.to_string()))?;
        for name in names {
            // A file that was closed since is not an error.
            let Ok(target) = self.link(&folder.join(name)) else {
                continue;
            };
            if let Some(number) = socket_inode(target.as_os_str().as_encoded_bytes())
                && inode(number).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

/// The inode in a link of `/proc/PID/fd` that points to a socket: `socket:[1234]`.
pub(crate) fn socket_inode(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
