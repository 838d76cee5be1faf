//! Checksums of TCP segments and UDP datagrams (RFC 1071).

use std::net::IpAddr;

use super::Ip;

/// What a checksum says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Every byte is as it was sent.
    Correct,
    /// None was computed yet when the packet was captured: the network card does it later, or has
    /// looked at it before (offload).
    Offloaded,
    /// Something was changed on the way.
    Incorrect,
}

/// The checksum of what an IP packet carries; `at` is its place there. `None`: not all of it was
/// captured, or it is a part of a packet.
pub fn checksum(ip: &Ip<'_>, at: usize) -> Option<Checksum> {
    let whole = ip.payload.len() as u64 == u64::from(ip.length);
    if !whole || ip.offloaded || ip.fragment.is_some() {
        return None;
    }
    let stored = ip.payload.get(at..at + 2)?;
    let stored = u16::from_be_bytes([stored[0], stored[1]]);
    let addresses = match (ip.source, ip.destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => sum(&a.octets()) + sum(&b.octets()),
        (IpAddr::V6(a), IpAddr::V6(b)) => sum(&a.octets()) + sum(&b.octets()),
        _ => return None,
    };
    let begins = addresses + u64::from(ip.protocol);
    let pseudo = begins + u64::from(ip.length >> 16) + u64::from(ip.length & 0xffff);
    if fold(pseudo + sum(ip.payload)) == 0xffff {
        return Some(Checksum::Correct);
    }
    // The part of it that the kernel leaves there, with the length or before it is added; or nothing.
    let left = [0, fold(pseudo), fold(begins)];
    Some(if left.contains(&stored) { Checksum::Offloaded } else { Checksum::Incorrect })
}

/// Sum of 16-bit words in network order; an odd byte is the upper half of one.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tcp;

    /// A segment that the kernel sent: IPv4, `GET /`.
    fn segment(data: &[u8], change: impl Fn(&mut Vec<u8>)) -> Option<Checksum> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        bytes.extend([0x0f, 0xa0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend(data);
        let total = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        // By hand: all words but the checksum, and those of the pseudo-header.
        let mut all = u32::from(total - 20) + 6;
        for pair in bytes[12..].chunks(2) {
            all += u32::from(pair[0]) * 256 + u32::from(pair.get(1).copied().unwrap_or(0));
        }
        let folded = (all & 0xffff) + (all >> 16);
        let right = !((folded & 0xffff) + (folded >> 16)) as u16;
        bytes[36..38].copy_from_slice(&right.to_be_bytes());
        change(&mut bytes);
        let ip = super::super::ip::parse(&bytes, u32::from(total)).expect("IP");
        checksum(&ip, tcp::CHECKSUM_OFFSET)
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for data in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"odd"] {
            assert_eq!(segment(data, |_| ()), Some(Checksum::Correct));
            for bit in 0..(20 + data.len()) * 8 {
                let wrong = segment(data, |bytes| bytes[20 + bit / 8] ^= 1 << (bit % 8));
                assert_eq!(wrong, Some(Checksum::Incorrect), "bit {bit}");
            }
        }
    }

    #[test]
    fn what_offload_leaves_is_not_wrong() {
        let pseudo: u32 = 198 * 256 + 18 + 1 + 198 * 256 + 18 + 2 + 6 + 24;
        let left = ((pseudo & 0xffff) + (pseudo >> 16)) as u16;
        let change = |bytes: &mut Vec<u8>| bytes[36..38].copy_from_slice(&left.to_be_bytes());
        assert_eq!(segment(b"data", change), Some(Checksum::Offloaded));
        assert_eq!(segment(b"data", |bytes| bytes[36..38].fill(0)), Some(Checksum::Offloaded));
    }

    #[test]
    fn what_was_not_captured_is_not_judged() {
        assert_eq!(segment(b"data", |bytes| bytes.truncate(42)), None);
        assert_eq!(segment(b"data", |bytes| bytes[6] = 0x20), None, "a fragment");
    }
}
