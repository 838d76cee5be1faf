//! `cargo xtask mutate`: mutated captures and evidence through the parsers, the rules and the reports.
//!
//! Each file is a fixture or a shared capture, changed at random; its number alone decides how. Workers
//! with little memory read them; a sample also goes through the program itself.
//!
//! - `kind`: captures or evidence, and with how much memory they are read
//! - `seeds`: the files that are changed
//! - `change`: how they are changed
//! - `case`: one file through the parsers, the rules and the report
//! - `worker`: a process that reads many
//! - `program`: a file through the program
//! - `run`: starts the workers, adds up what they report

mod case;
mod change;
mod kind;
mod program;
mod run;
mod seeds;
mod worker;

pub(crate) use kind::Kind;
pub(crate) use run::run;
pub(crate) use worker::run as work;
