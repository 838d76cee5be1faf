//! `netwhy http`: loads an HTTP server, measures it, and says why it was slow if it was.
//!
//! - [`options`]: what can be asked
//! - [`show`]: the figures in a terminal
//!
//! While the load runs this host is watched, and some of the load's packets are captured; both and
//! the figures are one evidence, and the rules judge it as any other.

mod options;
mod run;
mod show;

pub(crate) use options::HttpOptions as Options;
pub(crate) use run::run;
