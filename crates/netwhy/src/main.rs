//! netwhy: why is my network slow?
//!
//! - [`cli`]: the command line; [`mod@help`]: the texts below its options; [`generate`]: its manual pages
//!   and completions
//! - [`commands`]: one folder for each command
//! - [`options`]: options that several commands have
//! - [`window`]: a session of this host, with a live line
//! - [`command_job`], [`probe_job`]: a command, a probe that runs meanwhile, as a [`job`]
//! - [`evidence_file`]: saved evidence; [`saved_file`]: files that are written
//! - [`output`], [`progress`], [`live_findings`], [`json_lines`]: what reaches the terminal
//! - [`failure`]: failures with an exit code of their own

use std::process::ExitCode;

mod cli;
mod command_job;
mod commands;
mod evidence_file;
mod failure;
mod generate;
mod help;
mod job;
mod json_lines;
mod live_findings;
mod options;
mod output;
mod probe_job;
mod progress;
mod saved_file;
mod window;

use cli::Cli;
use failure::Failure;

/// Out of memory is an error like others, and what a thread holds is known.
#[global_allocator]
static ALLOCATOR: sys::allocator::Allocator = sys::allocator::Allocator;

fn main() -> ExitCode {
    sys::allocator::report_threads_without_memory();
    let cli = match Cli::parse_within(output::columns()) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
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
            eprintln!("netwhy: {}", text::sanitize::output(&format!("{error:#}")));
            ExitCode::from(failure.map_or(Failure::OBSERVE, Failure::code))
        }
    }
}
