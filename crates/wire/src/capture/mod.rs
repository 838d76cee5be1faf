//! Capture files: pcap (µs, ns, "modified", both byte orders) and pcapng (all blocks, several
//! sections and interfaces), taken from a stream of bytes in pieces of any size.
//!
//! - [`Reader`]: the front of a buffer to a [`Step`]; borrowed bytes, nothing is allocated for a
//!   packet, no file is opened here
//! - [`pcap`], [`pcapng`]: the two formats
//! - [`link`]: link types
//! - [`mod@write`]: the other way: pcapng blocks to bytes
//!
//! A file that is cut off or damaged gives what could be read, then a [`Broken`] with its offset.

mod bytes;
pub mod link;
mod pcap;
mod pcapng;
pub mod write;

pub use link::LinkType;

/// Most bytes that a record may have: what libpcap takes (`MAXIMUM_SNAPLEN` is 256 KiB), and USB
/// and D-Bus captures beyond it. A length above it is damage, not a packet.
pub const MAX_RECORD_BYTES: usize = 64 << 20;

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time since 1970-01-01 UTC, nanoseconds; `None` where the file has none (pcapng's simple
    /// packet blocks).
    pub time_ns: Option<i128>,
    /// Interface: an index into [`Reader::interfaces`].
    pub interface: usize,
    /// Link type.
    pub link: LinkType,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// The length that the packet had, bytes; may be more than was captured.
    pub length: u32,
    /// Packets lost just before this one, where the file says so.
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
    /// Filter with which was captured.
    pub filter: String,
    /// Bytes of the frame check sequence at the end of each packet.
    pub fcs_bytes: u8,
    /// Packets that the kernel or the interface lost, as counted at the end; `None`: not told.
    pub dropped: Option<u64>,
    /// Packets received, as counted at the end.
    pub received: Option<u64>,
    /// Units of a time stamp in a second, and seconds that are added to it.
    ticks: Ticks,
}

/// How a time stamp counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    /// Nanoseconds of a tick are `numerator / denominator`.
    numerator: u128,
    denominator: u128,
    /// The same where it is a whole number, as almost always; 0: it is not.
    whole: u64,
    offset_s: i64,
}

impl Default for Ticks {
    fn default() -> Self {
        // Microseconds, as pcapng has it without if_tsresol.
        Ticks { numerator: 1000, denominator: 1, whole: 1000, offset_s: 0 }
    }
}

impl Ticks {
    fn of(numerator: u128, denominator: u128, offset_s: i64) -> Self {
        let whole = numerator.is_multiple_of(denominator).then(|| numerator / denominator);
        let whole = whole.and_then(|whole| u64::try_from(whole).ok()).unwrap_or(0);
        Ticks { numerator, denominator, whole, offset_s }
    }

    #[inline]
    fn time_ns(&self, ticks: u64) -> i128 {
        let since = match ticks.checked_mul(self.whole) {
            Some(since) if self.whole > 0 => i128::from(since),
            _ => self.exact(ticks),
        };
        since + i128::from(self.offset_s) * 1_000_000_000
    }

    #[cold]
    fn exact(&self, ticks: u64) -> i128 {
        // A 64-bit count times 10^9 fits well.
        (u128::from(ticks) * self.numerator / self.denominator) as i128
    }
}

/// Damage: where, and what was there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at byte {offset}")]
pub struct Damage {
    /// Offset in the (decompressed) file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// What stands at the front of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// Something else, that was understood or may be skipped.
    Skipped,
    /// A comment on the packet before, the section or the file.
    Comment(&'a str),
    /// At least so many bytes are needed.
    NeedBytes(usize),
    /// Damage: nothing can be read from here on.
    Damaged(Damage),
}

/// Reads one capture.
#[derive(Debug, Default)]
pub struct Reader {
    format: Option<Format>,
    /// Bytes consumed so far.
    offset: u64,
    interfaces: Vec<Interface>,
    warnings: Vec<Damage>,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Section),
}

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 32;
/// Most interfaces of a file: each takes memory.
const MAX_INTERFACES: usize = 4096;

impl Reader {
    /// A reader at the beginning of a file.
    pub fn new() -> Self {
        Reader::default()
    }

    /// What stands at the front of `buffer`, and how many of its bytes that takes. Call it again
    /// with the rest. With [`Step::More`], nothing is taken.
    pub fn step<'a>(&mut self, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let (taken, step) = match self.format {
            None => self.begin(buffer),
            Some(Format::Pcap(file)) => file.record(buffer, self.offset),
            Some(Format::Pcapng(section)) => self.block(section, buffer),
        };
        self.offset += taken as u64;
        (taken, step)
    }

    /// The interfaces seen so far; those of earlier sections too.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// What was odd and could be read over.
    pub fn warnings(&self) -> &[Damage] {
        &self.warnings
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn damaged<'a>(&self, what: impl Into<String>) -> Step<'a> {
        Step::Damaged(Damage { offset: self.offset, reason: what.into() })
    }

    fn warn(&mut self, what: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Damage { offset: self.offset, reason: what.into() });
        }
    }

    /// The first bytes tell the format.
    fn begin<'a>(&mut self, buffer: &'a [u8]) -> (usize, Step<'a>) {
        let Some(magic) = buffer.first_chunk::<4>() else {
            return (0, Step::NeedBytes(4));
        };
        if *magic == pcapng::SECTION.to_be_bytes() {
            self.format = Some(Format::Pcapng(pcapng::Section::default()));
            return (0, Step::Skipped);
        }
        match pcap::Pcap::begin(buffer) {
            Ok(Some((file, interface))) => {
                self.format = Some(Format::Pcap(file));
                self.interfaces.push(interface);
                (pcap::HEADER_BYTES, Step::Skipped)
            }
            Ok(None) => (0, Step::NeedBytes(pcap::HEADER_BYTES)),
            Err(what) => (0, self.damaged(what)),
        }
    }
}

#[cfg(test)]
mod tests;
