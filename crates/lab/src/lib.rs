//! The lab: networks of namespaces, broken in a known way, over which real programs run and which
//! netwhy has to diagnose.
//!
//! - [`scenario`]: scenario files, and those that are part of netwhy
//! - [`emulator`]: a link in user space: delay, rate, queue, loss, reordering, token buckets
//! - `plan`, `names`: interfaces and addresses of a scenario; what `${NAME}` stands for
//! - `host`, `network`: a host; the network as it is built
//! - `process`, `cgroup`, `conntrack_max`: programs, their CPU quota, a setting of the whole machine
//! - [`figures`]: what a workload measured
//! - [`run`], [`outcome`]: one run of one scenario, and its outcome
//! - [`observer`], [`judge`]: how the lab uses netwhy; what netwhy named, against what it must name
//! - [`gain`]: the expected gain of a finding, against what its fix gave
//! - `cpu_shortage`: how much CPU the machine lacked
//! - [`score`]: many runs: named, missed, wrongly named
//! - [`folder`]: the directory of a lab, and the other labs on this machine; `state_folder`: what outlives
//!   a lab

mod cgroup;
mod conntrack_max;
pub mod cpu_shortage;
pub mod emulator;
mod error;
pub mod figures;
pub mod folder;
pub mod gain;
mod host;
pub mod judge;
mod names;
mod network;
pub mod observer;
pub mod outcome;
mod plan;
mod process;
pub mod run;
pub mod scenario;
pub mod score;
mod state_folder;

pub use error::{Error, Result};
pub use host::init;
