//! `netwhy http`: loads an HTTP server, measures it, and says why it was slow if it was.
//!
//! - [`options`]: the command line
//! - [`run`]: runs the load and judges it; [`histogram_log`]: its latencies as a file
//! - [`show`]: the figures as text; [`distribution`]: latencies and responses over time as charts
//! - [`error_responses`]: responses that are errors
//!
//! While the load runs, this host is watched, and the first packets of the load are captured; all of it is
//! one evidence, which the rules judge as any other.

mod distribution;
mod error_responses;
mod histogram_log;
mod options;
mod run;
mod show;

pub(crate) use options::HttpOptions as Options;
pub(crate) use run::run;
