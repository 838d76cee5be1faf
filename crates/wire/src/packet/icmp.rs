//! ICMP and ICMPv6: echoes, errors, the packet that an error quotes, and the extensions of routers (RFC
//! 792, 4443, 4884, 4950).

use std::net::IpAddr;

use model::{MplsLabel, ReplyKind};

use super::checksum::sum_is_correct;

/// Protocol number of ICMP.
pub const V4: u8 = 1;
/// Protocol number of ICMPv6.
pub const V6: u8 = 58;

/// Bytes of the header of every message.
const HEADER_BYTES: usize = 8;
/// Offset of extensions whose offset is not given (RFC 4884, section 5.5).
const DEFAULT_EXTENSIONS_OFFSET: usize = 128;
/// Most MPLS labels that are read.
const MAX_LABELS: usize = 16;
/// Most IPv6 extension headers that are followed in a quoted packet.
const MAX_EXTENSION_HEADERS: usize = 8;

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub enum Icmp<'a> {
    /// Echo request.
    Request(Echo<'a>),
    /// Echo reply.
    Reply(Echo<'a>),
    /// An error about a packet.
    Error(IcmpError<'a>),
    /// Anything else: its type and code.
    Other(u8, u8),
}

/// An echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Identifier.
    pub id: u16,
    /// Sequence number.
    pub sequence: u16,
    /// Payload.
    pub payload: &'a [u8],
}

/// An error.
#[derive(Debug, Clone, PartialEq)]
pub struct IcmpError<'a> {
    /// Its meaning.
    pub kind: ReplyKind,
    /// Type, as in the message.
    pub kind_number: u8,
    /// Code, as in the message.
    pub code: u8,
    /// MTU of the next link, bytes, if it has one.
    pub mtu: Option<u32>,
    /// The packet that it is about, as it arrived at the sender of the error.
    pub quoted: Option<Quoted<'a>>,
    /// MPLS labels of the packet, outermost first.
    pub mpls: Vec<MplsLabel>,
}

/// The front of a packet that an error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of its payload.
    pub protocol: u8,
    /// Type of service, or traffic class: all eight bits.
    pub tos: u8,
    /// Remaining time to live, or hop limit.
    pub ttl: u8,
    /// Identification; `None` for IPv6.
    pub id: Option<u16>,
    /// Length of the packet by its header, header included; bytes.
    pub length: u32,
    /// The quoted part of its transport header and data.
    pub transport: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Parses a message of ICMP, or with `v6` of ICMPv6. `None`: truncated within its header.
    pub fn parse(v6: bool, bytes: &'a [u8]) -> Option<Icmp<'a>> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (kind, code) = (head[0], head[1]);
        let echo = Echo {
            id: u16::from_be_bytes([head[4], head[5]]),
            sequence: u16::from_be_bytes([head[6], head[7]]),
            payload: rest,
        };
        match (v6, kind) {
            (false, 8) | (true, 128) => return Some(Icmp::Request(echo)),
            (false, 0) | (true, 129) => return Some(Icmp::Reply(echo)),
            _ => {}
        }
        let Some(meaning) = error_kind(v6, kind, code) else {
            return Some(Icmp::Other(kind, code));
        };
        let mtu = match (v6, kind, code) {
            (false, 3, 4) => Some(u32::from(echo.sequence)),
            (true, 2, _) => Some(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
            _ => None,
        };
        // Length of the quoted packet if extensions follow: in units of four bytes, eight for IPv6.
        let quoted_bytes = match v6 {
            false if matches!(kind, 3 | 11 | 12) => usize::from(head[5]) * 4,
            true if matches!(kind, 1 | 3) => usize::from(head[4]) * 8,
            _ => 0,
        };
        let (quote, extensions) = match quoted_bytes {
            0 => (rest, rest.get(DEFAULT_EXTENSIONS_OFFSET..).unwrap_or_default()),
            _ => rest.split_at_checked(quoted_bytes).unwrap_or((rest, &[])),
        };
        Some(Icmp::Error(IcmpError {
            kind: meaning,
            kind_number: kind,
            code,
            mtu: mtu.filter(|mtu| *mtu > 0),
            quoted: Quoted::parse(quote),
            mpls: mpls_labels(extensions),
        }))
    }
}

