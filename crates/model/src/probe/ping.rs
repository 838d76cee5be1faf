//! Round trips of single packets.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Round trips to one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {
    /// The target as it was given.
    pub target: String,
    /// Its address.
    pub address: Option<IpAddr>,
    /// What was sent.
    pub method: PingMethod,
    /// The port that it was sent to; `None` for ICMP.
    pub port: Option<u16>,
    /// Bytes of payload in each packet.
    pub payload_bytes: u32,
    /// From the first packet to the end, milliseconds.
    pub duration_ms: f64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that the target answered within the time out, in any of the ways of `answers`.
    pub answered: u64,
    /// Packets that it did not, those that a router answered with an error among them.
    pub lost: u64,
    /// Packets that were still waited for at the end: neither answered nor lost.
    pub waiting: u64,
    /// Answers that came after the time out; they count as lost.
    pub late: u64,
    /// Answers to packets that had been answered before.
    pub duplicates: u64,
    /// Packets that this host could not send: no route, no room, a filter. Not in `sent`.
    pub unsent: u64,
    /// Why the last of these could not be sent.
    pub unsent_why: Option<String>,
    /// Round trips of the answers; `None` without any.
    pub round_trip: Option<PingTimes>,
    /// Who answered what, most frequent first; bounded, those beyond are not told apart.
    pub replies: Vec<PingReplies>,
    /// By which clock, and how far it can be trusted.
    pub clock: PingClock,
}

/// What is sent to measure a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PingMethod {
    /// ICMP echo requests.
    #[default]
    Icmp,
    /// TCP SYNs; the connection is never completed.
    TcpSyn,
    /// TCP connections that are opened and closed again.
    TcpConnect,
    /// UDP datagrams.
    Udp,
}

/// The spread of round trips, milliseconds. Percentiles are exact to 0.1 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingTimes {
    /// Round trips.
    pub samples: u64,
    /// Shortest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Longest.
    pub max_ms: f64,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// 90 % of them took no longer.
    pub p90_ms: f64,
    /// 99 % of them took no longer.
    pub p99_ms: f64,
    /// Mean difference between a round trip and the one before (IPDV of RFC 5481, absolute values);
    /// `None` for one.
    pub jitter_ms: Option<f64>,
}

/// Answers of one kind by one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingReplies {
    /// What was answered.
    pub kind: ReplyKind,
    /// Who did.
    pub from: IpAddr,
    /// How often.
    pub count: u64,
}

/// How the times were taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingClock {
    /// Round trips of which the kernel told both when the packet left and when the answer came.
    pub by_kernel: u64,
    /// Round trips that this process timed itself: its own delays are in them.
    pub by_process: u64,
    /// Where the kernel told both: how much longer the round trip was by this process's own clock,
    /// microseconds, median. It is the error of the times that it takes itself.
    pub process_adds_p50_us: Option<f64>,
    /// The same, 99th percentile.
    pub process_adds_p99_us: Option<f64>,
}

/// What came back for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReplyKind {
    /// ICMP echo reply.
    EchoReply,
    /// TCP SYN-ACK: the port is open.
    SynAck,
    /// TCP RST: the port is closed.
    Reset,
    /// A UDP datagram.
    Datagram,
    /// ICMP: the time to live ended there; every hop of a route answers so.
    TimeExceeded,
    /// ICMP: no route to that network.
    NetUnreachable,
    /// ICMP: the host does not answer on its link.
    HostUnreachable,
    /// ICMP: the host does not speak that protocol.
    ProtocolUnreachable,
    /// ICMP: nothing listens on that port.
    PortUnreachable,
    /// ICMP: larger than the next link takes, and it may not be fragmented.
    TooBig,
    /// ICMP: a filter forbids it.
    Prohibited,
    /// ICMP: the route that the sender asked for failed.
    SourceRouteFailed,
    /// ICMP: a precedence rule of a router forbids it.
    Precedence,
    /// ICMP: the header was not understood.
    BadHeader,
    /// Another ICMP error.
    OtherError,
}

