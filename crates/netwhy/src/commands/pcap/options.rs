//! What `netwhy pcap` can be asked, and what of it cannot go together.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::filter::Filter;
use crate::options::ReportOptions;

const AFTER: &str = "\
Examples:
  netwhy pcap slow.pcapng                       the causes, worst first
  netwhy pcap slow.pcapng --filter 'host 198.18.0.2 and port 80'
  netwhy pcap slow.pcapng --stream 17           one stream: phases, turns, plot,
                                                the packets around its stalls
  netwhy pcap slow.pcapng --stream 'port 443'   the one that lost most time
  netwhy pcap slow.pcapng --stream 17 --ladder all | less
  netwhy pcap --client a.pcap --server b.pcap   both ends of one path: delays,
                                                and where data was lost
  netwhy pcap slow.pcapng --filter 'port 443' --annotate https.pcapng
                                                these streams alone, for Wireshark
  netwhy pcap growing.pcap --follow             until its writer ends, or Ctrl-C
  tcpdump -i any -U -w - | netwhy pcap - --follow
  netwhy pcap *.pcap --csv rows                 rows/streams.csv, turns, events
  netwhy pcap slow.pcapng --csv - --table turns | sort -t, -nk10

A filter selects streams:
  host IP            one end has this address
  net IP/BITS        one end is in this network
  port N             one end has this port
  stream N           it has this number
  min-stall TIME     some stall lasted so long (200ms, 1s): a closed window, a
                     delayed ACK, a segment or SYN until it was sent again
  and, or, not, ( )  port 80 or 443; and beside or needs parentheses

Exit codes: 0 ran, 1 a finding at or above --fail-on, 2 usage, 3 could not read.";

/// Packets of the ladder when the user does not say how many.
const LADDER: usize = 40;
/// Most packets of a ladder: each takes memory.
const LADDER_MOST: usize = 1_000_000;

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PcapOptions {
    /// Captures (pcap or pcapng, plain, gzip or zstd); `-` for standard input
    #[arg(required_unless_present = "client", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Capture at the client's end of a path; with --server, the same streams at its
    /// other end: where on the way data was lost, how long each way takes
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

    /// Only streams that this selects: 'host 198.18.0.2 and port 80'
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<Filter>,

    /// One stream in depth: by its number, or of those that a filter selects the
    /// one that lost most time (--json: docs/schema/stream-v1.json)
    #[arg(long, value_name = "N|FILTER")]
    pub(crate) stream: Option<Choice>,

    /// Most packets of the stream shown: a number, or all [default: 40]
    #[arg(long, value_name = "N|all", requires = "stream", value_parser = ladder)]
    pub(crate) ladder: Option<usize>,

    /// Read on while the file grows, tell new findings at once; the report at the end
    #[arg(long)]
    pub(crate) follow: bool,

    /// Write streams.csv, turns.csv and events.csv into this folder; `-` prints one
    /// of them in place of the report (columns: docs/columns.md)
    #[arg(long, value_name = "FOLDER|-", conflicts_with = "stream")]
    pub(crate) csv: Option<PathBuf>,

    /// What --csv - prints
    #[arg(long, value_name = "TABLE", requires = "csv", default_value = "streams")]
    pub(crate) table: TableName,

    /// Write streams.parquet, turns.parquet and events.parquet into this folder
    /// (needs a netwhy built with --features parquet)
    #[arg(long, value_name = "FOLDER", conflicts_with = "stream")]
    pub(crate) parquet: Option<PathBuf>,

    /// Write the capture again, as pcapng, with comments on its packets for Wireshark;
    /// with --filter only packets of the streams that it selects
    #[arg(long, value_name = "OUT.pcapng")]
    pub(crate) annotate: Option<PathBuf>,

    /// Most streams shown [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// CPUs that read, 1 to 64: each takes a share of the streams in. With --filter,
    /// --stream, --follow, rows, --annotate, compressed files and standard input it
    /// is one [default: those that there are, 4 at most; 1 below 16 MiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Option<u32>,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// A stream that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By its number.
    Number(u64),
    /// The one that lost most time of those that are selected.
    Worst(Filter),
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.trim().parse() {
            return Ok(Choice::Number(number));
        }
        let filter: Filter = text.parse()?;
        Ok(filter.number().map_or(Choice::Worst(filter), Choice::Number))
    }
}

/// A table by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    Streams,
    Exchanges,
    Events,
}

fn ladder(text: &str) -> Result<usize, String> {
    if text == "all" {
        return Ok(LADDER_MOST);
    }
    match text.parse() {
        Ok(packets @ 1..=LADDER_MOST) => Ok(packets),
        _ => Err(format!("a number from 1 to {}, or all", text::number(LADDER_MOST as u64))),
    }
}

impl PcapOptions {
    /// Packets of a stream that are shown.
    pub(crate) fn ladder(&self) -> usize {
        self.ladder.unwrap_or(LADDER)
    }

    /// Whether rows go to standard output.
    pub(crate) fn prints_rows(&self) -> bool {
        self.csv.as_deref() == Some(Path::new("-"))
    }

    /// Whether the files can be read twice: standard input and pipes cannot.
    pub(crate) fn can_read_twice(&self) -> bool {
        self.files.iter().all(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
    }

    /// What was asked and cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.follow && self.files.len() > 1 {
            return Err("--follow reads one file: the one that grows".to_string());
        }
        if self.prints_rows() && self.report.json {
            return Err(
                "--csv - and --json both print to standard output: give --csv a folder".to_string()
            );
        }
        let each = self.csv.is_some() || self.parquet.is_some() || self.annotate.is_some();
        let stalls = self.filter.as_ref().is_some_and(Filter::asks_for_stalls);
        if each && stalls && (self.follow || !self.can_read_twice()) {
            return Err("rows and packets of streams with min-stall need the capture twice: give \
                        --csv, --parquet and --annotate a file that does not grow, not standard \
                        input"
                .to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_stream() {
        assert_eq!("17".parse(), Ok(Choice::Number(17)));
        assert_eq!("stream 17".parse(), Ok(Choice::Number(17)));
        assert!(matches!("port 17".parse(), Ok(Choice::Worst(_))));
        assert!("-1".parse::<Choice>().is_err());
        assert_eq!((ladder("all"), ladder("7")), (Ok(LADDER_MOST), Ok(7)));
        assert!(ladder("0").is_err() && ladder("many").is_err());
    }
}
