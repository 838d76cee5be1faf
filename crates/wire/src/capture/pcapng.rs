//! pcapng: blocks of a kind and a length, in sections, each with its byte order and interfaces.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::bytes::Order;
use super::file::{FileState, Skip};
use super::link::LinkType;
use super::types::{
    Interface, MAX_CLAIMED_BYTES, MAX_RECORD_BYTES, MAX_SNAP_LENGTH, Packet, Step, Ticks,
};

/// Section header block: its kind reads the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// The number that shows the byte order of a section.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Bytes of kind and length before the body, and of the length after it.
const HEADER_BYTES: usize = 8;
const TRAILER_BYTES: usize = 4;
/// Bytes of an empty block.
const BLOCK_FRAME_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;
/// Bytes of the fields before the options: of a section header, of an interface description, of
/// statistics.
const SECTION_FIELDS_BYTES: usize = 16;
const INTERFACE_FIELDS_BYTES: usize = 8;
const STATISTICS_FIELDS_BYTES: usize = 12;
/// Bytes of the fields before the packet: in an enhanced or obsolete packet block, in a simple one.
const PACKET_FIELDS_BYTES: usize = 20;
const SIMPLE_PACKET_FIELDS_BYTES: usize = 4;
/// Most interfaces of a file: each takes memory.
const MAX_INTERFACES: usize = 4096;
/// Longest name or description, and longest filter, of an interface that is kept, bytes: there may be
/// thousands of interfaces, and compression makes them of nothing.
const MAX_NAME_BYTES: usize = 1 << 10;
const MAX_FILTER_BYTES: usize = 8 << 10;

/// A pcapng file in its current section.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pcapng {
    order: Order,
    /// Number of the section, from 1; 0 before the first.
    section: usize,
    /// Index of its first interface.
    first_interface: usize,
}

/// Options at the end of a block: code and value.
struct Options<'a> {
    order: Order,
    bytes: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.bytes.get(..4)?;
        let (code, length) = (self.order.u16(head, 0), usize::from(self.order.u16(head, 2)));
        let value = self.bytes.get(4..4 + length)?;
        let next = 4 + length.next_multiple_of(4);
        self.bytes = self.bytes.get(next..).unwrap_or_default();
        // opt_endofopt.
        (code != 0).then_some((code, value))
    }
}

/// A text, of which at most `max` bytes are kept.
fn text(value: &[u8], max: usize) -> String {
    let mut text = String::from_utf8_lossy(value.get(..max).unwrap_or(value)).into_owned();
    text.truncate(text.floor_char_boundary(max));
    text.truncate(text.trim_end_matches('\0').len());
    text
}

