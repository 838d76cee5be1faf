//! Tests of decoding, from a link to a segment: each link type, tag and tunnel, whole and damaged.

use std::net::IpAddr;

use proptest::prelude::*;

use super::tcp::{Flags, TcpOption};
use super::*;
use crate::capture::LinkType;

/// A segment of 20 bytes of header, options and data.
fn segment(options: &[u8], data: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut out = vec![0x1f, 0x90, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 2];
    out.extend([(header as u8 / 4) << 4, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(options);
    out.extend(data);
    out
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut out = vec![0x45, 0x03];
    out.extend(total.to_be_bytes());
    out.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    out.extend(payload);
    out
}

fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([protocol, 63]);
    out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    out.extend(payload);
    out
}

fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2; 12];
    out.extend(kind.to_be_bytes());
    out.extend(payload);
    out
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x30, 0x39];
    out.extend(port.to_be_bytes());
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

fn plain() -> Vec<u8> {
    v4(6, &segment(&[], b"data"))
}

#[track_caller]
fn found(link: LinkType, bytes: &[u8]) -> (Decoded<'_>, Tcp<'_>) {
    let decoded = decode(link, bytes, bytes.len() as u32).expect("a packet");
    let tcp = Tcp::of(&decoded.ip).expect("a segment");
    assert_eq!((tcp.source, tcp.destination, tcp.length), (8080, 80, 4));
    assert_eq!(tcp.payload, b"data");
    (decoded, tcp)
}

#[test]
fn a_segment_in_ethernet() {
    // Padding of short frames is not data.
    let mut bytes = frame(0x0800, &plain());
    bytes.extend([0; 6]);
    let (decoded, tcp) = found(LinkType::ETHERNET, &bytes);
    assert_eq!(decoded.ip.source, IpAddr::from([198, 18, 0, 1]));
    assert_eq!((decoded.ip.id, decoded.ip.ttl, decoded.ip.ecn), (Some(0x1234), 64, 3));
    assert!(decoded.ip.dont_fragment && decoded.ip.fragment.is_none());
    assert!(tcp.flags.all(Flags::ACK) && tcp.flags.all(Flags::PSH) && !tcp.flags.all(Flags::SYN));
}

#[test]
fn every_link_type_is_decoded() {
    let mut sll = vec![0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x08, 0x00];
    sll.extend(plain());
    assert_eq!(found(LinkType::LINUX_SLL, &sll).0.encapsulation.outgoing, Some(true));
    let mut sll2 = vec![0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0];
    sll2.extend(v6(6, &segment(&[], b"data")));
    assert_eq!(found(LinkType::LINUX_SLL2, &sll2).0.encapsulation.outgoing, Some(false));
    for family in [[2, 0, 0, 0], [0, 0, 0, 2]] {
        found(LinkType::NULL, &[&family[..], &plain()].concat());
    }
    found(LinkType::RAW, &plain());
    found(LinkType::PPP, &[&[0xff, 0x03, 0x00, 0x21][..], &plain()].concat());
    found(LinkType::PPP, &[&[0x21][..], &plain()].concat());
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &plain()].concat();
    // Radiotap of 8 bytes, then a data frame with quality of service.
    let mut wireless = vec![0, 0, 8, 0, 0, 0, 0, 0, 0x88, 0x01];
    wireless.extend([0; 22]);
    wireless.extend([0, 0]);
    wireless.extend(&snap);
    found(LinkType::IEEE802_11_RADIOTAP, &wireless);
    let mut log = vec![2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 1, 0];
    log.extend(((4 + plain().len()) as u16).to_le_bytes());
    log.extend([9, 0]);
    log.extend(plain());
    found(LinkType::NFLOG, &log);
    assert_eq!(decode(LinkType(147), &plain(), 100), Err(DecodeError::UnknownLinkType));
}

