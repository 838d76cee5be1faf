//! Packets of probes, as bytes: ICMP echoes, UDP datagrams, TCP SYNs, and IPv4 headers for them.
//!
//! Each probe has a number, which is in it in such a way that the rest of the packet can stay the
//! same: balancers that look at addresses, ports and the first bytes of a header send all of them
//! the same way (Augustin et al., Avoiding traceroute anomalies with Paris traceroute, 2006).

use std::net::IpAddr;

use super::{icmp, tcp, udp};

/// Bytes at the front of a payload that hold the number of a probe.
pub const MIN_PAYLOAD_BYTES: usize = 8;
/// Bytes of an IPv4 header without options.
pub const V4_HEADER_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const V6_HEADER_BYTES: usize = 40;
/// Bytes of the header of UDP, and of an ICMP echo.
pub const UDP_HEADER_BYTES: usize = 8;
/// Bytes of the header of a SYN with its one option, the segment size.
pub const SYN_HEADER_BYTES: usize = 24;
/// What netwhy's payloads begin with.
const MAGIC: [u8; 4] = *b"nwhy";

/// A payload of this length, not below [`NUMBERED`], with the number of a probe and its complement:
/// the sum of both is the same for all numbers, and so is the checksum of the packet.
pub fn probe_payload(into: &mut Vec<u8>, number: u16, length: usize) {
    into.clear();
    into.extend(MAGIC);
    into.extend(number.to_be_bytes());
    into.extend((!number).to_be_bytes());
    into.resize(length.max(MIN_PAYLOAD_BYTES), 0x2e);
}

/// The number in a payload that [`payload`] made.
pub fn probe_number(payload: &[u8]) -> Option<u16> {
    let head = payload.first_chunk::<MIN_PAYLOAD_BYTES>()?;
    let (number, back) = ([head[4], head[5]], [head[6], head[7]]);
    let number = u16::from_be_bytes(number);
    (head[..4] == MAGIC && number == !u16::from_be_bytes(back)).then_some(number)
}

/// An ICMP echo request. Its checksum is right for IPv4; for IPv6 the kernel sums it.
pub fn echo(into: &mut Vec<u8>, v6: bool, id: u16, sequence: u16, payload: &[u8]) {
    into.clear();
    into.extend([if v6 { 128 } else { 8 }, 0, 0, 0]);
    into.extend(id.to_be_bytes());
    into.extend(sequence.to_be_bytes());
    into.extend(payload);
    if !v6 {
        let sum = complement(fold(sum(into)));
        put(into, 2, sum);
    }
}

/// A UDP datagram from and to these addresses and ports.
pub fn datagram(into: &mut Vec<u8>, ends: (IpAddr, IpAddr), ports: (u16, u16), payload: &[u8]) {
    into.clear();
    into.extend(ports.0.to_be_bytes());
    into.extend(ports.1.to_be_bytes());
    into.extend(((payload.len() + UDP_HEADER_BYTES) as u16).to_be_bytes());
    into.extend([0, 0]);
    into.extend(payload);
    let sum = complement(fold(sum(into) + pseudo(ends, udp::PROTOCOL, into.len())));
    // Zero would say that there is none.
    put(into, 6, if sum == 0 { 0xffff } else { sum });
}

/// A TCP SYN with the option of a segment size and a payload, mostly empty.
pub fn syn(
    into: &mut Vec<u8>,
    ends: (IpAddr, IpAddr),
    ports: (u16, u16),
    sequence: u32,
    payload: &[u8],
) {
    into.clear();
    into.extend(ports.0.to_be_bytes());
    into.extend(ports.1.to_be_bytes());
    into.extend(sequence.to_be_bytes());
    into.extend([0; 4]);
    into.extend([(SYN_HEADER_BYTES as u8 / 4) << 4, 0x02, 0xfa, 0xf0, 0, 0, 0, 0]);
    let size: u16 = if ends.1.is_ipv6() { 1440 } else { 1460 };
    into.extend([2, 4]);
    into.extend(size.to_be_bytes());
    into.extend(payload);
    let sum = complement(fold(sum(into) + pseudo(ends, tcp::PROTOCOL, into.len())));
    put(into, tcp::CHECKSUM_OFFSET, sum);
}

/// What an IPv4 header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V4Header {
    /// Where from, and where to.
    pub addresses: (std::net::Ipv4Addr, std::net::Ipv4Addr),
    /// Protocol of what it carries.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Type of service.
    pub tos: u8,
    /// Identification; not zero, which the kernel replaces.
    pub id: u16,
    /// Whether it may not be fragmented.
    pub dont_fragment: bool,
    /// Bytes that it carries.
    pub length: usize,
}

