//! The lab: networks made of namespaces, broken in a known way, over which real programs run, and
//! which netwhy has to diagnose.
//!
//! - [`scenario`]: the file that says all this, and those that are part of netwhy
//! - [`emulator`]: a link in user space: delay, rate, queue, loss, reordering, buckets of credit
//! - `plan`, `host`, `network`: interfaces and addresses on paper; a host; the network built
//! - `process`, `cgroup`, `limit`: programs, their CPU, settings of the whole machine
//! - [`figures`]: what a workload measured
//! - [`run`]: one scenario, once; [`watcher`]: who looks; [`judge`]: what was found against what
//!   must be found
//! - [`score`]: many runs: named, missed, wrongly named
//! - [`folder`]: files of a lab, and who else runs one

mod cgroup;
pub mod emulator;
mod error;
pub mod figures;
pub mod folder;
mod host;
pub mod judge;
mod limit;
mod names;
mod network;
mod plan;
mod process;
pub mod run;
pub mod scenario;
pub mod score;
pub mod watcher;

pub use error::{Error, Result};
pub use host::init;
