//! The segments that almost all are: TCP in IPv4 in an Ethernet frame, whole headers, no option but time
//! stamps.
//!
//! A reader of millions of them needs a few fields of each: they are taken at fixed places, and
//! [`PlainSegment::parts`] makes the rest where it is needed.

use std::net::{IpAddr, Ipv4Addr};

use super::ip::Ip;
use super::link;
use super::tcp::{self, Flags, HEADER_BYTES, MAX_PADDING, PLAIN_OPTION, PLAIN_OPTION_BYTES, Tcp};
use crate::capture::LinkType;

/// Bytes of the headers of Ethernet and of IPv4 without options.
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
/// Version and header length of IPv4 without options.
const V4_WITHOUT_OPTIONS: u8 = 0x45;
/// Bits of the fragment field that a whole packet does not have: more fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;
const DONT_FRAGMENT: u16 = 0x4000;
/// Flags and window among the four bytes from the data offset on, as a number whose lowest byte is the
/// first.
const FLAGS_AND_WINDOW: u32 = 0xffff_ff01;
/// The identification in its word, read so.
const ID: u32 = 0xffff;
/// The least data offset, words.
const MIN_OFFSET: u16 = HEADER_BYTES as u16 / 4;
/// The word of the ports.
const PORTS_WORD: usize = 5;
/// Words of four bytes of both headers.
const WORDS: usize = (IPV4_BYTES + HEADER_BYTES) / 4;

/// Addresses and ports of two ends, as they stand in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainEnds {
    addresses: u64,
    ports: u32,
}

impl PlainEnds {
    /// The ends of a segment in IPv4 without options, in an Ethernet frame of `length` bytes: of almost all
    /// packets, found without reading the rest of their headers. `None`: use
    /// [`decode`](super::decode).
    #[inline(always)]
    pub fn of(link: LinkType, bytes: &[u8], length: u32) -> Option<Self> {
        let (bytes, frame) = ip_packet(link, bytes, length)?;
        let words: &[[u8; 4]; WORDS] = bytes.as_chunks().0.first_chunk()?;
        let [version, _, total @ ..] = words[0];
        let [_, _, fragment @ ..] = words[1];
        let [_, protocol, ..] = words[2];
        let offset = u16::from(words[8][0] >> 4);
        let is_plain = (version == V4_WITHOUT_OPTIONS)
            & (protocol == tcp::PROTOCOL)
            & (u16::from_be_bytes(fragment) & FRAGMENT == 0)
            & (offset >= MIN_OFFSET)
            & (u16::from_be_bytes(total) >= IPV4_BYTES as u16 + 4 * offset)
            & (u32::from(u16::from_be_bytes(total)) <= frame);
        is_plain.then(|| PlainEnds::of_words(words[3], words[4], words[PORTS_WORD]))
    }

    #[inline(always)]
    fn of_words(source: [u8; 4], destination: [u8; 4], ports: [u8; 4]) -> Self {
        let addresses = pair(u32::from_le_bytes(source), u32::from_le_bytes(destination));
        PlainEnds { addresses, ports: u32::from_le_bytes(ports) }
    }

    /// Whether this is the port of an end.
    #[inline(always)]
    pub fn has_port(self, port: u16) -> bool {
        let port = port.swap_bytes();
        (self.ports as u16 == port) | ((self.ports >> 16) as u16 == port)
    }

    /// Those of a segment from one end to the other, each `address << 16 | port`.
    pub fn new(source: u64, destination: u64) -> Self {
        let address = |end: u64| u64::from(((end >> 16) as u32).swap_bytes());
        let port = |end: u64| u32::from((end as u16).swap_bytes());
        PlainEnds {
            addresses: address(source) | address(destination) << 32,
            ports: port(source) | port(destination) << 16,
        }
    }

    /// Those of a segment in the other direction.
    #[inline(always)]
    #[must_use]
    pub fn reversed(self) -> Self {
        PlainEnds { addresses: self.addresses.rotate_left(32), ports: self.ports.rotate_left(16) }
    }

