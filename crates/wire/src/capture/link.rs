//! Link types: the numbers of what a packet in a capture file begins with.
//!
//! Source: <https://www.tcpdump.org/linktypes.html>.

/// A link type as it is numbered in capture files (`LINKTYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family, in the byte order of the capturing machine.
    pub const NULL: Self = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: Self = LinkType(1);
    /// PPP, with or without HDLC's address and control bytes.
    pub const PPP: Self = LinkType(9);
    /// PPP with HDLC framing.
    pub const PPP_HDLC: Self = LinkType(50);
    /// PPPoE session packets.
    pub const PPP_ETHER: Self = LinkType(51);
    /// IPv4 or IPv6, without a link header.
    pub const RAW: Self = LinkType(101);
    /// 802.11.
    pub const IEEE802_11: Self = LinkType(105);
    /// OpenBSD loopback: four bytes of address family, in network order.
    pub const LOOP: Self = LinkType(108);
    /// Linux cooked capture.
    pub const LINUX_SLL: Self = LinkType(113);
    /// 802.11 after a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = LinkType(127);
    /// IPv4.
    pub const IPV4: Self = LinkType(228);
    /// IPv6.
    pub const IPV6: Self = LinkType(229);
    /// Netfilter's log.
    pub const NFLOG: Self = LinkType(239);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = LinkType(276);

    /// Its name in tcpdump, for those that netwhy reads.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL => "NULL",
            Self::ETHERNET => "EN10MB",
            Self::PPP | Self::PPP_HDLC => "PPP",
            Self::PPP_ETHER => "PPP_ETHER",
            Self::RAW => "RAW",
            Self::IEEE802_11 => "IEEE802_11",
            Self::LOOP => "LOOP",
            Self::LINUX_SLL => "LINUX_SLL",
            Self::IEEE802_11_RADIOTAP => "IEEE802_11_RADIO",
            Self::IPV4 => "IPV4",
            Self::IPV6 => "IPV6",
            Self::NFLOG => "NFLOG",
            Self::LINUX_SLL2 => "LINUX_SLL2",
            _ => return None,
        })
    }
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => to.write_str(name),
            None => write!(to, "link type {}", self.0),
        }
    }
}