#[test]
fn tags_and_tunnels_are_decoded() {
    let inner = frame(0x0800, &plain());
    let tagged = frame(0x88a8, &[&[0, 7, 0x81, 0, 0x20, 9, 8, 0][..], &plain()].concat());
    assert_eq!(found(LinkType::ETHERNET, &tagged).0.encapsulation.vlan, Some(9));
    let pppoe = frame(0x8864, &[&[0x11, 0, 0, 1, 0, 99, 0, 0x21][..], &plain()].concat());
    found(LinkType::ETHERNET, &pppoe);
    let mpls = frame(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &plain()].concat());
    found(LinkType::ETHERNET, &mpls);
    let snap = frame(100, &[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &plain()].concat());
    found(LinkType::ETHERNET, &snap);

    let raw = |packet: Vec<u8>| packet;
    for (name, packet, network) in [
        ("IP in IP", raw(v4(4, &plain())), None),
        ("6in4", v4(41, &v6(6, &segment(&[], b"data"))), None),
        ("GRE", v4(47, &[&[0x20, 0, 8, 0, 0, 0, 0, 5][..], &plain()].concat()), Some(5)),
        ("ERSPAN I", v4(47, &[&[0, 0, 0x88, 0xbe][..], &inner].concat()), None),
        (
            "ERSPAN II",
            v4(
                47,
                &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 3, 0, 0, 0, 0][..], &inner]
                    .concat(),
            ),
            Some(3),
        ),
        ("VXLAN", v4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 42, 0][..], &inner].concat())), Some(42)),
        (
            "GENEVE",
            v6(
                17,
                &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 43, 0, 0, 0, 0, 0][..], &inner].concat()),
            ),
            Some(43),
        ),
        (
            "GTP-U",
            v4(17, &udp(2152, &[&[0x30, 255, 0, 0, 0, 0, 0, 44][..], &plain()].concat())),
            Some(44),
        ),
    ] {
        let (decoded, _) = found(LinkType::RAW, &packet);
        assert_eq!(
            (decoded.encapsulation.tunnel, decoded.encapsulation.tunnels),
            (network, 1),
            "{name}"
        );
    }
}

#[test]
fn extension_headers_and_fragments() {
    let tcp = segment(&[], b"data");
    let hop = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[6, 0, 1, 4, 0, 0, 0, 0], &tcp].concat();
    found(LinkType::RAW, &v6(0, &hop));
    let atomic = [&[6, 0, 0, 0, 0, 0, 0, 9][..], &tcp].concat();
    let packet = v6(44, &atomic);
    assert_eq!(found(LinkType::RAW, &packet).0.ip.id, Some(9));
    let later = v6(44, &[&[6, 0, 0x05, 0xa8, 0, 0, 0, 9][..], b"rest"].concat());
    let ip = decode(LinkType::RAW, &later, later.len() as u32).unwrap().ip;
    assert_eq!(ip.fragment, Some(Fragment { offset: 0x5a8, more: false }));
    assert_eq!(Tcp::of(&ip), Err(DecodeError::NotIp));
    let mut first = plain();
    first[6] = 0x20;
    let ip = decode(LinkType::RAW, &first, first.len() as u32).unwrap().ip;
    assert_eq!(ip.fragment, Some(Fragment { offset: 0, more: true }));
    assert!(Tcp::of(&ip).is_ok());
}

#[test]
fn lengths_come_from_the_header_or_with_offload_from_the_frame() {
    let whole = v4(6, &segment(&[], &[9; 1000]));
    let bytes = frame(0x0800, &whole[..60]);
    let decoded = decode(LinkType::ETHERNET, &bytes, 14 + whole.len() as u32).unwrap();
    let tcp = Tcp::of(&decoded.ip).unwrap();
    assert_eq!((tcp.length, tcp.payload.len()), (1000, 20));
    let mut offloaded = whole.clone();
    offloaded[2..4].copy_from_slice(&[0, 0]);
    let bytes = frame(0x0800, &offloaded[..60]);
    let decoded = decode(LinkType::ETHERNET, &bytes, 14 + 40_040).unwrap();
    assert!(decoded.ip.offloaded);
    assert_eq!(Tcp::of(&decoded.ip).unwrap().length, 40_000);
}

#[test]
fn a_header_may_count_more_than_its_frame_has() {
    let exceeds = |link, bytes: &[u8], missing: u32| {
        decode(link, bytes, bytes.len() as u32 - missing).expect("an IP packet").exceeds_frame
    };
    let tcp = segment(&[], b"data");
    let tagged = frame(0x8100, &[&[0, 5, 0x08, 0][..], &plain()].concat());
    let extended = v6(0, &[&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp].concat());
    for (link, bytes) in [
        (LinkType::RAW, plain()),
        (LinkType::ETHERNET, frame(0x0800, &plain())),
        (LinkType::ETHERNET, tagged),
        (LinkType::RAW, v6(6, &tcp)),
        (LinkType::RAW, extended),
        (LinkType::RAW, v4(17, &udp(53, b"query"))),
    ] {
        assert!(!exceeds(link, &bytes, 0) && exceeds(link, &bytes, 1), "{bytes:?}");
        // Less was captured than the frame had.
        let cut = &bytes[..bytes.len() - 2];
        assert!(!decode(link, cut, bytes.len() as u32).expect("an IP packet").exceeds_frame);
        assert!(!exceeds(link, &[&bytes[..], &[0; 4]].concat(), 0));
    }
    // In a tunnel: a switch that mirrors the start of each packet leaves its length as it was.
    let mut inner = plain();
    inner[3] += 1;
    let gre = v4(47, &[&[0, 0, 0x08, 0][..], &inner].concat());
    assert!(!exceeds(LinkType::RAW, &gre, 0) && exceeds(LinkType::RAW, &gre, 1));
    // The kernel's log cuts packets, and adds attributes of any length.
    let mut log = vec![2, 0, 0, 0];
    log.extend(((4 + plain().len() - 2) as u16).to_le_bytes());
    log.extend([9, 0]);
    log.extend(&plain()[..plain().len() - 2]);
    assert!(!exceeds(LinkType::NFLOG, &log, 0));
}

