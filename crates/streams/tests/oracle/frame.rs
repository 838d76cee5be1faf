//! A frame of a capture as tshark reads it, and what one of the two says of a packet.

use std::net::SocketAddr;

pub(crate) const FIN: u16 = 0x001;
pub(crate) const SYN: u16 = 0x002;
pub(crate) const RST: u16 = 0x004;
pub(crate) const ACK: u16 = 0x010;

/// Whether data, or a flag that counts as data, comes again or late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Again {
    #[default]
    No,
    Repeated,
    Reordered,
}

/// What is said of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    pub(crate) again: Again,
    pub(crate) duplicate_ack: bool,
    pub(crate) zero_window: bool,
}

/// A frame with TCP in it.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    /// Nanoseconds since 1970.
    pub(crate) at: i64,
    /// Whether its time has less than a second of fractions.
    pub(crate) clock: bool,
    /// Protocols within each other, outermost first.
    pub(crate) protocols: String,
    pub(crate) stream: u64,
    pub(crate) from: SocketAddr,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Bytes of data, by tshark; it has none for a fragment.
    pub(crate) length: Option<u64>,
    /// Bytes of data, by the header of IPv4.
    pub(crate) told: Option<u64>,
    pub(crate) window: u16,
    /// By how many bits its sender's windows are shifted; only a SYN tells.
    pub(crate) scale: Option<u32>,
    /// Identification of IPv4, if it is not 0.
    pub(crate) id: Option<u16>,
    /// Time stamps, its own and the one that it echoes.
    pub(crate) stamps: Option<(u32, u32)>,
    pub(crate) says: Verdict,
    /// From the SYN to the end of the handshake, nanoseconds.
    pub(crate) handshake: Option<i64>,
}

impl Frame {
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}
