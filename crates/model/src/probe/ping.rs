//! Round-trip times of single packets, idle and under load.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The packets sent to one target, and their round-trip times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {
    /// The target as it was given.
    pub target: String,
    /// Its address.
    pub address: Option<IpAddr>,
    /// Kind of probe packets.
    pub method: PingMethod,
    /// Destination port; `None` for ICMP.
    pub port: Option<u16>,
    /// Payload of each packet, bytes.
    pub payload_bytes: u32,
    /// From the first packet to the end of the measurement, milliseconds.
    pub duration_ms: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets to which the target replied within the timeout, with any kind of reply.
    pub received: u64,
    /// Packets without a reply of the target within the timeout. A router's ICMP error is no reply of
    /// the target.
    pub lost: u64,
    /// Packets whose timeout had not passed at the end: neither received nor lost.
    pub pending: u64,
    /// Replies after the timeout; these packets count as lost.
    pub late: u64,
    /// Further replies to packets that already had one.
    pub duplicates: u64,
    /// Packets that this host could not send: no route, no buffer space, a filter. Not in `sent`.
    pub send_errors: u64,
    /// Why the last of these could not be sent; `None`: all were sent.
    pub last_send_error: Option<String>,
    /// Packets sent a second, from the first to the last; `None`: fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_per_s: Option<f64>,
    /// Packets a second by the interval, or at most by the rate of a flood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_s: Option<f64>,
    /// The smallest MTU that a packet was too large for; `None`: none was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<PingMtu>,
    /// Round-trip times; `None` without a reply.
    pub round_trip: Option<PingTimes>,
    /// Replies by kind and sender, most frequent first; bounded, further kinds are not listed.
    pub replies: Vec<PingReplies>,
    /// Which clock took the times, and its error.
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
    /// TCP SYNs; no connection is established.
    TcpSyn,
    /// TCP connections, each opened and reset.
    TcpConnect,
    /// UDP datagrams.
    Udp,
}

/// The distribution of round-trip times, milliseconds. Percentiles are exact to 0.1 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingTimes {
    /// Round-trip times measured.
    pub samples: u64,
    /// Shortest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Longest.
    pub max_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Mean difference between consecutive round-trip times (IPDV of RFC 5481, absolute values);
    /// `None` with one sample.
    pub jitter_ms: Option<f64>,
}

/// An MTU that a packet was too large for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingMtu {
    /// Bytes of the largest packet, with its IP header.
    pub mtu: u32,
    /// The router that reported it, by ICMP, for its next link; `None`: it is that of this host's
    /// interface or route.
    pub from: Option<IpAddr>,
}

/// Replies of one kind from one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingReplies {
    /// Kind of reply.
    pub kind: ReplyKind,
    /// Its sender.
    pub from: IpAddr,
    /// How many.
    pub count: u64,
}

/// Which clock took the round-trip times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingClock {
    /// Round-trip times for which the kernel time-stamped both the packet and its reply.
    pub kernel_timed: u64,
    /// Round-trip times taken by this process itself: they include its own delays.
    pub process_timed: u64,
    /// By how much the process's own time exceeds that of the kernel where both are known,
    /// microseconds, median: the error of `process_timed`.
    pub process_overhead_p50_us: Option<f64>,
    /// The same, 99th percentile.
    pub process_overhead_p99_us: Option<f64>,
}

/// Kind of reply to a probe packet.
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
    /// ICMP: time to live exceeded in transit; the reply of a hop in a route.
    TimeExceeded,
    /// ICMP: network unreachable, no route to it.
    NetUnreachable,
    /// ICMP: host unreachable, it does not answer ARP or neighbour discovery on its link.
    HostUnreachable,
    /// ICMP: protocol unreachable, the host does not implement it.
    ProtocolUnreachable,
    /// ICMP: port unreachable, nothing listens there.
    PortUnreachable,
    /// ICMP: larger than the MTU of the next link, and it must not be fragmented.
    TooBig,
    /// ICMP: administratively prohibited by a filter.
    Prohibited,
    /// ICMP: source route failed.
    SourceRouteFailed,
    /// ICMP: forbidden by a router's precedence rule.
    Precedence,
    /// ICMP: parameter problem, a bad header.
    BadHeader,
    /// Another ICMP error.
    OtherError,
}