#[test]
fn padding_counted_in_the_ip_length_is_no_data() {
    // An acknowledgement in the shortest Ethernet frame, with a VLAN tag or without.
    let length = |data: &[u8], flags: u8| {
        let mut carried = segment(&[], data);
        carried[13] = flags;
        let packet = v4(6, &carried);
        let decoded = decode(LinkType::RAW, &packet, packet.len() as u32).unwrap();
        let tcp = Tcp::of(&decoded.ip).unwrap();
        assert_eq!(tcp.payload.len(), tcp.length as usize);
        tcp.length
    };
    assert_eq!((length(&[0; 6], 0x10), length(&[0; 2], 0x10)), (0, 0));
    // Data: an end pushed it, it is something, or no frame is padded to this length.
    assert_eq!((length(&[0; 6], 0x18), length(&[0, 0, 1, 0, 0, 0], 0x10)), (6, 6));
    assert_eq!((length(&[0; 5], 0x10), length(&[0; 20], 0x10)), (5, 20));
}

#[test]
fn options_of_a_segment() {
    let options = [
        &[2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8, 1, 3, 3, 7][..],
        &[5, 10, 0, 0, 0, 10, 0, 0, 0, 20, 1, 1],
    ]
    .concat();
    let packet = v4(6, &segment(&options, b"data"));
    let (_, tcp) = found(LinkType::RAW, &packet);
    let all: Vec<_> = tcp.options().collect();
    assert_eq!(all[0], TcpOption::MaxSegmentSize(1460));
    assert_eq!(all[1], TcpOption::SackPermitted);
    assert_eq!(all[2], TcpOption::TimeStamps(7, 8));
    assert_eq!(all[3], TcpOption::WindowScale(7));
    let TcpOption::Sack(sack) = all[4] else { panic!("{all:?}") };
    assert_eq!(sack.blocks().collect::<Vec<_>>(), [(10, 20)]);
    assert_eq!(tcp.time_stamps(), Some((7, 8)));
    // A length beyond the header, or too short.
    for bad in [&[8, 40, 0, 0][..], &[8, 0, 0, 0], &[8, 1, 0, 0]] {
        let packet = v4(6, &segment(bad, b"data"));
        assert_eq!(found(LinkType::RAW, &packet).1.options().count(), 0);
    }
}

const LINKS: [LinkType; 14] = [
    LinkType::NULL,
    LinkType::ETHERNET,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::RAW,
    LinkType::IEEE802_11,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::NFLOG,
    LinkType::LINUX_SLL2,
];

/// Whether these bytes hold a plain segment; it is the one that [`decode`] finds.
#[track_caller]
fn is_plain(link: LinkType, bytes: &[u8]) -> bool {
    is_plain_of(link, bytes, bytes.len())
}

/// The same of a packet that was longer on the wire.
#[track_caller]
fn is_plain_of(link: LinkType, bytes: &[u8], length: usize) -> bool {
    let length = length as u32;
    let Some(plain) = PlainSegment::of(link, bytes, length) else { return false };
    let decoded = decode(link, bytes, length).expect("an IP packet");
    assert!(!decoded.exceeds_frame);
    let tcp = Tcp::of(&decoded.ip).expect("TCP");
    assert_eq!(plain.parts(), (decoded.ip, tcp));
    assert_eq!((plain.payload(), plain.time_stamps()), (tcp.payload, tcp.time_stamps()));
    assert_eq!(plain.identity(), identity(&decoded.ip, &tcp));
    assert_eq!(PlainEnds::of(link, bytes, length), Some(plain.ends()));
    let (ends, back) = (plain.ends(), PlainEnds::new(plain.destination(), plain.source()));
    assert_eq!((ends.reversed(), ends.symmetric_hash()), (back, back.symmetric_hash()));
    assert_eq!(plain.header_bytes() + plain.length(), 20 + decoded.ip.length);
    true
}

