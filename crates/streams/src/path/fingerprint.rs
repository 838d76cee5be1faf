//! What is kept of a packet of one of two captures.

use std::net::SocketAddr;

use wire::capture::Packet;
use wire::packet::tcp::{Flags, TcpOption};
use wire::packet::{Tcp, decode};

use crate::collect::CollectedSegment;
use crate::segment::SegmentKind;
use crate::time::{LATEST, Nanos};

/// Blocks of selective acknowledgement that are kept: one more than fit together with time stamps.
const MAX_SACK_BLOCKS: usize = 4;

/// A segment as one capture has it.
#[derive(Debug, Clone, Copy)]
pub struct PacketFingerprint {
    /// Number of its stream in this capture.
    pub stream: u64,
    /// Number of the packet in this capture, from 1.
    pub number: u64,
    /// When it passed, by this capture's clock.
    pub at: Nanos,
    pub(super) kind: SegmentKind,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    /// Bytes of data.
    pub(super) length: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    /// Time stamps: its own, and the one that it echoes.
    pub(super) timestamps: Option<(u32, u32)>,
    /// IP identification; 0: there is none.
    pub(super) id: u32,
    sack_blocks: [(u32, u32); MAX_SACK_BLOCKS],
    sack_count: u8,
    pub(super) syn_options: SynOptions,
}

/// Options of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SynOptions {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: bool,
    /// A bit for each other option, by its kind.
    pub(super) others: u64,
}

impl PacketFingerprint {
    /// That of a packet with this number in its capture, by what it was in its stream; `last` is the
    /// time of the packet before. `None`: it is no segment.
    pub fn of(
        packet: &Packet<'_>,
        number: u64,
        segment: &CollectedSegment,
        last: Nanos,
    ) -> Option<Self> {
        let decoded = decode(packet.link, packet.bytes, packet.length).ok()?;
        let tcp = Tcp::of(&decoded.ip).ok()?;
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(last);
        let mut fingerprint = PacketFingerprint {
            stream: segment.stream,
            number,
            at: at.clamp(-LATEST, LATEST),
            kind: segment.event.kind,
            source: SocketAddr::new(decoded.ip.source, tcp.source),
            destination: SocketAddr::new(decoded.ip.destination, tcp.destination),
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            length: tcp.length,
            flags: tcp.flags,
            window: tcp.window,
            timestamps: tcp.time_stamps(),
            id: decoded.ip.id.unwrap_or(0),
            sack_blocks: Default::default(),
            sack_count: 0,
            syn_options: SynOptions::default(),
        };
        if !tcp.has_only_time_stamps() {
            fingerprint.read_options(&tcp);
        }
        Some(fingerprint)
    }

    fn read_options(&mut self, tcp: &Tcp<'_>) {
        let options = &mut self.syn_options;
        for option in tcp.options() {
            match option {
                TcpOption::Sack(sack) => {
                    for (slot, block) in self.sack_blocks.iter_mut().zip(sack.blocks()) {
                        *slot = block;
                        self.sack_count = self.sack_count.saturating_add(1);
                    }
                    self.sack_count = self.sack_count.min(MAX_SACK_BLOCKS as u8);
                }
                TcpOption::MaxSegmentSize(size) => options.mss = Some(size),
                TcpOption::WindowScale(scale) => options.window_scale = Some(scale),
                TcpOption::SackPermitted => options.sack_permitted = true,
                TcpOption::TimeStamps(..) => options.timestamps = true,
                TcpOption::Other(kind) => options.others |= 1 << (kind % 64),
            }
        }
    }

    /// Its own time stamp.
    pub(super) fn timestamp(&self) -> Option<u32> {
        self.timestamps.map(|(value, _)| value)
    }

    /// Sequence numbers that it takes: its data, SYN and FIN.
    pub(super) fn sequence_length(&self) -> u32 {
        if self.flags.all(Flags::RST) {
            return 0;
        }
        let flag = |flag| u32::from(self.flags.all(flag));
        self.length.saturating_add(flag(Flags::SYN) + flag(Flags::FIN))
    }

    /// A hash of what is the same in both captures, whatever an offload or a translation of
    /// addresses does: neither its length nor its addresses. Never 0.
    pub(super) fn hash(&self) -> u64 {
        let (value, echo) = self.timestamps.unwrap_or_default();
        let flags = self.flags.0 & (Flags::SYN.0 | Flags::RST.0);
        let numbers = u64::from(self.sequence) << 32 | u64::from(self.acknowledgement);
        let timestamps = u64::from(value) << 32 | u64::from(echo);
        let blocks = self
            .sack_blocks
            .iter()
            .fold(0, |sum, (from, to)| mixed(sum ^ (u64::from(*from) << 32 | u64::from(*to))));
        mixed(mixed(mixed(numbers) ^ timestamps) ^ u64::from(flags) ^ blocks) | 1
    }

    /// The blocks of selective acknowledgement.
    pub(super) fn sack_blocks(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.sack_blocks.into_iter().take(self.sack_count.into())
    }
}

/// Mixes the bits of a number (the finaliser of `splitmix64`): the same in every run.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
