//! netwhy: why is my network slow?
//!
//! - [`cli`]: the command line
//! - [`commands`]: one folder for each command
//! - [`options`]: options that several commands have
//! - [`window`]: a window on this host, and [`job`]s that it lasts as long as
//! - [`child`], [`probing`]: a command, a probe that runs meanwhile
//! - [`packets`]: packets of interfaces as they come
//! - [`evidence_file`]: saved evidence
//! - [`output`], [`progress`]: what reaches the terminal
//! - [`failure`]: failures with an exit code of their own

use std::process::ExitCode;

use clap::Parser as _;

mod child;
mod cli;
mod commands;
mod evidence_file;
mod failure;
mod job;
mod options;
mod output;
mod packets;
mod probing;
mod progress;
mod window;

use cli::Cli;
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("NETWHY_LOG"))
        .init();
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let failure = error.downcast_ref::<Failure>();
            // A reader that went away (`netwhy sockets | head`) is no error.
            if error.downcast_ref::<std::io::Error>().is_some_and(output::is_broken_pipe) {
                return ExitCode::SUCCESS;
            }
            eprintln!("netwhy: {}", output::harmless(&format!("{error:#}")));
            ExitCode::from(failure.map_or(Failure::OBSERVE, Failure::code))
        }
    }
}
