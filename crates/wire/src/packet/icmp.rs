//! ICMP and ICMPv6: echoes, errors, the packet that an error quotes, and what routers add to it
//! (RFC 792, 4443, 4884, 4950).

use std::net::IpAddr;

use model::{MplsLabel, ReplyKind};

/// Protocol number of ICMP.
pub const V4: u8 = 1;
/// Protocol number of ICMPv6.
pub const V6: u8 = 58;

/// Bytes of the header of every message.
const HEADER_BYTES: usize = 8;
/// Where extensions begin if a router does not say (RFC 4884, section 5.5).
const DEFAULT_EXTENSIONS_OFFSET: usize = 128;
/// Most labels that are read.
const MAX_LABELS: usize = 16;
/// Most headers of IPv6 within each other that are followed in a quoted packet.
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
    /// Who asked.
    pub id: u16,
    /// Which of the questions.
    pub sequence: u16,
    /// What was sent along.
    pub payload: &'a [u8],
}

/// An error.
#[derive(Debug, Clone, PartialEq)]
pub struct IcmpError<'a> {
    /// What it says.
    pub kind: ReplyKind,
    /// Type as it stands in the message.
    pub kind_number: u8,
    /// Code as it stands in the message.
    pub code: u8,
    /// MTU of the next link, bytes, where it says one.
    pub mtu: Option<u32>,
    /// The packet that it is about, as it arrived where the error was made.
    pub quoted: Option<Quoted<'a>>,
    /// Labels that the packet had, outermost first; empty without any.
    pub mpls: Vec<MplsLabel>,
}

/// The front of a packet that an error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Where it came from.
    pub source: IpAddr,
    /// Where it went to.
    pub destination: IpAddr,
    /// Protocol of what it carried.
    pub protocol: u8,
    /// Type of service, or traffic class: all eight bits.
    pub tos: u8,
    /// Time to live, or hop limit, that was left.
    pub ttl: u8,
    /// Identification; `None` for IPv6.
    pub id: Option<u16>,
    /// Length of the packet with its header, by the header; bytes.
    pub length: u32,
    /// As much of its transport header and payload as was quoted.
    pub transport: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Reads a message; `v6` tells ICMPv6 from ICMP. `None`: cut off within its header.
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
        let Some(answer) = error_kind(v6, kind, code) else { return Some(Icmp::Other(kind, code)) };
        let mtu = match (v6, kind, code) {
            (false, 3, 4) => Some(u32::from(echo.sequence)),
            (true, 2, _) => Some(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
            _ => None,
        };
        // How much is quoted, if extensions follow: counted in four bytes, in eight for IPv6.
        let told = match v6 {
            false if matches!(kind, 3 | 11 | 12) => usize::from(head[5]) * 4,
            true if matches!(kind, 1 | 3) => usize::from(head[4]) * 8,
            _ => 0,
        };
        let (quote, extensions) = match told {
            0 => (rest, rest.get(DEFAULT_EXTENSIONS_OFFSET..).unwrap_or_default()),
            _ => (rest.get(..told).unwrap_or(rest), rest.get(told..).unwrap_or_default()),
        };
        Some(Icmp::Error(IcmpError {
            kind: answer,
            kind_number: kind,
            code,
            mtu: mtu.filter(|mtu| *mtu > 0),
            quoted: Quoted::parse(quote),
            mpls: mpls_labels(extensions),
        }))
    }
}

/// What an error says; `None`: it is no error.
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
    /// Reads a quoted packet: routers quote little of it, so lengths in its headers are not held
    /// against what is there.
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

    /// Ports, of TCP and UDP: the first four bytes.
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

    /// Payload of a UDP datagram or an ICMP echo, as far as it was quoted.
    pub fn payload(&self) -> &'a [u8] {
        self.transport.get(HEADER_BYTES..).unwrap_or_default()
    }

    fn word(&self, at: usize) -> Option<u16> {
        let two = self.transport.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*two))
    }
}

/// The stack of labels among the extensions of an error.
fn mpls_labels(bytes: &[u8]) -> Vec<MplsLabel> {
    let mut all = Vec::new();
    // Version 2, and a checksum unless it is zero; anything else is part of the quoted packet.
    let Some((head, mut rest)) = bytes.split_first_chunk::<4>() else { return all };
    let summed = head[2..4] == [0, 0] || super::build::sum_is_right(bytes);
    if head[0] >> 4 != 2 || !summed {
        return all;
    }
    while let Some((object, after)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([object[0], object[1]]));
        let Some(body) = length.checked_sub(4).and_then(|length| after.get(..length)) else {
            return all;
        };
        if (object[2], object[3]) == (1, 1) {
            for entry in body.as_chunks::<4>().0 {
                let word = u32::from_be_bytes(*entry);
                if all.len() < MAX_LABELS {
                    let class = (word >> 9 & 7) as u8;
                    all.push(MplsLabel { label: word >> 12, class, ttl: (word & 255) as u8 });
                }
            }
        }
        rest = &after[body.len()..];
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A time exceeded with a quoted UDP datagram, as a router of a network with MPLS sends it.
    fn exceeded(extensions: &[u8], told: u8) -> Vec<u8> {
        let mut bytes = vec![11, 0, 0, 0, 0, told, 0, 0];
        bytes.extend([0x45, 0x10, 0, 60, 0x12, 0x34, 0, 0, 1, 17, 0, 0, 198, 18, 0, 1]);
        bytes.extend([198, 18, 9, 1, 0x80, 0, 0x82, 0x9a, 0, 40, 0xab, 0xcd]);
        bytes.resize(8 + 128, 0);
        bytes.extend(extensions);
        bytes
    }

    #[test]
    fn errors_quote_a_packet_and_labels() {
        let stack = [0x20, 0, 0, 0, 0, 8, 1, 1, 0x00, 0x01, 0x0b, 0x01];
        for told in [0, 32] {
            let bytes = exceeded(&stack, told);
            let Some(Icmp::Error(error)) = Icmp::parse(false, &bytes) else { panic!("no error") };
            assert_eq!(error.kind, ReplyKind::TimeExceeded);
            assert_eq!(error.mpls, [MplsLabel { label: 16, class: 5, ttl: 1 }], "{told}");
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
    fn what_is_too_big_names_the_mtu() {
        let told = |v6, bytes: &[u8]| match Icmp::parse(v6, bytes) {
            Some(Icmp::Error(error)) => (error.kind, error.mtu),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(false, &[3, 4, 0, 0, 0, 0, 5, 120]), (ReplyKind::TooBig, Some(1400)));
        assert_eq!(told(false, &[3, 4, 0, 0, 0, 0, 0, 0]), (ReplyKind::TooBig, None));
        assert_eq!(told(true, &[2, 0, 0, 0, 0, 0, 5, 0]), (ReplyKind::TooBig, Some(1280)));
        assert_eq!(told(true, &[1, 4, 0, 0, 0, 0, 0, 0]), (ReplyKind::PortUnreachable, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(v6 in any::<bool>(), kind in 0u8..16, bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
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
