//! What the emulator must know of a frame: where IP begins, what keeps the link itself alive, and
//! the ICMP answer of a router to a packet that is too big.

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Most bytes of an IPv4 packet with an ICMP error (RFC 1812, 4.3.2.3).
const ANSWER_V4: usize = 576;
/// Most bytes of an IPv6 packet with an ICMP error (RFC 4443, 2.4 c).
const ANSWER_V6: usize = 1280;
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const ICMP_V6: u8 = 58;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    V4,
    V6,
    Arp,
    Other,
}

/// A frame that was looked into. Every read is checked: frames come from programs under test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    frame: &'a [u8],
    /// Where the packet of the network layer begins.
    start: usize,
    network: Network,
}

impl<'a> Packet<'a> {
    pub(super) fn of(frame: &'a [u8]) -> Self {
        let ethertype = |at: usize| Some([*frame.get(at)?, *frame.get(at + 1)?]);
        let (start, kind) = match ethertype(12) {
            Some([0x81, 0x00]) => (ETHERNET + 4, ethertype(16)),
            kind => (ETHERNET, kind),
        };
        let version = frame.get(start).map(|byte| byte >> 4);
        let network = match (kind, version) {
            (Some([0x08, 0x00]), Some(4)) if frame.len() >= start + 20 => Network::V4,
            (Some([0x86, 0xdd]), Some(6)) if frame.len() >= start + 40 => Network::V6,
            (Some([0x08, 0x06]), _) => Network::Arp,
            _ => Network::Other,
        };
        Packet { frame, start, network }
    }

    /// The packet of the network layer with what follows; never shorter than its fixed header
    /// when the network is IPv4 or IPv6.
    fn network(&self) -> &'a [u8] {
        self.frame.get(self.start..).unwrap_or_default()
    }

    /// Bytes of the IP packet as its header tells them, no more than there are.
    fn length(&self) -> usize {
        let bytes = self.network();
        let told = match self.network {
            Network::V4 => usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            Network::V6 => 40 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]])),
            Network::Arp | Network::Other => 0,
        };
        told.min(bytes.len())
    }

    /// Whether this is an IP packet of more than so many bytes.
    pub(super) fn larger_than(&self, bytes: u16) -> bool {
        self.length() > usize::from(bytes)
    }

    /// Whether the frame serves the link and not the programs: ARP, neighbour and router
    /// discovery (RFC 4861), multicast group reports.
    pub(super) fn is_housekeeping(&self) -> bool {
        let bytes = self.network();
        match self.network {
            Network::Arp => true,
            Network::V4 => bytes[9] == IGMP,
            Network::V6 => match bytes[6] {
                ICMP_V6 => bytes.get(40).is_some_and(|kind| (130..=137).contains(kind)),
                // Reports of multicast listeners come behind a hop-by-hop header of eight bytes.
                0 => {
                    bytes.get(40) == Some(&ICMP_V6)
                        && bytes.get(48).is_some_and(|kind| matches!(kind, 130..=132 | 143))
                }
                _ => false,
            },
            Network::Other => false,
        }
    }

    /// Where a turned bit makes the checksum of the transport layer fail: in the payload if there
    /// is one, else anywhere behind the IP header. `None` when there is no such byte.
    pub(super) fn corruptible(&self) -> Option<std::ops::Range<usize>> {
        let bytes = self.network();
        let (header, protocol) = match self.network {
            Network::V4 => (usize::from(bytes[0] & 15) * 4, bytes[9]),
            Network::V6 => (40, bytes[6]),
            Network::Arp | Network::Other => return None,
        };
        let end = self.length();
        let transport = if protocol == TCP { 20 } else { 8 };
        let begin = if header + transport < end { header + transport } else { header };
        (header >= 20 && begin < end).then_some(self.start + begin..self.start + end)
    }

    /// Writes what a router answers to this packet when the next link takes `mtu` bytes only: a
    /// frame to its sender. `Answer::Pass` when the packet may be cut.
    pub(super) fn too_big(&self, mtu: u16, into: &mut Vec<u8>) -> Answer {
        into.clear();
        match self.network {
            Network::V4 => self.too_big_v4(mtu, into),
            Network::V6 => self.too_big_v6(mtu, into),
            Network::Arp | Network::Other => Answer::Pass,
        }
    }

    fn too_big_v4(&self, mtu: u16, into: &mut Vec<u8>) -> Answer {
        let bytes = self.network();
        let header = usize::from(bytes[0] & 15) * 4;
        let fragment = u16::from_be_bytes([bytes[6], bytes[7]]);
        if fragment & 0x4000 == 0 {
            return Answer::Pass;
        }
        let (source, destination) = (&bytes[12..16], &bytes[16..20]);
        let unicast = |address: &[u8]| address[0] < 224 && address[0] != 0;
        // RFC 1812, 4.3.2.7: no answer to errors of ICMP, to groups, to later fragments.
        let error = bytes[9] == ICMP
            && bytes.get(header).is_some_and(|kind| !matches!(kind, 0 | 8 | 13..=18));
        if error || fragment & 0x1fff != 0 || !unicast(source) || !unicast(destination) {
            return Answer::Silent;
        }
        let quoted = &bytes[..self.length().min(ANSWER_V4 - 28)];
        self.ethernet_back(into);
        let begin = into.len();
        let total = (28 + quoted.len()) as u16;
        into.extend_from_slice(&[0x45, 0xc0]);
        into.extend_from_slice(&total.to_be_bytes());
        into.extend_from_slice(&[0, 0, 0x40, 0, 64, ICMP, 0, 0]);
        into.extend_from_slice(destination);
        into.extend_from_slice(source);
        let sum = checksum(&[&into[begin..]]);
        into[begin + 10..begin + 12].copy_from_slice(&sum.to_be_bytes());
        into.extend_from_slice(&[3, 4, 0, 0, 0, 0]);
        into.extend_from_slice(&mtu.to_be_bytes());
        into.extend_from_slice(quoted);
        let sum = checksum(&[&into[begin + 20..]]);
        into[begin + 22..begin + 24].copy_from_slice(&sum.to_be_bytes());
        Answer::Told
    }

    fn too_big_v6(&self, mtu: u16, into: &mut Vec<u8>) -> Answer {
        let bytes = self.network();
        let (source, destination) = (&bytes[8..24], &bytes[24..40]);
        let error = bytes[6] == ICMP_V6 && bytes.get(40).is_some_and(|kind| *kind < 128);
        // A group is no source to answer in the name of.
        if error || source[0] == 0xff || destination[0] == 0xff || source.iter().all(|b| *b == 0) {
            return Answer::Silent;
        }
        let quoted = &bytes[..self.length().min(ANSWER_V6 - 48)];
        self.ethernet_back(into);
        let begin = into.len();
        let length = (8 + quoted.len()) as u16;
        into.extend_from_slice(&[0x60, 0, 0, 0]);
        into.extend_from_slice(&length.to_be_bytes());
        into.extend_from_slice(&[ICMP_V6, 64]);
        into.extend_from_slice(destination);
        into.extend_from_slice(source);
        into.extend_from_slice(&[2, 0, 0, 0]);
        into.extend_from_slice(&u32::from(mtu).to_be_bytes());
        into.extend_from_slice(quoted);
        let pseudo = [&length.to_be_bytes()[..], &[0, ICMP_V6]].concat();
        let sum = checksum(&[&into[begin + 8..begin + 40], &pseudo, &into[begin + 40..]]);
        into[begin + 42..begin + 44].copy_from_slice(&sum.to_be_bytes());
        Answer::Told
    }

    /// The Ethernet header, with a VLAN tag if there was one, of a frame back to the sender.
    fn ethernet_back(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.frame[6..12]);
        into.extend_from_slice(&self.frame[..6]);
        into.extend_from_slice(&self.frame[12..self.start]);
    }
}

