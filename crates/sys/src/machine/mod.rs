//! What netwhy asks a machine for, as doors by kind.
//!
//! - [`files`]: reading files, listing folders, following links
//! - [`process_files`]: files that a process names, as it may read them
//! - [`netlink`]: requests to the kernel by netlink
//! - [`events`]: streams of records, which can be recorded and replayed
//! - [`clock`]: time and sleep
//! - [`process`]: this process: its cost, ids, units
//! - [`absent`]: a machine without any of these
//! - [`bundle`]: all of them together
//!
//! A new system call is a method of one door, and of its implementations in `real` and `replay`. A
//! wrapper, such as the recorder or a fake in a test, replaces the doors that it cares for and passes
//! the others on.

mod absent;
mod bundle;
mod clock;
mod events;
mod files;
mod netlink;
mod process;
mod process_files;
mod stat;

pub use absent::Absent;
pub use bundle::Machine;
pub use clock::Clock;
pub use events::{EventSource, EventStream, Events};
pub use files::{Files, MAX_FILE_BYTES};
pub use netlink::{Netlink, NetlinkProtocol};
pub use process::{OwnCost, OwnProcess};
pub use process_files::{FileKind, FileName, OpenFile, Opened, ProcessFiles, descriptor_of};
pub use stat::Stat;

pub(crate) use files::socket_inode;
