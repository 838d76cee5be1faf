//! What the emulator must know of a frame: where IP begins, what serves the link itself, and a
//! router's ICMP error for a packet that is too big.

/// Bytes of an Ethernet header.
const ETHERNET_HEADER: usize = 14;
/// Bytes of a VLAN tag.
const VLAN_TAG: usize = 4;
/// Maximum size of an IPv4 packet with an ICMP error (RFC 1812, 4.3.2.3).
const MAX_ERROR_V4: usize = 576;
/// Maximum size of an IPv6 packet with an ICMP error (RFC 4443, 2.4 c).
const MAX_ERROR_V6: usize = 1280;
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const ICMP_V6: u8 = 58;

/// What a frame carries, with the fixed header of IP.
#[derive(Debug, Clone, Copy)]
enum Network<'a> {
    V4(&'a [u8; 20]),
    V6(&'a [u8; 40]),
    Arp,
    Other,
}

/// A parsed frame. Every read is checked: frames come from programs under test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    /// The Ethernet header, with its VLAN tag if there is one.
    ethernet: &'a [u8],
    /// The packet of the network layer and everything behind it.
    payload: &'a [u8],
    network: Network<'a>,
}

impl<'a> Packet<'a> {
    pub(super) fn of(frame: &'a [u8]) -> Self {
        let ethertype = |at: usize| Some([*frame.get(at)?, *frame.get(at + 1)?]);
        let (start, kind) = match ethertype(12) {
            Some([0x81, 0x00]) => (ETHERNET_HEADER + VLAN_TAG, ethertype(16)),
            kind => (ETHERNET_HEADER, kind),
        };
        let (ethernet, payload) = frame.split_at_checked(start).unwrap_or((frame, &[]));
        let version = payload.first().map(|byte| byte >> 4);
        let network = match (kind, version, payload.first_chunk(), payload.first_chunk()) {
            (Some([0x08, 0x00]), Some(4), Some(header), _) => Network::V4(header),
            (Some([0x86, 0xdd]), Some(6), _, Some(header)) => Network::V6(header),
            (Some([0x08, 0x06]), ..) => Network::Arp,
            _ => Network::Other,
        };
        Packet { ethernet, payload, network }
    }

    /// Bytes of the IP packet according to its header, no more than there are.
    fn length(&self) -> usize {
        let declared = match self.network {
            Network::V4(header) => usize::from(u16::from_be_bytes([header[2], header[3]])),
            Network::V6(header) => 40 + usize::from(u16::from_be_bytes([header[4], header[5]])),
            Network::Arp | Network::Other => 0,
        };
        declared.min(self.payload.len())
    }

    /// Whether this is an IP packet of more than this many bytes.
    pub(super) fn larger_than(&self, bytes: u16) -> bool {
        self.length() > usize::from(bytes)
    }

    /// Whether the frame serves the link and not a program: ARP, neighbour and router discovery
    /// (RFC 4861), multicast group reports.
    pub(super) fn is_housekeeping(&self) -> bool {
        let byte = |at: usize| self.payload.get(at).copied();
        match self.network {
            Network::Arp => true,
            Network::V4(header) => header[9] == IGMP,
            Network::V6(header) => match header[6] {
                ICMP_V6 => byte(40).is_some_and(|kind| (130..=137).contains(&kind)),
                // Multicast listener reports come behind a hop-by-hop header of eight bytes.
                0 => {
                    byte(40) == Some(ICMP_V6)
                        && byte(48).is_some_and(|kind| matches!(kind, 130..=132 | 143))
                }
                _ => false,
            },
            Network::Other => false,
        }
    }

    /// Where in the frame a flipped bit makes the transport checksum fail: in the data if there is
    /// any, otherwise anywhere behind the IP header. `None` when there is no such byte.
    pub(super) fn corruptible(&self) -> Option<std::ops::Range<usize>> {
        let (header, protocol) = match self.network {
            Network::V4(header) => (header_length(header), header[9]),
            Network::V6(header) => (40, header[6]),
            Network::Arp | Network::Other => return None,
        };
        let start = self.ethernet.len();
        let end = self.length();
        let transport = if protocol == TCP { 20 } else { 8 };
        let begin = if header + transport < end { header + transport } else { header };
        (header >= 20 && begin < end).then_some(start + begin..start + end)
    }

