//! `netwhy ping`: round-trip times, idle and under load.
//!
//! - [`options`]: the command line
//! - [`run`]: pings, and prints a line for each packet
//! - [`show`]: those lines, and the summary
//! - [`under_load`]: pings while downloads run, from several vantage points; [`vantage_point`]: where
//!   they run; [`show_under_load`]: the result as text
//! - [`json`]: the report for programs

mod json;
mod options;
mod run;
mod show;
mod show_under_load;
mod under_load;
mod vantage_point;

pub(crate) use options::PingOptions as Options;
pub(crate) use run::run;
