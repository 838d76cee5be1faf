//! Tunnels: packets that carry another packet.

use super::encapsulation::{Encapsulation, MAX_NESTED_HEADERS, NextHeader};
use super::error::{be16, be32};
use super::ip::Ip;
use super::link::BRIDGED;
use super::udp;

const GRE: u8 = 47;
/// Ports of tunnels over UDP: VXLAN (and Linux's before 2014), GENEVE, GTP-U.
const VXLAN: [u16; 2] = [4789, 8472];
const GENEVE: u16 = 6081;
const GTP_U: u16 = 2152;

/// The packet inside of a packet, as an offset into its payload; `None`: it is no tunnel, or the tunnel's
/// header is truncated or odd.
#[inline]
pub(super) fn inside(ip: &Ip<'_>, encapsulation: &mut Encapsulation) -> Option<NextHeader> {
    let (next, identifier) = match ip.protocol {
        6 => return None,
        4 | 41 => (NextHeader::Ip(0), None),
        GRE => gre(ip.payload)?,
        udp::PROTOCOL => over_udp(ip.payload)?,
        _ => return None,
    };
    encapsulation.tunnels = encapsulation.tunnels.saturating_add(1);
    encapsulation.tunnel = identifier.or(encapsulation.tunnel);
    Some(next)
}

/// GRE (RFC 2784, 2890), with the key as identifier; ERSPAN in it.
fn gre(bytes: &[u8]) -> Option<(NextHeader, Option<u32>)> {
    let flags = be16(bytes, 0).ok()?;
    let kind = be16(bytes, 2).ok()?;
    // Version 1 is PPTP's: PPP follows, with lengths of its own.
    let version = flags & 7;
    let (checksum, key, sequence) = (flags & 0x8000 != 0, flags & 0x2000 != 0, flags & 0x1000 != 0);
    let mut at = 4 + if checksum { 4 } else { 0 };
    let identifier = if key { be32(bytes, at).ok() } else { None };
    at += if key { 4 } else { 0 };
    at += if sequence { 4 } else { 0 };
    if version == 1 {
        at += if flags & 0x80 != 0 { 4 } else { 0 };
        return (kind == 0x880b).then_some((NextHeader::Ppp(at), identifier));
    }
    match kind {
        // ERSPAN: type I has no header and no sequence number, type II eight bytes.
        0x88be if !sequence => Some((NextHeader::Frame(at), identifier)),
        0x88be => Some((NextHeader::Frame(at + 8), Some(be32(bytes, at).ok()? & 0x3ff))),
        // Type III: twelve bytes, and eight more if its last bit is set.
        0x22eb => {
            let more = be32(bytes, at + 8).ok()? & 1 != 0;
            let session = be32(bytes, at).ok()? & 0x3ff;
            Some((NextHeader::Frame(at + 12 + if more { 8 } else { 0 }), Some(session)))
        }
        _ => Some((NextHeader::Ether(kind, at), identifier)),
    }
}

/// Tunnels over UDP, by the destination port; GTP-U by either.
fn over_udp(bytes: &[u8]) -> Option<(NextHeader, Option<u32>)> {
    let (source, destination) = (be16(bytes, 0).ok()?, be16(bytes, 2).ok()?);
    let at = udp::HEADER_BYTES;
    if VXLAN.contains(&destination) {
        // The flag for a valid network (RFC 7348), and all reserved bits zero.
        let flags = be32(bytes, at).ok()?;
        let network = be32(bytes, at + 4).ok()?;
        let sound = flags & 0x0800_0000 != 0 && network & 0xff == 0;
        return sound.then_some((NextHeader::Frame(at + 8), Some(network >> 8)));
    }
    if destination == GENEVE {
        let head = be16(bytes, at).ok()?;
        let (version, options) = (head >> 14, usize::from((head >> 8) & 0x3f) * 4);
        let kind = be16(bytes, at + 2).ok()?;
        let network = be32(bytes, at + 4).ok()? >> 8;
        let next = at + 8 + options;
        let inner =
            if kind == BRIDGED { NextHeader::Frame(next) } else { NextHeader::Ether(kind, next) };
        return (version == 0).then_some((inner, Some(network)));
    }
    if destination == GTP_U || source == GTP_U {
        return gtp(bytes, at);
    }
    None
}

/// GTP-U (3GPP TS 29.281): a user's packet is message 255.
fn gtp(bytes: &[u8], at: usize) -> Option<(NextHeader, Option<u32>)> {
    let flags = be16(bytes, at).ok()?;
    let (version, message) = (flags >> 13, flags & 0xff);
    if version != 1 || flags & 0x1000 == 0 || message != 255 {
        return None;
    }
    let tunnel = be32(bytes, at + 4).ok()?;
    let mut next = at + 8;
    // Sequence number, N-PDU number and the type of the first extension come together.
    if flags & 0x0700 != 0 {
        let mut extension = *bytes.get(next + 3)?;
        next += 4;
        for _ in 0..MAX_NESTED_HEADERS {
            if extension == 0 {
                break;
            }
            let size = usize::from(*bytes.get(next)?) * 4;
            if size == 0 {
                return None;
            }
            extension = *bytes.get(next + size - 1)?;
            next += size;
        }
    }
    Some((NextHeader::Ip(next), Some(tunnel)))
}
