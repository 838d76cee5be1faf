//! `cargo xtask test`: everything that CI checks, and at its end what was checked.
//!
//! - [`phase`]: one command of cargo: run, passed on line by line, its results counted
//! - [`notes`]: what tests noted meanwhile: skips, first failures
//! - [`summary`]: what is printed at the end
//!
//! Whatever fails, the rest still runs: one run says all that is wrong. A skip is counted and named;
//! in CI it fails, unless [`notes::ALLOWED_IN_CI`] has it.

mod notes;
mod phase;
mod run;
mod summary;

pub(crate) use run::{Options, run};