    /// Writes a router's reply to this packet when the next link has this MTU: a frame to the
    /// packet's sender.
    pub(super) fn too_big(&self, mtu: u16, into: &mut Vec<u8>) -> TooBig {
        into.clear();
        match self.network {
            Network::V4(header) => self.too_big_v4(header, mtu, into),
            Network::V6(header) => self.too_big_v6(header, mtu, into),
            Network::Arp | Network::Other => TooBig::Fragment,
        }
    }

    fn too_big_v4(&self, header: &[u8; 20], mtu: u16, into: &mut Vec<u8>) -> TooBig {
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        if fragment & 0x4000 == 0 {
            return TooBig::Fragment;
        }
        // RFC 1812, 4.3.2.7: no error for ICMP errors, multicast, later fragments.
        let kind = self.payload.get(header_length(header));
        let error = header[9] == ICMP && kind.is_some_and(|kind| !matches!(kind, 0 | 8 | 13..=18));
        let unicast = |first: u8| first < 224 && first != 0;
        if error || fragment & 0x1fff != 0 || !unicast(header[12]) || !unicast(header[16]) {
            return TooBig::Drop;
        }
        let quoted = self.quote(MAX_ERROR_V4 - 28);
        self.push_reply_ethernet(into);
        let mut ip = [0; 20];
        ip[..2].copy_from_slice(&[0x45, 0xc0]);
        ip[2..4].copy_from_slice(&(28 + quoted.len() as u16).to_be_bytes());
        ip[6] = 0x40;
        ip[8..10].copy_from_slice(&[64, ICMP]);
        ip[12..16].copy_from_slice(&header[16..20]);
        ip[16..20].copy_from_slice(&header[12..16]);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        // Destination unreachable, fragmentation needed.
        let mut icmp = [3, 4, 0, 0, 0, 0, 0, 0];
        icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
        let sum = checksum(&[&icmp, quoted]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        into.extend(ip.iter().chain(&icmp).chain(quoted));
        TooBig::Reply
    }

    fn too_big_v6(&self, header: &[u8; 40], mtu: u16, into: &mut Vec<u8>) -> TooBig {
        let (source, destination) = (&header[8..24], &header[24..40]);
        let error = header[6] == ICMP_V6 && self.payload.get(40).is_some_and(|kind| *kind < 128);
        // RFC 4443, 2.4 e: no error for ICMP errors, multicast, the unspecified address.
        let multicast = header[8] == 0xff || header[24] == 0xff;
        if error || multicast || source.iter().all(|byte| *byte == 0) {
            return TooBig::Drop;
        }
        let quoted = self.quote(MAX_ERROR_V6 - 48);
        self.push_reply_ethernet(into);
        let length = (8 + quoted.len() as u16).to_be_bytes();
        let mut ip = [0; 40];
        ip[0] = 0x60;
        ip[4..6].copy_from_slice(&length);
        ip[6..8].copy_from_slice(&[ICMP_V6, 64]);
        ip[8..24].copy_from_slice(destination);
        ip[24..40].copy_from_slice(source);
        // Packet too big.
        let mut icmp = [2, 0, 0, 0, 0, 0, 0, 0];
        icmp[4..8].copy_from_slice(&u32::from(mtu).to_be_bytes());
        let sum = checksum(&[&ip[8..40], &length, &[0, ICMP_V6], &icmp, quoted]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        into.extend(ip.iter().chain(&icmp).chain(quoted));
        TooBig::Reply
    }

    /// The beginning of the IP packet, at most this many bytes.
    fn quote(&self, max_bytes: usize) -> &'a [u8] {
        self.payload.get(..self.length().min(max_bytes)).unwrap_or_default()
    }

    /// The Ethernet header, with the VLAN tag if there is one, of a frame back to the sender.
    fn push_reply_ethernet(&self, into: &mut Vec<u8>) {
        let addresses = self.ethernet.split_at_checked(12);
        let (addresses, rest) = addresses.unwrap_or((self.ethernet, &[]));
        let (destination, source) = addresses.split_at_checked(6).unwrap_or((addresses, &[]));
        into.extend(source.iter().chain(destination).chain(rest));
    }
}

/// Bytes of an IPv4 header with its options.
fn header_length(header: &[u8; 20]) -> usize {
    usize::from(header[0] & 15) * 4
}

/// What a router does with a packet that is too big for the next link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooBig {
    /// It drops the packet and replies with an ICMP error.
    Reply,
    /// It drops the packet and must not send an error.
    Drop,
    /// It fragments the packet.
    Fragment,
}

