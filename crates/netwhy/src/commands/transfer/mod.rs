//! `netwhy transfer`: bulk and request-response transfers, compared with theory, and what limited them.
//!
//! - [`options`]: the command line
//! - [`run`]: transfers while this host is watched; [`serve`]: the other end
//! - [`judge`]: the causes found in the transfers' connections
//! - [`show`]: the result as text; [`table`]: the transfers one by one, and theory; [`chart`]: data in
//!   flight over time

mod chart;
mod judge;
mod options;
mod run;
mod serve;
mod show;
mod table;

pub(crate) use options::TransferOptions as Options;
pub(crate) use run::run;
