//! The command line of netwhy: the commands and the options of the main job.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, value_parser};

use crate::commands::{Command, watch};
use crate::{generate, help};

/// The option that writes manual pages and completions.
const GENERATE: &str = "generate";

/// Styles of help and errors: those of reports.
const STYLES: Styles = Styles::plain()
    .header(anstyle(None))
    .usage(anstyle(None))
    .error(anstyle(None))
    .literal(anstyle(Some(AnsiColor::Cyan)))
    .valid(anstyle(Some(AnsiColor::Cyan)));

const fn anstyle(colour: Option<AnsiColor>) -> clap::builder::styling::Style {
    match colour {
        Some(colour) => colour.on_default(),
        None => clap::builder::styling::Style::new().bold(),
    }
}

const AFTER: &str = "\
Examples:
  netwhy                       watch this host for 10 seconds, name the causes
  netwhy --for 3s --port 443   only sockets with port 443
  netwhy -- curl -s http://198.18.0.1/    watch while curl runs
  netwhy --capture             also capture packets, which show more causes
  netwhy --capture --interface eth0 --port 443
  netwhy --netns web --json    watch a network namespace, print JSON
  netwhy --for 1m --json-lines | jq -c .type
  netwhy explain accept-queue-overflow

Text is as wide as COLUMNS says, if that is set, or as the terminal, between 40
and 200 columns; 80 otherwise. NO_COLOR switches colours off.

Exit codes: 0 done, 1 a finding at or above --fail-on, 2 usage,
3 cannot observe. With COMMAND: the exit code of the command, unless it is 0.";

/// Why is my network slow? Watches this host and names the causes with evidence.
#[derive(Debug, Parser)]
#[command(name = "netwhy", about, long_about = None, after_help = AFTER, styles = STYLES)]
#[command(version, long_version = env!("NETWHY_LONG_VERSION"))]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) watch: watch::Options,

    /// Watch while this command runs; its output and exit code are passed through,
    /// the report is printed to standard error
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,

    /// The folder of `--generate`, which is for `make install`: it is in no help and no completion.
    #[arg(skip)]
    generate: Option<PathBuf>,
}

impl Cli {
    /// The command line that netwhy was called with; its help has lines of `width` columns.
    pub(crate) fn parse_within(width: usize) -> Result<Self, clap::Error> {
        let command = with_help(Cli::command(), width).term_width(width);
        let generate = Arg::new(GENERATE).long(GENERATE).value_name("SHARE").hide(true);
        let generate = generate.value_parser(value_parser!(PathBuf));
        let read = command.clone().arg(generate).try_get_matches().and_then(|mut matches| {
            let generate = matches.remove_one(GENERATE);
            Ok(Cli { generate, ..Cli::from_arg_matches(&matches)? })
        });
        read.map_err(|error| with_nearest_command(error, command))
    }

    /// Runs the command, or the main job; returns the exit code.
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        if let Some(folder) = &self.generate {
            generate::write(Cli::command(), folder)?;
            return Ok(0);
        }
        match &self.command {
            None => watch::run(&self.watch, &self.exec),
            Some(command) => command.run(),
        }
    }
}

/// A command whose texts below the options, and those of its subcommands, are laid out.
fn with_help(command: clap::Command, width: usize) -> clap::Command {
    let text = command.get_after_help().map(|text| help::layout(&text.to_string(), width));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(|subcommand| with_help(subcommand, width))
}

/// A word that is no command, where clap expects options: the command it was meant to be, or how to
/// watch while a program of this name runs.
fn with_nearest_command(error: clap::Error, mut command: clap::Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_of_netwhy = matches!(error.get(ContextKind::Usage),
        Some(ContextValue::StyledStr(usage)) if usage.to_string().contains("netwhy <COMMAND>"));
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') || !is_of_netwhy {
        return error;
    }
    let names = command.get_subcommands().map(|known| known.get_name().to_string());
    let names: Vec<String> = names.collect();
    let nearest = text::nearest(word, names.iter().map(String::as_str));
    let mut better = clap::Error::new(ErrorKind::InvalidSubcommand);
    better.insert(ContextKind::InvalidSubcommand, ContextValue::String(word.clone()));
    match nearest {
        Some(name) => {
            let name = ContextValue::Strings(vec![name.to_string()]);
            better.insert(ContextKind::SuggestedSubcommand, name)
        }
        None => {
            let tip = format!("to watch while the program {word} runs: netwhy -- {word}");
            better.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]))
        }
    };
    better.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    better.with_cmd(&command)
}

#[cfg(test)]
mod tests {
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