/// The internet checksum (RFC 1071) over several parts; all but the last have an even length.
pub(super) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        let (words, rest) = part.as_chunks();
        sum += words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>();
        if let [last] = rest {
            sum += u32::from(*last) << 8;
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frames;
    use super::*;

    #[test]
    fn housekeeping_frames_are_recognised() {
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert!(Packet::of(&arp).is_housekeeping());
        let mut neighbour = frames::udp_v6(100);
        neighbour[14 + 6] = ICMP_V6;
        neighbour[14 + 40] = 135;
        assert!(Packet::of(&neighbour).is_housekeeping());
        neighbour[14 + 40] = 128; // echo request
        assert!(!Packet::of(&neighbour).is_housekeeping());
        for frame in [frames::udp_v4(100), frames::udp_v6(100), frames::tagged(100)] {
            assert!(!Packet::of(&frame).is_housekeeping());
        }
    }

    #[test]
    fn an_ipv4_sender_gets_fragmentation_needed() {
        for frame in [frames::udp_v4(1500), frames::tagged(1500)] {
            let mut reply = Vec::new();
            assert!(Packet::of(&frame).larger_than(1499));
            assert!(!Packet::of(&frame).larger_than(1500));
            assert_eq!(Packet::of(&frame).too_big(1400, &mut reply), TooBig::Reply);
            let start = frame.len() - 1500;
            assert_eq!(reply[..6], frame[6..12]);
            assert_eq!(reply[6..12], frame[..6]);
            assert_eq!(reply[12..start], frame[12..start]);
            let ip = &reply[start..];
            assert_eq!(ip.len(), 576);
            assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), 576);
            assert_eq!(checksum(&[&ip[..20]]), 0);
            assert_eq!(
                (ip[9], &ip[12..16], &ip[16..20]),
                (1, &[198, 18, 0, 2][..], &[198, 18, 0, 1][..])
            );
            assert_eq!(checksum(&[&ip[20..]]), 0);
            assert_eq!(ip[20..22], [3, 4]);
            assert_eq!(ip[24..28], [0, 0, 0x05, 0x78]);
            assert_eq!(ip[28..], frame[start..start + 548]);
        }
    }

    #[test]
    fn an_ipv6_sender_gets_packet_too_big() {
        let frame = frames::udp_v6(1500);
        let mut reply = Vec::new();
        assert_eq!(Packet::of(&frame).too_big(1280, &mut reply), TooBig::Reply);
        let ip = &reply[14..];
        assert_eq!(ip.len(), 1280);
        assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), 1240);
        assert_eq!(
            (ip[6], &ip[8..24], &ip[24..40]),
            (58, &frame[14 + 24..14 + 40], &frame[14 + 8..14 + 24])
        );
        assert_eq!(checksum(&[&ip[8..40], &[0x04, 0xd8, 0, 58], &ip[40..]]), 0);
        assert_eq!(ip[40..42], [2, 0]);
        assert_eq!(ip[44..48], [0, 0, 5, 0]);
        assert_eq!(ip[48..], frame[14..14 + 1232]);
    }

    #[test]
    fn no_icmp_error_is_sent_where_rfc_1812_forbids_it() {
        let mut reply = Vec::new();
        let mut frame = frames::udp_v4(1500);
        frame[14 + 6] = 0; // may be fragmented
        assert_eq!(Packet::of(&frame).too_big(1400, &mut reply), TooBig::Fragment);
        let mut frame = frames::udp_v4(1500);
        frame[14 + 16] = 224; // multicast
        assert_eq!(Packet::of(&frame).too_big(1400, &mut reply), TooBig::Drop);
        let mut frame = frames::udp_v4(1500);
        frame[14 + 9] = 1;
        frame[14 + 20] = 3; // an ICMP error
        assert_eq!(Packet::of(&frame).too_big(1400, &mut reply), TooBig::Drop);
        frame[14 + 20] = 8; // an echo request
        assert_eq!(Packet::of(&frame).too_big(1400, &mut reply), TooBig::Reply);
    }

    proptest! {
        #[test]
        fn no_frame_panics(frame in frames::any(), mtu in any::<u16>()) {
            let packet = Packet::of(&frame);
            let _ = packet.is_housekeeping();
            if let Some(range) = packet.corruptible() {
                prop_assert!(range.start >= 34 && range.start < range.end && range.end <= frame.len());
            }
            let mut reply = Vec::new();
            if packet.larger_than(mtu) {
                let action = packet.too_big(mtu, &mut reply);
                prop_assert_eq!(action == TooBig::Reply, !reply.is_empty());
            }
        }
    }
}
