//! Writing pcapng: blocks to bytes, little-endian, time stamps in nanoseconds. No file is opened here:
//! each function appends one whole block to a buffer.
//!
//! A file is a [`section`], an [`interface`] for each interface, [`packet`]s, and at the end the
//! [`statistics`] of each interface.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::link::LinkType;
use super::types::{Interface, MAX_SNAP_LENGTH};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// The number that shows the byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// `if_tsresol`: nanoseconds.
const NANOSECONDS: u8 = 9;
/// `opt_comment`, of every block.
const COMMENT: u16 = 1;

/// Longest value of an option: its length has 16 bits.
const MAX_OPTION_BYTES: usize = u16::MAX as usize;
/// Most bytes of all comments on a packet; those that do not fit are left out.
pub const MAX_COMMENTS_BYTES: usize = 1 << 20;
/// Longest packet: what readers accept.
pub const MAX_PACKET_BYTES: usize = MAX_SNAP_LENGTH;

/// The program that wrote a file, and where. Empty texts are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section<'a> {
    /// Hardware: `x86_64`.
    pub hardware: &'a str,
    /// Operating system: `Linux 6.1.0`.
    pub system: &'a str,
    /// Program: `netwhy 0.1.0`.
    pub application: &'a str,
    /// Comment on the section.
    pub comment: &'a str,
}

/// An interface. Empty texts are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Description<'a> {
    /// Link type.
    pub link: LinkType,
    /// Most bytes captured of a packet; 0: no limit.
    pub snap_length: u32,
    /// Name: `eth0`.
    pub name: &'a str,
    /// Description.
    pub description: &'a str,
    /// Capture filter.
    pub filter: &'a str,
    /// Bytes of the frame check sequence at the end of each packet; 0: none, or not known.
    pub fcs_bytes: u8,
}

impl<'a> From<&'a Interface> for Description<'a> {
    fn from(read: &'a Interface) -> Self {
        Description {
            link: read.link,
            snap_length: read.snap_length,
            name: &read.name,
            description: &read.description,
            filter: &read.filter,
            fcs_bytes: read.fcs_bytes,
        }
    }
}

/// Direction of a packet, and to which kind of address it was sent: `epb_flags`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Nothing is known.
    pub const NONE: Self = Flags(0);
    /// Received, addressed to this host.
    pub const TO_THIS_HOST: Self = Flags(1 | 1 << 2);
    /// Received, to a multicast address.
    pub const MULTICAST: Self = Flags(1 | 2 << 2);
    /// Received, to the broadcast address.
    pub const BROADCAST: Self = Flags(1 | 3 << 2);
    /// Received, addressed to another host.
    pub const OTHER_HOST: Self = Flags(1 | 4 << 2);
    /// Sent by this host.
    pub const SENT: Self = Flags(2);

    /// From the type that Linux has for a packet (`sll_pkttype`, `PACKET_*` of linux/if_packet.h).
    pub fn from_linux(packet_type: u8) -> Self {
        match packet_type {
            0 => Flags::TO_THIS_HOST,
            1 => Flags::BROADCAST,
            2 => Flags::MULTICAST,
            3 => Flags::OTHER_HOST,
            4 => Flags::SENT,
            _ => Flags::NONE,
        }
    }
}

/// A packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index of its interface among those of the section.
    pub interface: u32,
    /// Time since 1970-01-01 UTC, nanoseconds. A time that 64 bits cannot hold (before 1970, after 2554)
    /// is written as the nearest one that they can.
    pub time_ns: i128,
    /// The bytes that were captured; cut at [`MAX_PACKET_BYTES`].
    pub bytes: &'a [u8],
    /// Length of the packet on the wire, bytes; at least that captured.
    pub length: u32,
    /// Direction.
    pub flags: Flags,
    /// Packets dropped just before this one, where that is known.
    pub drops: Option<u64>,
    /// Comments. Each is cut at 65,535 bytes, all together at [`MAX_COMMENTS_BYTES`].
    pub comments: &'a [&'a str],
}

/// The counters of an interface while a section was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Index of its interface among those of the section.
    pub interface: u32,
    /// When counting began, nanoseconds since 1970-01-01 UTC.
    pub since_ns: i128,
    /// When it ended, nanoseconds since 1970-01-01 UTC.
    pub until_ns: i128,
    /// Packets received (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets dropped because a buffer was full (`isb_ifdrop`).
    pub dropped: Option<u64>,
    /// Packets written (`isb_usrdeliv`).
    pub delivered: Option<u64>,
}

/// Appends a section header.
pub fn section(into: &mut Vec<u8>, section: &Section<'_>) {
    block(into, SECTION, |into| {
        word(into, BYTE_ORDER_MAGIC);
        // Version 1.0, and a length that is not given.
        into.extend([1, 0, 0, 0]);
        into.extend([0xff; 8]);
        let mut options = Options::of(into);
        options.text(COMMENT, section.comment);
        options.text(2, section.hardware);
        options.text(3, section.system);
        options.text(4, section.application);
        options.end();
    });
}