impl Pcapng {
    /// The block at the front of a buffer.
    pub(super) fn block<'a>(
        &mut self,
        file: &mut FileState,
        buffer: &'a [u8],
    ) -> (usize, Step<'a>) {
        let Some(head) = buffer.first_chunk::<BLOCK_FRAME_BYTES>() else {
            return (0, Step::NeedBytes(BLOCK_FRAME_BYTES));
        };
        let mut order = self.order;
        let kind = order.u32(head, 0);
        if kind == SECTION {
            order = match [head[8], head[9], head[10], head[11]] {
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                _ => return (0, file.damaged("a section without a byte order")),
            };
            debug_assert_eq!(order.u32(head, 8), BYTE_ORDER_MAGIC);
        }
        let length = order.u32(head, 4) as usize;
        if !(BLOCK_FRAME_BYTES..=MAX_CLAIMED_BYTES).contains(&length) {
            let reason = format!("a block of {length} bytes, which no block has");
            return (0, file.damaged(reason));
        }
        let whole = length.next_multiple_of(4);
        if whole > MAX_RECORD_BYTES {
            return self.long_block(file, buffer, (order, kind), whole);
        }
        let Some(block) = buffer.get(..whole) else {
            return (0, Step::NeedBytes(whole));
        };
        // Some writers do not round lengths up to four bytes.
        if !length.is_multiple_of(4) {
            file.warn(format!("a block of {length} bytes, not a multiple of 4"));
        }
        if order.u32(block, length.saturating_sub(TRAILER_BYTES)) as usize != length {
            file.warn("a block whose two lengths differ");
        }
        let body = block.get(HEADER_BYTES..length - TRAILER_BYTES).unwrap_or_default();
        let step = self.body(file, (order, kind), body);
        let taken = if matches!(step, Step::Damaged(_)) { 0 } else { whole };
        (taken, step)
    }

    /// A block of which only the beginning is read, if it is needed at all.
    #[cold]
    fn long_block<'a>(
        &mut self,
        file: &mut FileState,
        buffer: &'a [u8],
        (order, kind): (Order, u32),
        whole: usize,
    ) -> (usize, Step<'a>) {
        let is_known = matches!(
            kind,
            SECTION | INTERFACE | ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET | STATISTICS
        );
        if !is_known {
            file.skip = Skip::new(HEADER_BYTES, whole);
            return (HEADER_BYTES, Step::Skipped);
        }
        let Some(block) = buffer.get(..MAX_RECORD_BYTES) else {
            return (0, Step::NeedBytes(MAX_RECORD_BYTES));
        };
        let step = self.body(file, (order, kind), block.get(HEADER_BYTES..).unwrap_or_default());
        if matches!(step, Step::Damaged(_)) {
            return (0, step);
        }
        file.skip = Skip::new(MAX_RECORD_BYTES, whole);
        (MAX_RECORD_BYTES, step)
    }

    #[inline]
    fn body<'a>(
        &mut self,
        file: &mut FileState,
        (order, kind): (Order, u32),
        body: &'a [u8],
    ) -> Step<'a> {
        match kind {
            SECTION => self.section(file, order, body),
            INTERFACE => self.interface(file, body),
            ENHANCED_PACKET => self.packet(file, body, false),
            OBSOLETE_PACKET => self.packet(file, body, true),
            SIMPLE_PACKET => self.simple_packet(file, body),
            STATISTICS => self.statistics(file, body),
            // Names, secrets, journals, custom blocks: not needed here.
            _ => Step::Skipped,
        }
    }

    fn section<'a>(&mut self, file: &FileState, order: Order, body: &'a [u8]) -> Step<'a> {
        let Some((fields, options)) = body.split_at_checked(SECTION_FIELDS_BYTES) else {
            return file.damaged("a section header that is too short");
        };
        let major = order.u16(fields, 4);
        if major != 1 {
            return file.damaged(format!("pcapng of version {major}; only version 1 is known"));
        }
        let first_interface = file.interfaces.len();
        *self = Pcapng { order, section: self.section + 1, first_interface };
        comment(Options { order, bytes: options }).map_or(Step::Skipped, Step::Comment)
    }

    fn interface<'a>(&self, file: &mut FileState, body: &[u8]) -> Step<'a> {
        let order = self.order;
        let Some((fields, options)) = body.split_at_checked(INTERFACE_FIELDS_BYTES) else {
            return file.damaged("an interface description that is too short");
        };
        if file.interfaces.len() >= MAX_INTERFACES {
            return file.damaged(format!("more than {MAX_INTERFACES} interfaces"));
        }
        let mut interface = Interface {
            section: self.section.saturating_sub(1),
            link: LinkType(order.u16(fields, 0)),
            snap_length: order.u32(fields, 4),
            ..Interface::default()
        };
        for (code, value) in (Options { order, bytes: options }) {
            match (code, value) {
                (2, name) => interface.name = text(name, MAX_NAME_BYTES),
                (3, description) => interface.description = text(description, MAX_NAME_BYTES),
                // if_tsresol: a power of ten, or of two with the highest bit.
                (9, [resolution, ..]) => match nanoseconds_of_tick(*resolution) {
                    Some((numerator, denominator)) => {
                        let offset_s = interface.ticks.offset_s;
                        interface.ticks = Ticks::new(numerator, denominator, offset_s);
                    }
                    None => file.warn("a time resolution that no clock has"),
                },
                // if_filter: a byte for the kind, 0 for text.
                (11, [0, filter @ ..]) => interface.filter = text(filter, MAX_FILTER_BYTES),
                (13, [bytes, ..]) => interface.fcs_bytes = *bytes,
                (14, offset) if offset.len() == 8 => {
                    interface.ticks.offset_s = order.u64(offset, 0) as i64;
                }
                _ => {}
            }
        }
        file.interfaces.push(interface);
        Step::Skipped
    }

    #[inline]
    fn packet<'a>(&self, file: &mut FileState, body: &'a [u8], obsolete: bool) -> Step<'a> {
        let order = self.order;
        let Some(fields) = body.first_chunk::<PACKET_FIELDS_BYTES>() else {
            return file.damaged("a packet block that is too short");
        };
        // The obsolete block has a count of drops in the upper half.
        let (number, mut drops) = if obsolete {
            let drops = order.u16(fields, 2);
            (u32::from(order.u16(fields, 0)), (drops != u16::MAX).then_some(u64::from(drops)))
        } else {
            (order.u32(fields, 0), None)
        };
        let index = self.first_interface.saturating_add(number as usize);
        let Some(interface) = file.interfaces.get(index) else {
            file.warn(format!("a packet of interface {number}, which is not described"));
            return Step::Skipped;
        };
        let link = interface.link;
        let time = (u64::from(order.u32(fields, 4)) << 32) | u64::from(order.u32(fields, 8));
        let time_ns = Some(interface.ticks.time_ns(time));
        let captured = order.u32(fields, 12) as usize;
        let end = PACKET_FIELDS_BYTES.saturating_add(captured.min(MAX_SNAP_LENGTH));
        // Of a long block, only the beginning is here.
        let is_whole = body.len() < MAX_RECORD_BYTES - HEADER_BYTES;
        let is_too_short = is_whole && body.len() - PACKET_FIELDS_BYTES < captured;
        let Some(bytes) = body.get(PACKET_FIELDS_BYTES..end).filter(|_| !is_too_short) else {
            return file.damaged(format!("a packet of {captured} bytes in a smaller block"));
        };
        if captured > MAX_SNAP_LENGTH {
            file.warn_cut(captured);
        }
        let options = PACKET_FIELDS_BYTES + captured.next_multiple_of(4);
        if let Some(rest) = body.get(options..).filter(|rest| !rest.is_empty()) {
            for (code, value) in (Options { order, bytes: rest }) {
                if code == 4 && value.len() == 8 {
                    drops = Some(order.u64(value, 0));
                }
            }
        }
        Step::Packet(Packet {
            time_ns,
            interface: index,
            link,
            bytes,
            length: order.u32(fields, 16).max(captured as u32),
            drops,
        })
    }

    /// A packet of the first interface, without a time; as much of it as the block has room for.
    fn simple_packet<'a>(&self, file: &mut FileState, body: &'a [u8]) -> Step<'a> {
        let Some(interface) = file.interfaces.get(self.first_interface) else {
            file.warn("a packet before any interface is described");
            return Step::Skipped;
        };
        let Some((fields, room)) = body.split_at_checked(SIMPLE_PACKET_FIELDS_BYTES) else {
            return file.damaged("a simple packet block that is too short");
        };
        let length = self.order.u32(fields, 0);
        let snap_length = match interface.snap_length {
            0 => u32::MAX,
            snap_length => snap_length,
        };
        let bytes = room.get(..length.min(snap_length) as usize).unwrap_or(room);
        let (index, link) = (self.first_interface, interface.link);
        Step::Packet(Packet { time_ns: None, interface: index, link, bytes, length, drops: None })
    }

    fn statistics<'a>(&self, file: &mut FileState, body: &[u8]) -> Step<'a> {
        let order = self.order;
        let index = self.first_interface.saturating_add(order.u32(body, 0) as usize);
        let options = body.get(STATISTICS_FIELDS_BYTES..);
        let (Some(interface), Some(options)) = (file.interfaces.get_mut(index), options) else {
            file.warn("statistics of an interface that is not described");
            return Step::Skipped;
        };
        for (code, value) in (Options { order, bytes: options }) {
            if value.len() != 8 {
                continue;
            }
            let count = order.u64(value, 0);
            match code {
                4 => interface.received = Some(count),
                // isb_ifdrop, by the interface, and isb_osdrop, by the system.
                5 | 7 => {
                    interface.dropped = Some(interface.dropped.unwrap_or(0).saturating_add(count));
                }
                _ => {}
            }
        }
        Step::Skipped
    }
}

/// Nanoseconds of a tick as a fraction.
fn nanoseconds_of_tick(resolution: u8) -> Option<(u128, u128)> {
    let power = u32::from(resolution & 0x7f);
    let per_second: u128 = if resolution & 0x80 == 0 {
        // No clock has 10^-20 s, and it would not fit.
        10u128.checked_pow(power).filter(|_| power <= 19)?
    } else {
        1u128.checked_shl(power).filter(|_| power <= 63)?
    };
    Some((1_000_000_000, per_second))
}

fn comment<'a>(mut options: Options<'a>) -> Option<&'a str> {
    let (_, value) = options.find(|(code, _)| *code == 1)?;
    std::str::from_utf8(value).ok()
}
