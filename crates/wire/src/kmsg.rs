//! Records of `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`):
//! `6,339,5140900,-;text`, then lines with keys.

use crate::netlink::Malformed;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// 0 emergency to 7 debug.
    pub priority: u8,
    /// Facility; 0 is the kernel itself.
    pub facility: u32,
    /// Sequence number.
    pub sequence: u64,
    /// When, microseconds by the kernel's clock.
    pub micros: u64,
    /// Text, with its escapes decoded.
    pub text: String,
}

/// Parses one record.
///
/// # Errors
///
/// The bytes do not have that form.
pub fn record(bytes: &[u8]) -> Result<Record, Malformed> {
    parse(bytes).ok_or(Malformed::new("record of the kernel log"))
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let semicolon = bytes.iter().position(|byte| *byte == b';')?;
    let head = std::str::from_utf8(bytes.get(..semicolon)?).ok()?;
    let mut fields = head.split(',');
    let syslog: u32 = fields.next()?.parse().ok()?;
    let sequence = fields.next()?.parse().ok()?;
    let micros = fields.next()?.parse().ok()?;
    // Keys follow on lines of their own.
    let text = bytes.get(semicolon + 1..)?.split(|byte| *byte == b'\n').next()?;
    Some(Record {
        priority: (syslog & 7) as u8,
        facility: syslog >> 3,
        sequence,
        micros,
        text: String::from_utf8_lossy(&unescape(text)).into_owned(),
    })
}

/// Decodes `\xHH`, with which the kernel writes bytes that are not printable.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((byte, rest)) = left.split_first() {
        let code = (*byte == b'\\')
            .then(|| rest.strip_prefix(b"x")?.first_chunk::<2>())
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(code) = code {
            plain.push(code);
            left = rest.get(3..).unwrap_or_default();
        } else {
            plain.push(*byte);
            left = rest;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_is_parsed() {
        let bytes = b"4,1339,5140900,-;nf_conntrack: table full, dropping packet\n SUBSYSTEM=x\n";
        let record = record(bytes).unwrap();
        assert_eq!((record.priority, record.facility, record.sequence), (4, 0, 1339));
        assert_eq!(record.micros, 5_140_900);
        assert_eq!(record.text, "nf_conntrack: table full, dropping packet");
        assert_eq!(super::record(b"30,1,2,-,more;a\\x0ab\\\\x").unwrap().text, "a\nb\\\\x");
        for bad in [&b""[..], b"4,1,2", b"a,b,c;d", b"4;x"] {
            assert!(super::record(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            let _ = record(&bytes);
            let _ = record(&[b"4,1,2,-;", &bytes[..]].concat());
        }
    }
}
