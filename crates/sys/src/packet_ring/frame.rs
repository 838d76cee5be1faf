//! A block of the kernel's ring to frames, as capture files have them: tags and headers that the
//! kernel keeps beside a packet are put back. Pure, and safe on any bytes.

use std::mem::offset_of;
use std::ops::ControlFlow;

use wire::capture::LinkType;
use wire::capture::write::Flags;

/// Where a block has its status: version and an offset of four bytes each come before.
pub(super) const STATUS: usize = 8;
/// Where it has the number of its packets, and the offset of the first.
const COUNT: usize = 12;
const FIRST: usize = 16;
/// Where the address stands after the header of a packet: aligned to 16 bytes.
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
/// The VLAN tag is before the Ethernet type, after two addresses.
const BEFORE_TAG: usize = 12;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// The type of a VLAN tag, where the kernel does not say which.
const TAG_TYPE: u16 = 0x8100;
/// Bytes of the cooked header, version 2.
const COOKED: usize = 20;
/// `PACKET_OUTGOING` of linux/if_packet.h.
pub(super) const OUTGOING: u8 = 4;

/// A packet as a capture file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the kernel saw it: nanoseconds since 1970-01-01 UTC.
    pub time_ns: i128,
    /// Its bytes, cut to the snap length.
    pub bytes: &'a [u8],
    /// The length that it had, bytes.
    pub length: u32,
    /// Direction.
    pub flags: Flags,
    /// Index of the interface that it passed.
    pub interface: u32,
}

/// A packet as the ring has it.
struct RingPacket<'a> {
    time_ns: i128,
    bytes: &'a [u8],
    length: u32,
    /// Type and content of the VLAN tag that the kernel took out.
    tag: Option<[u8; TAG]>,
    /// `struct sockaddr_ll`, 20 bytes.
    address: &'a [u8],
    /// How far the next one is.
    next: usize,
}

/// Hands over the frames of a block.
pub(super) fn for_each_frame(
    block: &[u8],
    link: LinkType,
    snap_length: usize,
    scratch: &mut Vec<u8>,
    give: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut at = u32_at(block, FIRST) as usize;
    // Each takes more than 48 bytes: a count above that is not the kernel's.
    let most = block.len() / ADDRESS;
    for _ in 0..(u32_at(block, COUNT) as usize).min(most) {
        let Some(packet) = packet(block, at) else { break };
        if !packet.is_loopback_sent() {
            give(packet.frame(link, snap_length, scratch))?;
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
    let head = block.get(at..)?.get(..ADDRESS + size_of::<libc::sockaddr_ll>())?;
    let field = |offset| u32_at(head, offset);
    let start = at.checked_add(usize::from(u16_at(head, offset_of!(Header, tp_mac))))?;
    let end = start.checked_add(field(offset_of!(Header, tp_snaplen)) as usize)?;
    let status = field(offset_of!(Header, tp_status));
    let tci = field(VARIANT + offset_of!(Variant, tp_vlan_tci)) as u16;
    let tag = (status & libc::TP_STATUS_VLAN_VALID != 0 || tci != 0).then(|| {
        let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
            TAG_TYPE
        } else {
            u16_at(head, VARIANT + offset_of!(Variant, tp_vlan_tpid))
        };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), tci.to_be_bytes());
        [a, b, c, d]
    });
    let seconds = i128::from(field(offset_of!(Header, tp_sec)));
    Some(RingPacket {
        time_ns: seconds * 1_000_000_000 + i128::from(field(offset_of!(Header, tp_nsec))),
        bytes: block.get(start..end)?,
        length: field(offset_of!(Header, tp_len)),
        tag,
        address: &head[ADDRESS..],
        next: field(offset_of!(Header, tp_next_offset)) as usize,
    })
}

impl RingPacket<'_> {
    /// The loopback gives each packet as sent and as received.
    fn is_loopback_sent(&self) -> bool {
        let kind = u16_at(self.address, offset_of!(libc::sockaddr_ll, sll_hatype));
        kind == libc::ARPHRD_LOOPBACK && self.packet_type() == OUTGOING
    }

    fn packet_type(&self) -> u8 {
        self.address[offset_of!(libc::sockaddr_ll, sll_pkttype)]
    }

    fn frame<'a>(
        &'a self,
        link: LinkType,
        snap_length: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Frame<'a> {
        let (bytes, more) = match (link, self.tag) {
            (LinkType::LINUX_SLL2, tag) => (self.cooked(tag, scratch), COOKED + self.tag_bytes()),
            (LinkType::ETHERNET, Some(tag)) if self.bytes.len() >= BEFORE_TAG => {
                let (addresses, rest) = self.bytes.split_at(BEFORE_TAG);
                scratch.clear();
                [addresses, &tag, rest].iter().for_each(|part| scratch.extend_from_slice(part));
                (&scratch[..], TAG)
            }
            _ => (self.bytes, 0),
        };
        Frame {
            time_ns: self.time_ns,
            bytes: &bytes[..bytes.len().min(snap_length)],
            length: self.length.saturating_add(more as u32),
            flags: Flags::from_linux(self.packet_type()),
            interface: u32_at(self.address, offset_of!(libc::sockaddr_ll, sll_ifindex)),
        }
    }

    fn tag_bytes(&self) -> usize {
        self.tag.map_or(0, |_| TAG)
    }

    /// The packet after a cooked header, version 2; a tag is what the header says it carries.
    fn cooked<'a>(&self, tag: Option<[u8; TAG]>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        type Address = libc::sockaddr_ll;
        let address = self.address;
        let part = |at: usize, length: usize| &address[at..at + length];
        let protocol = part(offset_of!(Address, sll_protocol), 2);
        let index = u32_at(address, offset_of!(Address, sll_ifindex));
        let kind = u16_at(address, offset_of!(Address, sll_hatype));
        scratch.clear();
        scratch.extend_from_slice(tag.as_ref().map_or(protocol, |tag| &tag[..2]));
        scratch.extend([0; 2]);
        scratch.extend(index.to_be_bytes());
        scratch.extend(kind.to_be_bytes());
        scratch.push(self.packet_type());
        scratch.push(address[offset_of!(Address, sll_halen)]);
        scratch.extend_from_slice(part(offset_of!(Address, sll_addr), 8));
        if let Some([_, _, tci @ ..]) = tag {
            scratch.extend(tci);
            scratch.extend_from_slice(protocol);
        }
        scratch.extend_from_slice(self.bytes);
        scratch
    }
}

/// Four bytes in the order of this machine; 0 beyond the end.
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
        block[COUNT..COUNT + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[FIRST..FIRST + 4].copy_from_slice(&48u32.to_ne_bytes());
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
    fn the_layout_is_the_kernels() {
        assert_eq!((ADDRESS, size_of::<libc::sockaddr_ll>()), (48, 20));
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
    fn tags_are_put_back() {
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
            "the snap length holds"
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
        fn any_block_ends(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            for link in [LinkType::ETHERNET, LinkType::LINUX_SLL2, LinkType::RAW] {
                let found = frames(&bytes, link, 96);
                prop_assert!(found.iter().all(|(bytes, _)| bytes.len() <= 96));
            }
        }

        #[test]
        fn damaged_blocks_end(at in 0usize..300, value: [u8; 4]) {
            let mut ring = block(&[(1, 0, 0, &[7; 60]), (1 | VALID, 9, 0, &[8; 60])]);
            let at = at % (ring.len() - 4);
            ring[at..at + 4].copy_from_slice(&value);
            frames(&ring, LinkType::ETHERNET, 96);
        }
    }
}
