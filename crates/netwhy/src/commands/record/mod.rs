//! `netwhy record`: the evidence of a window in a file.

mod options;
mod run;

pub(crate) use options::RecordOptions as Options;
pub(crate) use run::run;
