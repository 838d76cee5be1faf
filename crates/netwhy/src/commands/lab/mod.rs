//! `netwhy lab`: runs, shows and scores scenarios. The crate `lab` builds and judges them; here it
//! gets its rules, by running this very program on the hosts.
//!
//! - `options`: the command line
//! - `run`: the commands
//! - `runner`: runs scenarios with progress, one by one or several at a time
//! - `netwhy`: this program as the observer
//! - `show`: outcomes and the list as text

mod netwhy;
mod options;
mod run;
mod runner;
mod show;

pub(crate) use options::LabOptions as Options;
pub(crate) use run::run;
