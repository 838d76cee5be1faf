//! What a file is, without its content.

/// What `stat` gives for a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Bytes. For `/proc/PID/fd`: the number of open files (Linux 6.2 and later).
    pub size: u64,
    /// Inode.
    pub inode: u64,
    /// Device.
    pub device: u64,
    /// Whether it is a regular file.
    pub regular: bool,
}
