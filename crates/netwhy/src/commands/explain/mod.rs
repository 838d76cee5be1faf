//! `netwhy explain`: the pages of the causes.

mod options;
mod run;

pub(crate) use options::ExplainOptions as Options;
pub(crate) use run::run;
