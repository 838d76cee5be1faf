//! Protocols in which the server speaks first: its greeting is no request.
//!
//! The client asks, though the first data is the server's. Where one end repeats short commands and the
//! other answers, the order of segments alone does not show which is which; the greeting does.

/// Ports of servers that greet, for captures that hold no payload: FTP, SSH, SMTP, POP3, NNTP, IMAP,
/// submission, MySQL, RFB.
const PORTS: [u16; 9] = [21, 22, 25, 110, 119, 143, 587, 3306, 5900];

/// How greetings begin: POP3 (RFC 1939), IMAP (RFC 3501), SSH (RFC 4253), RFB (RFC 6143), rsync,
/// Subversion, NATS.
const BEGINNINGS: [&[u8]; 8] =
    [b"+OK", b"* OK", b"* PREAUTH", b"SSH-", b"RFB 00", b"@RSYNCD:", b"( success ", b"INFO {"];

/// Whether the first data of a server, of which `payload` was captured, is a greeting.
pub(crate) fn is_greeting(payload: &[u8], port: u16) -> bool {
    match payload {
        [] => PORTS.contains(&port),
        _ => {
            BEGINNINGS.iter().any(|beginning| payload.starts_with(beginning))
                || is_reply_code(payload)
                || is_mysql(payload)
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
        let greetings: [&[u8]; 8] = [
            b"220 mail.example.com ESMTP ready\r\n",
            b"220-Welcome\r\n220 FTP\r\n",
            b"421 too many connections\r\n",
            b"+OK ready\r\n",
            b"* OK IMAP4rev1\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"RFB 003.008\n",
            b"\x4a\0\0\0\x0a8.0.36\0",
        ];
        for greeting in greetings {
            assert!(is_greeting(greeting, 7_000), "{}", greeting.escape_ascii());
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
            assert!(!is_greeting(other, 21), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn without_payload_the_port_decides() {
        assert!(is_greeting(b"", 25));
        assert!(!is_greeting(b"", 443));
    }
}
