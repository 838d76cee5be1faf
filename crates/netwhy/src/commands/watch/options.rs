//! The options of the main job.

use std::time::Duration;

use clap::Args;

use crate::options::{FocusOptions, NetnsOptions, PacketOptions, ReportOptions, window};

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// How long to watch: 3s, 500ms, 2m [default: 10s; with COMMAND: until it ends]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub(crate) time: Option<Duration>,

    #[command(flatten)]
    pub(crate) focus: FocusOptions,

    #[command(flatten)]
    pub(crate) packets: PacketOptions,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    #[command(flatten)]
    pub(crate) report: ReportOptions,

    /// Print JSON while watching, one object per line: the series every second, each
    /// new finding, and the report at the end (schema: docs/schema/watch-line-v1.json)
    #[arg(long, conflicts_with_all = ["json", "output"])]
    pub(crate) json_lines: bool,
}
