//! `cargo xtask`: what keeps the house in order.
//!
//! - `tidy`: rules that neither compiler nor clippy know, see [`tidy`]
//! - `docs`: pages and schemas generated from the source, see [`docs`]
//!
//! Nothing here is shipped, and nothing here builds or tests: that is the Makefile's.

use std::process::ExitCode;

use anyhow::Context as _;

mod docs;
mod modules;
mod rust_source;
mod tidy;
mod tree;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy            check rooms, lengths, heads, unsafe, panics, tables, docs
  docs            write what is generated: docs/{causes,schema,scenarios.md}
  docs --check    only say which of them are stale
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["tidy"] => tidy::run(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: two above this crate.
fn root() -> anyhow::Result<&'static std::path::Path> {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("cannot find the workspace: this crate is not two folders below it")
}
