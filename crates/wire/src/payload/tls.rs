//! TLS as far as it is in clear: records (RFC 8446, 5.1), and the server name in a ClientHello (RFC 6066,
//! 3).

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 5;
/// Longest record: 2^14 bytes and the expansion of encryption (RFC 5246, 6.2.3).
const MAX_RECORD_BYTES: u16 = (1 << 14) + 2048;
/// Longest name (RFC 1035).
const MAX_NAME_BYTES: usize = 255;

/// Content type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// This end encrypts from here on.
    ChangeCipherSpec,
    /// An error, or the end of the connection.
    Alert,
    /// Handshake, in clear.
    Handshake,
    /// Encrypted: data, and in TLS 1.3 most of the handshake.
    ApplicationData,
}

/// The record that begins here: its content type, and its bytes after the header.
pub fn record(bytes: &[u8]) -> Option<(ContentType, u16)> {
    let [kind, 3, 0..=4, high, low] = *bytes.first_chunk::<HEADER_BYTES>()? else { return None };
    let content = match kind {
        20 => ContentType::ChangeCipherSpec,
        21 => ContentType::Alert,
        22 => ContentType::Handshake,
        23 => ContentType::ApplicationData,
        _ => return None,
    };
    let length = u16::from_be_bytes([high, low]);
    (1..=MAX_RECORD_BYTES).contains(&length).then_some((content, length))
}

/// Name of an alert (RFC 8446, 6, and the registry of TLS alerts).
pub fn alert(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "close notify",
        10 => "unexpected message",
        20 => "bad record MAC",
        21 => "decryption failed",
        22 => "record overflow",
        30 => "decompression failure",
        40 => "handshake failure",
        41 => "no certificate",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown CA",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        60 => "export restriction",
        70 => "protocol version",
        71 => "insufficient security",
        80 => "internal error",
        86 => "inappropriate fallback",
        90 => "user canceled",
        100 => "no renegotiation",
        109 => "missing extension",
        110 => "unsupported extension",
        111 => "certificate unobtainable",
        112 => "unrecognized name",
        113 => "bad certificate status response",
        114 => "bad certificate hash value",
        115 => "unknown PSK identity",
        116 => "certificate required",
        120 => "no application protocol",
        121 => "ECH required",
        _ => return None,
    })
}

/// The captured part of a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// Server name; `None`: it has none, or that part was not captured.
    pub server_name: Option<&'a str>,
    /// Whether all of it was captured.
    pub whole: bool,
}

/// The ClientHello that begins here, in one record.
pub fn client_hello(bytes: &[u8]) -> Option<ClientHello<'_>> {
    let (ContentType::Handshake, length) = record(bytes)? else { return None };
    let rest = bytes.get(HEADER_BYTES..)?;
    let whole = rest.len() >= usize::from(length);
    let rest = rest.get(..usize::from(length)).unwrap_or(rest);
    // Type 1, three bytes of length, a version.
    let [1, _, _, _, 3, 0..=4, ..] = *rest else { return None };
    Some(ClientHello { server_name: rest.get(6..).and_then(server_name), whole })
}

fn server_name(rest: &[u8]) -> Option<&str> {
    // Random, session, ciphers, compression, then extensions.
    let rest = rest.get(32..)?;
    let (_, rest) = vector::<1>(rest)?;
    let (_, rest) = vector::<2>(rest)?;
    let (_, rest) = vector::<1>(rest)?;
    let mut rest = rest.get(2..)?;
    loop {
        let kind = rest.first_chunk::<2>()?;
        let (value, after) = vector::<2>(rest.get(2..)?)?;
        if *kind == [0, 0] {
            // A list of names, of which there is one type, 0.
            let (names, _) = vector::<2>(value)?;
            let (name, _) = vector::<2>(names.strip_prefix(&[0])?)?;
            return host(name);
        }
        rest = after;
    }
}

/// Bytes with their length before them, and what follows.
fn vector<const LENGTH: usize>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

fn host(name: &[u8]) -> Option<&str> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
    str::from_utf8(name).ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &[u8]) -> Vec<u8> {
        let with = |length: usize, bytes: &[u8]| {
            let all = (bytes.len() as u32).to_be_bytes();
            [&all[4 - length..], bytes].concat()
        };
        let names = with(2, &[&[0][..], &with(2, name)].concat());
        let extensions = [&[0, 43][..], &with(2, &[2, 3, 4]), &[0, 0], &with(2, &names)].concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &with(1, &[9; 32]),
            &with(2, &[0x13, 1]),
            &with(1, &[0]),
            &with(2, &extensions),
        ]
        .concat();
        let message = [&[1][..], &with(3, &body)].concat();
        [&[22, 3, 1][..], &with(2, &message)].concat()
    }

    #[test]
    fn the_server_name_is_found() {
        let bytes = hello(b"example.org");
        let found = client_hello(&bytes).expect("a ClientHello");
        assert_eq!((found.server_name, found.whole), (Some("example.org"), true));
        // Wherever it is truncated: no name, or the whole name.
        for length in 0..bytes.len() {
            let cut = client_hello(&bytes[..length]);
            assert_eq!(cut.is_some(), length >= 11, "{length}");
            let name = cut.and_then(|hello| hello.server_name);
            assert!(name.is_none() || name == Some("example.org"), "{length}: {name:?}");
        }
        for strange in [&b""[..], b"a b", b"\x1b[2J", &[b'a'; 256]] {
            let bytes = hello(strange);
            let found = client_hello(&bytes).expect("a ClientHello");
            assert_eq!(found.server_name, None);
        }
    }

    #[test]
    fn alerts_have_the_names_of_their_registry() {
        assert_eq!((alert(48), alert(120)), (Some("unknown CA"), Some("no application protocol")));
        assert_eq!(alert(7), None);
    }

    #[test]
    fn records() {
        assert_eq!(record(&[20, 3, 3, 0, 1, 1]), Some((ContentType::ChangeCipherSpec, 1)));
        assert_eq!(record(&[23, 3, 3, 0x40, 0]), Some((ContentType::ApplicationData, 16384)));
        for no in [
            &[][..],
            &[22, 3, 1, 0],
            &[24, 3, 1, 0, 1],
            &[22, 2, 0, 0, 1],
            &[22, 3, 5, 0, 1],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0xff, 0],
        ] {
            assert_eq!(record(no), None, "{no:?}");
        }
    }
}