#[test]
fn plain_segments_are_what_decoding_finds() {
    const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4];
    let of = |options: &[u8], data: &[u8]| frame(0x0800, &v4(6, &segment(options, data)));
    let whole = of(&STAMPS, b"some data");
    assert!(is_plain(LinkType::ETHERNET, &whole) && is_plain(LinkType::RAW, &whole[14..]));
    assert!(is_plain(LinkType::ETHERNET, &of(&[], b"")));
    assert!(is_plain(LinkType::ETHERNET, &of(&[], b"seven b")));
    // Less data than was sent, or padding after it.
    assert!(is_plain_of(LinkType::ETHERNET, &whole[..14 + 20 + 32 + 3], whole.len()));
    assert!(is_plain(LinkType::ETHERNET, &[whole.clone(), vec![0; 9]].concat()));
    // A frame shorter than the packet in it, a header that is cut, other options, what may be padding,
    // fragments, other protocols and links.
    assert!(!is_plain(LinkType::ETHERNET, &whole[..14 + 20 + 32 + 3]));
    assert!(!is_plain_of(LinkType::ETHERNET, &whole[..14 + 20 + 31], whole.len()));
    assert!(!is_plain(LinkType::ETHERNET, &of(&[2, 4, 5, 0xb4], b"")));
    assert!(!is_plain(LinkType::ETHERNET, &of(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2], b"")));
    assert!(!is_plain(LinkType::ETHERNET, &of(&[], &[0; 6])));
    assert!(!is_plain(LinkType::LINUX_SLL, &whole));
    for (place, value) in [(12, 0x86), (14, 0x46), (16, 0), (20, 0x20), (21, 1), (23, 17)] {
        let mut other = whole.clone();
        (other[place], other[17]) = (value, if place == 16 { 0 } else { other[17] });
        let length = other.len() as u32;
        assert!(PlainSegment::of(LinkType::ETHERNET, &other, length).is_none(), "byte {place}");
    }
}

/// Ends that are found without decoding are those of the segment, and such a segment can be decoded.
fn ends_are_right(link: LinkType, bytes: &[u8]) {
    if let Some(ends) = PlainEnds::of(link, bytes, bytes.len() as u32) {
        let decoded = decode(link, bytes, bytes.len() as u32).expect("an IP packet");
        let tcp = Tcp::of(&decoded.ip).expect("TCP");
        let (IpAddr::V4(from), IpAddr::V4(to)) = (decoded.ip.source, decoded.ip.destination) else {
            panic!("{:?}", decoded.ip);
        };
        let end = |ip: std::net::Ipv4Addr, port| u64::from(ip.to_bits()) << 16 | u64::from(port);
        assert_eq!(ends, PlainEnds::new(end(from, tcp.source), end(to, tcp.destination)));
        assert!(ends.has_port(tcp.source) && ends.has_port(tcp.destination));
    }
}

fn decode_any(link: LinkType, bytes: &[u8], length: u32) {
    if let Ok(decoded) = decode(link, bytes, length) {
        assert!(decoded.ip.payload.len() <= bytes.len());
        if let Ok(tcp) = Tcp::of(&decoded.ip) {
            assert!(tcp.payload.len() <= tcp.length as usize);
            assert!(tcp.options().count() <= 40);
            tcp.time_stamps();
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..200), length: u32) {
        for link in LINKS {
            decode_any(link, &bytes, length);
        }
    }

    #[test]
    fn damaged_packets_are_decoded(at: usize, value: u8, cut: usize, depth in 0usize..12) {
        let mut packet = plain();
        for level in 0..depth {
            packet = match level % 4 {
                0 => v4(4, &packet),
                1 => v4(47, &[&[0, 0, 8, 0][..], &packet].concat()),
                2 => v6(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &frame(0x0800, &packet)].concat())),
                _ => v4(17, &udp(2152, &[&[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], &packet].concat())),
            };
        }
        let at = at % packet.len();
        packet[at] = value;
        packet.truncate(packet.len() - cut % packet.len());
        is_plain(LinkType::RAW, &packet);
        ends_are_right(LinkType::RAW, &packet);
        decode_any(LinkType::RAW, &packet, packet.len() as u32);
    }
}
