//! Checksums of TCP segments and UDP datagrams (RFC 1071).

use std::net::IpAddr;

use super::ip::Ip;

/// State of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum matches.
    Correct,
    /// It was not filled in when the packet was captured: the network card does that later, or has
    /// verified it before (checksum offload).
    Offloaded,
    /// It does not match: the packet was corrupted.
    Incorrect,
}

/// State of the checksum in an IP packet's payload, at offset `at`. `None`: not all of the packet was
/// captured, or it is a fragment.
pub fn checksum(ip: &Ip<'_>, at: usize) -> Option<Checksum> {
    let whole = ip.payload.len() as u64 == u64::from(ip.length);
    if !whole || ip.offloaded || ip.fragment.is_some() {
        return None;
    }
    let stored = u16::from_be_bytes(*ip.payload.get(at..)?.first_chunk()?);
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
    // With offload the kernel leaves the sum of the pseudo-header there, with or without the length; or
    // zero.
    let left = [0, fold(pseudo), fold(begins)];
    Some(if left.contains(&stored) { Checksum::Offloaded } else { Checksum::Incorrect })
}

/// Sum of 16-bit words in network order; an odd byte at the end is the upper half of a word.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// The one's-complement sum: carries are added again.
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether the sum over all of these bytes, including their checksum, is correct.
pub(super) fn sum_is_correct(bytes: &[u8]) -> bool {
    fold(sum(bytes)) == 0xffff
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
        let ip = crate::packet::ip::parse(&bytes, u32::from(total)).expect("IP");
        checksum(&ip, tcp::CHECKSUM_OFFSET)
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        for data in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"odd"] {
            assert_eq!(segment(data, |_| ()), Some(Checksum::Correct));
            for bit in 0..(20 + data.len()) * 8 {
                let wrong = segment(data, |bytes| bytes[20 + bit / 8] ^= 1 << (bit % 8));
                assert_eq!(wrong, Some(Checksum::Incorrect), "bit {bit}");
            }
        }
    }

    #[test]
    fn offloaded_checksums_are_not_incorrect() {
        let pseudo: u32 = 198 * 256 + 18 + 1 + 198 * 256 + 18 + 2 + 6 + 24;
        let left = ((pseudo & 0xffff) + (pseudo >> 16)) as u16;
        let change = |bytes: &mut Vec<u8>| bytes[36..38].copy_from_slice(&left.to_be_bytes());
        assert_eq!(segment(b"data", change), Some(Checksum::Offloaded));
        assert_eq!(segment(b"data", |bytes| bytes[36..38].fill(0)), Some(Checksum::Offloaded));
    }

    #[test]
    fn truncated_packets_and_fragments_have_no_result() {
        assert_eq!(segment(b"data", |bytes| bytes.truncate(42)), None);
        assert_eq!(segment(b"data", |bytes| bytes[6] = 0x20), None, "a fragment");
    }
}
