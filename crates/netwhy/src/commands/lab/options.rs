//! What `netwhy lab` can be asked.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

const LAB_AFTER: &str = "\
Examples:
  netwhy lab list                      what can be broken
  netwhy lab run accept-queue-overflow one fault, with real programs, and its remedy
  netwhy lab run ./mine.toml --seed 7  a file of your own, its parameters drawn
  netwhy lab shell healthy-gateway gw  a shell on a host of the lab
  netwhy lab score --vary 5            every scenario, five times: the score

A lab needs root, makes network namespaces of its own, and loads nothing else.
Exit codes: 0 as expected, 1 something missed, wrongly named or not mended,
2 usage, 3 could not run.";

/// What `netwhy lab` is to do.
#[derive(Debug, Args)]
pub(crate) struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
#[command(after_help = LAB_AFTER)]
pub(crate) enum LabCommand {
    /// List the scenarios and the causes that each expects
    List(LabListOptions),
    /// Run scenarios: build, load, diagnose, mend, measure again
    #[command(after_help = LAB_AFTER)]
    Run(LabRunOptions),
    /// Run all scenarios, several times each, and count what was named and missed
    #[command(after_help = LAB_AFTER)]
    Score(LabScoreOptions),
    /// A shell on a host of a running lab, or of one that is built for it
    #[command(after_help = LAB_AFTER)]
    Shell(LabShellOptions),
    /// The first process of a host of the lab
    #[command(hide = true)]
    Init,
}

#[derive(Debug, Args)]
pub(crate) struct LabListOptions {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunOptions {
    /// Scenarios by name (netwhy lab list), or files of your own
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,

    /// Draw the parameters with this seed [default: as the scenario has them]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Only see whether the fault is named, do not mend it
    #[arg(long)]
    pub(crate) no_mend: bool,

    /// Leave the network standing until Ctrl-C, to look around
    #[arg(long)]
    pub(crate) keep: bool,

    /// Keep captures in this folder
    #[arg(long, value_name = "FOLDER")]
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

    /// Runs of each, every one with parameters drawn anew [default: one, as the
    /// scenarios have them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) vary: Option<u64>,

    /// First seed of these runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Only see whether faults are named, do not mend them
    #[arg(long)]
    pub(crate) no_mend: bool,

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

    /// Host; the first one if absent
    pub(crate) host: Option<String>,

    /// What to run there instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}
