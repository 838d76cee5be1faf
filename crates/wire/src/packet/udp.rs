//! UDP datagrams.

use super::error::DecodeError;
use super::ip::Ip;

/// Protocol number of UDP.
pub const PROTOCOL: u8 = 17;
/// Bytes of its header.
pub(super) const HEADER_BYTES: usize = 8;

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// The data that was captured.
    pub payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Parses the datagram in an IP packet. A packet of another protocol, and a fragment that is not the
    /// first, have none.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn of(ip: &Ip<'a>) -> Result<Self, DecodeError> {
        if ip.protocol != PROTOCOL || ip.fragment.is_some_and(|fragment| fragment.offset > 0) {
            return Err(DecodeError::NotIp);
        }
        let (head, payload) =
            ip.payload.split_first_chunk::<HEADER_BYTES>().ok_or(DecodeError::Truncated)?;
        Ok(Udp {
            source: u16::from_be_bytes([head[0], head[1]]),
            destination: u16::from_be_bytes([head[2], head[3]]),
            payload,
        })
    }
}
