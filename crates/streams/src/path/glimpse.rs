//! What is kept of a packet that passes one of two places.

use std::net::SocketAddr;

use wire::capture::Packet;
use wire::packet::tcp::{Flags, TcpOption};
use wire::packet::{Tcp, decode};

use crate::{Kind, Nanos, Seen};

/// Blocks of selective acknowledgement that are kept: as many as fit beside time stamps, and one.
const BLOCKS: usize = 4;
/// Times beyond this, the year 2116, are those of no clock; two of them can be subtracted.
const LATEST: Nanos = Nanos::MAX / 2;

/// A segment as one capture has it.
#[derive(Debug, Clone, Copy)]
pub struct Glimpse {
    /// Number of its stream in this capture.
    pub stream: u64,
    /// Number of the packet in this capture, from 1.
    pub number: u64,
    /// When it passed, by this capture's clock.
    pub at: Nanos,
    pub(super) kind: Kind,
    /// Who sent it, and to whom.
    pub(super) ends: [SocketAddr; 2],
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) length: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) stamps: Option<(u32, u32)>,
    /// Identification; 0 where there is none.
    pub(super) id: u32,
    pub(super) blocks: [(u32, u32); BLOCKS],
    pub(super) block_count: u8,
    pub(super) syn: Syn,
}

/// Options of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Syn {
    pub(super) segment_size: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) stamps: bool,
    /// A bit for each other option, by its kind.
    pub(super) others: u64,
}

impl Glimpse {
    /// Of a packet, its number in the capture, and what it was there; `None`: it is no segment.
    pub fn of(packet: &Packet<'_>, number: u64, seen: &Seen, last: Nanos) -> Option<Self> {
        let decoded = decode(packet.link, packet.bytes, packet.length).ok()?;
        let tcp = Tcp::of(&decoded.ip).ok()?;
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(last);
        let mut glimpse = Glimpse {
            stream: seen.stream,
            number,
            at: at.clamp(-LATEST, LATEST),
            kind: seen.event.kind,
            ends: [
                SocketAddr::new(decoded.ip.source, tcp.source),
                SocketAddr::new(decoded.ip.destination, tcp.destination),
            ],
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            length: tcp.length,
            flags: tcp.flags,
            window: tcp.window,
            stamps: tcp.time_stamps(),
            id: decoded.ip.id.unwrap_or(0),
            blocks: Default::default(),
            block_count: 0,
            syn: Syn::default(),
        };
        if !tcp.has_only_time_stamps() {
            glimpse.options(&tcp);
        }
        Some(glimpse)
    }

    fn options(&mut self, tcp: &Tcp<'_>) {
        for option in tcp.options() {
            match option {
                TcpOption::Sack(sack) => {
                    for (slot, block) in self.blocks.iter_mut().zip(sack.blocks()) {
                        *slot = block;
                        self.block_count += 1;
                    }
                    self.block_count = self.block_count.min(BLOCKS as u8);
                }
                TcpOption::MaxSegmentSize(size) => self.syn.segment_size = Some(size),
                TcpOption::WindowScale(scale) => self.syn.scale = Some(scale),
                TcpOption::SackPermitted => self.syn.sack = true,
                TcpOption::TimeStamps(..) => self.syn.stamps = true,
                TcpOption::Other(kind) => self.syn.others |= 1 << (kind % 64),
            }
        }
    }

    /// Places that it takes in the sequence.
    pub(super) fn takes(&self) -> u32 {
        if self.flags.all(Flags::RST) {
            return 0;
        }
        let flag = |flag| u32::from(self.flags.all(flag));
        self.length.saturating_add(flag(Flags::SYN) + flag(Flags::FIN))
    }

    /// What is the same of it at both places, whatever an offload or a translation of addresses has
    /// done: neither its length nor where it comes from. Not zero.
    pub(super) fn mark(&self) -> u64 {
        let (value, echo) = self.stamps.unwrap_or_default();
        let flags = self.flags.0 & (Flags::SYN.0 | Flags::RST.0);
        let place = u64::from(self.sequence) << 32 | u64::from(self.acknowledgement);
        let stamps = u64::from(value) << 32 | u64::from(echo);
        let blocks = self
            .blocks
            .iter()
            .fold(0, |sum, (from, to)| mixed(sum ^ (u64::from(*from) << 32 | u64::from(*to))));
        mixed(mixed(mixed(place) ^ stamps) ^ u64::from(flags) ^ blocks) | 1
    }

    /// The blocks of selective acknowledgement.
    pub(super) fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.block_count).min(BLOCKS)]
    }
}

/// Bits well mixed (the finaliser of `splitmix64`): the same in every run.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
