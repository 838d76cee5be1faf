//! The hops on the way to a host.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::ReplyKind;

/// The way to one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// The target as it was given.
    pub target: String,
    /// Its address.
    pub address: Option<IpAddr>,
    /// What was sent.
    pub method: TraceMethod,
    /// The port that it was sent to; `None` for ICMP.
    pub port: Option<u16>,
    /// How long it took, milliseconds.
    pub duration_ms: f64,
    /// Whether all packets were of one flow: then balancers send all of them the same way.
    pub one_flow: bool,
    /// Whether the target itself answered.
    pub reached: bool,
    /// The hops from the first one on, up to the one that answered as the target, or up to the last
    /// that answered at all and one silent one after it.
    pub hops: Vec<Hop>,
    /// Largest packet that reached the target without fragmentation, bytes with IP header; `None`
    /// when it was not looked for or not found.
    pub path_mtu: Option<u32>,
    /// What was seen of the way as a whole, one sentence each.
    pub notes: Vec<String>,
}

/// What is sent to find a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TraceMethod {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP SYNs.
    Tcp,
    /// ICMP echo requests.
    Icmp,
}

/// A hop of a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hop {
    /// How many hops away, from 1.
    pub distance: u8,
    /// Packets sent so far. A hop that was silent while one behind it answered is asked once more, and
    /// its first packets do not count.
    pub sent: u64,
    /// Packets that are over: answered, or silent for the whole time out.
    pub finished: u64,
    /// Packets that were answered.
    pub answered: u64,
    /// Who answered, most frequent first; several where ways divide. Bounded.
    pub routers: Vec<Router>,
    /// The latest packets, oldest first: at most as many as one round has.
    pub probes: Vec<HopProbe>,
    /// Round trips; `None` without any.
    pub round_trip: Option<HopTimes>,
    /// Largest packet that reached this hop without fragmentation, bytes with IP header.
    pub mtu: Option<u32>,
    /// Whether it answered fewer packets than a hop behind it: then it limits its answers, and the
    /// packets themselves were not lost there.
    pub limits_replies: bool,
    /// What the packets looked like when they arrived here, where it differs from what was sent; one
    /// sentence each.
    pub changes: Vec<String>,
}

/// Who answered at a hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Router {
    /// Its address.
    pub address: IpAddr,
    /// Its name by the resolver; not to be trusted, as whoever owns the address chooses it.
    pub name: Option<String>,
    /// Packets that it answered.
    pub answered: u64,
    /// What it answered last.
    pub kind: ReplyKind,
    /// MPLS labels that the packets had there, outermost first (RFC 4950).
    pub mpls: Vec<MplsLabel>,
}

/// An entry of a stack of MPLS labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MplsLabel {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub class: u8,
    /// Time to live.
    pub ttl: u8,
}

/// One packet of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopProbe {
    /// Who answered; `None` for silence.
    pub from: Option<IpAddr>,
    /// What.
    pub kind: Option<ReplyKind>,
    /// Round trip, milliseconds.
    pub ms: Option<f64>,
}

/// Round trips to a hop, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopTimes {
    /// Latest.
    pub last_ms: f64,
    /// Shortest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// Longest.
    pub max_ms: f64,
    /// Mean difference between a round trip and the one before; `None` for one.
    pub jitter_ms: Option<f64>,
}
