//! The options of `netwhy lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

const LAB_AFTER: &str = "\
Examples:
  netwhy lab list                      the scenarios
  netwhy lab run accept-queue-overflow one fault with real programs, and its fix
  netwhy lab run ./mine.toml --seed 7  a file of your own, parameters drawn
  netwhy lab shell healthy-gateway gw  a shell on a host of a lab
  netwhy lab score --vary 5            every scenario, five times: the score

A lab needs root, makes network namespaces of its own, and loads nothing else.
Exit codes: 0 as expected, 1 a cause missed or wrongly named or a fix without
effect, 2 usage, 3 a scenario could not be run.";

/// The command line of `netwhy lab`.
#[derive(Debug, Args)]
pub(crate) struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
#[command(after_help = LAB_AFTER)]
pub(crate) enum LabCommand {
    /// List the scenarios
    List(LabListOptions),
    /// Run scenarios: build, load, diagnose, fix, measure again
    #[command(after_help = LAB_AFTER)]
    Run(LabRunOptions),
    /// Run all scenarios and count the causes named, missed and wrongly named
    #[command(after_help = LAB_AFTER)]
    Score(LabScoreOptions),
    /// Open a shell on a host of a running lab, or of one built for it
    #[command(after_help = LAB_AFTER)]
    Shell(LabShellOptions),
    /// Process 1 of a host of a lab
    #[command(hide = true)]
    Init,
}

#[derive(Debug, Args)]
pub(crate) struct LabListOptions {
    /// Print JSON: also descriptions and expected causes
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunOptions {
    /// Scenarios by name (netwhy lab list), or files of your own
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,

    /// Draw the parameters with this seed [default: the scenario's defaults]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Run a healthy scenario for this time, 10s to 24h, with netwhy capturing
    /// and watching on every host
    #[arg(long = "for", value_name = "TIME", value_parser = lab_duration)]
    pub(crate) duration: Option<Duration>,

    /// Only diagnose the fault, do not fix it
    #[arg(long)]
    pub(crate) no_fix: bool,

    /// Keep the network running until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,

    /// Keep the captures in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) captures: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabScoreOptions {
    /// Only these scenarios
    #[arg(value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,

    /// Runs of each, with newly drawn parameters [default: one, with the
    /// scenarios' defaults]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) vary: Option<u64>,

    /// Seed of the first of these runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Only diagnose: fix nothing, and end the load of a broken network with
    /// the last observation
    #[arg(long)]
    pub(crate) no_fix: bool,

    /// Scenarios that use little CPU (low_cpu) run up to N at a time; all
    /// others run alone
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) jobs: u8,

    /// Keep the captures of runs that are not as expected, each in a folder
    /// NAME or NAME-SEED of this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) captures: Option<PathBuf>,

    /// Write the score as Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabShellOptions {
    /// Scenario by name, or a file
    pub(crate) scenario: String,

    /// Host [default: the first by name]
    pub(crate) host: Option<String>,

    /// Command to run there instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}

/// How long a scenario may run with `--for`: the programs need some seconds to begin.
const RUN_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_secs(24 * 3600);
const RANGE: &str = "between 10s and 24h";

/// The duration of a run: with a unit, or in seconds.
fn lab_duration(text: &str) -> Result<Duration, String> {
    text::parse::duration_within(text, RUN_RANGE, RANGE)
        .map_err(|_| format!("it is a time {RANGE}, such as 10m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duration_of_a_run_has_a_range() {
        assert_eq!(lab_duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(lab_duration("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["", "x", "0", "9s", "25h", "-1s", "1 fortnight"] {
            let error = lab_duration(wrong).unwrap_err();
            assert!(error.contains("between 10s and 24h"), "{wrong}: {error}");
        }
    }
}
