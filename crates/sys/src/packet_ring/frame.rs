//! A block of the kernel's ring to frames, as capture files have them: tags and headers that the
//! kernel stores apart from a packet are put back. Pure, and safe on any bytes.

use std::mem::offset_of;
use std::ops::ControlFlow;

use wire::capture::LinkType;
use wire::capture::write::Flags;

/// Offset of the status in a block: after version and an offset of four bytes each.
pub(super) const STATUS_OFFSET: usize = 8;
/// Offset of the number of packets in a block, and of the offset of the first.
const COUNT_OFFSET: usize = 12;
const FIRST_OFFSET: usize = 16;
/// Bytes of the header of a packet; the address after it is aligned to 16 bytes.
const HEADER_BYTES: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
/// Bytes of that address, `struct sockaddr_ll`.
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_ll>();
/// Bytes of the two addresses of an Ethernet header, which the VLAN tag follows.
const MAC_ADDRESSES_BYTES: usize = 12;
/// Bytes of a VLAN tag.
const TAG_BYTES: usize = 4;
/// The type of a VLAN tag where the kernel does not report it.
const DEFAULT_TAG_TYPE: u16 = 0x8100;
/// Bytes of the cooked header, version 2 (LINUX_SLL2).
const COOKED_HEADER_BYTES: usize = 20;
/// `PACKET_OUTGOING` of linux/if_packet.h.
pub(super) const OUTGOING: u8 = 4;

/// A packet as a capture file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the kernel received or sent it: nanoseconds since 1970-01-01 UTC.
    pub time_ns: i128,
    /// Its bytes, cut to the snap length.
    pub bytes: &'a [u8],
    /// Its length on the wire, bytes.
    pub length: u32,
    /// Direction.
    pub flags: Flags,
    /// Index of its interface.
    pub interface: u32,
}

/// A packet as the ring has it.
struct RingPacket<'a> {
    time_ns: i128,
    bytes: &'a [u8],
    length: u32,
    /// Type and content of the VLAN tag that the kernel has removed.
    tag: Option<[u8; TAG_BYTES]>,
    address: LinkAddress,
    /// Distance to the next packet.
    next: usize,
}

/// `struct sockaddr_ll`: where a packet came from, or went.
struct LinkAddress {
    /// In network order.
    protocol: [u8; 2],
    interface: u32,
    device_type: u16,
    packet_type: u8,
    address_length: u8,
    address: [u8; 8],
}

impl LinkAddress {
    fn parse(bytes: &[u8; ADDRESS_BYTES]) -> Self {
        let [_, _, p0, p1, i0, i1, i2, i3, d0, d1, packet_type, address_length, address @ ..] =
            *bytes;
        LinkAddress {
            protocol: [p0, p1],
            interface: u32::from_ne_bytes([i0, i1, i2, i3]),
            device_type: u16::from_ne_bytes([d0, d1]),
            packet_type,
            address_length,
            address,
        }
    }

    /// The loopback gives each packet twice, as sent and as received.
    fn is_loopback_sent(&self) -> bool {
        self.device_type == libc::ARPHRD_LOOPBACK && self.packet_type == OUTGOING
    }
}

/// Calls for each frame of a block.
pub(super) fn for_each_frame(
    block: &[u8],
    link: LinkType,
    snap_length: usize,
    scratch: &mut Vec<u8>,
    each: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut at = u32_at(block, FIRST_OFFSET) as usize;
    // Each packet takes more than 48 bytes: a larger count is not the kernel's.
    let max = block.len() / HEADER_BYTES;
    for _ in 0..(u32_at(block, COUNT_OFFSET) as usize).min(max) {
        let Some(packet) = packet(block, at) else { break };
        if !packet.address.is_loopback_sent() {
            each(packet.frame(link, snap_length, scratch))?;
        }
        at = at.saturating_add(packet.next);
    }
    ControlFlow::Continue(())
}

