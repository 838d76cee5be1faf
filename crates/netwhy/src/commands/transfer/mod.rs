//! `netwhy transfer`: bulk and request-answer transfers beside what theory says, and what held them.
//!
//! - [`options`]: what can be asked
//! - [`serve`]: the other end
//! - [`judge`]: the causes that are found in their connections
//! - [`show`], [`chart`], [`figures`]: the result as text

mod chart;
mod figures;
mod judge;
mod options;
mod run;
mod serve;
mod show;

pub(crate) use options::TransferOptions as Options;
pub(crate) use run::run;
