//! Through link headers, tags and tunnels to the innermost IP packet.

use super::encapsulation::{Encapsulation, MAX_NESTED_HEADERS, NextHeader};
use super::error::DecodeError;
use super::ip::{self, Ip};
use super::tcp::{self, Tcp};
use super::{link, tunnel};
use crate::capture::LinkType;

/// The first byte of IPv4 without options.
const V4_WITHOUT_OPTIONS: u8 = 0x45;

/// A packet, down to its innermost IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The innermost IP packet.
    pub ip: Ip<'a>,
    /// Tags and tunnels around it.
    pub encapsulation: Encapsulation,
}

/// The innermost IP packet in a captured one, whose length on the wire is `length`.
///
/// # Errors
///
/// Why there is none.
#[inline]
pub fn decode(link: LinkType, bytes: &[u8], length: u32) -> Result<Decoded<'_>, DecodeError> {
    let mut encapsulation = Encapsulation::default();
    let start = link::start(link, bytes, &mut encapsulation)?;
    if let Some(ip) = plain(start, bytes, length) {
        return Ok(Decoded { ip, encapsulation });
    }
    let ip = descend(start, length, bytes, &mut encapsulation)?;
    Ok(Decoded { ip, encapsulation })
}

/// The innermost IP packet in a captured one and the TCP segment in it, if it is what almost all are: TCP
/// in IPv4 in an Ethernet frame, no tag, no tunnel, no fragment. `None`: use [`decode`].
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

/// TCP in IPv4 without options, no tunnel, no fragment: almost all packets.
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
    encapsulation: &mut Encapsulation,
) -> Result<Ip<'a>, DecodeError> {
    let mut next = start;
    for _ in 0..MAX_NESTED_HEADERS {
        next = match next {
            NextHeader::Frame(at) => link::ethernet(bytes, at, encapsulation)?,
            NextHeader::Ether(kind, at) => link::ether(kind, bytes, at, encapsulation)?,
            NextHeader::Ppp(at) => link::ppp(bytes, at)?,
            NextHeader::Ip(at) => {
                let rest = bytes.get(at..).ok_or(DecodeError::Truncated)?;
                let ip = ip::parse(rest, length.saturating_sub(at as u32))?;
                // A fragment has no header of what is inside, or not all of it.
                match tunnel::inside(&ip, encapsulation).filter(|_| ip.fragment.is_none()) {
                    // Its offsets count from the payload.
                    Some(inner) => inner.shifted(at + (rest.len() - ip.after.len())),
                    None => return Ok(ip),
                }
            }
        };
    }
    Err(DecodeError::TooManyHeaders)
}
