//! `netwhy diagnose`: diagnoses saved evidence.

mod options;
mod run;

pub(crate) use options::DiagnoseOptions as Options;
pub(crate) use run::run;
