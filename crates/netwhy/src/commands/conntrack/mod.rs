//! `netwhy conntrack`: the connection-tracking table, grouped while it is read, or listed. The groups
//! of a large table are estimated from a random sample of it, unless `--exact` is given.
//!
//! - [`select`]: which entries are shown
//! - [`rows`]: one entry as a line
//! - [`summary`]: the groups and the size of the table

mod options;
mod rows;
mod run;
mod select;
mod summary;

pub(crate) use options::ConntrackOptions as Options;
pub(crate) use run::run;
