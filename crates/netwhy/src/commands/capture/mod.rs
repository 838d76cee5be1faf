//! `netwhy capture`: packets of interfaces into pcapng files, or diagnosed as they come.
//!
//! - [`options`]: what can be asked
//! - [`pump`]: from the rings of the interfaces to a [`Sink`]
//! - [`files`]: the sink that writes files, one after the other
//! - [`names`]: their names, and opening them
//! - [`analyse`]: the sink that looks for causes
//! - [`parts`]: packets to evidence in bounded memory
//! - [`beside`]: packets of the window in which a host is watched

mod files;
mod names;
mod options;
mod run;

pub(crate) use options::CaptureOptions as Options;
pub(crate) use run::run;
