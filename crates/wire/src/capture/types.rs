//! What is read from a capture: packets, interfaces, damage.

use super::link::LinkType;

/// Most bytes of a record that are read: libpcap's `MAXIMUM_SNAPLEN`, and the headers and options of a
/// block. Of a longer record, as USB and D-Bus captures have them, the rest is skipped, and never held in
/// memory.
pub const MAX_RECORD_BYTES: usize = MAX_SNAP_LENGTH + (64 << 10);
/// Most bytes of a packet.
pub(super) const MAX_SNAP_LENGTH: usize = 256 << 10;
/// A larger length is damage, not a record.
pub(super) const MAX_CLAIMED_BYTES: usize = 64 << 20;

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time since 1970-01-01 UTC, nanoseconds; `None` where the file has none (pcapng's simple packet
    /// blocks).
    pub time_ns: Option<i128>,
    /// Interface: an index into [`Reader::interfaces`](super::Reader::interfaces).
    pub interface: usize,
    /// Link type.
    pub link: LinkType,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// Length of the packet on the wire, bytes; may be more than was captured.
    pub length: u32,
    /// Packets dropped just before this one, where the file has it.
    pub drops: Option<u64>,
}

/// An interface of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Section of the file in which it is described, from 0.
    pub section: usize,
    /// Link type.
    pub link: LinkType,
    /// Most bytes captured of a packet; 0: no limit.
    pub snap_length: u32,
    /// Name: `eth0`.
    pub name: String,
    /// Description.
    pub description: String,
    /// Capture filter.
    pub filter: String,
    /// Bytes of the frame check sequence at the end of each packet.
    pub fcs_bytes: u8,
    /// Packets that the kernel or the interface dropped, as counted at the end; `None`: not in the file.
    pub dropped: Option<u64>,
    /// Packets received, as counted at the end.
    pub received: Option<u64>,
    /// How its time stamps count.
    pub(super) ticks: Ticks,
}

/// How a time stamp counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Nanoseconds of a tick are `numerator / denominator`.
    numerator: u128,
    denominator: u128,
    /// The same where it is a whole number, as it almost always is; 0: it is not.
    whole: u64,
    /// Seconds that are added.
    pub(super) offset_s: i64,
}

impl Default for Ticks {
    fn default() -> Self {
        // Microseconds, as in pcapng without if_tsresol.
        Ticks { numerator: 1000, denominator: 1, whole: 1000, offset_s: 0 }
    }
}

impl Ticks {
    pub(super) fn new(numerator: u128, denominator: u128, offset_s: i64) -> Self {
        let whole = numerator.is_multiple_of(denominator).then(|| numerator / denominator);
        let whole = whole.and_then(|whole| u64::try_from(whole).ok()).unwrap_or(0);
        Ticks { numerator, denominator, whole, offset_s }
    }

    #[inline]
    pub(super) fn time_ns(&self, ticks: u64) -> i128 {
        let since = match ticks.checked_mul(self.whole) {
            Some(since) if self.whole > 0 => i128::from(since),
            _ => self.exact(ticks),
        };
        since + i128::from(self.offset_s) * 1_000_000_000
    }

    #[cold]
    fn exact(&self, ticks: u64) -> i128 {
        // A 64-bit count times 10^9 fits.
        (u128::from(ticks) * self.numerator / self.denominator) as i128
    }
}

/// Damage: where it is, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at byte {offset}")]
pub struct Damage {
    /// Offset in the (decompressed) file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// What is at the front of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// Something else, which was parsed or may be skipped.
    Skipped,
    /// A comment on the packet before, the section or the file.
    Comment(&'a str),
    /// At least this many bytes are needed.
    NeedBytes(usize),
    /// Damage: nothing can be read from here on.
    Damaged(Damage),
}
