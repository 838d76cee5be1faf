//! The budget: where the time of streams and turns went.

use serde::{Deserialize, Serialize};

/// Where time went: each interval of a stream belongs to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Part {
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

impl Part {
    /// All of them, in the order of their numbers.
    pub const ALL: [Part; 11] = [
        Part::Connect,
        Part::SynWait,
        Part::ServerThink,
        Part::ClientIdle,
        Part::DelayedAck,
        Part::Loss,
        Part::ReceiverStalled,
        Part::ReceiveWindow,
        Part::Application,
        Part::Network,
        Part::Unexplained,
    ];

    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            Part::Connect => "handshake",
            Part::SynWait => "a SYN was not answered",
            Part::ServerThink => "server think time",
            Part::ClientIdle => "the client asked for nothing",
            Part::DelayedAck => "Nagle waits for a delayed ACK",
            Part::Loss => "lost segments were repeated",
            Part::ReceiverStalled => "the reader's window was closed",
            Part::ReceiveWindow => "the receive window was full",
            Part::Application => "the sender had nothing to send",
            Part::Network => "round trips and transmission",
            Part::Unexplained => "unexplained",
        }
    }

    /// Whether it is time lost: neither work nor the way nor nobody's wish.
    pub fn is_lost(self) -> bool {
        matches!(
            self,
            Part::SynWait
                | Part::DelayedAck
                | Part::Loss
                | Part::ReceiverStalled
                | Part::ReceiveWindow
        )
    }
}

/// Microseconds of one part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// Which part.
    pub part: Part,
    /// Time, microseconds.
    pub us: u64,
    /// Turns in which it took time.
    pub turns: u64,
}
