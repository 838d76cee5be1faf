//! `netwhy explain`: prints the page of a cause, or lists all causes.

mod options;
mod run;

pub(crate) use options::ExplainOptions as Options;
pub(crate) use run::run;
