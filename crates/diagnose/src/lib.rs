//! Evidence to findings: one file for each cause, pure functions of the evidence.
//!
//! - [`diagnose()`]: all rules on one evidence; [`with_path`]: on two captures of a path
//! - [`causes`]: the table of causes, one file each
//! - [`cause`](mod@cause): what a cause is: page, evidence it needs, rule
//! - `catalogue`: causes by name, their pages
//! - `fold`: consequences under their causes
//! - `focus`: the evidence narrowed to what the user asked for
//! - `activity`: what a healthy host did
//! - `access_logs`, `applications`, `connections`: what rules read of logs, settings and sockets
//! - `captured`: captured streams, grouped, and what several rules judge of them
//! - [`gain`]: the models of what fixing a cause gives
//! - [`limited_link`]: which link pings under load show to be limited
//! - [`severity`]: how severe a finding is that costs time
//! - `proofs`, `commands`, `remedies`, `reach`, `words`: how findings are made
//!
//! Nothing is read here and no clock is asked: the same evidence gives the same findings on every
//! machine. Words of the evidence are hostile: in texts they stay within their line, in commands
//! they stay single arguments.

mod access_logs;
mod activity;
mod applications;
mod captured;
mod catalogue;
mod cause;
pub mod causes;
mod commands;
mod connections;
mod diagnosis;
#[cfg(test)]
mod fixtures;
mod focus;
mod fold;
mod gain;
#[cfg(test)]
mod large_numbers_tests;
pub mod limited_link;
mod proofs;
mod reach;
mod remedies;
mod severity;
mod words;

pub use catalogue::{cause, gains, nearest, page, severities};
pub use cause::{Cause, Slows, Verdict};
pub use diagnosis::{diagnose, with_path};
