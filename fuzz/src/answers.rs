//! Targets of what probes get back: ICMP messages and HTTP responses.

use probe::http::response::{Parsed, ResponseParser};
use wire::packet::icmp::{Icmp, Quoted};

/// A message of ICMP; the first byte chooses the version.
pub(crate) fn icmp(bytes: &[u8]) {
    let Some((version, message)) = bytes.split_first() else { return };
    let v6 = version & 1 != 0;
    let Some(parsed) = Icmp::parse(v6, message) else {
        assert!(message.len() < 8, "whole, and not parsed");
        return;
    };
    match parsed {
        Icmp::Request(echo) | Icmp::Reply(echo) => assert_eq!(echo.payload, &message[8..]),
        Icmp::Error(error) => {
            assert!(error.mtu != Some(0) && error.mpls.len() <= 16);
            if let Some(quoted) = error.quoted {
                self::quoted(&quoted, message);
            }
        }
        Icmp::Other(kind, code) => assert_eq!([kind, code], message[..2]),
    }
}

fn quoted(quoted: &Quoted<'_>, message: &[u8]) {
    assert!(quoted.source.is_ipv6() == quoted.destination.is_ipv6());
    assert!(quoted.transport.len() <= message.len() - 8);
    assert!(quoted.payload().len() <= quoted.transport.len());
    if quoted.transport.len() >= 4 && matches!(quoted.protocol, 6 | 17) {
        assert!(quoted.ports().is_some());
    }
    let _ = (quoted.tcp_sequence(), quoted.udp_length_and_checksum(), quoted.echo());
}

/// HTTP/1.1 responses, one after the other: where they end does not depend on the sizes of the pieces
/// in which they arrive, which are the first four bytes.
pub(crate) fn http(bytes: &[u8]) {
    let Some((pieces, stream)) = bytes.split_first_chunk::<4>() else { return };
    let whole = responses(stream, &[stream.len().max(1)]);
    let lengths = pieces.map(|length| usize::from(length) + 1);
    assert_eq!(whole, responses(stream, &lengths));
    assert_eq!(whole, responses(stream, &[1]));
}

/// The responses in a stream.
#[derive(Debug, Default, PartialEq)]
struct Responses {
    /// Where each ends, its status, and whether the connection stays open.
    ends: Vec<(usize, u16, bool)>,
    /// The status of a response that ends with the connection.
    closed: Option<u16>,
    /// Why the rest is malformed.
    malformed: Option<&'static str>,
}

fn responses(stream: &[u8], lengths: &[usize]) -> Responses {
    let mut parser = ResponseParser::default();
    let mut responses = Responses::default();
    let mut at = 0;
    let mut lengths = lengths.iter().copied().cycle();
    while at < stream.len() {
        let length = lengths.next().unwrap_or(1).min(stream.len() - at);
        let mut piece = &stream[at..at + length];
        at += length;
        while !piece.is_empty() {
            match parser.parse(piece, false) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete { used, status, keep_alive }) => {
                    assert!(used <= piece.len());
                    piece = &piece[used..];
                    responses.ends.push((at - piece.len(), status, keep_alive));
                    if !keep_alive {
                        return responses;
                    }
                }
                Err(why) => return Responses { malformed: Some(why), ..responses },
            }
        }
    }
    Responses { closed: parser.closed(), ..responses }
}
