//! The route to a host, hop by hop.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::ReplyKind;

/// The route to one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// The target as it was given.
    pub target: String,
    /// Its address.
    pub address: Option<IpAddr>,
    /// Kind of probe packets.
    pub method: TraceMethod,
    /// Destination port; `None` for ICMP.
    pub port: Option<u16>,
    /// How long the trace took, milliseconds.
    pub duration_ms: f64,
    /// Whether all packets belong to one flow: load balancers then send them along one path.
    pub one_flow: bool,
    /// Whether the target itself replied.
    pub reached: bool,
    /// The hops from the first TTL to the target; without a reply of the target up to the last hop
    /// that replied and one silent hop after it.
    pub hops: Vec<Hop>,
    /// Largest packet that reached the target without fragmentation, bytes with IP header; `None`
    /// when it was not measured or not found.
    pub path_mtu: Option<u32>,
    /// Observations about the route as a whole, one sentence each.
    pub notes: Vec<String>,
}

/// Kind of packets that trace a route.
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
    /// Time to live that the packets were sent with: the number of the hop, from 1.
    pub ttl: u8,
    /// Packets sent. A hop that was silent while a later one replied is probed once more, and the
    /// packets before do not count.
    pub sent: u64,
    /// Packets that got a reply or timed out.
    pub completed: u64,
    /// Packets that got a reply.
    pub received: u64,
    /// The routers that replied, most frequent first; several where the path branches. Bounded.
    pub routers: Vec<Router>,
    /// The latest packets, oldest first: at most as many as are sent in a round.
    pub probes: Vec<HopProbe>,
    /// Round-trip times; `None` without a reply.
    pub round_trip: Option<HopTimes>,
    /// Largest packet that reached this hop without fragmentation, bytes with IP header.
    pub mtu: Option<u32>,
    /// Whether it replied to a smaller share of the packets than a later hop: it limits the rate of
    /// its replies, and the packets were not lost there.
    pub rate_limits_replies: bool,
    /// Header fields of the packets that differ here from what was sent, one sentence each.
    pub changes: Vec<String>,
}

/// A router that replied at a hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Router {
    /// Its address.
    pub address: IpAddr,
    /// Its name by reverse look-up; not to be trusted, the owner of the address chooses it.
    pub name: Option<String>,
    /// Its replies.
    pub replies: u64,
    /// Kind of its latest reply.
    pub kind: ReplyKind,
    /// MPLS label stack of the packets there, outermost first (RFC 4950).
    pub mpls: Vec<MplsLabel>,
}

/// An entry of an MPLS label stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MplsLabel {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub traffic_class: u8,
    /// Time to live.
    pub ttl: u8,
}

/// One packet to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopProbe {
    /// Sender of the reply; `None` without a reply.
    pub from: Option<IpAddr>,
    /// Kind of reply.
    pub kind: Option<ReplyKind>,
    /// Round-trip time, milliseconds.
    pub round_trip_ms: Option<f64>,
}

/// Round-trip times to a hop, milliseconds.
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
    /// Mean difference between consecutive round-trip times; `None` with one sample.
    pub jitter_ms: Option<f64>,
}
