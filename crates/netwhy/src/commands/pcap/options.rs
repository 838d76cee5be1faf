//! The options of `netwhy pcap`, and which of them exclude each other.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use streams::MemoryLimits;
use text::parse::Powers;

use super::filter::Filter;
use crate::options::ReportOptions;

const AFTER: &str = "\
Examples:
  netwhy pcap slow.pcapng                       the causes, worst first
  netwhy pcap slow.pcapng --filter 'host 198.18.0.2 and port 80'
  netwhy pcap slow.pcapng --stream 17           one stream: phases, exchanges,
                                                plot, packets around its stalls
  netwhy pcap slow.pcapng --stream 'port 443'   the one that lost most time
  netwhy pcap slow.pcapng --stream 17 --ladder all | less
  netwhy pcap --client a.pcap --server b.pcap   both ends of one path: delays,
                                                and where segments were lost
  netwhy pcap slow.pcapng --filter 'port 443' --annotate https.pcapng
                                                a copy of these streams with
                                                comments, for Wireshark
  netwhy pcap growing.pcap --follow             until its writer ends, or Ctrl-C
  tcpdump -i any -U -w - | netwhy pcap - --follow
  netwhy pcap *.pcap --csv tables               tables/streams.csv, ...
  netwhy pcap slow.pcapng --csv - --table exchanges | sort -t, -nk13

A filter selects streams:
  host IP            one end has this address
  net IP/BITS        one end is in this network
  port N             one end has this port
  stream N           the stream with this number
  min-stall TIME     its longest stall is at least this long (200ms, 1s): a
                     closed window, a delayed ACK, the wait for a retransmission
  and, or, not, ( )  port 80 or 443; and together with or needs parentheses

Exit codes: 0 done, 1 a finding at or above --fail-on, 2 usage, 3 cannot read.";

/// What --memory may be: sums and tables take some, however few the streams.
const MEMORY: RangeInclusive<usize> = 32 << 20..=1 << 40;
/// Packets of the ladder when the user does not choose how many.
const DEFAULT_LADDER_PACKETS: usize = 40;
/// Most packets of the ladder: each takes memory.
const MAX_LADDER_PACKETS: usize = 1_000_000;

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PcapOptions {
    /// Captures (pcap or pcapng, plain, gzip or zstd); `-` for standard input
    #[arg(required_unless_present = "client", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Capture at the client's end of a path; with --server, the capture of the same
    /// streams at the other end: delays, and where segments were lost
    #[arg(
        long,
        value_name = "FILE",
        requires = "server",
        conflicts_with_all = [
            "files", "filter", "stream", "follow", "csv", "parquet", "annotate",
        ]
    )]
    pub(crate) client: Option<PathBuf>,

    /// Capture at the server's end of the path
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) server: Option<PathBuf>,

    /// Only the streams that this filter selects: 'host 198.18.0.2 and port 80'
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<Filter>,

    /// One stream in depth: by its number, or the one that lost most time of those
    /// that a filter selects (--json: docs/schema/stream-v1.json)
    #[arg(long, value_name = "N|FILTER")]
    pub(crate) stream: Option<StreamChoice>,

    /// Maximum number of packets shown of the stream, or all [default: 40]
    #[arg(long, value_name = "N|all", requires = "stream", value_parser = ladder)]
    pub(crate) ladder: Option<usize>,

    /// Keep reading while the file grows; print new findings at once and the report
    /// at the end
    #[arg(long)]
    pub(crate) follow: bool,

    /// Write streams.csv, exchanges.csv and events.csv into this folder; `-` prints
    /// one of them instead of the report (columns: docs/columns.md)
    #[arg(long, value_name = "FOLDER|-", conflicts_with = "stream")]
    pub(crate) csv: Option<PathBuf>,

    /// The table that --csv - prints
    #[arg(long, value_name = "TABLE", requires = "csv", default_value = "streams")]
    pub(crate) table: TableName,

    /// Write streams.parquet, exchanges.parquet and events.parquet into this folder
    /// (needs a netwhy built with --features parquet)
    #[arg(long, value_name = "FOLDER", conflicts_with = "stream")]
    pub(crate) parquet: Option<PathBuf>,

    /// Write a copy of the capture, as pcapng, with comments on its packets for
    /// Wireshark; with --filter only the streams that it selects
    #[arg(long, value_name = "OUT.pcapng")]
    pub(crate) annotate: Option<PathBuf>,

    /// Maximum number of streams shown [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Threads that read, 1 to 64, each analysing a share of the streams; always 1
    /// with --filter, --stream, --follow, --csv, --parquet, --annotate, compressed
    /// files and standard input [default: one per CPU, at most 4; 1 below 16 MiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Option<u32>,

    /// Memory for the streams, 32M to 1T: about 2 KiB each; beyond it, those that have
    /// been idle for longest count as ended [default: 224M, for 100,000 streams]
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "client")]
    pub(crate) memory: Option<usize>,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

