//! The time breakdown: where the time of streams and exchanges went.

use serde::{Deserialize, Serialize};

/// Where time went: each interval of a stream belongs to one of these categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TimeCategory {
    /// The handshake: one round trip.
    Connect,
    /// A SYN or SYN-ACK had to be retransmitted.
    SynWait,
    /// Server think time: it had the request and had not begun to respond.
    ServerThink,
    /// The client had the response and sent no request.
    ClientIdle,
    /// Nagle's algorithm held a small segment until a delayed acknowledgement came.
    DelayedAck,
    /// Data was lost and had to be retransmitted.
    Loss,
    /// The receiver did not read: its window was closed.
    ReceiverStalled,
    /// The receiver's window was full: one window per round trip.
    ReceiveWindow,
    /// The sender had begun a message and had no more data to send yet.
    Application,
    /// Round trips and transmission: the congestion window, the path.
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
            TimeCategory::ClientIdle => "the client sent no request",
            TimeCategory::DelayedAck => "Nagle waits for a delayed ACK",
            TimeCategory::Loss => "lost segments were retransmitted",
            TimeCategory::ReceiverStalled => "the reader's window was closed",
            TimeCategory::ReceiveWindow => "the receive window was full",
            TimeCategory::Application => "the sender had nothing to send",
            TimeCategory::Network => "round trips and transmission",
            TimeCategory::Unexplained => "unexplained",
        }
    }

    /// Whether the time is lost: not spent on work, on the path, or idle.
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

/// What [`TimeCategory::Network`] consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum NetworkPart {
    /// Round trips of the path: from data of one end to the first of the other's answer.
    PathRoundTrips,
    /// Slow start: round trips in which flights grew.
    SlowStart,
    /// After a loss, until as much was sent in a round trip as before: the congestion window was smaller.
    AfterLoss,
    /// As long as the bytes take at the rate of the path, or at that of a sender that paces.
    Transmission,
    /// Pauses that no acknowledgement ended: the sender paces, a shaper holds it back before the capture
    /// point, or its process is slow.
    Pacing,
    /// Pauses of a sender whose flights stayed as large as they were: it waited for room in its send
    /// buffer.
    SendBuffer,
    /// None of these.
    Unexplained,
}

impl NetworkPart {
    /// All of them, in the order of their numbers.
    pub const ALL: [NetworkPart; 7] = [
        NetworkPart::PathRoundTrips,
        NetworkPart::SlowStart,
        NetworkPart::AfterLoss,
        NetworkPart::Transmission,
        NetworkPart::Pacing,
        NetworkPart::SendBuffer,
        NetworkPart::Unexplained,
    ];

    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            NetworkPart::PathRoundTrips => "round trips of the path",
            NetworkPart::SlowStart => "slow start",
            NetworkPart::AfterLoss => "small congestion window after a loss",
            NetworkPart::Transmission => "transmission",
            NetworkPart::Pacing => "the sender's own pace",
            NetworkPart::SendBuffer => "waiting for room in the send buffer",
            NetworkPart::Unexplained => "unexplained while sending",
        }
    }
}

/// Time of one part of [`TimeCategory::Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkShare {
    /// The part.
    pub part: NetworkPart,
    /// Time, microseconds.
    pub time_us: u64,
}

/// Time of one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShare {
    /// The category.
    pub category: TimeCategory,
    /// Time, microseconds.
    pub time_us: u64,
    /// Exchanges with time in it.
    pub exchanges: u64,
}

pub(crate) fn share_of(time_breakdown: &[TimeShare], category: TimeCategory) -> Option<&TimeShare> {
    time_breakdown.iter().find(|share| share.category == category)
}
