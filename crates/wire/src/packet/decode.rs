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
    /// Whether the outermost IP header counts more bytes than the frame has on the wire: the header is
    /// damaged, and receivers discard the packet; or the packet was cut by a tool that gives what is left
    /// as its length. Never known of NFLOG, where the kernel cuts packets, and the frame is what is left.
    pub exceeds_frame: bool,
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
        return Ok(Decoded { ip, encapsulation, exceeds_frame: false });
    }
    let mut exceeds_frame = None;
    let ip = descend(start, length, bytes, &mut encapsulation, &mut exceeds_frame)?;
    let exceeds_frame = link != LinkType::NFLOG && exceeds_frame.unwrap_or(false);
    Ok(Decoded { ip, encapsulation, exceeds_frame })
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

/// TCP in IPv4 without options, no tunnel, no fragment, as long as its header says: almost all packets.
#[inline(always)]
fn plain(start: NextHeader, bytes: &[u8], length: u32) -> Option<Ip<'_>> {
    let at = match start {
        NextHeader::Ip(at) | NextHeader::Ether(link::IPV4, at) => at,
        _ => return None,
    };
    let rest = bytes.get(at..).filter(|rest| rest.first() == Some(&V4_WITHOUT_OPTIONS))?;
    let length = length.saturating_sub(at as u32);
    let ip = ip::v4(rest, length).ok()?;
    let is_plain =
        ip.protocol == tcp::PROTOCOL && ip.fragment.is_none() && !exceeds(&ip, rest, length);
    is_plain.then_some(ip)
}

/// Whether the header of an IP packet at the front of `bytes` counts more than the `length` bytes that there
/// are on the wire from it on.
#[inline(always)]
fn exceeds(ip: &Ip<'_>, bytes: &[u8], length: u32) -> bool {
    let header = (bytes.len() - ip.after.len()) as u32;
    ip.length > length.saturating_sub(header)
}

fn descend<'a>(
    start: NextHeader,
    length: u32,
    bytes: &'a [u8],
    encapsulation: &mut Encapsulation,
    exceeds_frame: &mut Option<bool>,
) -> Result<Ip<'a>, DecodeError> {
    let mut next = start;
    for _ in 0..MAX_NESTED_HEADERS {
        next = match next {
            NextHeader::Frame(at) => link::ethernet(bytes, at, encapsulation)?,
            NextHeader::Ether(kind, at) => link::ether(kind, bytes, at, encapsulation)?,
            NextHeader::Ppp(at) => link::ppp(bytes, at)?,
            NextHeader::Ip(at) => {
                let rest = bytes.get(at..).ok_or(DecodeError::Truncated)?;
                let length = length.saturating_sub(at as u32);
                let ip = ip::parse(rest, length)?;
                exceeds_frame.get_or_insert(exceeds(&ip, rest, length));
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