impl PcapOptions {
    /// How much the streams may take.
    pub(super) fn limits(&self) -> MemoryLimits {
        self.memory.map_or(MemoryLimits::FILE, MemoryLimits::of)
    }
}

/// The stream that is shown in depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamChoice {
    /// The stream with this number.
    Number(u64),
    /// The one that lost most time of those that a filter selects.
    Worst(Filter),
}

impl std::str::FromStr for StreamChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.trim().parse() {
            return Ok(StreamChoice::Number(number));
        }
        let filter: Filter = text.parse()?;
        Ok(filter.number().map_or(StreamChoice::Worst(filter), StreamChoice::Number))
    }
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    Streams,
    Exchanges,
    Events,
}

fn memory(text: &str) -> Result<usize, String> {
    let size = text::parse::bytes(text, Powers::Binary);
    let size = size.ok_or("must be a number with M, G or T: 2G")?;
    let size = usize::try_from(size).ok().filter(|size| MEMORY.contains(size));
    size.ok_or("must be between 32M and 1T".to_string())
}

fn ladder(text: &str) -> Result<usize, String> {
    if text == "all" {
        return Ok(MAX_LADDER_PACKETS);
    }
    match text.parse() {
        Ok(packets @ 1..=MAX_LADDER_PACKETS) => Ok(packets),
        _ => Err(format!(
            "must be a number from 1 to {}, or all",
            text::number(MAX_LADDER_PACKETS as u64)
        )),
    }
}

impl PcapOptions {
    /// Most packets shown of a stream.
    pub(crate) fn ladder(&self) -> usize {
        self.ladder.unwrap_or(DEFAULT_LADDER_PACKETS)
    }

    /// Whether a table is printed to standard output.
    pub(crate) fn prints_table(&self) -> bool {
        self.csv.as_deref() == Some(Path::new("-"))
    }

    /// Whether the files can be read twice: standard input and pipes cannot.
    pub(crate) fn can_read_twice(&self) -> bool {
        self.files.iter().all(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
    }

    /// Options that exclude each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.follow && self.files.len() > 1 {
            return Err("--follow reads one file only".to_string());
        }
        if self.prints_table() && self.report.json {
            return Err(
                "--csv - and --json both print to standard output: write the tables to a folder"
                    .to_string(),
            );
        }
        let writes = self.csv.is_some() || self.parquet.is_some() || self.annotate.is_some();
        let asks_for_stalls = self.filter.as_ref().is_some_and(Filter::asks_for_stalls);
        if writes && asks_for_stalls && (self.follow || !self.can_read_twice()) {
            return Err(
                "--csv, --parquet and --annotate with the filter min-stall read the capture \
                        twice: they need a regular file, without --follow"
                    .to_string(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_number_or_a_filter() {
        assert_eq!("17".parse(), Ok(StreamChoice::Number(17)));
        assert_eq!("stream 17".parse(), Ok(StreamChoice::Number(17)));
        assert!(matches!("port 17".parse(), Ok(StreamChoice::Worst(_))));
        assert!("-1".parse::<StreamChoice>().is_err());
        assert_eq!((ladder("all"), ladder("7")), (Ok(MAX_LADDER_PACKETS), Ok(7)));
        assert!(ladder("0").is_err() && ladder("many").is_err());
    }
}
