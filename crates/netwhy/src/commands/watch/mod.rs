//! `netwhy`: the main job, which watches this host, diagnoses and reports.

mod options;
mod run;

pub(crate) use options::WatchOptions as Options;
pub(crate) use run::run;
