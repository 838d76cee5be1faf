//! What is around an IP packet: tags, tunnels, and where the next header is.

/// Most headers within each other: more is an attack on whatever parses them.
pub(super) const MAX_NESTED_HEADERS: u8 = 16;

/// Tags and tunnels in which a packet was; they distinguish duplicates of one packet, not streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// Innermost VLAN.
    pub vlan: Option<u16>,
    /// Identifier of the innermost tunnel: VXLAN and GENEVE network, GRE key, GTP-U TEID.
    pub tunnel: Option<u32>,
    /// Number of tunnels around it.
    pub tunnels: u8,
    /// Whether this host sent it; only cooked captures have this.
    pub outgoing: Option<bool>,
    /// Low bits of the source MAC address, if there is one.
    pub source_mac_bits: Option<u32>,
}

/// What is at an offset of the captured bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextHeader {
    /// IPv4 or IPv6: its first bits show which.
    Ip(usize),
    /// The payload of an Ethernet type.
    Ether(u16, usize),
    /// An Ethernet frame.
    Frame(usize),
    /// PPP, from its protocol field on.
    Ppp(usize),
}

impl NextHeader {
    /// The same at an offset that is `by` higher.
    pub(super) fn shifted(self, by: usize) -> Self {
        match self {
            NextHeader::Ip(at) => NextHeader::Ip(at + by),
            NextHeader::Ether(kind, at) => NextHeader::Ether(kind, at + by),
            NextHeader::Frame(at) => NextHeader::Frame(at + by),
            NextHeader::Ppp(at) => NextHeader::Ppp(at + by),
        }
    }
}
