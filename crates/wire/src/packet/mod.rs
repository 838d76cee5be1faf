//! Packets: from the bytes of a link to the innermost IP packet and the TCP segment in it.
//!
//! - [`decode`]: through link headers, tags and tunnels
//! - [`ip`]: IPv4 and IPv6 with its extension headers
//! - [`tcp`]: segments and their options
//! - [`udp`]: datagrams of UDP
//! - [`icmp`]: echoes, errors and the packets that they quote
//! - [`build`]: packets of probes, as bytes
//! - [`checksum`]: whether they arrived as they were sent
//!
//! Borrowed bytes, no allocation, no copy. Lengths come from IP headers, never from what was
//! captured; what is cut off is told as such.

pub mod build;
mod checksum;
pub mod icmp;
pub mod ip;
mod link;
pub mod tcp;
mod tunnel;
pub mod udp;

pub use checksum::{Checksum, checksum};
pub use ip::{Fragment, Ip};
pub use tcp::Tcp;
pub use udp::Udp;

use crate::capture::LinkType;

/// Most headers within each other: more is an attack on whoever reads them.
const MAX_NESTED_HEADERS: u8 = 16;

/// The first byte of IPv4 without options.
const V4_WITHOUT_OPTIONS: u8 = 0x45;

/// A packet, down to its innermost IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The innermost IP packet.
    pub ip: Ip<'a>,
    /// Tags and tunnels on the way to it.
    pub encapsulation: Encapsulation,
}

/// Tags and tunnels in which a packet was; they tell copies of one packet apart, not streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// Innermost VLAN.
    pub vlan: Option<u16>,
    /// Network of the innermost tunnel: VXLAN, GENEVE, GRE key, GTP-U TEID.
    pub tunnel: Option<u32>,
    /// Tunnels around it.
    pub tunnels: u8,
    /// Whether this host sent it; told by cooked captures only.
    pub outgoing: Option<bool>,
    /// Low bits of the source's hardware address, where there is one.
    pub source_mac_bits: Option<u32>,
}

/// Why there is no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// The link type is none that netwhy reads.
    #[error("link type that is not read")]
    UnknownLinkType,
    /// Something else than IP: ARP, spanning tree, a control frame.
    #[error("no IP packet")]
    NotIp,
    /// Fewer bytes were captured than its headers have.
    #[error("cut off within its headers")]
    Truncated,
    /// A length or version that cannot be.
    #[error("malformed headers")]
    Malformed,
    /// More headers within each other than any network has.
    #[error("too many headers within each other")]
    TooManyHeaders,
}

/// The innermost IP packet in a captured one. `length` is what the packet had on the wire.
///
/// # Errors
///
/// Why there is none.
#[inline]
pub fn decode(link: LinkType, bytes: &[u8], length: u32) -> Result<Decoded<'_>, DecodeError> {
    let mut path = Encapsulation::default();
    let start = link::start(link, bytes, &mut path)?;
    if let Some(ip) = plain(start, bytes, length) {
        return Ok(Decoded { ip, encapsulation: path });
    }
    let ip = descend(start, length, bytes, &mut path)?;
    Ok(Decoded { ip, encapsulation: path })
}

/// The innermost IP packet in a captured one and the TCP segment in it, when it is what almost all
/// are: TCP in IPv4 in an Ethernet frame, no tag, no tunnel, no fragment. `None`: [`decode`] tells.
#[inline(always)]
pub fn plain_segment(link: LinkType, bytes: &[u8], length: u32) -> Option<(Ip<'_>, Tcp<'_>)> {
    let at = match link {
        LinkType::ETHERNET if bytes.get(12..14)? == link::IPV4.to_be_bytes() => 14,
        LinkType::RAW | LinkType::IPV4 => 0,
        _ => return None,
    };
    let ip = plain(NextHeader::Ip(at), bytes, length)?;
    Tcp::of(&ip).ok().map(|tcp| (ip, tcp))
}

/// What stands at an offset of the captured bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextHeader {
    /// IPv4 or IPv6, told by its first bits.
    Ip(usize),
    /// What an Ethernet type says.
    Ether(u16, usize),
    /// An Ethernet frame.
    Frame(usize),
    /// PPP, from its protocol field on.
    Ppp(usize),
}

/// What almost all packets are: TCP in IPv4 in an Ethernet frame, no tag, no tunnel, no fragment.
#[inline(always)]
fn plain(start: NextHeader, bytes: &[u8], length: u32) -> Option<Ip<'_>> {
    let at = match start {
        NextHeader::Ip(at) | NextHeader::Ether(link::IPV4, at) => at,
        _ => return None,
    };
    let rest = bytes.get(at..).filter(|rest| rest.first() == Some(&V4_WITHOUT_OPTIONS))?;
    let ip = ip::v4(rest, length.saturating_sub(at as u32)).ok()?;
    (ip.protocol == tcp::PROTOCOL && ip.fragment.is_none()).then_some(ip)
}

fn descend<'a>(
    start: NextHeader,
    length: u32,
    bytes: &'a [u8],
    path: &mut Encapsulation,
) -> Result<Ip<'a>, DecodeError> {
    let mut next = start;
    for _ in 0..MAX_NESTED_HEADERS {
        next = match next {
            NextHeader::Frame(at) => link::ethernet(bytes, at, path)?,
            NextHeader::Ether(kind, at) => link::ether(kind, bytes, at, path)?,
            NextHeader::Ppp(at) => link::ppp(bytes, at)?,
            NextHeader::Ip(at) => {
                let rest = bytes.get(at..).ok_or(DecodeError::Truncated)?;
                let ip = ip::parse(rest, length.saturating_sub(at as u32))?;
                // A fragment has no header of what is inside, or not all of it.
                match tunnel::inside(&ip, path).filter(|_| ip.fragment.is_none()) {
                    // Offsets in it count from its payload.
                    Some(inner) => inner.shifted(at + (rest.len() - ip.after.len())),
                    None => return Ok(ip),
                }
            }
        };
    }
    Err(DecodeError::TooManyHeaders)
}

impl NextHeader {
    fn shifted(self, by: usize) -> Self {
        match self {
            NextHeader::Ip(at) => NextHeader::Ip(at + by),
            NextHeader::Ether(kind, at) => NextHeader::Ether(kind, at + by),
            NextHeader::Frame(at) => NextHeader::Frame(at + by),
            NextHeader::Ppp(at) => NextHeader::Ppp(at + by),
        }
    }
}

/// Two bytes in network order.
#[inline]
fn be16(bytes: &[u8], at: usize) -> Result<u16, DecodeError> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    two.map(|two| u16::from_be_bytes(*two)).ok_or(DecodeError::Truncated)
}

/// Four bytes in network order.
#[inline]
fn be32(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map(|four| u32::from_be_bytes(*four)).ok_or(DecodeError::Truncated)
}

#[cfg(test)]
mod tests;