/// The meaning of an error; `None`: it is not an error.
pub fn error_kind(v6: bool, kind: u8, code: u8) -> Option<ReplyKind> {
    Some(match (v6, kind, code) {
        (false, 3, 0 | 6 | 11) | (true, 1, 0) => ReplyKind::NetUnreachable,
        (false, 3, 1 | 7 | 8 | 12) | (true, 1, 3) => ReplyKind::HostUnreachable,
        (false, 3, 2) | (true, 4, 1) => ReplyKind::ProtocolUnreachable,
        (false, 3, 3) | (true, 1, 4) => ReplyKind::PortUnreachable,
        (false, 3, 4) | (true, 2, _) => ReplyKind::TooBig,
        (false, 3, 5) => ReplyKind::SourceRouteFailed,
        (false, 3, 9 | 10 | 13) | (true, 1, 1 | 5 | 6) => ReplyKind::Prohibited,
        (false, 3, 14 | 15) => ReplyKind::Precedence,
        (false, 11, 0) | (true, 3, 0) => ReplyKind::TimeExceeded,
        (false, 12, _) | (true, 4, _) => ReplyKind::BadHeader,
        (false, 3 | 4 | 11, _) | (true, 0..=127, _) => ReplyKind::OtherError,
        _ => return None,
    })
}

impl<'a> Quoted<'a> {
    /// Parses a quoted packet. Routers quote little of it: lengths in its headers may exceed what is
    /// there.
    pub fn parse(bytes: &'a [u8]) -> Option<Quoted<'a>> {
        match bytes.first()? >> 4 {
            4 => Quoted::v4(bytes),
            6 => Quoted::v6(bytes),
            _ => None,
        }
    }

    fn v4(bytes: &'a [u8]) -> Option<Quoted<'a>> {
        let head: &[u8; 20] = bytes.first_chunk()?;
        let at = usize::from(head[0] & 15) * 4;
        Some(Quoted {
            source: IpAddr::from([head[12], head[13], head[14], head[15]]),
            destination: IpAddr::from([head[16], head[17], head[18], head[19]]),
            protocol: head[9],
            tos: head[1],
            ttl: head[8],
            id: Some(u16::from_be_bytes([head[4], head[5]])),
            length: u32::from(u16::from_be_bytes([head[2], head[3]])),
            transport: bytes.get(at.max(20)..).unwrap_or_default(),
        })
    }

    fn v6(bytes: &'a [u8]) -> Option<Quoted<'a>> {
        let head: &[u8; 40] = bytes.first_chunk()?;
        let address = |at: usize| -> Option<IpAddr> {
            Some(IpAddr::from(*head.get(at..)?.first_chunk::<16>()?))
        };
        let (mut protocol, mut at) = (head[6], 40);
        for _ in 0..MAX_EXTENSION_HEADERS {
            let size = match protocol {
                0 | 43 | 60 => (usize::from(*bytes.get(at + 1)?) + 1) * 8,
                44 => 8,
                _ => break,
            };
            protocol = *bytes.get(at)?;
            at += size;
        }
        Some(Quoted {
            source: address(8)?,
            destination: address(24)?,
            protocol,
            tos: (head[0] << 4) | (head[1] >> 4),
            ttl: head[7],
            id: None,
            length: 40 + u32::from(u16::from_be_bytes([head[4], head[5]])),
            transport: bytes.get(at..).unwrap_or_default(),
        })
    }

    /// Ports of TCP or UDP.
    pub fn ports(&self) -> Option<(u16, u16)> {
        Some((self.word(0)?, self.word(2)?))
    }

    /// Sequence number of a TCP segment.
    pub fn tcp_sequence(&self) -> Option<u32> {
        Some(u32::from(self.word(4)?) << 16 | u32::from(self.word(6)?))
    }

    /// Length and checksum of a UDP datagram.
    pub fn udp_length_and_checksum(&self) -> Option<(u16, u16)> {
        Some((self.word(4)?, self.word(6)?))
    }

    /// Identifier and sequence number of an ICMP echo.
    pub fn echo(&self) -> Option<(u16, u16)> {
        Some((self.word(4)?, self.word(6)?))
    }

    /// The quoted part of the payload of a UDP datagram or an ICMP echo.
    pub fn payload(&self) -> &'a [u8] {
        self.transport.get(HEADER_BYTES..).unwrap_or_default()
    }

    fn word(&self, at: usize) -> Option<u16> {
        let two = self.transport.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*two))
    }
}

