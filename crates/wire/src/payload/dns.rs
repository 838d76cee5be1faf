//! DNS (RFC 1035): the question of a query, and the code of its response.

/// Bytes of a header.
const HEADER_BYTES: usize = 12;
/// Longest name, as it is sent.
const MAX_NAME_BYTES: usize = 255;

/// A query or a response, as far as needed to measure how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Identifier that a response shares with its query.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// Whether recursion is desired: it is in queries of hosts, not in those of resolvers.
    pub recursion_desired: bool,
    /// Response code: 0 no error, 2 server failure, 3 no such name, 5 refused.
    pub response_code: u8,
    /// The name in the question, as it is sent: labels with their lengths.
    pub name: &'a [u8],
    /// Type in the question: 1 (A) for an IPv4 address, 28 (AAAA) for an IPv6 address.
    pub query_type: u16,
}

/// The query or response in a datagram. Other operations, and messages with more than one question, are
/// none.
pub fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let flags = u16::from_be_bytes([head[2], head[3]]);
    let questions = u16::from_be_bytes([head[4], head[5]]);
    // Opcode 0: a standard query; one question, as in all queries.
    if flags >> 11 & 0xf != 0 || questions != 1 {
        return None;
    }
    let mut end = 0;
    loop {
        let length = usize::from(*rest.get(end)?);
        // A compression pointer needs something before the question to point to.
        if length > 63 || end + length >= MAX_NAME_BYTES {
            return None;
        }
        end += 1 + length;
        if length == 0 {
            break;
        }
    }
    let (name, rest) = rest.split_at_checked(end)?;
    let kind = u16::from_be_bytes(*rest.first_chunk::<2>()?);
    Some(Message {
        id: u16::from_be_bytes([head[0], head[1]]),
        is_response: flags & 0x8000 != 0,
        recursion_desired: flags & 0x0100 != 0,
        response_code: (flags & 0xf) as u8,
        name,
        query_type: kind,
    })
}

/// The query or response at the beginning of a TCP segment, after its length (RFC 1035, 4.2.2), and what
/// follows it.
pub fn tcp_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (whole, next) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    Some((message(whole)?, next))
}

impl Message<'_> {
    /// The name for people: lower case, other bytes than letters and digits as `\\032`, without the final
    /// dot.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut rest = self.name;
        while let Some((length, after)) = rest.split_first() {
            let Some((label, after)) = after.split_at_checked(usize::from(*length)) else { break };
            if label.is_empty() {
                break;
            }
            if !text.is_empty() {
                text.push('.');
            }
            for byte in label {
                match byte {
                    b'-' | b'_' => text.push(char::from(*byte)),
                    byte if byte.is_ascii_alphanumeric() => {
                        text.push(char::from(byte.to_ascii_lowercase()));
                    }
                    byte => text.push_str(&format!("\\{byte:03}")),
                }
            }
            rest = after;
        }
        if text.is_empty() { ".".to_string() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x03wWw\x07example\x03org\0\0\x01\0\x01";

    #[test]
    fn a_query() {
        let query = message(QUERY).expect("a query");
        assert_eq!((query.id, query.query_type, query.response_code), (0x1234, 1, 0));
        assert!(!query.is_response && query.recursion_desired);
        assert_eq!(query.text(), "www.example.org");
        // A truncated query is none, wherever it ends.
        for length in 0..QUERY.len() - 2 {
            assert_eq!(message(&QUERY[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_response_and_other_messages() {
        let with = |at: usize, byte: u8| {
            let mut bytes = QUERY.to_vec();
            bytes[at] = byte;
            bytes
        };
        let bytes = [&with(2, 0x81)[..2], &[0x81, 0x83], &QUERY[4..]].concat();
        let response = message(&bytes).expect("a response");
        assert!(response.is_response);
        assert_eq!(response.response_code, 3);
        assert_eq!(message(&with(2, 0x28)), None, "an update");
        assert_eq!(message(&with(5, 0)), None, "no question");
        assert_eq!(message(&with(12, 0xc0)), None, "a compression pointer");
        assert_eq!(message(&[&QUERY[..12], &[63; 300]].concat()), None, "too long");
    }

    #[test]
    fn names_for_people() {
        let name = |name: &[u8]| {
            message(&[&QUERY[..12], name, &[0, 1, 0, 1]].concat()).map(|message| message.text())
        };
        assert_eq!(name(b"\0").as_deref(), Some("."));
        assert_eq!(name(b"\x04_dmz\x03a b\0").as_deref(), Some("_dmz.a\\032b"));
        assert_eq!(name(b"\x02\x1b.\0").as_deref(), Some("\\027\\046"));
    }
}
