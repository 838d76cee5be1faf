//! pcap: a header, then records. Microseconds or nanoseconds, either byte order, and the "modified" form
//! of old Linux distributions, whose records have eight bytes more.
//!
//! Source: draft-ietf-opsawg-pcap; libpcap `sf-pcap.c`.

use super::bytes::Order;
use super::file::{FileState, Skip};
use super::link::LinkType;
use super::types::{Interface, MAX_CLAIMED_BYTES, MAX_SNAP_LENGTH, Packet, Step};

/// Bytes of the file's header.
pub(super) const HEADER_BYTES: usize = 24;
/// Bytes of a record's header.
const RECORD_HEADER_BYTES: usize = 16;
/// Bytes of a record's header in the modified form: interface, protocol, packet type.
const MODIFIED_RECORD_HEADER_BYTES: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED_MAGIC: u32 = 0xa1b2_cd34;
/// Bits of the link-type field that are the link type; above: the frame check sequence.
const LINK_TYPE_MASK: u32 = 0xffff;
/// Whether the length of the frame check sequence is given, and where.
const FCS_LENGTH_PRESENT: u32 = 1 << 26;
const FCS_LENGTH_SHIFT: u32 = 28;

/// What the header of a file has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pcap {
    order: Order,
    nanoseconds: bool,
    record_header_bytes: usize,
    link: LinkType,
    swapped: Swapped,
}

/// Whether the two lengths of a record are swapped, as in old files: that on the wire before that
/// captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swapped {
    No,
    Yes,
    /// Version 2.3: only some writers swapped them.
    Maybe,
}

impl Pcap {
    /// Reads the header; `None`: more bytes are needed.
    pub(super) fn begin(buffer: &[u8]) -> Result<Option<(Self, Interface)>, String> {
        let Some(head) = buffer.get(..HEADER_BYTES) else {
            // Four bytes are there: a foreign file is recognised at once.
            return byte_order_and_magic(buffer).map(|_| None);
        };
        let (order, magic) = byte_order_and_magic(head)?;
        let (major, minor) = (order.u16(head, 4), order.u16(head, 6));
        let network = order.u32(head, 20);
        let swapped = match (major, minor) {
            // DG/UX wrote 543.0; before 2.3 all writers swapped them.
            (543, 0) => Swapped::Yes,
            (2, 3) => Swapped::Maybe,
            (2, 0..=2) => Swapped::Yes,
            _ => Swapped::No,
        };
        let link = LinkType((network & LINK_TYPE_MASK) as u16);
        let check_bytes =
            if network & FCS_LENGTH_PRESENT == 0 { 0 } else { (network >> FCS_LENGTH_SHIFT) * 2 };
        let interface = Interface {
            link,
            snap_length: order.u32(head, 16),
            fcs_bytes: check_bytes as u8,
            ..Interface::default()
        };
        let record_header_bytes = if magic == MODIFIED_MAGIC {
            MODIFIED_RECORD_HEADER_BYTES
        } else {
            RECORD_HEADER_BYTES
        };
        let nanoseconds = magic == NANOSECONDS;
        Ok(Some((Pcap { order, nanoseconds, record_header_bytes, link, swapped }, interface)))
    }

    /// The record at the front of a buffer.
    #[inline]
    pub(super) fn record<'a>(self, file: &mut FileState, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let Some(head) = buffer.get(..self.record_header_bytes) else {
            return (0, Step::NeedBytes(self.record_header_bytes));
        };
        let (mut captured, mut length) = (self.order.u32(head, 8), self.order.u32(head, 12));
        let swap = match self.swapped {
            Swapped::No => false,
            Swapped::Yes => true,
            Swapped::Maybe => captured > length,
        };
        if swap {
            std::mem::swap(&mut captured, &mut length);
        }
        if captured as usize > MAX_SNAP_LENGTH {
            return self.long_record(file, buffer, captured, length);
        }
        let end = self.record_header_bytes + captured as usize;
        let Some(bytes) = buffer.get(self.record_header_bytes..end) else {
            return (0, Step::NeedBytes(end));
        };
        (end, Step::Packet(self.packet(head, bytes, length.max(captured))))
    }

    /// Adds the whole records at the front of a buffer to `packets`, as many as there is room for, up
    /// to one that is not as usual. Returns how many bytes they take.
    #[inline]
    pub(super) fn records<'a>(self, buffer: &'a [u8], packets: &mut Vec<Packet<'a>>) -> usize {
        let mut rest = buffer;
        if self.record_header_bytes != RECORD_HEADER_BYTES || self.swapped != Swapped::No {
            return 0;
        }
        while packets.len() < packets.capacity()
            && let Some((head, after)) = rest.split_first_chunk::<RECORD_HEADER_BYTES>()
            && let (captured, length) = (self.order.u32(head, 8), self.order.u32(head, 12))
            && captured as usize <= MAX_SNAP_LENGTH
            && let Some((bytes, next)) = after.split_at_checked(captured as usize)
        {
            packets.push(self.packet(head, bytes, length.max(captured)));
            rest = next;
        }
        buffer.len() - rest.len()
    }

    #[inline(always)]
    fn packet<'a>(self, head: &[u8], bytes: &'a [u8], length: u32) -> Packet<'a> {
        let seconds = u64::from(self.order.u32(head, 0)) * 1_000_000_000;
        let fraction = u64::from(self.order.u32(head, 4));
        let time_ns = seconds + if self.nanoseconds { fraction } else { fraction * 1000 };
        Packet {
            time_ns: Some(time_ns.into()),
            interface: 0,
            link: self.link,
            bytes,
            length,
            drops: None,
        }
    }

    /// A record of which only the beginning is read.
    #[cold]
    fn long_record<'a>(
        self,
        file: &mut FileState,
        buffer: &'a [u8],
        captured: u32,
        length: u32,
    ) -> (usize, Step<'a>) {
        if captured as usize > MAX_CLAIMED_BYTES {
            let reason = format!("a record of {captured} bytes, more than any packet has");
            return (0, file.damaged(reason));
        }
        let end = self.record_header_bytes + MAX_SNAP_LENGTH;
        let Some((head, bytes)) =
            buffer.get(..end).and_then(|record| record.split_at_checked(self.record_header_bytes))
        else {
            return (0, Step::NeedBytes(end));
        };
        file.skip = Skip::new(end, self.record_header_bytes + captured as usize);
        file.warn_cut(captured as usize);
        (end, Step::Packet(self.packet(head, bytes, length.max(captured))))
    }
}

/// Byte order and magic number of a file.
fn byte_order_and_magic(buffer: &[u8]) -> Result<(Order, u32), String> {
    for order in [Order::Little, Order::Big] {
        let magic = order.u32(buffer, 0);
        if matches!(magic, MICROSECONDS | NANOSECONDS | MODIFIED_MAGIC) {
            return Ok((order, magic));
        }
    }
    let first: Vec<String> = buffer.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Err(format!("neither pcap nor pcapng: it begins with {}", first.join(" ")))
}