/// An IPv4 header. The kernel sums it when it is sent.
pub fn v4_header(header: &V4Header) -> [u8; V4_HEADER_BYTES] {
    let mut bytes = [0; V4_HEADER_BYTES];
    bytes[0] = 0x45;
    bytes[1] = header.tos;
    bytes[2..4].copy_from_slice(&((header.length + V4_HEADER_BYTES) as u16).to_be_bytes());
    bytes[4..6].copy_from_slice(&header.id.to_be_bytes());
    bytes[6] = if header.dont_fragment { 0x40 } else { 0 };
    bytes[8] = header.ttl;
    bytes[9] = header.protocol;
    bytes[12..16].copy_from_slice(&header.addresses.0.octets());
    bytes[16..20].copy_from_slice(&header.addresses.1.octets());
    bytes
}

/// Protocol number of ICMP for a family.
pub fn icmp_protocol(v6: bool) -> u8 {
    if v6 { icmp::V6 } else { icmp::V4 }
}

/// The checksum field of a packet whose transport is at the front of `bytes`, for these ends: what it
/// must be if nothing else was changed. `None`: not all of it is there.
pub fn checksum_is_correct(
    ends: (IpAddr, IpAddr),
    protocol: u8,
    bytes: &[u8],
    length: usize,
) -> Option<bool> {
    let whole = bytes.get(..length)?;
    Some(fold(sum(whole) + pseudo(ends, protocol, length)) == 0xffff)
}

/// Whether the sum over all of these bytes, their checksum among them, is right.
pub(super) fn sum_is_right(bytes: &[u8]) -> bool {
    fold(sum(bytes)) == 0xffff
}

fn pseudo(ends: (IpAddr, IpAddr), protocol: u8, length: usize) -> u64 {
    let one = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    one(ends.0) + one(ends.1) + u64::from(protocol) + length as u64
}

fn put(into: &mut [u8], at: usize, value: u16) {
    if let Some(two) = into.get_mut(at..at + 2) {
        two.copy_from_slice(&value.to_be_bytes());
    }
}

fn complement(sum: u16) -> u16 {
    !sum
}

fn sum(bytes: &[u8]) -> u64 {
    super::checksum::sum(bytes)
}

fn fold(sum: u64) -> u16 {
    super::checksum::fold(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Checksum, Tcp, Udp, checksum, ip};

    const ENDS: (IpAddr, IpAddr) = (
        IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2)),
    );

    fn whole(protocol: u8, carried: &[u8]) -> Vec<u8> {
        let (IpAddr::V4(a), IpAddr::V4(b)) = ENDS else { panic!("IPv4") };
        let mut bytes = v4_header(&V4Header {
            addresses: (a, b),
            protocol,
            ttl: 3,
            tos: 0x10,
            id: 7,
            dont_fragment: true,
            length: carried.len(),
        })
        .to_vec();
        bytes.extend(carried);
        bytes
    }

    #[test]
    fn built_packets_are_read_again() {
        let (mut bytes, mut data) = (Vec::new(), Vec::new());
        probe_payload(&mut data, 513, 11);
        assert_eq!(probe_number(&data), Some(513));
        datagram(&mut bytes, ENDS, (4000, 33434), &data);
        let all = whole(udp::PROTOCOL, &bytes);
        let ip = ip::parse(&all, all.len() as u32).unwrap();
        assert_eq!(checksum(&ip, 6), Some(Checksum::Correct));
        assert_eq!((ip.ttl, ip.id, ip.dont_fragment), (3, Some(7), true));
        let udp = Udp::of(&ip).unwrap();
        assert_eq!((udp.source, udp.destination, udp.payload.len()), (4000, 33434, 11));
        syn(&mut bytes, ENDS, (4000, 80), 99, b"");
        let all = whole(tcp::PROTOCOL, &bytes);
        let ip = ip::parse(&all, all.len() as u32).unwrap();
        assert_eq!(checksum(&ip, tcp::CHECKSUM_OFFSET), Some(Checksum::Correct));
        let segment = Tcp::of(&ip).unwrap();
        assert_eq!((segment.sequence, segment.flags, segment.length), (99, tcp::Flags::SYN, 0));
        assert_eq!(checksum_is_correct(ENDS, tcp::PROTOCOL, &bytes, bytes.len()), Some(true));
    }

    #[test]
    fn the_number_changes_no_checksum() {
        let (mut bytes, mut data) = (Vec::new(), Vec::new());
        let mut sums = std::collections::HashSet::new();
        for number in [0, 1, 255, 256, 40_000, 65_535] {
            probe_payload(&mut data, number, 32);
            datagram(&mut bytes, ENDS, (4000, 33434), &data);
            sums.insert([bytes[6], bytes[7]]);
        }
        assert_eq!(sums.len(), 1);
        sums.clear();
        // An echo has the number as its sequence number; the payload compensates for it.
        for number in [0, 1, 255, 256, 40_000, 65_535u16] {
            echo(&mut bytes, false, 77, number, &(!number).to_be_bytes());
            sums.insert([bytes[2], bytes[3]]);
            assert!(sum_is_right(&bytes));
        }
        assert_eq!(sums.len(), 1);
    }
}
