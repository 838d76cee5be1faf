//! `netwhy conntrack`: the connection-tracking table, grouped while it is read, or listed. The
//! groups of a large table are estimated from a random part of it, unless asked otherwise.
//!
//! - [`select`]: which entries are wanted
//! - [`rows`]: one entry as a line
//! - [`summary`]: the groups, the size and the statistics

mod options;
mod rows;
mod run;
mod select;
mod summary;

pub(crate) use options::ConntrackOptions as Options;
pub(crate) use run::run;
