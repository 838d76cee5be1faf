//! The one door to the machine: files, netlink, the kernel log, the clock, namespaces.
//!
//! - [`Machine`]: what the rest of netwhy asks a machine for
//! - [`real`]: this machine
//! - [`replay`]: a machine recorded in a folder, and the recorder that makes such folders
//! - [`capture`]: capture files, compressed or not
//! - [`filter`]: capture filters in tcpdump's language
//! - [`growth`]: files that grow and pipes that pause, while they are read
//! - [`namespace`]: entering a network namespace by name or process id
//! - [`packet_ring`]: packets of an interface, from the kernel's ring
//! - [`privileges`]: becoming a user with fewer rights
//! - [`probe_socket`]: packets of probes out, answers and errors in, with the kernel's times
//! - [`stamped`]: bytes of a stream with the time at which the kernel got them
//! - [`Stop`]: the one token that ends work early
//! - [`tap`]: a network interface whose other end is this process
//! - [`tcp_socket`]: what the kernel tells of a TCP socket of this process
//!
//! Reading happens here, parsing in `wire`. Nothing here retries or guesses: an [`Error`] says
//! what was tried, on what, and what happened.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod capture;
mod error;
pub mod filter;
pub mod live_input;
pub mod memory;
pub mod namespace;
pub mod packet_ring;
pub mod privileges;
pub mod probe_socket;
pub mod real;
pub mod replay;
mod stop;
pub mod tap;
pub mod tcp_socket;
pub mod timestamps;

pub use error::{Error, ErrorKind, Result};
pub use stop::Stop;

/// Most bytes that one call of [`Machine::read`] takes from a file.
pub const READ_LIMIT: usize = 16 << 20;

/// What netwhy asks a machine for. Object safe, shared between threads.
pub trait Machine: Send + Sync {
    /// Reads a whole file into `into`, which is cleared first. Files longer than
    /// [`READ_LIMIT`] are an error.
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()>;

    /// Reads at most `into.len()` bytes from an offset; 0 at the end of the file.
    fn read_at(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<usize>;

    /// Names in a folder, in no order.
    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()>;

    /// Where a symbolic link points, as written in it.
    fn link(&self, path: &Path) -> Result<PathBuf>;

    /// Inodes of the sockets that a process has open (`/proc/PID/fd`), lowest descriptor first,
    /// until told to stop. A machine with a faster way may override it: processes with 20,000
    /// files are common.
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

    /// Size, inode and device of a file, following links.
    fn stat(&self, path: &Path) -> Result<Stat>;

    /// Sends one netlink request and hands over each datagram of the answer until `datagram`
    /// breaks (at NLMSG_DONE or an error message: `wire::netlink` knows) or five seconds pass
    /// without one. A datagram may hold several messages.
    fn netlink(
        &self,
        protocol: Netlink,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Opens the kernel log at its end.
    fn kernel_log(&self) -> Result<Box<dyn KernelLog>>;

    /// Time since an arbitrary moment, never going back (CLOCK_MONOTONIC).
    fn now(&self) -> Duration;

    /// Time since 1970-01-01 UTC.
    fn unix_time(&self) -> Duration;

    /// Sleeps until [`Machine::now`] is at least `until`, or a signal arrives.
    fn sleep_until(&self, until: Duration);

    /// CPU time (user and system) and largest resident set of this process.
    fn own_cost(&self) -> OwnCost;

    /// Effective user id of this process.
    fn user(&self) -> u32;

    /// Process id of this process.
    fn pid(&self) -> u32;

    /// Bytes of one page of memory.
    fn page_bytes(&self) -> u64;

    /// Clock ticks a second: the unit of the CPU times in `/proc/PID/stat`.
    fn clock_ticks(&self) -> u64;
}

/// The inode in a link of `/proc/PID/fd` that points to a socket: `socket:[1234]`.
pub fn socket_inode(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Kernel log, read as records appear.
pub trait KernelLog: Send {
    /// The next record as `/dev/kmsg` gives it, `None` when there is none now.
    fn next(&mut self) -> Result<Option<Vec<u8>>>;
}

/// Netlink protocols that netwhy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Netlink {
    /// Sockets (NETLINK_SOCK_DIAG).
    SockDiag,
    /// Connection tracking (NETLINK_NETFILTER).
    Netfilter,
}

/// What `stat` says of a file.
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

/// What this process has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnCost {
    /// User and system CPU time.
    pub cpu: Duration,
    /// Largest resident set, bytes.
    pub max_resident_bytes: u64,
}