/// Appends the description of an interface.
pub fn interface(into: &mut Vec<u8>, interface: &Description<'_>) {
    block(into, INTERFACE, |into| {
        into.extend(interface.link.0.to_le_bytes());
        into.extend([0; 2]);
        word(into, interface.snap_length);
        let mut options = Options::of(into);
        options.text(2, interface.name);
        options.text(3, interface.description);
        options.value(9, &[NANOSECONDS]);
        if !interface.filter.is_empty() {
            // if_filter begins with a byte for the kind; 0: text.
            let filter = cut(interface.filter, MAX_OPTION_BYTES - 1);
            options.value(11, &[&[0], filter.as_bytes()].concat());
        }
        if interface.fcs_bytes > 0 {
            options.value(13, &[interface.fcs_bytes]);
        }
        options.end();
    });
}

/// Appends a packet.
pub fn packet(into: &mut Vec<u8>, record: &Record<'_>) {
    let bytes = record.bytes.get(..MAX_PACKET_BYTES).unwrap_or(record.bytes);
    // MAX_PACKET_BYTES fits.
    let captured = bytes.len() as u32;
    block(into, PACKET, |into| {
        word(into, record.interface);
        time(into, record.time_ns);
        word(into, captured);
        word(into, record.length.max(captured));
        into.extend_from_slice(bytes);
        pad(into, bytes.len());
        let mut options = Options::of(into);
        let mut room = MAX_COMMENTS_BYTES;
        for comment in record.comments {
            let text = cut(comment, MAX_OPTION_BYTES);
            let Some(left) = room.checked_sub(text.len() + 8) else { break };
            room = left;
            options.text(COMMENT, text);
        }
        if record.flags != Flags::NONE {
            options.value(2, &record.flags.0.to_le_bytes());
        }
        if let Some(drops) = record.drops {
            options.value(4, &drops.to_le_bytes());
        }
        options.end();
    });
}

/// Appends the counters of an interface.
pub fn statistics(into: &mut Vec<u8>, counted: &Statistics) {
    block(into, STATISTICS, |into| {
        word(into, counted.interface);
        time(into, counted.until_ns);
        let mut options = Options::of(into);
        for (code, at) in [(2, counted.since_ns), (3, counted.until_ns)] {
            let mut value = Vec::with_capacity(8);
            time(&mut value, at);
            options.value(code, &value);
        }
        let counts = [(4, counted.received), (5, counted.dropped), (8, counted.delivered)];
        for (code, count) in counts {
            if let Some(count) = count {
                options.value(code, &count.to_le_bytes());
            }
        }
        options.end();
    });
}

/// Kind and length before the body, the length again after it.
fn block(into: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    word(into, kind);
    word(into, 0);
    body(into);
    // A block is bounded well below 32 bits.
    let length = (into.len() - start + 4) as u32;
    word(into, length);
    if let Some(before) = into.get_mut(start + 4..).and_then(|rest| rest.first_chunk_mut()) {
        *before = length.to_le_bytes();
    }
}

fn word(into: &mut Vec<u8>, value: u32) {
    into.extend(value.to_le_bytes());
}

/// A time stamp: its upper half first.
fn time(into: &mut Vec<u8>, time_ns: i128) {
    let ticks = time_ns.clamp(0, i128::from(u64::MAX)) as u64;
    word(into, (ticks >> 32) as u32);
    word(into, ticks as u32);
}

/// Zeros up to four bytes after a value of this length.
fn pad(into: &mut Vec<u8>, length: usize) {
    into.resize(into.len() + (length.next_multiple_of(4) - length), 0);
}

/// The beginning of a text, at most this many bytes, whole characters only.
fn cut(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

/// Options at the end of a block.
struct Options<'a> {
    into: &'a mut Vec<u8>,
    any: bool,
}

impl<'a> Options<'a> {
    fn of(into: &'a mut Vec<u8>) -> Self {
        Options { into, any: false }
    }

    fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.value(code, cut(text, MAX_OPTION_BYTES).as_bytes());
        }
    }

    fn value(&mut self, code: u16, value: &[u8]) {
        self.into.extend(code.to_le_bytes());
        // Values are cut before.
        self.into.extend((value.len() as u16).to_le_bytes());
        self.into.extend_from_slice(value);
        pad(self.into, value.len());
        self.any = true;
    }

    /// `opt_endofopt`, where there are options.
    fn end(self) {
        if self.any {
            word(self.into, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::{Packet, Reader, Step};

    /// The options of a block, after this many bytes of its body.
    fn options(block: &[u8], fields: usize) -> Vec<(u16, Vec<u8>)> {
        let mut rest = &block[8 + fields..block.len() - 4];
        let mut found = Vec::new();
        while let [a, b, c, d, more @ ..] = rest {
            let (code, length) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
            if code == 0 {
                assert!(more.is_empty(), "nothing follows the end of the options");
                break;
            }
            found.push((code, more[..usize::from(length)].to_vec()));
            rest = &more[usize::from(length).next_multiple_of(4)..];
        }
        found
    }

    fn begun(interfaces: &[Description<'_>]) -> Vec<u8> {
        let mut file = Vec::new();
        section(&mut file, &Section { application: "a test", ..Section::default() });
        interfaces.iter().for_each(|description| interface(&mut file, description));
        file
    }

    /// Reads a whole file, which must give no warning.
    fn read<'a>(reader: &mut Reader, mut rest: &'a [u8]) -> Vec<Packet<'a>> {
        let mut packets = Vec::new();
        while !rest.is_empty() {
            let (taken, step) = reader.step(rest);
            match step {
                Step::Packet(packet) => packets.push(packet),
                Step::Skipped | Step::Comment(_) => {}
                other => panic!("{other:?}"),
            }
            rest = &rest[taken..];
        }
        assert_eq!(reader.warnings(), []);
        packets
    }

    #[test]
    fn descriptions_are_read_back() {
        let lo = Description {
            link: LinkType::ETHERNET,
            snap_length: 96,
            name: "lo",
            description: "the loopback",
            filter: "tcp port 80",
            fcs_bytes: 4,
        };
        let any = Description { link: LinkType::LINUX_SLL2, name: "any", ..lo };
        let mut file = begun(&[lo, any]);
        let counted = Statistics {
            interface: 1,
            since_ns: 5,
            until_ns: 7,
            received: Some(1000),
            dropped: Some(10),
            delivered: Some(990),
        };
        statistics(&mut file, &counted);
        let mut reader = Reader::new();
        assert_eq!(read(&mut reader, &file), []);
        let [first, second] = reader.interfaces() else { panic!("two interfaces") };
        assert_eq!((Description::from(first), Description::from(second)), (lo, any));
        assert_eq!((first.received, first.dropped), (None, None));
        assert_eq!((second.received, second.dropped), (Some(1000), Some(10)));
    }

    #[test]
    fn flags_and_comments_are_options() {
        let mut block = Vec::new();
        let comments = ["RTO retransmission", "", "späť"];
        let flags = Flags::from_linux(3);
        packet(
            &mut block,
            &Record { bytes: b"12345", flags, comments: &comments, ..Record::default() },
        );
        let found = options(&block, 20 + 8);
        let texts = comments.iter().filter(|text| !text.is_empty());
        let mut expected: Vec<_> = texts.map(|text| (1, text.as_bytes().to_vec())).collect();
        expected.push((2, vec![0b10001, 0, 0, 0]));
        assert_eq!(found, expected);
    }

    #[test]
    fn long_values_are_cut() {
        let long = "ä".repeat(40_000);
        let comments = vec![&long[..]; 100];
        let bytes = vec![7; MAX_PACKET_BYTES + 9];
        let mut file = begun(&[Description::default()]);
        packet(
            &mut file,
            &Record { bytes: &bytes, comments: &comments, time_ns: -5, ..Record::default() },
        );
        let mut reader = Reader::new();
        let packets = read(&mut reader, &file);
        assert_eq!(packets[0].bytes.len(), MAX_PACKET_BYTES);
        assert_eq!(packets[0].time_ns, Some(0));
        let mut block = Vec::new();
        packet(&mut block, &Record { comments: &comments, ..Record::default() });
        let found = options(&block, 20);
        assert!(found.iter().all(|(_, text)| text.len() == 65_534), "whole characters only");
        assert_eq!(found.len(), MAX_COMMENTS_BYTES / 65_542);
    }

    proptest! {
        #[test]
        fn packets_are_read_back(
            packets in proptest::collection::vec(
                (0u32..3, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..70), 0u32..2000,
                 any::<u32>(), any::<Option<u64>>(), proptest::collection::vec("\\PC{0,20}", 0..3)),
                0..20,
            ),
        ) {
            let one = Description { link: LinkType::RAW, ..Description::default() };
            let mut file = begun(&[one; 3]);
            for (interface, time_ns, bytes, more, flags, drops, comments) in &packets {
                let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
                packet(&mut file, &Record {
                    interface: *interface,
                    time_ns: i128::from(*time_ns),
                    bytes,
                    length: bytes.len() as u32 + more,
                    flags: Flags(*flags),
                    drops: *drops,
                    comments: &comments,
                });
                prop_assert!(file.len().is_multiple_of(4));
            }
            let mut reader = Reader::new();
            let found = read(&mut reader, &file);
            prop_assert_eq!(found.len(), packets.len());
            for (found, (interface, time_ns, bytes, more, _, drops, _)) in found.iter().zip(&packets) {
                prop_assert_eq!(*found, Packet {
                    time_ns: Some(i128::from(*time_ns)),
                    interface: *interface as usize,
                    link: LinkType::RAW,
                    bytes,
                    length: bytes.len() as u32 + more,
                    drops: *drops,
                });
            }
        }
    }
}
