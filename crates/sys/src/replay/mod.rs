//! A machine recorded in a folder, and the recorder that makes such folders.
//!
//! - [`RecordedMachine`]: answers from a folder
//! - [`Recorder`]: asks another machine and keeps its answers
//! - [`format`]: the files of a folder
//!
//! A folder is text throughout, so that a person can read and change it:
//!
//! | file | content |
//! |---|---|
//! | `files/PATH~1`, `files/PATH~2`, … | what reads of a file gave, one after the other |
//! | `lists/PATH~1` | names in a folder, one a line |
//! | `links/PATH~1` | the target of a symbolic link |
//! | `opened/PATH~1` | a file that a process named: `file SIZE INODE DEVICE`, or `other a pipe` |
//! | `stats/PATH~1` | size, inode, device, whether it is a regular file |
//! | `sockets/PID~1` | inodes of the sockets of a process, one a line |
//! | `netlink/REQUEST~1` | the answer to a request, a datagram in hexadecimal a line |
//! | `events/SOURCE~1` | events, one a line: milliseconds since the start, blank, event with escapes |
//! | `machine` | start, Unix time, user and process id, page bytes, clock ticks |
//!
//! An error is a file that begins with `!` and its kind. Versions are served in the order in which
//! they were recorded, the last one repeatedly. Time moves only when somebody sleeps, so that a
//! window of ten seconds takes no time.

mod format;
mod recorded;
mod recorder;

pub use recorded::RecordedMachine;
pub use recorder::Recorder;