/// What a router does with a packet that is too big for the next link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It drops the packet and tells its sender.
    Told,
    /// It drops the packet, and may not tell.
    Silent,
    /// It cuts the packet.
    Pass,
}

/// The checksum of the internet (RFC 1071) over parts; all but the last have an even length.
pub(super) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        let mut words = part.chunks_exact(2);
        for word in &mut words {
            sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
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
    fn frames_of_the_link_are_known() {
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
    fn a_v4_sender_is_told() {
        for frame in [frames::udp_v4(1500), frames::tagged(1500)] {
            let mut answer = Vec::new();
            assert!(Packet::of(&frame).larger_than(1499));
            assert!(!Packet::of(&frame).larger_than(1500));
            assert_eq!(Packet::of(&frame).too_big(1400, &mut answer), Answer::Told);
            let start = frame.len() - 1500;
            assert_eq!(answer[..6], frame[6..12]);
            assert_eq!(answer[6..12], frame[..6]);
            assert_eq!(answer[12..start], frame[12..start]);
            let ip = &answer[start..];
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
    fn a_v6_sender_is_told() {
        let frame = frames::udp_v6(1500);
        let mut answer = Vec::new();
        assert_eq!(Packet::of(&frame).too_big(1280, &mut answer), Answer::Told);
        let ip = &answer[14..];
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
    fn nobody_is_told_who_must_not_be() {
        let mut answer = Vec::new();
        let mut frame = frames::udp_v4(1500);
        frame[14 + 6] = 0; // may be cut
        assert_eq!(Packet::of(&frame).too_big(1400, &mut answer), Answer::Pass);
        let mut frame = frames::udp_v4(1500);
        frame[14 + 16] = 224; // a group
        assert_eq!(Packet::of(&frame).too_big(1400, &mut answer), Answer::Silent);
        let mut frame = frames::udp_v4(1500);
        frame[14 + 9] = 1;
        frame[14 + 20] = 3; // an error of ICMP
        assert_eq!(Packet::of(&frame).too_big(1400, &mut answer), Answer::Silent);
        frame[14 + 20] = 8; // an echo request
        assert_eq!(Packet::of(&frame).too_big(1400, &mut answer), Answer::Told);
    }

    proptest! {
        #[test]
        fn no_frame_panics(frame in frames::any(), mtu in any::<u16>()) {
            let packet = Packet::of(&frame);
            let _ = packet.is_housekeeping();
            if let Some(range) = packet.corruptible() {
                prop_assert!(range.start >= 34 && range.start < range.end && range.end <= frame.len());
            }
            let mut answer = Vec::new();
            if packet.larger_than(mtu) {
                let told = packet.too_big(mtu, &mut answer);
                prop_assert_eq!(told == Answer::Told, !answer.is_empty());
            }
        }
    }
}
