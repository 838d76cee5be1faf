//! The budget: where the time of streams and turns went.

use serde::{Deserialize, Serialize};

/// Where time went: each interval of a stream belongs to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TimeCategory {
    /// The handshake: one round trip.
    Connect,
    /// A SYN or its answer had to be sent again.
    SynWait,
    /// The server had the request and had not begun to answer.
    ServerThink,
    /// The client had the answer and asked for nothing.
    ClientIdle,
    /// Nagle's algorithm held a small segment until a delayed acknowledgement came.
    DelayedAck,
    /// Data was lost and had to be sent again.
    Loss,
    /// The receiver did not read: its window was closed.
    ReceiverStalled,
    /// The receiver's window was full: one window a round trip.
    ReceiveWindow,
    /// The sender had begun and had nothing to send.
    Application,
    /// Round trips and transmission: the congestion window, the way.
    Network,
    /// None of these.
    Unexplained,
}

impl TimeCategory {
    /// All of them, in the order of their numbers.
    pub const ALL: [TimeCategory; 11] = [
        TimeCategory::Connect,
        TimeCategory::SynWait,
        TimeCategory::ServerThink,
        TimeCategory::ClientIdle,
        TimeCategory::DelayedAck,
        TimeCategory::Loss,
        TimeCategory::ReceiverStalled,
        TimeCategory::ReceiveWindow,
        TimeCategory::Application,
        TimeCategory::Network,
        TimeCategory::Unexplained,
    ];

    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            TimeCategory::Connect => "handshake",
            TimeCategory::SynWait => "a SYN was not answered",
            TimeCategory::ServerThink => "server think time",
            TimeCategory::ClientIdle => "the client asked for nothing",
            TimeCategory::DelayedAck => "Nagle waits for a delayed ACK",
            TimeCategory::Loss => "lost segments were repeated",
            TimeCategory::ReceiverStalled => "the reader's window was closed",
            TimeCategory::ReceiveWindow => "the receive window was full",
            TimeCategory::Application => "the sender had nothing to send",
            TimeCategory::Network => "round trips and transmission",
            TimeCategory::Unexplained => "unexplained",
        }
    }

    /// Whether it is time lost: neither work nor the way nor nobody's wish.
    pub fn is_lost(self) -> bool {
        matches!(
            self,
            TimeCategory::SynWait
                | TimeCategory::DelayedAck
                | TimeCategory::Loss
                | TimeCategory::ReceiverStalled
                | TimeCategory::ReceiveWindow
        )
    }
}

/// Microseconds of one part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShare {
    /// Which part.
    pub category: TimeCategory,
    /// Time, microseconds.
    pub time_us: u64,
    /// Turns in which it took time.
    pub exchanges: u64,
}