/// The packet at an offset of a block.
fn packet(block: &[u8], at: usize) -> Option<RingPacket<'_>> {
    type Header = libc::tpacket3_hdr;
    type Variant = libc::tpacket_hdr_variant1;
    const VARIANT: usize = size_of::<[u32; 7]>();
    let (header, rest) = block.get(at..)?.split_first_chunk::<HEADER_BYTES>()?;
    let address = LinkAddress::parse(rest.first_chunk()?);
    let field = |offset| u32_at(header, offset);
    let start = at.checked_add(usize::from(u16_at(header, offset_of!(Header, tp_mac))))?;
    let end = start.checked_add(field(offset_of!(Header, tp_snaplen)) as usize)?;
    let status = field(offset_of!(Header, tp_status));
    let tci = field(VARIANT + offset_of!(Variant, tp_vlan_tci)) as u16;
    let tag = (status & libc::TP_STATUS_VLAN_VALID != 0 || tci != 0).then(|| {
        let tag_type = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
            DEFAULT_TAG_TYPE
        } else {
            u16_at(header, VARIANT + offset_of!(Variant, tp_vlan_tpid))
        };
        let ([a, b], [c, d]) = (tag_type.to_be_bytes(), tci.to_be_bytes());
        [a, b, c, d]
    });
    let seconds = i128::from(field(offset_of!(Header, tp_sec)));
    Some(RingPacket {
        time_ns: seconds * 1_000_000_000 + i128::from(field(offset_of!(Header, tp_nsec))),
        bytes: block.get(start..end)?,
        length: field(offset_of!(Header, tp_len)),
        tag,
        address,
        next: field(offset_of!(Header, tp_next_offset)) as usize,
    })
}

impl RingPacket<'_> {
    fn frame<'a>(
        &'a self,
        link: LinkType,
        snap_length: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Frame<'a> {
        let (bytes, added) = match (link, self.tag) {
            (LinkType::LINUX_SLL2, _) => (self.cooked(scratch), self.cooked_bytes()),
            (LinkType::ETHERNET, Some(tag)) => {
                match self.bytes.split_at_checked(MAC_ADDRESSES_BYTES) {
                    Some((addresses, rest)) => {
                        scratch.clear();
                        [addresses, &tag, rest].iter().for_each(|part| scratch.extend(*part));
                        (scratch.as_slice(), TAG_BYTES)
                    }
                    None => (self.bytes, 0),
                }
            }
            _ => (self.bytes, 0),
        };
        Frame {
            time_ns: self.time_ns,
            bytes: bytes.get(..snap_length).unwrap_or(bytes),
            length: self.length.saturating_add(added as u32),
            flags: Flags::from_linux(self.address.packet_type),
            interface: self.address.interface,
        }
    }

    /// Bytes that the cooked header adds, with the tag after it.
    fn cooked_bytes(&self) -> usize {
        COOKED_HEADER_BYTES + if self.tag.is_some() { TAG_BYTES } else { 0 }
    }

    /// The packet after a cooked header, version 2; a tag is the protocol that the header names.
    fn cooked<'a>(&self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let address = &self.address;
        let protocol = self.tag.map_or(address.protocol, |[a, b, ..]| [a, b]);
        scratch.clear();
        scratch.extend(protocol);
        scratch.extend([0; 2]);
        scratch.extend(address.interface.to_be_bytes());
        scratch.extend(address.device_type.to_be_bytes());
        scratch.extend([address.packet_type, address.address_length]);
        scratch.extend(address.address);
        if let Some([_, _, tci @ ..]) = self.tag {
            scratch.extend(tci);
            scratch.extend(address.protocol);
        }
        scratch.extend_from_slice(self.bytes);
        scratch
    }
}

