//! Netlink: messages in a datagram, attributes in a message, headers of requests.
//!
//! No length is trusted: one that does not fit ends the walk with [`Malformed`].

/// Bytes of a message header (`struct nlmsghdr`).
pub const HEADER_BYTES: usize = 16;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;

/// Flag of a request.
pub const REQUEST: u16 = 0x1;
/// Flags of a request for a whole table (`NLM_F_ROOT | NLM_F_MATCH`).
pub const DUMP: u16 = 0x300;
/// Flag of an answer: the table changed while it was dumped, entries may be missing or duplicate.
const DUMP_INTERRUPTED: u16 = 0x10;
/// Bits of an attribute's kind that are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const KIND_MASK: u16 = 0x3fff;

/// Bytes that do not have the expected form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}")]
pub struct Malformed {
    /// What could not be parsed.
    pub what: &'static str,
}

impl Malformed {
    /// An error about what could not be parsed.
    pub fn new(what: &'static str) -> Self {
        Malformed { what }
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Kind (`nlmsg_type`).
    pub kind: u16,
    /// Flags.
    pub flags: u16,
    /// Sequence number of the request that this answers.
    pub sequence: u32,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// Whether it ends an answer.
    pub fn is_end(&self) -> bool {
        self.kind == DONE || self.kind == ERROR
    }

    /// The error number in the kernel's answer, positive; `None` when it is not an error.
    pub fn error(&self) -> Option<i32> {
        if self.kind == OVERRUN {
            return Some(105); // ENOBUFS
        }
        if !self.is_end() {
            return None;
        }
        // NLMSG_DONE has the result of the dump, NLMSG_ERROR that of the request; some subsystems omit
        // the sign (libmnl's `mnl_cb_error`).
        match i32_at(self.payload, 0) {
            Some(0) | None => None,
            Some(error) => Some(error.saturating_abs()),
        }
    }

    /// Whether the table changed while it was dumped.
    pub fn dump_interrupted(&self) -> bool {
        self.flags & DUMP_INTERRUPTED != 0
    }
}

/// The messages of a datagram. None follow an error.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut left = datagram;
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let message = first_message(left);
        left = match &message {
            Some((_, rest)) => rest,
            None => &[],
        };
        Some(message.map(|(message, _)| message).ok_or(Malformed::new("netlink message")))
    })
}

fn first_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let payload = bytes.get(HEADER_BYTES..length)?;
    let rest = bytes.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
    let message = Message {
        kind: u16_at(bytes, 4)?,
        flags: u16_at(bytes, 6)?,
        sequence: u32_at(bytes, 8)?,
        payload,
    };
    Some((message, rest))
}

/// The attributes of a message or of a nested attribute: kind without its flags, and value. Bytes that
/// are no attribute end the walk.
pub fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes { left: bytes }
}

/// See [`attributes`].
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.left, 0)?);
        let kind = u16_at(self.left, 2)? & KIND_MASK;
        let value = self.left.get(4..length)?;
        self.left = self.left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A request: header and payload. Its sender sets the sequence number.
pub fn request(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + payload.len();
    let mut request = Vec::with_capacity(length);
    request.extend_from_slice(&(length as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(payload);
    request
}

#[inline]
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[inline]
pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER_BYTES + 1);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4 + 1);
        }

        #[test]
        fn a_request_is_parsed_back(kind: u16, payload in proptest::collection::vec(any::<u8>(), 0..99)) {
            let bytes = request(kind, DUMP, &payload);
            let read: Vec<_> = messages(&bytes).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(read[0].kind, kind);
            prop_assert_eq!(read[0].payload, &payload[..]);
            for length in 1..bytes.len() {
                prop_assert!(messages(&bytes[..length]).next().unwrap().is_err());
            }
        }
    }

    #[test]
    fn a_length_of_zero_is_malformed() {
        assert_eq!(
            messages(&[0; 64]).collect::<Vec<_>>(),
            [Err(Malformed::new("netlink message"))]
        );
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }

    #[test]
    fn errors_are_positive_numbers() {
        let mut bytes = request(ERROR, 0, &(-1i32).to_ne_bytes());
        let error = |bytes: &[u8]| messages(bytes).next().unwrap().unwrap().error();
        assert_eq!(error(&bytes), Some(1));
        bytes = request(ERROR, 0, &0i32.to_ne_bytes());
        assert_eq!(error(&bytes), None);
        bytes = request(DONE, 0, &i32::MIN.to_ne_bytes());
        assert_eq!(error(&bytes), Some(i32::MAX));
        bytes = request(DONE, 0, &105i32.to_ne_bytes());
        assert_eq!(error(&bytes), Some(105));
        bytes = request(20, 0, &[]);
        assert_eq!(error(&bytes), None);
    }
}
