//! `netwhy trace`: the hops of a route.
//!
//! - [`options`]: the command line
//! - [`run`]: traces once, or in rounds
//! - [`show`]: a route hop by hop; [`table`]: as a table that is redrawn; [`notes`]: heading and notes of
//!   both

mod notes;
mod options;
mod run;
mod show;
mod table;

pub(crate) use options::TraceOptions as Options;
pub(crate) use run::run;
