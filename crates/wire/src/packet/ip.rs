//! IPv4 and IPv6: addresses, lengths, fragments, extension headers.

use std::net::IpAddr;

use super::encapsulation::MAX_NESTED_HEADERS;
use super::error::{DecodeError, be16, be32};

/// Bytes of an IPv4 header without options, and of an IPv6 header.
const V4_HEADER_BYTES: usize = 20;
const V6_HEADER_BYTES: usize = 40;

/// An IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of its payload: 6 is TCP.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The two bits of explicit congestion notification.
    pub ecn: u8,
    /// Identification; `None` for IPv6 that is not fragmented.
    pub id: Option<u32>,
    /// Whether routers must not fragment it; always so for IPv6.
    pub dont_fragment: bool,
    /// Which part of a packet it is; `None` when it is the whole packet.
    pub fragment: Option<Fragment>,
    /// Length of its payload by its header, bytes: transport header and data.
    pub length: u32,
    /// Whether its header has no length (segmentation offload): `length` is then that of the frame.
    pub offloaded: bool,
    /// The part of the payload that was captured.
    pub payload: &'a [u8],
    /// All captured bytes from the payload on, including padding of the frame.
    pub(super) after: &'a [u8],
}

/// A part of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in the packet, bytes.
    pub offset: u32,
    /// Whether more follow.
    pub more: bool,
}

/// Parses the header at the front. `length` is that of the rest of the frame on the wire.
#[inline]
pub(super) fn parse(bytes: &[u8], length: u32) -> Result<Ip<'_>, DecodeError> {
    match bytes.first().ok_or(DecodeError::Truncated)? >> 4 {
        4 => v4(bytes, length),
        6 => v6(bytes, length),
        _ => Err(DecodeError::Malformed),
    }
}

/// The captured part of the payload, and all captured bytes from there on.
#[inline]
fn payload(bytes: &[u8], header: usize, length: u32) -> (&[u8], &[u8]) {
    let after = bytes.get(header..).unwrap_or_default();
    (after.get(..length as usize).unwrap_or(after), after)
}

#[inline(always)]
pub(super) fn v4(bytes: &[u8], frame: u32) -> Result<Ip<'_>, DecodeError> {
    let head: &[u8; V4_HEADER_BYTES] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
    let header = usize::from(head[0] & 15) * 4;
    if header < V4_HEADER_BYTES {
        return Err(DecodeError::Malformed);
    }
    let total = u32::from(u16::from_be_bytes([head[2], head[3]]));
    // Zero: the network card fills in the length (TSO).
    let offloaded = total == 0;
    let total = if offloaded { frame } else { total };
    let length = total.checked_sub(header as u32).ok_or(DecodeError::Malformed)?;
    let part = u16::from_be_bytes([head[6], head[7]]);
    let (more, offset) = (part & 0x2000 != 0, u32::from(part & 0x1fff) * 8);
    let (payload, after) = payload(bytes, header, length);
    Ok(Ip {
        source: IpAddr::from([head[12], head[13], head[14], head[15]]),
        destination: IpAddr::from([head[16], head[17], head[18], head[19]]),
        protocol: head[9],
        ttl: head[8],
        ecn: head[1] & 3,
        id: Some(u32::from(u16::from_be_bytes([head[4], head[5]]))),
        dont_fragment: part & 0x4000 != 0,
        fragment: (more || offset > 0).then_some(Fragment { offset, more }),
        length,
        offloaded,
        payload,
        after,
    })
}

fn v6(bytes: &[u8], frame: u32) -> Result<Ip<'_>, DecodeError> {
    let head: &[u8; V6_HEADER_BYTES] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
    let given = u32::from(u16::from_be_bytes([head[4], head[5]]));
    let address = |at: usize| {
        let bytes: [u8; 16] =
            head.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        IpAddr::from(bytes)
    };
    // Zero: a jumbogram (hop-by-hop option 0xc2), or offload of large packets (BIG TCP).
    let offloaded = given == 0;
    let mut length = if offloaded { frame.saturating_sub(V6_HEADER_BYTES as u32) } else { given };
    let (mut protocol, mut at) = (head[6], V6_HEADER_BYTES);
    let (mut fragment, mut id) = (None, None);
    for _ in 0..MAX_NESTED_HEADERS {
        let size = match protocol {
            // Hop by hop, routing, destination options, mobility, HIP, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => {
                (usize::from(*bytes.get(at + 1).ok_or(DecodeError::Truncated)?) + 1) * 8
            }
            // Authentication: counted in four bytes, less two.
            51 => (usize::from(*bytes.get(at + 1).ok_or(DecodeError::Truncated)?) + 2) * 4,
            44 => {
                let part = be16(bytes, at + 2)?;
                let part_id = be32(bytes, at + 4)?;
                let (offset, more) = (u32::from(part & 0xfff8), part & 1 != 0);
                // An atomic fragment (RFC 6946) is a whole packet.
                fragment = (more || offset > 0).then_some(Fragment { offset, more });
                id = Some(part_id);
                8
            }
            _ => break,
        };
        protocol = *bytes.get(at).ok_or(DecodeError::Truncated)?;
        at += size;
        length = length.checked_sub(size as u32).ok_or(DecodeError::Malformed)?;
        if fragment.is_some_and(|fragment: Fragment| fragment.offset > 0) {
            break;
        }
    }
    let (payload, after) = payload(bytes, at, length);
    Ok(Ip {
        source: address(8),
        destination: address(24),
        protocol,
        ttl: head[7],
        ecn: (head[1] >> 4) & 3,
        id,
        dont_fragment: true,
        fragment,
        length,
        offloaded,
        payload,
        after,
    })
}
