//! `netwhy record`: saves the evidence of a window to a file.

mod options;
mod run;

pub(crate) use options::RecordOptions as Options;
pub(crate) use run::run;
