//! Link headers: Ethernet with its tags, cooked captures, PPP, 802.11, loopbacks.

use super::encapsulation::{Encapsulation, MAX_NESTED_HEADERS, NextHeader};
use super::error::{DecodeError, be16, be32};
use crate::capture::LinkType;

pub(super) const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and two older types for the same.
const VLANS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: u16 = 0x8864;
/// Ethernet in something else (Transparent Ethernet Bridging).
pub(super) const BRIDGED: u16 = 0x6558;
/// Below this an Ethernet type is a length (IEEE 802.3, clause 3.2.6).
const MIN_ETHER_TYPE: u16 = 0x0600;
/// Bytes of two hardware addresses.
const MAC_ADDRESSES_BYTES: usize = 12;

/// The first header after that of the link.
#[inline]
pub(super) fn start(
    link: LinkType,
    bytes: &[u8],
    encapsulation: &mut Encapsulation,
) -> Result<NextHeader, DecodeError> {
    match link {
        LinkType::ETHERNET => ethernet(bytes, 0, encapsulation),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Ok(NextHeader::Ip(0)),
        LinkType::NULL | LinkType::LOOP => family(bytes),
        LinkType::LINUX_SLL => cooked(bytes, encapsulation),
        LinkType::LINUX_SLL2 => cooked2(bytes, encapsulation),
        LinkType::PPP | LinkType::PPP_HDLC => match bytes.first_chunk() {
            // HDLC's address and control bytes may be there.
            Some([0xff, 0x03]) => Ok(NextHeader::Ppp(2)),
            _ => Ok(NextHeader::Ppp(0)),
        },
        LinkType::PPP_ETHER => pppoe(bytes, 0),
        LinkType::IEEE802_11 => wireless(bytes, 0),
        LinkType::IEEE802_11_RADIOTAP => {
            // Version, padding, then the length, which alone is little-endian.
            let length = be16(bytes, 2)?.swap_bytes();
            wireless(bytes, usize::from(length))
        }
        LinkType::NFLOG => nflog(bytes),
        _ => Err(DecodeError::UnknownLinkType),
    }
}

/// BSD loopback: an address family in the byte order of the capturing machine, or of the network. The
/// families of IPv6 differ between systems: the packet itself shows its version.
fn family(bytes: &[u8]) -> Result<NextHeader, DecodeError> {
    let family = be32(bytes, 0)?;
    match if family > 0xffff { family.swap_bytes() } else { family } {
        2 | 10 | 24 | 28 | 30 => Ok(NextHeader::Ip(4)),
        _ => Err(DecodeError::NotIp),
    }
}

/// An Ethernet frame.
#[inline]
pub(super) fn ethernet(
    bytes: &[u8],
    at: usize,
    encapsulation: &mut Encapsulation,
) -> Result<NextHeader, DecodeError> {
    let kind = be16(bytes, at + MAC_ADDRESSES_BYTES)?;
    encapsulation.source_mac_bits = be32(bytes, at + 8).ok();
    Ok(NextHeader::Ether(kind, at + MAC_ADDRESSES_BYTES + 2))
}

/// The payload of an Ethernet type.
#[inline]
pub(super) fn ether(
    kind: u16,
    bytes: &[u8],
    at: usize,
    encapsulation: &mut Encapsulation,
) -> Result<NextHeader, DecodeError> {
    match kind {
        IPV4 | IPV6 => Ok(NextHeader::Ip(at)),
        _ if VLANS.contains(&kind) => {
            encapsulation.vlan = Some(be16(bytes, at)? & 0x0fff);
            Ok(NextHeader::Ether(be16(bytes, at + 2)?, at + 4))
        }
        PPPOE => pppoe(bytes, at),
        BRIDGED => Ok(NextHeader::Frame(at)),
        _ if MPLS.contains(&kind) => mpls(bytes, at),
        // A length: LLC, then SNAP with a type, or 0x06 for IPv4.
        _ if kind < MIN_ETHER_TYPE => match bytes.get(at..).ok_or(DecodeError::Truncated)? {
            [0xaa, 0xaa, 0x03, _, _, _, high, low, ..] => {
                Ok(NextHeader::Ether(u16::from_be_bytes([*high, *low]), at + 8))
            }
            [0x06, 0x06, 0x03, ..] => Ok(NextHeader::Ip(at + 3)),
            _ => Err(DecodeError::NotIp),
        },
        _ => Err(DecodeError::NotIp),
    }
}