/// Four bytes in the byte order of this machine; 0 beyond the end.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    u32::from_ne_bytes(four)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    u16::from_ne_bytes(two)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: u32 = libc::TP_STATUS_VLAN_VALID;
    const TYPED: u32 = libc::TP_STATUS_VLAN_TPID_VALID;

    /// A block with packets of these statuses, tags and bytes, as the kernel lays it out.
    fn block(packets: &[(u32, u16, u16, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; 48];
        block[COUNT_OFFSET..COUNT_OFFSET + 4]
            .copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[FIRST_OFFSET..FIRST_OFFSET + 4].copy_from_slice(&48u32.to_ne_bytes());
        for (status, tci, kind, bytes) in packets {
            let size = (96 + bytes.len()).next_multiple_of(16) as u32;
            let length = bytes.len() as u32;
            for word in [size, 7, 9, length, length + 100, *status] {
                block.extend(word.to_ne_bytes());
            }
            block.extend(96u16.to_ne_bytes());
            block.extend(110u16.to_ne_bytes());
            block.extend(0u32.to_ne_bytes());
            block.extend(u32::from(*tci).to_ne_bytes());
            block.extend(kind.to_ne_bytes());
            block.extend([0; 10]);
            // sockaddr_ll: family, protocol, index, kind, packet type, bytes of the address.
            block.extend(17u16.to_ne_bytes());
            block.extend([8, 0]);
            block.extend(3i32.to_ne_bytes());
            block.extend(1u16.to_ne_bytes());
            block.extend([4, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
            block.resize(block.len() + 28, 0);
            block.extend_from_slice(bytes);
            block.resize(block.len().next_multiple_of(16), 0);
        }
        block
    }

    fn frames(block: &[u8], link: LinkType, snap_length: usize) -> Vec<(Vec<u8>, u32)> {
        let mut found = Vec::new();
        let _ = for_each_frame(block, link, snap_length, &mut Vec::new(), &mut |frame| {
            found.push((frame.bytes.to_vec(), frame.length));
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        assert_eq!((HEADER_BYTES, ADDRESS_BYTES), (48, 20));
        type Address = libc::sockaddr_ll;
        assert_eq!(offset_of!(Address, sll_protocol), 2);
        assert_eq!(offset_of!(Address, sll_ifindex), 4);
        assert_eq!((offset_of!(Address, sll_hatype), offset_of!(Address, sll_pkttype)), (8, 10));
        assert_eq!((offset_of!(Address, sll_halen), offset_of!(Address, sll_addr)), (11, 12));
        assert_eq!(offset_of!(libc::tpacket3_hdr, hv1), 28);
        let mut found = Vec::new();
        let _ = for_each_frame(
            &block(&[(1, 0, 0, b"a frame")]),
            LinkType::ETHERNET,
            96,
            &mut Vec::new(),
            &mut |f| {
                found.push((f.time_ns, f.length, f.flags, f.interface));
                ControlFlow::Continue(())
            },
        );
        assert_eq!(found, [(7_000_000_009, 107, Flags::SENT, 3)]);
    }

    #[test]
    fn vlan_tags_are_put_back() {
        let plain = b"aaaaaabbbbbbttpayload";
        let tagged = b"aaaaaabbbbbb\x81\0\0\x07ttpayload".to_vec();
        let other = b"aaaaaabbbbbb\x88\xa8\0\x07ttpayload".to_vec();
        let ring = block(&[
            (1 | VALID, 7, 0, plain),
            (1 | VALID | TYPED, 7, 0x88a8, plain),
            (1, 0, 0, plain),
            (1 | VALID, 7, 0, b"short"),
        ]);
        let found = frames(&ring, LinkType::ETHERNET, 96);
        assert_eq!(found[0], (tagged.clone(), 125));
        assert_eq!(found[1], (other, 125));
        assert_eq!(found[2], (plain.to_vec(), 121));
        assert_eq!(found[3], (b"short".to_vec(), 105));
        assert_eq!(
            frames(&ring, LinkType::ETHERNET, 20)[0].0,
            tagged[..20],
            "cut to the snap length"
        );
        let cooked = frames(&ring, LinkType::LINUX_SLL2, 96);
        let head = |protocol: [u8; 2]| {
            let mut head = protocol.to_vec();
            head.extend([0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
            head
        };
        let first = [&head([0x81, 0])[..], b"\0\x07\x08\0", plain].concat();
        assert_eq!(cooked[0], (first, 145));
        assert_eq!(cooked[2], ([&head([8, 0])[..], plain].concat(), 141));
    }

    proptest! {
        #[test]
        fn any_block_is_walked_to_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            for link in [LinkType::ETHERNET, LinkType::LINUX_SLL2, LinkType::RAW] {
                let found = frames(&bytes, link, 96);
                prop_assert!(found.iter().all(|(bytes, _)| bytes.len() <= 96));
            }
        }

        #[test]
        fn damaged_blocks_are_walked_to_their_end(at in 0usize..300, value: [u8; 4]) {
            let mut ring = block(&[(1, 0, 0, &[7; 60]), (1 | VALID, 9, 0, &[8; 60])]);
            let at = at % (ring.len() - 4);
            ring[at..at + 4].copy_from_slice(&value);
            frames(&ring, LinkType::ETHERNET, 96);
        }
    }
}
