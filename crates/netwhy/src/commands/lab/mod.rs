//! `netwhy lab`: scenarios run, shown and scored. What a lab is and does is in the crate `lab`;
//! here it meets the rules, by running this very program on its hosts.
//!
//! - [`show`]: outcomes and the list as text

mod options;
mod run;
mod show;

pub(crate) use options::LabOptions as Options;
pub(crate) use run::run;
