//! `netwhy trace`: the hops on the way to a host.
//!
//! - [`options`]: what can be asked
//! - [`show`]: a route as text

mod options;
mod run;
mod show;

pub(crate) use options::TraceOptions as Options;
pub(crate) use run::run;
