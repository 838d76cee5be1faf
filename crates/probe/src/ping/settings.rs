//! What is pinged, and how.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Error;

/// Most targets at once.
pub const MAX_TARGETS: usize = 64;
/// Largest payload of a packet, bytes.
pub const MAX_PAYLOAD_BYTES: usize = 65_000;
/// Packets a second of a flood while no replies come: what `ping -f` sends.
pub(super) const MIN_FLOOD_RATE: u32 = 100;

/// Protocol of the probe packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP echo requests.
    Icmp,
    /// TCP SYNs; connections without the right to raw sockets.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingTarget {
    /// As it was given.
    pub name: String,
    /// Its address and port; ICMP does not use the port.
    pub to: SocketAddr,
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// Payload of each packet, at most [`MAX_PAYLOAD_BYTES`].
    pub payload_bytes: usize,
}

impl PingTarget {
    /// Payload that is sent, bytes: a UDP payload holds the number of the packet.
    pub(super) fn sent_payload_bytes(&self) -> usize {
        match self.protocol {
            Protocol::Udp => self.payload_bytes.max(wire::packet::build::MIN_PAYLOAD_BYTES),
            Protocol::Icmp | Protocol::Tcp => self.payload_bytes,
        }
    }
}

/// How to ping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Packets to each target; `None`: until stopped.
    pub count: Option<u64>,
    /// For how long packets are sent; `None`: until stopped.
    pub duration: Option<Duration>,
    /// Time between two packets to a target.
    pub interval: Duration,
    /// Flood: send when a reply arrives, or [100 a second](MIN_FLOOD_RATE) if that is more; at most
    /// this many packets a second.
    pub flood: Option<u32>,
    /// Whether routers must not fragment packets.
    pub dont_fragment: bool,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Outgoing interface.
    pub interface: Option<String>,
    /// A packet without a reply after this time is lost.
    pub timeout: Duration,
}

impl Default for Settings {
    /// A packet a second without end, a timeout of one second.
    fn default() -> Self {
        Settings {
            count: None,
            duration: None,
            interval: Duration::from_secs(1),
            flood: None,
            dont_fragment: false,
            tos: None,
            ttl: None,
            source: None,
            interface: None,
            timeout: Duration::from_secs(1),
        }
    }
}

impl Settings {
    /// The socket's settings for a target.
    pub(super) fn socket(&self, target: IpAddr) -> sys::probe_socket::Settings {
        sys::probe_socket::Settings {
            v6: target.is_ipv6(),
            with_header: false,
            tos: self.tos,
            dont_fragment: self.dont_fragment,
            source: self.source,
            interface: self.interface.clone(),
        }
    }

    /// Shortest time between two packets to a target.
    pub(super) fn spacing(&self) -> Duration {
        match self.flood {
            Some(rate) => Duration::from_secs(1) / rate.max(1),
            None => self.interval,
        }
    }

    /// Checks these settings for the targets.
    ///
    /// # Errors
    ///
    /// Too many targets or bytes, no interval, a source address of the other family.
    pub(super) fn check(&self, targets: &[PingTarget]) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if targets.is_empty() || targets.len() > MAX_TARGETS {
            return usage(format!("give 1 to {MAX_TARGETS} targets, not {}", targets.len()));
        }
        if targets.iter().any(|target| target.payload_bytes > MAX_PAYLOAD_BYTES) {
            return usage(format!("a packet has at most {MAX_PAYLOAD_BYTES} bytes of payload"));
        }
        if self.flood == Some(0) || self.interval.is_zero() {
            return usage("the rate and the interval must be greater than 0".to_string());
        }
        if let Some(source) = self.source
            && let Some(other) =
                targets.iter().find(|target| target.to.is_ipv6() != source.is_ipv6())
        {
            let to = other.to.ip();
            return usage(format!("{source} cannot be the source of packets to {to}"));
        }
        Ok(())
    }
}
