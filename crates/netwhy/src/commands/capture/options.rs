//! The options of `netwhy capture`, and which of them exclude each other.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sys::packet_ring::{ANY, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES, SNAP_LENGTH};

use crate::options::{NetnsOptions, ReportOptions, window};
use session::packets::HEADER_SNAP_LENGTH;
use text::parse::Powers;

const AFTER: &str = "\
Examples:
  netwhy capture -i eth0 -w web.pcapng tcp port 443
  netwhy capture -i any -w all.pcapng --for 30s
  netwhy capture -i eth0 -i lo -s 96 -w - | tshark -i -
  netwhy capture -i eth0 -w ring.pcapng --file-size 100M --files 10
  netwhy capture --netns web -i any -w web.pcapng 'udp and not port 53'
  netwhy capture -i any --analyse --for 1m        print findings, write no file
  netwhy capture -i eth0 --analyse -w web.pcapng --fail-on warning port 443

With --analyse findings are printed when they appear, and the report at the end;
memory use is bounded, however long it runs.
The filter is a tcpdump filter (man pcap-filter). Needs CAP_NET_RAW; once its
interfaces and files are open, netwhy drops root and becomes the user who ran
sudo, or nobody.
Exit codes: 0 captured, 1 a finding at or above --fail-on, 2 usage,
3 cannot capture or write.";

/// Most interfaces at once: each has its own buffer.
const MAX_INTERFACES: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct CaptureOptions {
    /// Interface, or `any` for all; may be repeated
    #[arg(short, long, value_name = "NAME", required = true)]
    pub(crate) interface: Vec<String>,

    /// File to write (pcapng); `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "analyse")]
    pub(crate) write: Option<PathBuf>,

    /// Diagnose while capturing: print findings at once, the report at the end
    #[arg(short, long)]
    pub(crate) analyse: bool,

    /// tcpdump filter: tcp port 443 and host 198.18.0.7 [default: all packets]
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,

    /// Bytes captured of each packet; 0 for all [default: all; without -w headers]
    #[arg(short, long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(SNAP_LENGTH)))]
    pub(crate) snap_length: Option<u32>,

    /// Also capture frames for other hosts (promiscuous mode)
    #[arg(long, conflicts_with = "no_promiscuous")]
    pub(crate) promiscuous: bool,

    /// Capture only frames to and from this host, which is the default
    #[arg(short = 'p', long)]
    pub(crate) no_promiscuous: bool,

    /// Stop after this time: 3s, 500ms, 2m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub(crate) time: Option<Duration>,

    /// Stop after this number of packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Start a new file before one exceeds this size: 100M, 1G (powers of 1024)
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = file_size)]
    pub(crate) file_size: Option<u64>,

    /// Start a new file when one is this number of seconds old
    #[arg(short = 'G', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) file_seconds: Option<u64>,

    /// Keep at most this number of files (up to 1000), then overwrite the oldest
    /// [default: no limit]
    #[arg(short = 'W', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) files: Option<u32>,

    /// Buffer for packets that are not written yet, per interface
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer_size)]
    pub(crate) buffer: u64,

    /// Do not drop root while capturing
    #[arg(long)]
    pub(crate) keep_root: bool,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    #[command(flatten)]
    pub(crate) report: ReportOptions,

    /// Maximum number of streams in the report [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

impl CaptureOptions {
    /// The filter as one string.
    pub(crate) fn filter(&self) -> String {
        self.filter.join(" ")
    }

    /// Bytes captured of a packet.
    pub(crate) fn snap_length(&self) -> u32 {
        match self.snap_length {
            Some(0) => SNAP_LENGTH,
            Some(bytes) => bytes,
            None if self.write.is_none() => HEADER_SNAP_LENGTH,
            None => SNAP_LENGTH,
        }
    }

    /// Whether packets are written to standard output.
    pub(crate) fn to_standard(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }

    /// The file with all packets, if there is one.
    pub(crate) fn one_file(&self) -> Option<String> {
        let file = self.write.as_ref().filter(|_| !self.rotates() && !self.to_standard());
        file.map(|file| file.display().to_string())
    }

    /// Whether there may be several files.
    pub(crate) fn rotates(&self) -> bool {
        self.file_size.is_some() || self.file_seconds.is_some()
    }

    /// Options that exclude each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.interface.len() > MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces: use -i any"));
        }
        let mut known = HashSet::new();
        if let Some(twice) = self.interface.iter().find(|name| !known.insert(*name)) {
            return Err(format!("-i {twice} is given twice"));
        }
        if self.promiscuous && self.interface.iter().any(|name| name == ANY) {
            return Err("--promiscuous needs interfaces by name, not any".to_string());
        }
        if self.files.is_some() && !self.rotates() {
            return Err("--files needs --file-size or --file-seconds".to_string());
        }
        if self.rotates() && self.to_standard() {
            return Err("standard output is one file: name a file with -w".to_string());
        }
        if self.write.is_none() && self.rotates() {
            return Err("--file-size, --file-seconds and --files need -w".to_string());
        }
        self.check_report()
    }

    fn check_report(&self) -> Result<(), String> {
        let report = &self.report;
        let asked = [
            (report.json, "--json"),
            (report.output.is_some(), "--output"),
            (report.fail_on.is_some(), "--fail-on"),
            (self.top.is_some(), "--top"),
        ];
        if let Some((_, name)) = asked.iter().find(|(given, _)| *given && !self.analyse) {
            return Err(format!("{name} is an option of the report: it needs --analyse"));
        }
        if self.analyse && self.to_standard() && report.output.is_none() {
            let text =
                "the packets go to standard output: write the report to a file with --output";
            return Err(text.to_string());
        }
        Ok(())
    }
}

/// A size in powers of 1024, or in bytes.
fn size(text: &str) -> Option<u64> {
    text::parse::bytes(text, Powers::Binary)
}

fn file_size(text: &str) -> Result<u64, String> {
    /// Room for the blocks at the beginning and the end of a file.
    const MIN_BYTES: u64 = 4096;
    let size = size(text).ok_or("must be a number with K, M or G: 100M")?;
    if size < MIN_BYTES { Err(format!("must be at least {MIN_BYTES}")) } else { Ok(size) }
}

fn buffer_size(text: &str) -> Result<u64, String> {
    let size = size(text).ok_or("must be a number with K, M or G: 16M")?;
    let allowed = MIN_BUFFER_BYTES as u64..=MAX_BUFFER_BYTES as u64;
    if allowed.contains(&size) { Ok(size) } else { Err("must be between 512K and 1G".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(file_size("100M"), Ok(100 << 20));
        assert_eq!(file_size("5000"), Ok(5000));
        assert_eq!(file_size("4KiB"), Ok(4096));
        assert_eq!(buffer_size("1g"), Ok(1 << 30));
        for bad in ["", "M", "-1", "100X", "99999999999999999999", "99999999999T", "1"] {
            assert!(file_size(bad).is_err(), "{bad}");
            assert!(buffer_size(bad).is_err(), "{bad}");
        }
    }
}
