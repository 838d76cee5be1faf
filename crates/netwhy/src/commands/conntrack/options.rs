//! The options of `netwhy conntrack`.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::options::{NetnsOptions, window};

/// Lines of a group when the user does not choose how many.
pub(super) const DEFAULT_TOP: usize = 10;

const AFTER: &str = "\
Examples:
  netwhy conntrack                       how full the table is, and of what
  netwhy conntrack --group-by source --top 20
  netwhy conntrack --list --state time_wait
  netwhy conntrack --list --sort timeout --top 5
  netwhy conntrack --port 443 --watch 5s";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ConntrackOptions {
    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Read all entries of a large table instead of a random sample of 100,000
    #[arg(long, conflicts_with = "list")]
    pub(crate) exact: bool,

    /// List the entries instead of grouping them
    #[arg(long)]
    pub(crate) list: bool,

    /// Only entries of this protocol: tcp, udp, icmp, ... or its number
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<String>,

    /// Only TCP entries in this state: established, time_wait, ...
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

    /// Maximum number of lines per group [default: 10] or of the list [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Show only this group
    #[arg(long, value_name = "FIELD", conflicts_with = "list")]
    pub(crate) group_by: Option<GroupBy>,

    /// Sort the list by this figure, largest first (keeps the list in memory)
    #[arg(long, value_name = "FIGURE", requires = "list")]
    pub(crate) sort: Option<Figure>,

    /// Repeat every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How entries are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// Protocol
    Protocol,
    /// TCP state
    State,
    /// Source address of the original direction
    Source,
    /// Destination address of the original direction
    Destination,
    /// Destination port of the original direction
    Port,
}

/// The figures by which the list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Time until the entry expires
    Timeout,
    /// Bytes in both directions (needs net.netfilter.nf_conntrack_acct=1)
    Bytes,
    /// Packets in both directions (needs net.netfilter.nf_conntrack_acct=1)
    Packets,
}
