//! The command line: what can be asked, in which words. No work is done here.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use model::{Focus, Severity};

/// Shortest and longest window.
const WINDOW: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(24 * 3600);

const AFTER: &str = "\
Examples:
  netwhy                       watch this host for 10 seconds, name the causes
  netwhy --for 3s --port 443   only what has to do with port 443
  netwhy -- curl -s http://198.18.0.1/    watch while curl runs
  netwhy --capture             with the packets, and causes that only they show
  netwhy --capture --interface eth0 --port 443
  netwhy --netns web --json    a network namespace, for programs
  netwhy explain accept-queue-overflow

Exit codes: 0 ran, 1 a finding at or above --fail-on, 2 usage,
3 could not observe. With a COMMAND: the command's own.";

/// Why is my network slow? Watches this host, names the cause with its evidence.
#[derive(Debug, Parser)]
#[command(name = "netwhy", version, about, long_about = None, after_help = AFTER)]
#[command(args_conflicts_with_subcommands = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) watch: WatchOptions,

    /// Watch while this command runs; its output and exit code are kept, the
    /// report goes to standard error
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Explain one cause, or list them all
    Explain(ExplainOptions),
    /// Save the evidence of a window to a file
    Record(RecordOptions),
    /// Diagnose saved evidence, on any machine, without root
    Diagnose(DiagnoseOptions),
    /// List the TCP sockets with what the kernel knows of them
    Sockets(SocketsOptions),
    /// Show the connection-tracking table, grouped or listed
    Conntrack(ConntrackOptions),
    /// Capture packets of interfaces into pcapng files
    Capture(crate::capture::CaptureOptions),
    /// Diagnose captures: causes, the packets that prove them, where the time went
    Pcap(crate::pcap::PcapOptions),
    /// Measure round trips: ICMP, TCP SYN, UDP; and under load
    Ping(crate::ping::PingOptions),
    /// Show the hops on the way to a host, all at once
    Trace(crate::trace::TraceOptions),
    /// Load an HTTP server, measure it, and say why it was slow
    Http(crate::http::HttpOptions),
    /// Transfer in bulk or by request and answer, beside what theory says
    Transfer(crate::transfer::TransferOptions),
    /// Build networks, break them in a known way, and see whether netwhy names it
    #[command(subcommand)]
    Lab(LabCommand),
}

const LAB_AFTER: &str = "\
Examples:
  netwhy lab list                      what can be broken
  netwhy lab run accept-queue-overflow one fault, with real programs, and its remedy
  netwhy lab run ./mine.toml --seed 7  a file of your own, its parameters drawn
  netwhy lab shell healthy-gateway gw  a shell on a host of the lab
  netwhy lab score --vary 5            every scenario, five times: the score

A lab needs root, makes network namespaces of its own, and loads nothing else.
Exit codes: 0 as expected, 1 something missed, wrongly named or not mended,
2 usage, 3 could not run.";

#[derive(Debug, Subcommand)]
#[command(after_help = LAB_AFTER)]
pub(crate) enum LabCommand {
    /// List the scenarios and the causes that each expects
    List(LabListOptions),
    /// Run scenarios: build, load, diagnose, mend, measure again
    #[command(after_help = LAB_AFTER)]
    Run(LabRunOptions),
    /// Run all scenarios, several times each, and count what was named and missed
    #[command(after_help = LAB_AFTER)]
    Score(LabScoreOptions),
    /// A shell on a host of a running lab, or of one that is built for it
    #[command(after_help = LAB_AFTER)]
    Shell(LabShellOptions),
    /// The first process of a host of the lab
    #[command(hide = true)]
    Init,
}

#[derive(Debug, Args)]
pub(crate) struct LabListOptions {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunOptions {
    /// Scenarios by name (netwhy lab list), or files of your own
    #[arg(required = true, value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,

    /// Draw the parameters with this seed [default: as the scenario has them]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Only see whether the fault is named, do not mend it
    #[arg(long)]
    pub(crate) no_mend: bool,

    /// Leave the network standing until Ctrl-C, to look around
    #[arg(long)]
    pub(crate) keep: bool,

    /// Keep captures in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) captures: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabScoreOptions {
    /// Only these scenarios
    #[arg(value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,

    /// Runs of each, every one with parameters drawn anew [default: one, as the
    /// scenarios have them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) vary: Option<u64>,

    /// First seed of these runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Only see whether faults are named, do not mend them
    #[arg(long)]
    pub(crate) no_mend: bool,

    /// Write the score as Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabShellOptions {
    /// Scenario by name, or a file
    pub(crate) scenario: String,

    /// Host; the first one if absent
    pub(crate) host: Option<String>,

