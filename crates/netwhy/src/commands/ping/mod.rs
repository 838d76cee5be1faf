//! `netwhy ping`: round trips, and under load.
//!
//! - [`options`]: what can be asked
//! - [`show`]: a line for each packet, the summary
//! - [`place`]: where to ping from and download to
//! - [`load`]: pings while downloads run

mod json;
mod load;
mod options;
mod place;
mod run;
mod show;

pub(crate) use options::PingOptions as Options;
pub(crate) use run::run;