impl ReplyKind {
    /// As it stands in a line of output.
    pub fn description(self) -> &'static str {
        match self {
            ReplyKind::EchoReply => "echo reply",
            ReplyKind::SynAck => "SYN-ACK",
            ReplyKind::Reset => "RST (port closed)",
            ReplyKind::Datagram => "UDP reply",
            ReplyKind::TimeExceeded => "time to live exceeded",
            ReplyKind::NetUnreachable => "network unreachable",
            ReplyKind::HostUnreachable => "host unreachable",
            ReplyKind::ProtocolUnreachable => "protocol unreachable",
            ReplyKind::PortUnreachable => "port unreachable",
            ReplyKind::TooBig => "larger than the next link's MTU",
            ReplyKind::Prohibited => "prohibited by a filter",
            ReplyKind::SourceRouteFailed => "source route failed",
            ReplyKind::Precedence => "prohibited by precedence",
            ReplyKind::BadHeader => "bad header",
            ReplyKind::OtherError => "ICMP error",
        }
    }

    /// The annotation that traceroute(8) prints after a time: `!H`, `!N`, `!P`, `!X`, …; `None` for
    /// replies of a route that works.
    pub fn annotation(self) -> Option<&'static str> {
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

/// Round-trip times from several vantage points, idle and while downloads run at one of them after the
/// other: they show which link is the bottleneck.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderLoad {
    /// The pinged host as given.
    pub target: String,
    /// What was downloaded.
    pub url: String,
    /// Where pings were sent from: `here`, `netns:NAME`, `ssh:HOST`. Those with downloads come first.
    pub vantage_points: Vec<String>,
    /// The phases in their order; the first is idle.
    pub phases: Vec<LoadPhase>,
    /// Which link is the bottleneck.
    pub verdict: LoadVerdict,
}

/// One phase: downloads at one vantage point, pings from all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPhase {
    /// Where the downloads ran: an index of `vantage_points`; `None` in the idle phase.
    pub loaded_vantage_point: Option<usize>,
    /// Concurrent downloads.
    pub downloads: u32,
    /// How long the pings ran, milliseconds.
    pub duration_ms: f64,
    /// Bytes received by all downloads, HTTP heads included.
    pub received_bytes: u64,
    /// The same in bits a second on the wire, with the Ethernet, IP and TCP headers of full-size
    /// segments: an estimate.
    pub wire_bits_per_s: Option<f64>,
    /// Why a download failed, if one did.
    pub error: Option<String>,
    /// Round-trip times from each vantage point, in their order; `None` without a reply.
    pub pings: Vec<Option<PingTimes>>,
    /// Share of the pings lost from each vantage point, in their order, 0 to 1.
    pub loss: Vec<f64>,
}

/// Which link is the bottleneck, from pings under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadVerdict {
    /// Where on the path the queue builds up.
    pub link: LimitedLink,
    /// Its rate on the wire, bits a second, an estimate; `None` when no link is limited.
    pub wire_bits_per_s: Option<f64>,
    /// Vantage points behind the limited link, seen from the server: their round-trip times rise while
    /// any of them downloads.
    pub behind: Vec<usize>,
    /// Vantage points on the server's side of it.
    pub before: Vec<usize>,
    /// What each vantage point shows, one sentence each.
    pub reasons: Vec<String>,
}

/// Which link of the path is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LimitedLink {
    /// No round-trip time rose: the downloads filled no queue.
    #[default]
    None,
    /// A link that several vantage points share, but not all.
    Middle,
    /// A link that all vantage points share: next to the server, or on the common part of the path.
    Shared,
    /// The access link of a single vantage point.
    Access,
    /// Round-trip times rose, but the pattern fits no single link.
    Unclear,
}
