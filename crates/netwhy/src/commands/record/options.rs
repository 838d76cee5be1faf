//! The options of `netwhy record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::options::{FocusOptions, NetnsOptions, PacketOptions, window};

const AFTER: &str = "\
Examples:
  netwhy record -o slow.zst              10 seconds of this host
  netwhy record -o slow.zst --for 1m --capture
  netwhy record -o - --for 3s | ssh desk netwhy diagnose -
  netwhy record -o load.zst -- ab -n 10000 http://198.18.0.1/

Exit codes: 0 done, 2 usage, 3 cannot observe. With COMMAND: the exit code of the
command.";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct RecordOptions {
    /// File to write (zstd-compressed JSON); `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Overwrite the file if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// How long to watch: 3s, 500ms, 2m [default: 10s; with COMMAND: until it ends]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub(crate) time: Option<Duration>,

    #[command(flatten)]
    pub(crate) focus: FocusOptions,

    #[command(flatten)]
    pub(crate) packets: PacketOptions,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Watch while this command runs; its output and exit code are passed through
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}
