//! pcapng: blocks of a kind and a length, in sections, each with its byte order and interfaces.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::bytes::Order;
use super::{Interface, LinkType, MAX_INTERFACES, MAX_RECORD_BYTES, Packet, Reader, Step, Ticks};
use crate::capture::Format;

/// Section header block: its kind reads alike in both orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// The number that tells the byte order of a section.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Bytes of kind, length, and the length again at the end.
const BLOCK_FRAME_BYTES: usize = 12;
/// Bytes of the fields before the packet in an enhanced and in an obsolete packet block.
const PACKET_FIELDS_BYTES: usize = 20;
/// Longest name or description, and longest filter of an interface that is kept, bytes: thousands of
/// interfaces take as much, and compression makes them of nothing.
const MAX_NAME_BYTES: usize = 1 << 10;
const MAX_FILTER_BYTES: usize = 8 << 10;

/// The section that is being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Section {
    order: Order,
    /// Its number, from 1; 0 before the first.
    number: usize,
    /// Index of its first interface.
    first: usize,
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

/// A text, of which at most so many bytes are kept.
fn text(value: &[u8], most: usize) -> String {
    let mut text = String::from_utf8_lossy(&value[..value.len().min(most)]).into_owned();
    text.truncate(text.floor_char_boundary(most));
    text.truncate(text.trim_end_matches('\0').len());
    text
}

