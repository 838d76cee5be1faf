//! Scenarios: a network, what is broken in it, the load on it, and the causes that must be named.
//!
//! - [`types`]: the schema of the file
//! - [`units`]: values with units
//! - `source`: finding and reading a file; those that are part of netwhy
//! - `check`: the file checked against itself
//! - `stretch`: a healthy scenario for longer than its file says
//! - [`vary`]: parameters, with their defaults or drawn from a seed
//!
//! The scenarios of netwhy are `crates/lab/scenarios/*.toml`, part of the binary.

mod check;
mod problem;
mod source;
mod stretch;
pub mod types;
pub mod units;
pub mod vary;

pub use source::Source;
pub use types::{Kind, Method, Scenario};