    /// What to run there instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// How long to watch: 3s, 500ms, 2m [default: 10s, with COMMAND: until it ends]
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
}

#[derive(Debug, Args)]
pub(crate) struct FocusOptions {
    /// Only sockets with this local or remote port
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,

    /// Only sockets of this process
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,

    /// Only connections with this address
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub(crate) peer: Vec<IpAddr>,
}

impl FocusOptions {
    pub(crate) fn focus(&self) -> Focus {
        Focus { ports: self.port.clone(), pids: self.pid.clone(), peers: self.peer.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PacketOptions {
    /// Capture the window's TCP packets and analyse them too; nothing is written
    #[arg(long)]
    pub(crate) capture: bool,

    /// With --capture: only this interface; may be given several times [default: all]
    #[arg(long, value_name = "NAME", requires = "capture")]
    pub(crate) interface: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NetnsOptions {
    /// Look into a network namespace: a name of `ip netns`, or a process id
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) netns: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Print JSON (its schema is in docs/schema)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Exit with 1 when a finding is at least this severe
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,

    /// Colours: when
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FailOn {
    Info,
    Warning,
    Critical,
}

impl FailOn {
    pub(crate) fn severity(self) -> Severity {
        match self {
            FailOn::Info => Severity::Info,
            FailOn::Warning => Severity::Warning,
            FailOn::Critical => Severity::Critical,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The cause, such as accept-queue-overflow; all are listed without it
    pub(crate) cause: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// File to write (zstd-compressed JSON); `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// How long to watch: 3s, 500ms, 2m [default: 10s, with COMMAND: until it ends]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub(crate) time: Option<Duration>,

    #[command(flatten)]
    pub(crate) focus: FocusOptions,

    #[command(flatten)]
    pub(crate) packets: PacketOptions,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Watch while this command runs; its output and exit code are kept
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) exec: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DiagnoseOptions {
    /// Evidence saved by `netwhy record`; `-` for standard input
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

#[derive(Debug, Args)]
pub(crate) struct SocketsOptions {
    #[command(flatten)]
    pub(crate) focus: FocusOptions,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Only sockets in these states: estab, time-wait, listen, … [default: all
    /// but listen and time-wait]
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) state: Vec<String>,

    /// Largest first by this figure
    #[arg(long, value_name = "FIGURE")]
    pub(crate) sort: Option<crate::sockets::Figure>,

    /// Only the first N
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Add up the sockets that have this in common
    #[arg(long, value_name = "WHAT")]
    pub(crate) group_by: Option<crate::sockets::GroupBy>,

    /// Name the process of each socket
    #[arg(short, long)]
    pub(crate) processes: bool,

    /// Again every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<Duration>,

    /// Print JSON, one socket a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConntrackOptions {
    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Read all entries of a large table, and not a random 100,000 of them
    #[arg(long, conflicts_with = "list")]
    pub(crate) exact: bool,

    /// List the entries instead of grouping them
    #[arg(long)]
    pub(crate) list: bool,

    /// Only entries of this protocol: tcp, udp, icmp, … or a number
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<String>,

    /// Only TCP entries in this state: established, time_wait, …
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,

    /// Only entries with this source address (original direction)
    #[arg(long, value_name = "IP")]
    pub(crate) source: Option<IpAddr>,

    /// Only entries with this destination address (original direction)
    #[arg(long, value_name = "IP")]
    pub(crate) destination: Option<IpAddr>,

    /// Only entries with this destination port (original direction)
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Most lines of each group [default: 10], or of the list [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Show only this group
    #[arg(long, value_name = "WHAT", conflicts_with = "list")]
    pub(crate) group_by: Option<crate::conntrack::GroupBy>,

    /// Order of the list: longest timeout first (holds the list in memory)
    #[arg(long, value_name = "FIGURE", requires = "list")]
    pub(crate) sort: Option<crate::conntrack::Figure>,

    /// Again every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A length of time: with a unit, or seconds.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    text::parse::duration_within(text, WINDOW, "between 200ms and 24h")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units_or_are_seconds() {
        assert_eq!(window("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(window("3"), Ok(Duration::from_secs(3)));
        assert_eq!(window("1500ms"), Ok(Duration::from_millis(1500)));
        for bad in ["", "0", "-1", "nan", "inf", "1e300", "3 parsecs", "25h"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_comes_after_two_dashes() {
        let cli = Cli::try_parse_from(["netwhy", "--for", "1s", "--", "curl", "--fail"]).unwrap();
        assert_eq!(cli.exec, ["curl", "--fail"]);
        assert!(Cli::try_parse_from(["netwhy", "curl"]).is_err());
    }
}