    /// A hash that is the same in both directions: its upper bits are spread best.
    #[inline(always)]
    pub fn symmetric_hash(self) -> u64 {
        let addresses = (self.addresses ^ self.addresses >> 32) as u32;
        let ports = (self.ports ^ self.ports >> 16) as u16;
        // Fibonacci hashing.
        (u64::from(addresses) << 16 | u64::from(ports)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A TCP segment whose headers are as those of almost all segments.
#[derive(Debug, Clone, Copy)]
pub struct PlainSegment<'a> {
    /// The headers of IP and TCP, without options: words of four bytes.
    words: &'a [[u8; 4]; WORDS],
    /// The captured bytes from there on.
    bytes: &'a [u8],
    time_stamps: Option<&'a [u8; PLAIN_OPTION_BYTES]>,
    length: u32,
}

impl<'a> PlainSegment<'a> {
    /// The segment in a captured packet of `length` bytes on the wire, if it is one of these. `None`: use
    /// [`decode`](super::decode).
    #[inline(always)]
    pub fn of(link: LinkType, bytes: &'a [u8], length: u32) -> Option<Self> {
        let (bytes, frame) = ip_packet(link, bytes, length)?;
        let (head, after) = bytes.split_first_chunk::<{ 4 * WORDS }>()?;
        let words: &[[u8; 4]; WORDS] = head.as_chunks().0.first_chunk()?;
        let [version, _, total @ ..] = words[0];
        let [_, _, fragment @ ..] = words[1];
        let [ttl_and_protocol @ .., _, _] = words[2];
        // Data offset, in words.
        let offset = u32::from(words[8][0] >> 4);
        let time_stamps = match offset {
            5 => None,
            8 => Some(after.first_chunk().filter(|option| option.starts_with(&PLAIN_OPTION))?),
            _ => return None,
        };
        let headers = IPV4_BYTES as u32 + 4 * offset;
        let total = u32::from(u16::from_be_bytes(total));
        let length = total.checked_sub(headers)?;
        let is_plain = (version == V4_WITHOUT_OPTIONS)
            & (ttl_and_protocol[1] == tcp::PROTOCOL)
            & (u16::from_be_bytes(fragment) & FRAGMENT == 0)
            & (total <= frame)
            // So little may be padding.
            & (length == 0 || length > MAX_PADDING);
        is_plain.then_some(PlainSegment { words, bytes, time_stamps, length })
    }

    /// Addresses and ports of both ends as they stand in the headers, the sender's first.
    #[inline(always)]
    pub fn ends(&self) -> PlainEnds {
        PlainEnds::of_words(self.words[3], self.words[4], self.words[PORTS_WORD])
    }

    /// Address and port of its sender in one number, `address << 16 | port`.
    #[inline(always)]
    pub fn source(&self) -> u64 {
        u64::from(u32::from_be_bytes(self.words[3])) << 16 | u64::from(self.source_port())
    }

    /// The same of its receiver.
    #[inline(always)]
    pub fn destination(&self) -> u64 {
        u64::from(u32::from_be_bytes(self.words[4])) << 16 | u64::from(self.destination_port())
    }

    /// Port of its sender.
    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        (u32::from_be_bytes(self.words[5]) >> 16) as u16
    }

    /// Port of its receiver.
    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        u32::from_be_bytes(self.words[5]) as u16
    }

