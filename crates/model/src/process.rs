//! Processes, the applications they run, the messages of their logs, the kernel log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Gauge;

/// A process that owns sockets in the network namespace that was observed, or the parent of one (the
/// masters of nginx and php-fpm).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Process id, as netwhy's process namespace numbers it.
    pub pid: u32,
    /// Parent's id.
    pub parent: u32,
    /// Name (`/proc/PID/comm`), at most 15 bytes.
    pub name: String,
    /// Command line, cut to 256 bytes.
    pub command: String,
    /// Threads at the end of the window.
    pub threads: u32,
    /// CPU time in the window, all threads, milliseconds.
    pub cpu_ms: f64,
    /// Time in the window that its threads were runnable but not running, milliseconds
    /// (`schedstat`); `None` without `CONFIG_SCHED_INFO` or permission.
    pub run_delay_ms: Option<f64>,
    /// For how long the two above were observed, milliseconds (a process may be younger than the
    /// window).
    pub observed_ms: u64,
    /// How many samples found the main thread in each state of `/proc/PID/stat`: `R` running, `S`
    /// asleep, `D` uninterruptible, `T` stopped.
    pub states: BTreeMap<char, u32>,
    /// Open files; `None` without permission.
    pub open_files: Option<Gauge>,
    /// Soft limit of open files.
    pub open_files_limit: Option<u64>,
    /// The application, if netwhy knows it.
    pub application: Option<Application>,
}

/// An application that netwhy knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Application {
    /// Name: `nginx`, `php-fpm`.
    pub name: String,
    /// Role: `master`, `worker`.
    pub role: String,
    /// The pool of a php-fpm worker.
    pub pool: Option<String>,
    /// Settings that matter here, found in its configuration.
    pub settings: Vec<Setting>,
}

/// One setting found in a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Name: `listen`, `worker_connections`, `pm.max_children`.
    pub name: String,
    /// Value as written: `80 backlog=10`.
    pub value: String,
    /// Section it is in: a php-fpm pool (`www`), an nginx block path (`http/server`).
    pub section: String,
    /// File, as the process sees it.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u32,
}

/// What was written to one log file in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppLog {
    /// File, as the process sees it.
    pub path: String,
    /// Application that writes to it: `nginx`, `php-fpm`.
    pub application: String,
    /// Processes that have it open (at most 16 named).
    pub pids: Vec<u32>,
    /// Bytes written in the window.
    pub bytes_written: u64,
    /// Bytes read; fewer than written when the log is too busy to be read whole. The parts that were read
    /// are then spread over the window.
    pub bytes_read: u64,
    /// Lines read.
    pub lines: u64,
    /// HTTP statuses of access-log lines.
    pub statuses: BTreeMap<u16, u64>,
    /// Known complaints, most frequent first.
    pub complaints: Vec<Complaint>,
}

/// A complaint found in a log, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Complaint {
    /// What the line means.
    pub meaning: Meaning,
    /// What it is about, as in the line: an upstream (`127.0.0.1:9000`,
    /// `unix:/run/php/php-fpm.sock`), a pool (`www`).
    pub about: Option<String>,
    /// Lines in the window.
    pub count: u64,
    /// The first such line, cut to 300 bytes.
    pub first_line: String,
}

/// What a log line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// connect() or bind() failed with EADDRNOTAVAIL (99).
    AddressNotAvailable,
    /// accept(), socket() or open() failed with EMFILE (24) or ENFILE (23).
    TooManyOpenFiles,
    /// connect() failed with ECONNREFUSED (111).
    ConnectionRefused,
    /// connect() failed with EAGAIN (11): a Unix listener's queue is full.
    UpstreamQueueFull,
    /// An upstream did not respond in time (110).
    UpstreamTimedOut,
    /// An upstream closed or reset the connection (104, premature close).
    UpstreamClosed,
    /// nginx: `worker_connections are not enough`.
    WorkerConnectionsNotEnough,
    /// php-fpm: `server reached pm.max_children`; Apache: `MaxRequestWorkers`.
    WorkerLimitReached,
    /// php-fpm: `seems busy`: few idle workers left.
    PoolBusy,
    /// Anything else at level warning or above.
    Other,
}

/// Lines that the kernel logged in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLog {
    /// Lines in the window.
    pub lines: u64,
    /// Lines about the network, memory or files, at most 200; the kernel limits the rate of most.
    pub network: Vec<KernelLine>,
}

/// One line of the kernel log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLine {
    /// When, in milliseconds since the window began.
    pub at_ms: u64,
    /// Priority: 0 emergency to 7 debug.
    pub priority: u8,
    /// Text, cut to 300 bytes.
    pub text: String,
}
