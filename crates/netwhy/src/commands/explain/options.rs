//! The options of `netwhy explain`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// A cause, such as accept-queue-overflow [default: list all causes]
    pub(crate) cause: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
