//! What `netwhy sockets` can be asked.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::options::{FocusOptions, NetnsOptions, window};

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
    pub(crate) sort: Option<Figure>,

    /// Only the first N
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Add up the sockets that have this in common
    #[arg(long, value_name = "WHAT")]
    pub(crate) group_by: Option<GroupBy>,

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

/// A figure of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Bytes received and not yet read
    RecvQueue,
    /// Bytes written and not yet acknowledged
    SendQueue,
    /// Smoothed round trip
    Rtt,
    /// Segments sent again
    Retrans,
    /// Congestion window, segments
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
    /// Time since data last moved in either direction
    Idle,
    /// Buffer memory in use
    Memory,
}

/// What sockets are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// The process that holds them
    Process,
    /// Their state
    State,
    /// Their local port
    LocalPort,
    /// Their remote address
    Peer,
    /// Their remote port
    RemotePort,
    /// Their congestion control
    Congestion,
}