/// Labels up to the last one of the stack. MPLS does not identify its payload: IP by its version, or an
/// Ethernet frame after a control word that begins with four zero bits.
fn mpls(bytes: &[u8], at: usize) -> Result<NextHeader, DecodeError> {
    let mut at = at;
    for _ in 0..MAX_NESTED_HEADERS {
        let label = be32(bytes, at)?;
        at += 4;
        if label & 0x100 != 0 {
            let first = bytes.get(at).ok_or(DecodeError::Truncated)? >> 4;
            return match first {
                4 | 6 => Ok(NextHeader::Ip(at)),
                0 => Ok(NextHeader::Frame(at + 4)),
                _ => Err(DecodeError::NotIp),
            };
        }
    }
    Err(DecodeError::TooManyHeaders)
}

/// A PPPoE session packet: version and type, code, session, length.
fn pppoe(bytes: &[u8], at: usize) -> Result<NextHeader, DecodeError> {
    match be16(bytes, at)? {
        0x1100 => Ok(NextHeader::Ppp(at + 6)),
        _ => Err(DecodeError::NotIp),
    }
}

/// PPP from its protocol on, whose first byte may be omitted when it is zero.
pub(super) fn ppp(bytes: &[u8], at: usize) -> Result<NextHeader, DecodeError> {
    let first = *bytes.get(at).ok_or(DecodeError::Truncated)?;
    let (protocol, at) =
        if first & 1 == 1 { (u16::from(first), at + 1) } else { (be16(bytes, at)?, at + 2) };
    match protocol {
        0x21 | 0x57 => Ok(NextHeader::Ip(at)),
        // MPLS in PPP (RFC 3032).
        0x281 | 0x283 => mpls(bytes, at),
        _ => Err(DecodeError::NotIp),
    }
}

/// Linux cooked capture: packet type, address type, address, protocol.
fn cooked(bytes: &[u8], encapsulation: &mut Encapsulation) -> Result<NextHeader, DecodeError> {
    encapsulation.outgoing = Some(be16(bytes, 0)? == OUTGOING);
    cooked_protocol(be16(bytes, 14)?, 16)
}

/// The same, version 2: protocol, interface, address type, packet type, address.
fn cooked2(bytes: &[u8], encapsulation: &mut Encapsulation) -> Result<NextHeader, DecodeError> {
    let protocol = be16(bytes, 0)?;
    encapsulation.outgoing = bytes.get(10).map(|kind| u16::from(*kind) == OUTGOING);
    cooked_protocol(protocol, 20)
}

/// Type of packets that this host sent (PACKET_OUTGOING).
const OUTGOING: u16 = 4;

fn cooked_protocol(protocol: u16, at: usize) -> Result<NextHeader, DecodeError> {
    match protocol {
        // 802.2 with LLC follows (LINUX_SLL_P_802_2).
        0x0004 => Ok(NextHeader::Ether(0, at)),
        kind if kind < MIN_ETHER_TYPE => Err(DecodeError::NotIp),
        kind => Ok(NextHeader::Ether(kind, at)),
    }
}

/// A data frame of 802.11: addresses that depend on its direction, then LLC and SNAP.
fn wireless(bytes: &[u8], at: usize) -> Result<NextHeader, DecodeError> {
    let control =
        *bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).ok_or(DecodeError::Truncated)?;
    let (kind, subtype) = ((control[0] >> 2) & 3, control[0] >> 4);
    // Data with a body (subtypes with bit 2 have none) that is not encrypted.
    if kind != 2 || subtype & 4 != 0 || control[1] & 0x40 != 0 {
        return Err(DecodeError::NotIp);
    }
    let between_points = control[1] & 3 == 3;
    let quality = subtype & 8 != 0;
    let mut body = at + 24 + if between_points { 6 } else { 0 };
    if quality {
        // An aggregate of several frames has the highest bit of the first of these two bytes.
        if bytes.get(body).is_some_and(|control| control & 0x80 != 0) {
            // Destination, source, length of the first subframe.
            body += 14;
        }
        body += 2;
        // HT control, where the order bit is set.
        body += if control[1] & 0x80 != 0 { 4 } else { 0 };
    }
    Ok(NextHeader::Ether(0, body))
}

/// Netfilter's log: a header, then attributes, of which number 9 is the packet.
fn nflog(bytes: &[u8]) -> Result<NextHeader, DecodeError> {
    let mut at = 4;
    // Each attribute takes four bytes at least.
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        // In the byte order of the capturing machine: little-endian, with few exceptions.
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let kind = u16::from_le_bytes([head[2], head[3]]) & 0x7fff;
        if kind == 9 {
            return Ok(NextHeader::Ip(at + 4));
        }
        if length < 4 {
            return Err(DecodeError::Malformed);
        }
        at += length.next_multiple_of(4);
    }
    Err(DecodeError::Truncated)
}
