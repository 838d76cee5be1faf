//! The options of `netwhy sockets`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::options::{FocusOptions, NetnsOptions, window};

const AFTER: &str = "\
Examples:
  netwhy sockets --port 443              sockets of one port, as ss -ti
  netwhy sockets -l                      the queue of each listener, as ss -ltn
  netwhy sockets -ap                     all sockets with their processes
  netwhy sockets --sort retrans --top 5
  netwhy sockets --group-by process
  netwhy sockets -l --sort drops --watch";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct SocketsOptions {
    #[command(flatten)]
    pub(crate) focus: FocusOptions,

    #[command(flatten)]
    pub(crate) netns: NetnsOptions,

    /// Only listeners: the length of each queue (RECV-Q), its limit (SEND-Q), what was
    /// dropped because it was full or for another reason, and the process
    #[arg(short, long, conflicts_with_all = ["state", "all", "group_by"])]
    pub(crate) listening: bool,

    /// Also listeners and sockets in TIME-WAIT
    #[arg(short, long, conflicts_with = "state")]
    pub(crate) all: bool,

    /// Only sockets in these states: estab, time-wait, listen, ... [default: all
    /// except listen and time-wait]
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) state: Vec<String>,

    /// Sort by this figure, largest first
    #[arg(long, value_name = "FIGURE")]
    pub(crate) sort: Option<Figure>,

    /// Print only the first N
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Print sums of the sockets that have this in common
    #[arg(long, value_name = "FIELD")]
    pub(crate) group_by: Option<GroupBy>,

    /// Show the process of each socket
    #[arg(short, long)]
    pub(crate) processes: bool,

    /// Repeat every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1, default_missing_value = "1s")]
    pub(crate) watch: Option<Duration>,

    /// Print JSON, one socket per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A figure of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Bytes received and not yet read
    RecvQueue,
    /// Bytes written and not yet acknowledged
    SendQueue,
    /// Smoothed round-trip time
    Rtt,
    /// Retransmitted segments
    Retrans,
    /// Congestion window in segments
    Cwnd,
    /// Bytes acknowledged by the peer
    Sent,
    /// Bytes received
    Received,
    /// Delivery rate
    Rate,
    /// Time limited by the peer's window
    RwndLimited,
    /// Time limited by the send buffer
    SndbufLimited,
    /// Time since the last data in either direction
    Idle,
    /// Buffer memory in use
    Memory,
    /// Packets dropped; of a listener: SYNs and connections
    Drops,
}

/// How sockets are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// Process that holds the socket
    Process,
    /// TCP state
    State,
    /// Local port
    LocalPort,
    /// Remote address
    Peer,
    /// Remote port
    RemotePort,
    /// Congestion control algorithm
    Congestion,
}
