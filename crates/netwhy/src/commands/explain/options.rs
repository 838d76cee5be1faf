//! The options of `netwhy explain`.

use clap::Args;

const AFTER: &str = "\
Examples:
  netwhy explain                         all causes
  netwhy explain accept-queue-overflow   what it is, its proof, how to fix it
  netwhy explain bufferbloat --json      the page as Markdown in JSON";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ExplainOptions {
    /// A cause, such as accept-queue-overflow [default: list all causes]
    pub(crate) cause: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
