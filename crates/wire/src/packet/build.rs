//! Packets of probes, as bytes: ICMP echoes, UDP datagrams, TCP SYNs, and IPv4 headers for them.
//!
//! Each probe carries its number in such a way that the rest of the packet stays the same: load balancers
//! that hash addresses, ports and the first bytes of a header choose the same path for all of them
//! (Augustin et al., Avoiding traceroute anomalies with Paris traceroute, 2006).

use std::net::IpAddr;

use super::checksum::{fold, sum};
use super::{icmp, tcp, udp};

/// Bytes at the front of a payload with the number of a probe: the shortest payload.
pub const MIN_PAYLOAD_BYTES: usize = 8;
/// Bytes of an IPv4 header without options.
pub const V4_HEADER_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const V6_HEADER_BYTES: usize = 40;
/// Bytes of a UDP header, and of the header of an ICMP echo.
pub const UDP_HEADER_BYTES: usize = 8;
/// Bytes of the header of a SYN with one option, the maximum segment size.
pub const SYN_HEADER_BYTES: usize = 24;
/// The first bytes of netwhy's payloads.
const MAGIC: [u8; 4] = *b"nwhy";

/// A payload of this length, at least [`MIN_PAYLOAD_BYTES`], with the number of a probe and its
/// complement: their sum, and so the checksum of the packet, is the same for all numbers.
pub fn probe_payload(into: &mut Vec<u8>, number: u16, length: usize) {
    into.clear();
    into.extend(MAGIC);
    into.extend(number.to_be_bytes());
    into.extend((!number).to_be_bytes());
    into.resize(length.max(MIN_PAYLOAD_BYTES), 0x2e);
}

/// The number in a payload of [`probe_payload`].
pub fn probe_number(payload: &[u8]) -> Option<u16> {
    let [magic @ .., a, b, c, d] = *payload.first_chunk::<MIN_PAYLOAD_BYTES>()?;
    let (number, complement) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    (magic == MAGIC && number == !complement).then_some(number)
}

/// An ICMP echo request. Its checksum is correct for IPv4; for IPv6 the kernel fills it in.
pub fn echo(into: &mut Vec<u8>, v6: bool, id: u16, sequence: u16, payload: &[u8]) {
    into.clear();
    into.extend([if v6 { 128 } else { 8 }, 0, 0, 0]);
    into.extend(id.to_be_bytes());
    into.extend(sequence.to_be_bytes());
    into.extend(payload);
    if !v6 {
        let checksum = !fold(sum(into));
        put(into, 2, checksum);
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
    let checksum = !fold(sum(into) + pseudo(ends, udp::PROTOCOL, into.len()));
    // Zero would mean that there is none.
    put(into, 6, if checksum == 0 { 0xffff } else { checksum });
}

/// A TCP SYN with the option of a maximum segment size, and a payload, as a rule empty.
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
    let checksum = !fold(sum(into) + pseudo(ends, tcp::PROTOCOL, into.len()));
    put(into, tcp::CHECKSUM_OFFSET, checksum);
}

/// The fields of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V4Header {
    /// Source and destination.
    pub addresses: (std::net::Ipv4Addr, std::net::Ipv4Addr),
    /// Protocol of its payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Type of service.
    pub tos: u8,
    /// Identification; not zero, which the kernel would replace.
    pub id: u16,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
    /// Bytes of its payload.
    pub length: usize,
}

/// An IPv4 header. The kernel fills in its checksum when it is sent.
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

/// Whether the checksum is correct of a packet between these ends, whose transport header and data are the
/// first `length` of `bytes`. `None`: not all of it is there.
pub fn checksum_is_correct(
    ends: (IpAddr, IpAddr),
    protocol: u8,
    bytes: &[u8],
    length: usize,
) -> Option<bool> {
    let whole = bytes.get(..length)?;
    Some(fold(sum(whole) + pseudo(ends, protocol, length)) == 0xffff)
}

/// Sum of the pseudo-header.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::checksum::sum_is_correct;
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
    fn built_packets_are_parsed_back() {
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
    fn numbers_do_not_change_the_checksum() {
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
            assert!(sum_is_correct(&bytes));
        }
        assert_eq!(sums.len(), 1);
    }
}
