//! What is traced, and how.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::TraceMethod;

use crate::Error;

/// Default size of a packet with its IP header, as traceroute(8) has it; larger where headers need it.
pub(super) const DEFAULT_PACKET_BYTES: usize = 60;
/// Most packets to a hop in a round.
const MAX_QUERIES: u8 = 10;

/// How to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The target as it was given.
    pub name: String,
    /// Its address and port; ICMP does not use the port.
    pub to: SocketAddr,
    /// Kind of packets.
    pub method: TraceMethod,
    /// TTL of the first hop, 1 or more.
    pub first_ttl: u8,
    /// TTL of the last hop.
    pub max_ttl: u8,
    /// Packets to each hop in a round, 1 to 10.
    pub queries: u8,
    /// A packet without a reply after this time is lost.
    pub timeout: Duration,
    /// Whether to find the largest packet that gets through.
    pub find_mtu: bool,
    /// Whether to look up names of addresses.
    pub resolve_names: bool,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Outgoing interface.
    pub interface: Option<String>,
}

impl Settings {
    /// The socket's settings.
    pub(super) fn socket(&self) -> sys::probe_socket::Settings {
        sys::probe_socket::Settings {
            v6: self.to.is_ipv6(),
            with_header: false,
            tos: self.tos,
            dont_fragment: false,
            source: self.source,
            interface: self.interface.clone(),
        }
    }

    /// Checks them.
    ///
    /// # Errors
    ///
    /// No hops, no or too many packets, a source address of the other family.
    pub(super) fn check(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if self.first_ttl == 0 || self.first_ttl > self.max_ttl {
            return usage(format!("there are no hops from {} to {}", self.first_ttl, self.max_ttl));
        }
        if !(1..=MAX_QUERIES).contains(&self.queries) {
            return usage(format!("give 1 to {MAX_QUERIES} packets to each hop"));
        }
        match self.source {
            Some(source) if source.is_ipv6() != self.to.is_ipv6() => {
                usage(format!("{source} cannot be the source of packets to {}", self.to.ip()))
            }
            _ => Ok(()),
        }
    }
}
