//! Why a packet has no IP packet, and numbers in network order that may be truncated.

/// Why there is no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// netwhy does not know the link type.
    #[error("link type that is not read")]
    UnknownLinkType,
    /// It is not IP: ARP, spanning tree, a control frame.
    #[error("no IP packet")]
    NotIp,
    /// Fewer bytes were captured than its headers have.
    #[error("cut off within its headers")]
    Truncated,
    /// A length or version that cannot be.
    #[error("malformed headers")]
    Malformed,
    /// More headers within each other than in any network.
    #[error("too many headers within each other")]
    TooManyHeaders,
}

/// Two bytes in network order.
#[inline]
pub(super) fn be16(bytes: &[u8], at: usize) -> Result<u16, DecodeError> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    two.map(|two| u16::from_be_bytes(*two)).ok_or(DecodeError::Truncated)
}

/// Four bytes in network order.
#[inline]
pub(super) fn be32(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map(|four| u32::from_be_bytes(*four)).ok_or(DecodeError::Truncated)
}
