//! TCP segments and their options.

use super::{DecodeError, Ip};

/// Protocol number of TCP.
pub const PROTOCOL: u8 = 6;
/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;
/// Bytes of the shortest header.
const HEADER_BYTES: usize = 20;

/// Flags of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from here.
    pub const FIN: Self = Flags(0x001);
    /// Opens a connection.
    pub const SYN: Self = Flags(0x002);
    /// Ends it at once.
    pub const RST: Self = Flags(0x004);
    /// Hand the data over now.
    pub const PSH: Self = Flags(0x008);
    /// The acknowledgement number counts.
    pub const ACK: Self = Flags(0x010);
    /// Echo of a congestion mark.
    pub const ECE: Self = Flags(0x040);
    /// The sender has slowed down.
    pub const CWR: Self = Flags(0x080);

    /// Those of last packets: [`Flags::FIN`] and [`Flags::RST`].
    pub const FIN_OR_RST: Self = Flags(0x005);

    /// Whether any of these is set.
    #[inline]
    pub fn any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether all of these are set.
    #[inline]
    pub fn all(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Port it comes from.
    pub source: u16,
    /// Port it goes to.
    pub destination: u16,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Next byte that its sender expects.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: Flags,
    /// Window as it stands in the header, not scaled.
    pub window: u16,
    /// Bytes of data, by the IP header.
    pub length: u32,
    /// Data that was captured.
    pub payload: &'a [u8],
    /// Options; may be cut off.
    options: &'a [u8],
    /// Whether the header is longer than what was captured of it.
    cut: bool,
}

/// An option of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment that may be sent, bytes.
    MaxSegmentSize(u16),
    /// The window is to be shifted left by this; at most 14 (RFC 7323).
    WindowScale(u8),
    /// Selective acknowledgements may be sent.
    SackPermitted,
    /// Blocks that have arrived out of order: first byte, and the one after the last.
    Sack(Sack<'a>),
    /// Time stamp and the one that it echoes.
    TimeStamps(u32, u32),
    /// Anything else: its kind.
    Other(u8),
}

/// Blocks of selective acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sack<'a>(&'a [u8]);

impl Sack<'_> {
    /// The blocks, most recent first; a D-SACK block is the first (RFC 2883).
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|[a, b, c, d, e, f, g, h]| {
            (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]))
        })
    }
}

impl<'a> Tcp<'a> {
    /// Reads the segment that an IP packet carries. A packet of another protocol, and a fragment
    /// that is not the first, have none.
    ///
    /// # Errors
    ///
    /// Why there is none.
    #[inline(always)]
    pub fn of(ip: &Ip<'a>) -> Result<Self, DecodeError> {
        if ip.protocol != PROTOCOL || ip.fragment.is_some_and(|fragment| fragment.offset > 0) {
            return Err(DecodeError::NotIp);
        }
        let bytes = ip.payload;
        let head: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
        let header = usize::from(head[12] >> 4) * 4;
        if header < HEADER_BYTES {
            return Err(DecodeError::Malformed);
        }
        let length = ip.length.checked_sub(header as u32).ok_or(DecodeError::Malformed)?;
        Ok(Tcp {
            source: u16::from_be_bytes([head[0], head[1]]),
            destination: u16::from_be_bytes([head[2], head[3]]),
            sequence: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            acknowledgement: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            flags: Flags(u16::from_be_bytes([head[12], head[13]]) & 0x1ff),
            window: u16::from_be_bytes([head[14], head[15]]),
            length,
            payload: bytes.get(header..).unwrap_or_default(),
            options: bytes.get(HEADER_BYTES..header).unwrap_or(&bytes[HEADER_BYTES..]),
            cut: bytes.len() < header,
        })
    }

    /// Whether options are missing because less of the packet was captured.
    pub fn has_truncated_options(&self) -> bool {
        self.cut
    }

    /// Its options, up to the first that is cut off or malformed.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options(self.options)
    }

    /// Whether time stamps are all the options that it has, as those of most segments.
    #[inline]
    pub fn has_only_time_stamps(&self) -> bool {
        self.options.len() == 12 && matches!(self.options, [1, 1, 8, 10, ..])
    }

    /// The time stamps, looked for where almost all segments have them.
    #[inline]
    pub fn time_stamps(&self) -> Option<(u32, u32)> {
        // Two bytes of padding, kind 8, length 10.
        if let [1, 1, 8, 10, a, b, c, d, e, f, g, h, ..] = *self.options {
            return Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
        }
        self.options().find_map(|option| match option {
            TcpOption::TimeStamps(value, echo) => Some((value, echo)),
            _ => None,
        })
    }
}

/// Options of a segment.
#[derive(Debug, Clone)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            let (kind, rest) = self.0.split_first()?;
            match kind {
                0 => return None,
                1 => self.0 = rest,
                _ => {
                    let length = usize::from(*rest.first()?);
                    let value = self.0.get(2..length)?;
                    self.0 = self.0.get(length..).unwrap_or_default();
                    return Some(option(*kind, value));
                }
            }
        }
    }
}

fn option(kind: u8, value: &[u8]) -> TcpOption<'_> {
    match (kind, value) {
        (2, [high, low]) => TcpOption::MaxSegmentSize(u16::from_be_bytes([*high, *low])),
        (3, [shift]) => TcpOption::WindowScale((*shift).min(14)),
        (4, []) => TcpOption::SackPermitted,
        (5, blocks) if blocks.len() % 8 == 0 => TcpOption::Sack(Sack(blocks)),
        (8, [a, b, c, d, e, f, g, h]) => TcpOption::TimeStamps(
            u32::from_be_bytes([*a, *b, *c, *d]),
            u32::from_be_bytes([*e, *f, *g, *h]),
        ),
        _ => TcpOption::Other(kind),
    }
}
