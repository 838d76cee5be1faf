//! The command line of netwhy: the commands and the options of the main job.

use std::ffi::OsString;

use clap::Parser;

use crate::commands::{Command, watch};

const AFTER: &str = "\
Examples:
  netwhy                       watch this host for 10 seconds, name the causes
  netwhy --for 3s --port 443   only sockets with port 443
  netwhy -- curl -s http://198.18.0.1/    watch while curl runs
  netwhy --capture             also capture packets, which show more causes
  netwhy --capture --interface eth0 --port 443
  netwhy --netns web --json    watch a network namespace, print JSON
  netwhy explain accept-queue-overflow

Exit codes: 0 done, 1 a finding at or above --fail-on, 2 usage,
3 cannot observe. With COMMAND: the exit code of the command, unless it is 0.";

/// Why is my network slow? Watches this host and names the causes with evidence.
#[derive(Debug, Parser)]
#[command(name = "netwhy", version, about, long_about = None, after_help = AFTER)]
#[command(args_conflicts_with_subcommands = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) watch: watch::Options,

    /// Watch while this command runs; its output and exit code are passed through,
    /// the report is printed to standard error
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}

impl Cli {
    /// Runs the command, or the main job; returns the exit code.
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match &self.command {
            None => watch::run(&self.watch, &self.exec),
            Some(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_follows_two_dashes() {
        let cli = Cli::try_parse_from(["netwhy", "--for", "1s", "--", "curl", "--fail"]).unwrap();
        assert_eq!(cli.exec, ["curl", "--fail"]);
        assert!(Cli::try_parse_from(["netwhy", "curl"]).is_err());
    }
}
