//! The options of `netwhy diagnose`.

use std::path::PathBuf;

use clap::Args;

use crate::options::ReportOptions;

#[derive(Debug, Args)]
pub(crate) struct DiagnoseOptions {
    /// Evidence saved by `netwhy record`; `-` for standard input
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}
