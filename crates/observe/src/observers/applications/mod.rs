//! The applications among the processes: the settings in their configurations, and what they wrote to
//! their logs in the window.
//!
//! - `observer`: the instances of applications
//! - `recognise`: which program a process runs
//! - `configuration`: the settings that matter, and the logs that are named
//! - `process_files`, `glob`: files as a process sees them
//! - `open_logs`: the logs that a process has open
//! - `logs`: which logs are followed, from where to where
//! - `log_reader`: reading what was written
//!
//! Reads logs of the window only, and keeps none of their lines but the first of each complaint. Starts
//! no program and requests no status page. A log that goes to a pipe, a socket or syslog is missing
//! evidence.

mod configuration;
mod glob;
mod log_reader;
mod logs;
mod observer;
mod open_logs;
mod process_files;
mod recognise;

#[cfg(test)]
mod tests;

pub use observer::observer;
