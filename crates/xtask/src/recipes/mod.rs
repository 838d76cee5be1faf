//! `cargo xtask recipes`: follows docs/recipes.md in a copy of the repository and checks that it works.
//!
//! - [`parse`]: the recipes of the document: new files, lines to add
//! - [`workspace`]: the copy, and what cargo builds of it
//! - [`demonstrate`]: what the new cause, observer, probe and command do
//! - [`run`]: all of it, and the files that each recipe touches

mod demonstrate;
mod parse;
mod run;
mod workspace;

pub(crate) use run::run;
