//! The options of `netwhy diagnose`.

use std::path::PathBuf;

use clap::Args;

use crate::options::ReportOptions;

const AFTER: &str = "\
Examples:
  netwhy diagnose slow.zst
  netwhy diagnose slow.zst --json --output report.json
  ssh web-3 netwhy record -o - | netwhy diagnose -

Exit codes: 0 done, 1 a finding at or above --fail-on, 2 usage, 3 cannot read.";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct DiagnoseOptions {
    /// Evidence saved by `netwhy record`; `-` for standard input
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}
