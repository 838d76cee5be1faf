//! What `netwhy explain` can be asked.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The cause, such as accept-queue-overflow; all are listed without it
    pub(crate) cause: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
