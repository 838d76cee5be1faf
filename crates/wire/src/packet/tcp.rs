//! TCP segments and their options.

use super::error::DecodeError;
use super::ip::Ip;

/// Protocol number of TCP.
pub const PROTOCOL: u8 = 6;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 16;
/// Bytes of a header without options.
pub(super) const HEADER_BYTES: usize = 20;
/// Bytes of time stamps alone, with their padding (RFC 7323, appendix A).
pub(super) const PLAIN_OPTION_BYTES: usize = 12;
/// The first of them: two bytes of padding, kind 8, length 10.
pub(super) const PLAIN_OPTION: [u8; 4] = [1, 1, 8, 10];

/// Flags of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender sends no more data.
    pub const FIN: Self = Flags(0x001);
    /// Opens a connection.
    pub const SYN: Self = Flags(0x002);
    /// Resets the connection.
    pub const RST: Self = Flags(0x004);
    /// Deliver the data to the application now.
    pub const PSH: Self = Flags(0x008);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Flags(0x010);
    /// ECN echo of a congestion mark.
    pub const ECE: Self = Flags(0x040);
    /// Congestion window reduced.
    pub const CWR: Self = Flags(0x080);

    /// All of them: the nine bits behind the data offset and the reserved bits.
    pub const ALL: Self = Flags(0x1ff);
    /// [`Flags::FIN`] and [`Flags::RST`].
    pub const FIN_OR_RST: Self = Flags(0x005);

    /// Whether it acknowledges, and neither opens nor ends a connection.
    #[inline]
    pub fn is_ack_alone(self) -> bool {
        self.0 & (Self::FIN.0 | Self::SYN.0 | Self::RST.0 | Self::ACK.0) == Self::ACK.0
    }

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
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Next byte that its sender expects.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: Flags,
    /// Window as in the header, not scaled.
    pub window: u16,
    /// Length of its data by the IP header, bytes.
    pub length: u32,
    /// The data that was captured.
    pub payload: &'a [u8],
    /// Options; may be truncated.
    pub(super) options: &'a [u8],
    /// Whether only a part of the header was captured.
    pub(super) header_truncated: bool,
}

/// An option of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment that may be sent, bytes.
    MaxSegmentSize(u16),
    /// Shift of the window; at most 14 (RFC 7323).
    WindowScale(u8),
    /// Selective acknowledgements are permitted.
    SackPermitted,
    /// Blocks that arrived out of order.
    Sack(Sack<'a>),
    /// Time stamp, and the one that it echoes.
    TimeStamps(u32, u32),
    /// Anything else: its kind.
    Other(u8),
}

/// Blocks of selective acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sack<'a>(&'a [u8]);

impl Sack<'_> {
    /// The blocks, as first sequence number and the one after the last, most recent first; a D-SACK block
    /// comes first (RFC 2883).
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|[a, b, c, d, e, f, g, h]| {
            (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]))
        })
    }
}

/// Ethernet frames carry 46 bytes or more, 42 with a VLAN tag: what is left behind IPv4's 20.
const PADDED_BYTES: [u32; 2] = [26, 22];
/// So much of it a segment without data may have as padding.
pub(super) const MAX_PADDING: u32 = PADDED_BYTES[0] - HEADER_BYTES as u32;

/// Whether these bytes are the padding of a short Ethernet frame that a device on the path counted in
/// the IP length: zeros that no end pushed.
#[cold]
fn is_padding(flags: Flags, length: u32, payload: &[u8]) -> bool {
    length > 0
        && !flags.all(Flags::PSH)
        && payload.len() == length as usize
        && payload.iter().all(|byte| *byte == 0)
}

impl<'a> Tcp<'a> {
    /// Parses the segment in an IP packet. A packet of another protocol, and a fragment that is not the
    /// first, have none.
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
        let (head, after) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(DecodeError::Truncated)?;
        let header = usize::from(head[12] >> 4) * 4;
        if header < HEADER_BYTES {
            return Err(DecodeError::Malformed);
        }
        let mut length = ip.length.checked_sub(header as u32).ok_or(DecodeError::Malformed)?;
        let payload = bytes.get(header..).unwrap_or_default();
        if length <= MAX_PADDING
            && PADDED_BYTES.contains(&(header as u32 + length))
            && is_padding(Flags(u16::from(head[13])), length, payload)
        {
            length = 0;
        }
        Ok(Tcp {
            source: u16::from_be_bytes([head[0], head[1]]),
            destination: u16::from_be_bytes([head[2], head[3]]),
            sequence: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            acknowledgement: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            flags: Flags(u16::from_be_bytes([head[12], head[13]]) & Flags::ALL.0),
            window: u16::from_be_bytes([head[14], head[15]]),
            length,
            payload: payload.get(..length as usize).unwrap_or(payload),
            options: after.get(..header - HEADER_BYTES).unwrap_or(after),
            header_truncated: bytes.len() < header,
        })
    }

    /// Whether options are missing because only a part of the header was captured.
    pub fn has_truncated_options(&self) -> bool {
        self.header_truncated
    }

    /// Its options, up to the first that is truncated or malformed.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options(self.options)
    }

    /// Whether it has no options, or time stamps and no other, as most segments do.
    #[inline]
    pub fn has_plain_options(&self) -> bool {
        self.options.is_empty() && !self.header_truncated || self.has_only_time_stamps()
    }

    /// Whether it has time stamps and no other option, as most segments do.
    #[inline]
    pub fn has_only_time_stamps(&self) -> bool {
        self.options.len() == PLAIN_OPTION_BYTES && self.options.starts_with(&PLAIN_OPTION)
    }

    /// Its time stamps; first where almost all segments have them.
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
