//! What `netwhy conntrack` can be asked.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::options::{NetnsOptions, window};

/// Lines of a group, unless asked otherwise.
pub(super) const TOP: usize = 10;

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
    pub(crate) group_by: Option<GroupBy>,

    /// Order of the list: longest timeout first (holds the list in memory)
    #[arg(long, value_name = "FIGURE", requires = "list")]
    pub(crate) sort: Option<Figure>,

    /// Again every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What entries are added up by.
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

/// What a list is sorted by: largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Time until the entry expires
    Timeout,
    /// Bytes in both directions (needs net.netfilter.nf_conntrack_acct=1)
    Bytes,
    /// Packets in both directions (needs net.netfilter.nf_conntrack_acct=1)
    Packets,
}