/// The MPLS labels in the extensions of an error.
fn mpls_labels(bytes: &[u8]) -> Vec<MplsLabel> {
    let mut all = Vec::new();
    // Version 2 and a correct checksum, or zero; anything else is part of the quoted packet.
    let Some((head, mut rest)) = bytes.split_first_chunk::<4>() else { return all };
    let summed = matches!(head, [_, _, 0, 0]) || sum_is_correct(bytes);
    if head[0] >> 4 != 2 || !summed {
        return all;
    }
    while let Some((object, after)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([object[0], object[1]]));
        let object_body = length.checked_sub(4).and_then(|length| after.split_at_checked(length));
        let Some((body, next)) = object_body else {
            return all;
        };
        if (object[2], object[3]) == (1, 1) {
            for entry in body.as_chunks::<4>().0 {
                let word = u32::from_be_bytes(*entry);
                if all.len() < MAX_LABELS {
                    let class = (word >> 9 & 7) as u8;
                    all.push(MplsLabel {
                        label: word >> 12,
                        traffic_class: class,
                        ttl: (word & 255) as u8,
                    });
                }
            }
        }
        rest = next;
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A time exceeded with a quoted UDP datagram, as a router of a network with MPLS sends it.
    fn exceeded(extensions: &[u8], quoted_words: u8) -> Vec<u8> {
        let mut bytes = vec![11, 0, 0, 0, 0, quoted_words, 0, 0];
        bytes.extend([0x45, 0x10, 0, 60, 0x12, 0x34, 0, 0, 1, 17, 0, 0, 198, 18, 0, 1]);
        bytes.extend([198, 18, 9, 1, 0x80, 0, 0x82, 0x9a, 0, 40, 0xab, 0xcd]);
        bytes.resize(8 + 128, 0);
        bytes.extend(extensions);
        bytes
    }

    #[test]
    fn errors_quote_a_packet_and_labels() {
        let stack = [0x20, 0, 0, 0, 0, 8, 1, 1, 0x00, 0x01, 0x0b, 0x01];
        for quoted_words in [0, 32] {
            let bytes = exceeded(&stack, quoted_words);
            let Some(Icmp::Error(error)) = Icmp::parse(false, &bytes) else { panic!("no error") };
            assert_eq!(error.kind, ReplyKind::TimeExceeded);
            assert_eq!(
                error.mpls,
                [MplsLabel { label: 16, traffic_class: 5, ttl: 1 }],
                "{quoted_words}"
            );
            let quoted = error.quoted.unwrap();
            assert_eq!((quoted.tos, quoted.id, quoted.length), (0x10, Some(0x1234), 60));
            assert_eq!(quoted.ports(), Some((0x8000, 33434)));
            assert_eq!(quoted.udp_length_and_checksum(), Some((40, 0xabcd)));
        }
        let bytes = exceeded(&[], 0);
        let Some(Icmp::Error(error)) = Icmp::parse(false, &bytes) else { panic!("no error") };
        assert!(error.mpls.is_empty());
    }

    #[test]
    fn packet_too_big_has_the_mtu() {
        let parsed = |v6, bytes: &[u8]| match Icmp::parse(v6, bytes) {
            Some(Icmp::Error(error)) => (error.kind, error.mtu),
            other => panic!("{other:?}"),
        };
        assert_eq!(parsed(false, &[3, 4, 0, 0, 0, 0, 5, 120]), (ReplyKind::TooBig, Some(1400)));
        assert_eq!(parsed(false, &[3, 4, 0, 0, 0, 0, 0, 0]), (ReplyKind::TooBig, None));
        assert_eq!(parsed(true, &[2, 0, 0, 0, 0, 0, 5, 0]), (ReplyKind::TooBig, Some(1280)));
        assert_eq!(parsed(true, &[1, 4, 0, 0, 0, 0, 0, 0]), (ReplyKind::PortUnreachable, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(v6 in any::<bool>(), kind in 0u8..16, bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some(Icmp::Error(error)) = Icmp::parse(v6, &bytes) {
                prop_assert!(error.mpls.len() <= MAX_LABELS);
                if let Some(quoted) = error.quoted {
                    let _ = (quoted.ports(), quoted.tcp_sequence(), quoted.echo(), quoted.payload());
                }
            }
        }
    }
}
