//! Listening Unix sockets by unix_diag (`include/uapi/linux/unix_diag.h`).

use crate::netlink::{self, Malformed, attributes, u8_at, u32_at};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
/// The kernel uses the numbers of TCP states for Unix sockets too.
const LISTEN: u32 = 10;
const SHOW_NAME: u32 = 0x1;
const SHOW_RQLEN: u32 = 0x10;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_RQLEN: u16 = 4;
/// `struct unix_diag_msg`.
const MESSAGE_BYTES: usize = 16;

/// A request for all listening Unix sockets of this network namespace.
pub fn request_listeners() -> Vec<u8> {
    // struct unix_diag_req: family, protocol, pad, states, inode, show, cookie.
    let mut payload = vec![AF_UNIX, 0, 0, 0];
    payload.extend_from_slice(&(1u32 << LISTEN).to_ne_bytes());
    payload.extend_from_slice(&0u32.to_ne_bytes());
    payload.extend_from_slice(&(SHOW_NAME | SHOW_RQLEN).to_ne_bytes());
    payload.extend_from_slice(&[0xff; 8]);
    netlink::request(SOCK_DIAG_BY_FAMILY, netlink::DUMP, &payload)
}

/// One listening Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Inode.
    pub inode: u32,
    /// Name as bound; abstract names begin with a zero byte.
    pub bound: &'a [u8],
    /// Connections in its queue, not accepted yet.
    pub queue: u32,
    /// Limit of that queue.
    pub limit: u32,
}

impl<'a> Record<'a> {
    /// Parses the payload of one message.
    ///
    /// # Errors
    ///
    /// The payload is shorter than a record, or of another family.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let short = Malformed::new("record of a Unix socket: it is too short");
        if u8_at(payload, 0) != Some(AF_UNIX) {
            return Err(Malformed::new("record of a Unix socket: of another family"));
        }
        let inode = u32_at(payload, 4).ok_or(short)?;
        let mut record = Record { inode, bound: &[], queue: 0, limit: 0 };
        for (kind, value) in attributes(payload.get(MESSAGE_BYTES..).ok_or(short)?) {
            match kind {
                UNIX_DIAG_NAME => record.bound = value,
                UNIX_DIAG_RQLEN => {
                    record.queue = u32_at(value, 0).unwrap_or(0);
                    record.limit = u32_at(value, 4).unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(record)
    }

    /// The name for people: a path, or `@name` when it is abstract.
    pub fn name(&self) -> String {
        match self.bound.split_first() {
            Some((0, rest)) => format!("@{}", String::from_utf8_lossy(rest)),
            _ => {
                let path = self.bound.split(|byte| *byte == 0).next().unwrap_or_default();
                String::from_utf8_lossy(path).into_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_is_parsed() {
        let mut bytes = vec![AF_UNIX, 1, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&[10, 0, 0, 0, b'/', b'a', b'.', b's', b'k', 0, 0, 0]);
        bytes.extend_from_slice(&[12, 0, 4, 0, 3, 0, 0, 0, 128, 0, 0, 0]);
        let record = Record::parse(&bytes).unwrap();
        assert_eq!((record.inode, record.queue, record.limit), (9, 3, 128));
        assert_eq!(record.name(), "/a.sk");
        assert_eq!(Record { bound: b"\0x", ..record }.name(), "@x");
        assert_eq!(Record { bound: b"", ..record }.name(), "");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            if let Ok(record) = Record::parse(&bytes) {
                record.name();
            }
        }
    }
}