    /// Sequence number of its first byte.
    #[inline(always)]
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(self.words[6])
    }

    /// Next byte that its sender expects.
    #[inline(always)]
    pub fn acknowledgement(&self) -> u32 {
        u32::from_be_bytes(self.words[7])
    }

    /// Flags.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags((u32::from_be_bytes(self.words[8]) >> 16) as u16 & Flags::ALL.0)
    }

    /// Window as in the header, not scaled.
    #[inline(always)]
    pub fn window(&self) -> u16 {
        u32::from_be_bytes(self.words[8]) as u16
    }

    /// Identification of the IP packet.
    #[inline(always)]
    pub fn id(&self) -> u16 {
        (u32::from_be_bytes(self.words[1]) >> 16) as u16
    }

    /// Time to live.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.words[2][0]
    }

    /// The two bits of explicit congestion notification.
    #[inline(always)]
    pub fn ecn(&self) -> u8 {
        self.words[0][1] & 3
    }

    /// Length of its data by the IP header, bytes.
    #[inline(always)]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// What a copy of it has in common with it, in any order of bytes: sequence and acknowledgement numbers;
    /// flags, window and length; time stamps; ports and identification.
    #[inline(always)]
    pub fn identity(&self) -> [u64; 4] {
        let word = |number: [u8; 4]| u32::from_le_bytes(number);
        let times = self.time_stamps.map_or(0, |[.., a, b, c, d, e, f, g, h]| {
            u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
        });
        [
            pair(word(self.words[6]), word(self.words[7])),
            pair(word(self.words[8]) & FLAGS_AND_WINDOW, self.length),
            times,
            pair(word(self.words[5]), word(self.words[1]) & ID),
        ]
    }

    /// Time stamp and its echo.
    #[inline(always)]
    pub fn time_stamps(&self) -> Option<(u32, u32)> {
        let [.., a, b, c, d, e, f, g, h] = *self.time_stamps?;
        Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
    }

    /// Whether it has time stamps.
    #[inline(always)]
    pub fn has_time_stamps(&self) -> bool {
        self.time_stamps.is_some()
    }

    /// Bytes of its headers from the IP header on.
    #[inline(always)]
    pub fn header_bytes(&self) -> u32 {
        (4 * WORDS + if self.has_time_stamps() { PLAIN_OPTION_BYTES } else { 0 }) as u32
    }

    /// The data that was captured.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        let after = self.bytes.get(self.header_bytes() as usize..).unwrap_or_default();
        after.get(..self.length as usize).unwrap_or(after)
    }

    /// The same as an IP packet and the segment in it.
    #[inline]
    pub fn parts(&self) -> (Ip<'a>, Tcp<'a>) {
        let after = self.bytes.get(IPV4_BYTES..).unwrap_or_default();
        let length = self.header_bytes() - IPV4_BYTES as u32 + self.length;
        let address = |end: u64| IpAddr::from(Ipv4Addr::from_bits((end >> 16) as u32));
        let fragment = u32::from_be_bytes(self.words[1]) as u16;
        let ip = Ip {
            source: address(self.source()),
            destination: address(self.destination()),
            protocol: tcp::PROTOCOL,
            ttl: self.ttl(),
            ecn: self.ecn(),
            id: Some(self.id().into()),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            fragment: None,
            length,
            offloaded: false,
            payload: after.get(..length as usize).unwrap_or(after),
            after,
        };
        let options = self.header_bytes() as usize - 4 * WORDS;
        let options = after.get(HEADER_BYTES..).and_then(|rest| rest.get(..options));
        let tcp = Tcp {
            source: self.source_port(),
            destination: self.destination_port(),
            sequence: self.sequence(),
            acknowledgement: self.acknowledgement(),
            flags: self.flags(),
            window: self.window(),
            length: self.length,
            payload: self.payload(),
            options: options.unwrap_or_default(),
            header_truncated: false,
        };
        (ip, tcp)
    }
}

/// The same as [`PlainSegment::identity`] of any segment.
pub fn identity(ip: &Ip<'_>, tcp: &Tcp<'_>) -> [u64; 4] {
    let (value, echo) = tcp.time_stamps().unwrap_or_default();
    let flags_and_window =
        u32::from(tcp.flags.0.swap_bytes()) | u32::from(tcp.window.swap_bytes()) << 16;
    let ports = u32::from(tcp.source.swap_bytes()) | u32::from(tcp.destination.swap_bytes()) << 16;
    // That of a fragmented packet of IPv6 is longer.
    let id = ip.id.unwrap_or(0);
    let id = u32::from((id as u16).swap_bytes()) | id & 0xffff_0000;
    [
        pair(tcp.sequence.swap_bytes(), tcp.acknowledgement.swap_bytes()),
        pair(flags_and_window, tcp.length),
        pair(value.swap_bytes(), echo.swap_bytes()),
        pair(ports, id),
    ]
}

/// What is behind the link header where IPv4 is expected, and its length on the wire.
#[inline(always)]
fn ip_packet(link: LinkType, bytes: &[u8], length: u32) -> Option<(&[u8], u32)> {
    match link {
        LinkType::ETHERNET => {
            let (head, rest) = bytes.split_first_chunk::<ETHERNET_BYTES>()?;
            let is_ip = u16::from_be_bytes([head[12], head[13]]) == link::IPV4;
            is_ip.then_some((rest, length.saturating_sub(ETHERNET_BYTES as u32)))
        }
        LinkType::RAW | LinkType::IPV4 => Some((bytes, length)),
        _ => None,
    }
}

/// Two numbers in one.
#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
