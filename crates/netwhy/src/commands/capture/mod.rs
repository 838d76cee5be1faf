//! `netwhy capture`: packets of interfaces into pcapng files, or diagnosed while they are captured.
//!
//! - [`options`]: the options
//! - [`run`](mod@run): opens interfaces and files, drops root, captures, reports
//! - [`files`]: the sink that writes pcapng files, one after the other
//! - [`names`]: their names, and opening them

mod files;
mod names;
mod options;
mod reason;
mod run;

pub(crate) use options::CaptureOptions as Options;
pub(crate) use run::run;