impl Reader {
    /// The block at the front of a buffer.
    pub(super) fn block<'a>(&mut self, section: Section, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let Some(head) = buffer.get(..BLOCK_FRAME_BYTES) else {
            return (0, Step::NeedBytes(BLOCK_FRAME_BYTES));
        };
        let mut order = section.order;
        let kind = order.u32(head, 0);
        if kind == SECTION {
            order = match head[8..12] {
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                _ => return (0, self.damaged("a section without a byte order")),
            };
            debug_assert_eq!(order.u32(head, 8), BYTE_ORDER_MAGIC);
        }
        let length = order.u32(head, 4) as usize;
        if !(BLOCK_FRAME_BYTES..=MAX_RECORD_BYTES).contains(&length) {
            let what = format!("a block of {length} bytes, which no block has");
            return (0, self.damaged(what));
        }
        let whole = length.next_multiple_of(4);
        let Some(block) = buffer.get(..whole) else {
            return (0, Step::NeedBytes(whole));
        };
        // Some writers forget that lengths are rounded up to four bytes.
        if !length.is_multiple_of(4) {
            self.warn(format!("a block of {length} bytes, not a multiple of 4"));
        }
        if order.u32(block, length.saturating_sub(4)) as usize != length {
            self.warn("a block whose two lengths differ");
        }
        let body = block.get(8..length - 4).unwrap_or_default();
        let step = match kind {
            SECTION => self.section(section, order, body),
            INTERFACE => self.interface(section, body),
            ENHANCED_PACKET => self.packet(section, body, false),
            OBSOLETE_PACKET => self.packet(section, body, true),
            SIMPLE_PACKET => self.simple(section, body),
            STATISTICS => self.statistics(section, body),
            // Names, secrets, journals, blocks of others: nothing that is needed here.
            _ => Step::Skipped,
        };
        let taken = if matches!(step, Step::Damaged(_)) { 0 } else { whole };
        (taken, step)
    }

    fn section<'a>(&mut self, before: Section, order: Order, body: &'a [u8]) -> Step<'a> {
        if body.len() < 16 {
            return self.damaged("a section header that is too short");
        }
        let major = order.u16(body, 4);
        if major != 1 {
            return self.damaged(format!("pcapng of version {major}; 1 is known"));
        }
        let next = Section { order, number: before.number + 1, first: self.interfaces.len() };
        self.format = Some(Format::Pcapng(next));
        comment(Options { order, bytes: &body[16..] }).map_or(Step::Skipped, Step::Comment)
    }

    fn interface<'a>(&mut self, section: Section, body: &[u8]) -> Step<'a> {
        let order = section.order;
        if body.len() < 8 {
            return self.damaged("an interface description that is too short");
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return self.damaged(format!("more than {MAX_INTERFACES} interfaces"));
        }
        let mut interface = Interface {
            section: section.number.saturating_sub(1),
            link: LinkType(order.u16(body, 0)),
            snap_length: order.u32(body, 4),
            ..Interface::default()
        };
        for (code, value) in (Options { order, bytes: &body[8..] }) {
            match (code, value) {
                (2, name) => interface.name = text(name, MAX_NAME_BYTES),
                (3, description) => interface.description = text(description, MAX_NAME_BYTES),
                // if_tsresol: a power of ten, or of two with the highest bit.
                (9, [resolution, ..]) => match ticks(*resolution) {
                    Some((numerator, denominator)) => {
                        let offset_s = interface.ticks.offset_s;
                        interface.ticks = Ticks::of(numerator, denominator, offset_s);
                    }
                    None => self.warn("a time resolution that no clock has"),
                },
                // if_filter: a byte that tells the kind, 0 for text.
                (11, [0, filter @ ..]) => interface.filter = text(filter, MAX_FILTER_BYTES),
                (13, [bytes, ..]) => interface.fcs_bytes = *bytes,
                (14, offset) if offset.len() == 8 => {
                    interface.ticks.offset_s = order.u64(offset, 0) as i64;
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Step::Skipped
    }

    #[inline]
    fn packet<'a>(&mut self, section: Section, body: &'a [u8], old: bool) -> Step<'a> {
        let order = section.order;
        if body.len() < PACKET_FIELDS_BYTES {
            return self.damaged("a packet block that is too short");
        }
        // The obsolete block has a count of drops in the upper half.
        let (number, mut drops) = if old {
            let drops = order.u16(body, 2);
            (u32::from(order.u16(body, 0)), (drops != u16::MAX).then_some(u64::from(drops)))
        } else {
            (order.u32(body, 0), None)
        };
        let index = section.first.saturating_add(number as usize);
        let Some(interface) = self.interfaces.get(index) else {
            self.warn(format!("a packet of interface {number}, which is not described"));
            return Step::Skipped;
        };
        let link = interface.link;
        let time = (u64::from(order.u32(body, 4)) << 32) | u64::from(order.u32(body, 8));
        let time_ns = Some(interface.ticks.time_ns(time));
        let captured = order.u32(body, 12) as usize;
        let Some(bytes) =
            body.get(PACKET_FIELDS_BYTES..PACKET_FIELDS_BYTES.saturating_add(captured))
        else {
            return self.damaged(format!("a packet of {captured} bytes in a block without room"));
        };
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
            length: order.u32(body, 16).max(captured as u32),
            drops,
        })
    }

    /// A packet of the first interface, without a time; as much of it as the block has room for.
    fn simple<'a>(&mut self, section: Section, body: &'a [u8]) -> Step<'a> {
        let Some(interface) = self.interfaces.get(section.first) else {
            self.warn("a packet before any interface is described");
            return Step::Skipped;
        };
        if body.len() < 4 {
            return self.damaged("a simple packet block that is too short");
        }
        let length = section.order.u32(body, 0);
        let snap = match interface.snap_length {
            0 => u32::MAX,
            snap => snap,
        };
        let captured = (length.min(snap) as usize).min(body.len() - 4);
        let (index, link) = (section.first, interface.link);
        let bytes = &body[4..4 + captured];
        Step::Packet(Packet { time_ns: None, interface: index, link, bytes, length, drops: None })
    }

    fn statistics<'a>(&mut self, section: Section, body: &[u8]) -> Step<'a> {
        let order = section.order;
        let index = section.first.saturating_add(order.u32(body, 0) as usize);
        let (Some(interface), Some(options)) = (self.interfaces.get_mut(index), body.get(12..))
        else {
            self.warn("statistics of an interface that is not described");
            return Step::Skipped;
        };
        for (code, value) in (Options { order, bytes: options }) {
            if value.len() != 8 {
                continue;
            }
            let count = order.u64(value, 0);
            match code {
                4 => interface.received = Some(count),
                // if_ifdrop, by the interface, and isb_osdrop, by the system.
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
fn ticks(resolution: u8) -> Option<(u128, u128)> {
    let power = u32::from(resolution & 0x7f);
    let per_second: u128 = if resolution & 0x80 == 0 {
        // 10^-20 s and finer is no clock, and would not fit.
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
