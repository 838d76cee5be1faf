//! A frame of a capture as tshark reads it, and the verdict of netwhy or tshark on a packet.

use std::net::SocketAddr;

pub(crate) const FIN: u16 = 0x001;
pub(crate) const SYN: u16 = 0x002;
pub(crate) const RST: u16 = 0x004;
pub(crate) const ACK: u16 = 0x010;

/// Whether data, or a flag that counts as data, is retransmitted or late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Again {
    #[default]
    No,
    Retransmitted,
    Reordered,
}

/// What netwhy or tshark says of a packet.
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
    /// Whether its time has nine digits of fractions: others are no time.
    pub(crate) has_time: bool,
    /// Protocols, outermost first.
    pub(crate) protocols: String,
    pub(crate) stream: u64,
    pub(crate) from: SocketAddr,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Bytes of data, by tshark; it has none for a fragment.
    pub(crate) length: Option<u64>,
    /// Bytes of data by the IPv4 header.
    pub(crate) length_by_ip: Option<u64>,
    pub(crate) window: u16,
    /// Window scale option of a SYN.
    pub(crate) scale: Option<u32>,
    /// Identification of IPv4, if it is not 0.
    pub(crate) id: Option<u16>,
    /// Time stamps: its own, and the one that it echoes.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// tshark's.
    pub(crate) verdict: Verdict,
    /// From the SYN to the end of the handshake, nanoseconds.
    pub(crate) handshake: Option<i64>,
}

impl Frame {
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}
