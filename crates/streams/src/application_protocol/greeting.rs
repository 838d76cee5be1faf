//! Protocols in which the server speaks first: its greeting is no request.
//!
//! After most greetings the client asks, though the first data is the server's. Where one end repeats short
//! commands and the other answers, the order of segments alone does not show which is which; the greeting
//! does. After some, either end sends when it likes.

/// What a server says before it has got any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// From then on the client sends commands, and the server replies.
    BeforeCommands,
    /// From then on either end sends when it likes.
    BetweenPeers,
}

/// Ports of servers that greet and reply to commands, for captures that hold no payload: FTP, SMTP, POP3,
/// NNTP, IMAP, submission, MySQL.
const PORTS: [u16; 7] = [21, 25, 110, 119, 143, 587, 3306];

/// The same of SSH and RFB.
const PORTS_OF_PEERS: [u16; 2] = [22, 5900];

/// How greetings begin: POP3 (RFC 1939), IMAP (RFC 3501), rsync, Subversion.
const BEGINNINGS: [&[u8]; 5] = [b"+OK", b"* OK", b"* PREAUTH", b"@RSYNCD:", b"( success "];

/// The same of SSH (RFC 4253), RFB (RFC 6143) and NATS.
const BEGINNINGS_OF_PEERS: [&[u8]; 3] = [b"SSH-", b"RFB 00", b"INFO {"];

impl Greeting {
    /// Recognizes the first data of a server, of which `payload` was captured.
    pub(crate) fn recognize(payload: &[u8], port: u16) -> Option<Self> {
        let begins_with = |beginning: &&[u8]| payload.starts_with(beginning);
        let (before_commands, between_peers) = if payload.is_empty() {
            (PORTS.contains(&port), PORTS_OF_PEERS.contains(&port))
        } else {
            let is_reply = is_reply_code(payload) || is_mysql(payload);
            let before_commands = is_reply || BEGINNINGS.iter().any(begins_with);
            (before_commands, BEGINNINGS_OF_PEERS.iter().any(begins_with))
        };
        if before_commands {
            Some(Self::BeforeCommands)
        } else {
            between_peers.then_some(Self::BetweenPeers)
        }
    }
}

/// A positive or a final negative reply of FTP (RFC 959), SMTP (RFC 5321) or NNTP (RFC 3977): `220 ...`,
/// `220-...`, `421 ...`.
fn is_reply_code(payload: &[u8]) -> bool {
    matches!(payload, [b'1' | b'2' | b'4' | b'5', b'0'..=b'5', b'0'..=b'9', b' ' | b'-', ..])
}

/// The initial handshake packet of MySQL: length, number 0, protocol version 10, a version such as
/// `8.0.36`.
fn is_mysql(payload: &[u8]) -> bool {
    matches!(payload, [_, _, 0, 0, 10, b'0'..=b'9', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_recognized() {
        let greetings: [&[u8]; 6] = [
            b"220 mail.example.com ESMTP ready\r\n",
            b"220-Welcome\r\n220 FTP\r\n",
            b"421 too many connections\r\n",
            b"+OK ready\r\n",
            b"* OK IMAP4rev1\r\n",
            b"\x4a\0\0\0\x0a8.0.36\0",
        ];
        for greeting in greetings {
            let recognized = Greeting::recognize(greeting, 7_000);
            assert_eq!(recognized, Some(Greeting::BeforeCommands), "{}", greeting.escape_ascii());
        }
    }

    #[test]
    fn after_some_greetings_either_end_sends_when_it_likes() {
        let greetings: [&[u8]; 3] =
            [b"SSH-2.0-OpenSSH_9.6\r\n", b"RFB 003.008\n", b"INFO {\"server_id\":\"NA\"}\r\n"];
        for greeting in greetings {
            let recognized = Greeting::recognize(greeting, 7_000);
            assert_eq!(recognized, Some(Greeting::BetweenPeers), "{}", greeting.escape_ascii());
        }
    }

    #[test]
    fn other_first_data_is_none() {
        let others: [&[u8]; 6] = [
            b"HTTP/1.1 200 OK\r\n",
            b"{\"type\":\"hello\"}",
            b"\x16\x03\x01",
            b"220",
            b"\x04\0\0\x08",
            b"1234567",
        ];
        for other in others {
            assert_eq!(Greeting::recognize(other, 21), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn without_payload_the_port_decides() {
        assert_eq!(Greeting::recognize(b"", 25), Some(Greeting::BeforeCommands));
        assert_eq!(Greeting::recognize(b"", 22), Some(Greeting::BetweenPeers));
        assert_eq!(Greeting::recognize(b"", 443), None);
    }
}
