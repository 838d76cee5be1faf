//! `netwhy`: the main job: watch, diagnose, report.

mod options;
mod run;

pub(crate) use options::WatchOptions as Options;
pub(crate) use run::run;