impl ReplyKind {
    /// In words, as a line has them.
    pub fn words(self) -> &'static str {
        match self {
            ReplyKind::EchoReply => "echo reply",
            ReplyKind::SynAck => "SYN-ACK",
            ReplyKind::Reset => "RST (port closed)",
            ReplyKind::Datagram => "UDP answer",
            ReplyKind::TimeExceeded => "time to live exceeded",
            ReplyKind::NetUnreachable => "network unreachable",
            ReplyKind::HostUnreachable => "host unreachable",
            ReplyKind::ProtocolUnreachable => "protocol unreachable",
            ReplyKind::PortUnreachable => "port unreachable",
            ReplyKind::TooBig => "too large for the next link",
            ReplyKind::Prohibited => "forbidden by a filter",
            ReplyKind::SourceRouteFailed => "source route failed",
            ReplyKind::Precedence => "forbidden by precedence",
            ReplyKind::BadHeader => "header not understood",
            ReplyKind::OtherError => "ICMP error",
        }
    }

    /// The mark that traceroute puts behind a time: `!H`, `!N`, `!P`, `!X`, …; none for what is
    /// expected.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            ReplyKind::NetUnreachable => Some("!N"),
            ReplyKind::HostUnreachable => Some("!H"),
            ReplyKind::ProtocolUnreachable => Some("!P"),
            ReplyKind::TooBig => Some("!F"),
            ReplyKind::Prohibited => Some("!X"),
            ReplyKind::SourceRouteFailed => Some("!S"),
            ReplyKind::Precedence => Some("!V"),
            ReplyKind::BadHeader | ReplyKind::OtherError => Some("!?"),
            ReplyKind::EchoReply
            | ReplyKind::SynAck
            | ReplyKind::Reset
            | ReplyKind::Datagram
            | ReplyKind::TimeExceeded
            | ReplyKind::PortUnreachable => None,
        }
    }

    /// Whether it is an ICMP error.
    pub fn is_error(self) -> bool {
        !matches!(
            self,
            ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset | ReplyKind::Datagram
        )
    }
}

/// Round trips from several places while bulk transfers run from each of them in turn: which link is
/// limited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderLoad {
    /// Who was pinged, as given.
    pub target: String,
    /// What was downloaded.
    pub url: String,
    /// From where: the first is where netwhy runs, unless other places were named.
    pub vantage_points: Vec<String>,
    /// What was measured, one phase after the other; the first is idle.
    pub phases: Vec<LoadPhase>,
    /// What follows from it.
    pub verdict: LoadVerdict,
}

/// One phase: some transfers at one place, pings from all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPhase {
    /// Where the transfers ran: an index of `places`; `None` in the idle phase.
    pub loaded: Option<usize>,
    /// Transfers at once.
    pub transfers: u32,
    /// How long they were measured, milliseconds.
    pub duration_ms: f64,
    /// Bytes of bodies and heads that all of them received in that time.
    pub received_bytes: u64,
    /// The same a second, with what the headers of full-size segments add on an Ethernet link: bits
    /// a second on the wire, an estimate.
    pub wire_bits_per_s: Option<f64>,
    /// Why a transfer failed, if one did.
    pub failed: Option<String>,
    /// Round trips from each place; `None` where none came back. As many as `places`.
    pub pings: Vec<Option<PingTimes>>,
    /// Share of pings lost from each place, 0 to 1. As many as `places`.
    pub lost: Vec<f64>,
}

/// Which link is limited, by pings under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadVerdict {
    /// Which part of the way fills up.
    pub link: LimitedLink,
    /// Its rate on the wire, bits a second, an estimate; `None` when no link is limited.
    pub wire_bits_per_s: Option<f64>,
    /// Places behind the limited link: their round trips rise while any of them transfers.
    pub behind: Vec<usize>,
    /// Places on the other side of it.
    pub before: Vec<usize>,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
}

/// Which part of the way is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LimitedLink {
    /// No round trip rose: the transfers filled no queue.
    #[default]
    None,
    /// A link that several places share, and not all: it is in the middle.
    Middle,
    /// A link that all places share: next to the server, or in the middle before all of them.
    Shared,
    /// The link of one place alone.
    Own,
    /// Round trips rose, but not so that a link can be named.
    Unclear,
}
