//! netwhy: why is my network slow?
//!
//! - [`cli`]: the command line and its words
//! - [`watch`]: the main job: watch, diagnose, report
//! - [`child`]: a command that runs while netwhy watches
//! - [`evidence_file`]: saved evidence
//! - [`explain`]: the pages of the causes
//! - [`sockets`], [`conntrack`]: one source at a time, live
//! - [`capture`]: packets into files
//! - [`pcap`]: captures, stream by stream
//! - [`ping`], [`trace`], [`http`], [`transfer`]: probes, and the host watched meanwhile
//! - [`probing`]: a probe in a thread, while the host is watched
//! - [`lab`]: scenarios, the score

use std::process::ExitCode;

use clap::Parser as _;

mod capture;
mod child;
mod cli;
mod conntrack;
mod evidence_file;
mod explain;
mod failure;
mod http;
mod lab;
mod output;
mod pcap;
mod ping;
mod probing;
mod sockets;
mod trace;
mod transfer;
mod watch;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("NETWHY_LOG"))
        .init();
    match run(cli) {
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

fn run(cli: Cli) -> anyhow::Result<u8> {
    match cli.command {
        None => watch::run(&cli.watch, &cli.exec),
        Some(Command::Explain(options)) => explain::run(&options),
        Some(Command::Record(options)) => watch::record(&options),
        Some(Command::Diagnose(options)) => watch::diagnose(&options),
        Some(Command::Sockets(options)) => sockets::run(&options),
        Some(Command::Conntrack(options)) => conntrack::run(&options),
        Some(Command::Capture(options)) => capture::run(&options),
        Some(Command::Pcap(options)) => pcap::run(&options),
        Some(Command::Ping(options)) => ping::run(&options),
        Some(Command::Trace(options)) => trace::run(&options),
        Some(Command::Http(options)) => http::run(&options),
        Some(Command::Transfer(options)) => transfer::run(&options),
        Some(Command::Lab(command)) => lab::run(&command),
    }
}
