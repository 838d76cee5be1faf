//! The first reading of one of two captures: how its streams began, and a sample of its packets.
//!
//! Both captures sample the same packets: those with the lowest hashes (trajectory sampling, Duffield
//! and Grossglauser 2000). So streams and clocks are compared in bounded memory, however long the
//! captures and however far apart their clocks.

use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;

use model::Side;
use wire::packet::tcp::Flags;

use super::fingerprint::{PacketFingerprint, SynOptions};
use crate::ends::Ends;
use crate::segment::SegmentKind;
use crate::time::Nanos;

/// Packets of the sample.
const MAX_SAMPLED_PACKETS: usize = 1 << 16;
/// Streams whose beginning is kept; more are not followed.
pub(super) const MAX_STREAMS: usize = 200_000;

/// How a stream began in one capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamStart {
    /// Its ends; where no handshake was captured, the client has the higher port.
    pub(super) ends: Ends<SocketAddr>,
    /// Whether the handshake showed which is which.
    pub(super) roles_known: bool,
    /// First sequence numbers of both ends.
    pub(super) first_sequences: Ends<Option<u32>>,
    /// First SYNs of both ends.
    pub(super) syns: Ends<Option<CapturedSyn>>,
}

/// A SYN or SYN/ACK.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapturedSyn {
    /// Number of the packet in the capture, from 1.
    pub(super) number: u64,
    pub(super) at: Nanos,
    pub(super) options: SynOptions,
    /// Its time stamp; 0: none.
    pub(super) timestamp: u32,
}

/// A packet of the sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampledPacket {
    pub(super) stream: u64,
    pub(super) source: SocketAddr,
    pub(super) at: Nanos,
    pub(super) number: u64,
    pub(super) window: u16,
    pub(super) id: u32,
    /// How many packets have this hash: of several, which is which is not known.
    pub(super) count: u32,
}

/// The first reading of a capture.
#[derive(Debug, Default)]
pub struct CaptureSummary {
    pub(super) streams: HashMap<u64, StreamStart>,
    /// By hash.
    pub(super) sample: HashMap<u64, SampledPacket>,
    /// The hashes of the sample, the highest at the top.
    highest: BinaryHeap<u64>,
    pub(super) first: Option<Nanos>,
    pub(super) last: Nanos,
    /// Streams beyond those that are kept.
    more_streams: u64,
    /// The lowest number that no stream has had so far.
    next_stream: u64,
}

impl CaptureSummary {
    /// Adds a packet.
    pub fn add(&mut self, packet: &PacketFingerprint) {
        self.first = Some(self.first.map_or(packet.at, |first| first.min(packet.at)));
        self.last = self.last.max(packet.at);
        self.add_to_stream(packet);
        if packet.kind != SegmentKind::DuplicatePacket {
            self.add_to_sample(packet);
        }
    }

    /// Number of streams.
    pub fn streams(&self) -> u64 {
        (self.streams.len() as u64).saturating_add(self.more_streams)
    }

    /// The ends of the first stream, for messages, its client first.
    pub fn example(&self) -> Option<[SocketAddr; 2]> {
        let first = self.streams.iter().min_by_key(|(number, _)| **number);
        first.map(|(_, start)| start.ends.into_array())
    }

    fn add_to_stream(&mut self, packet: &PacketFingerprint) {
        let is_syn = packet.flags.all(Flags::SYN);
        let (source, destination) = (packet.source, packet.destination);
        let after = packet.stream.saturating_add(1);
        let known = self.streams.get(&packet.stream).copied();
        if known.is_some() && !is_syn {
            return;
        }
        if known.is_none() && self.streams.len() >= MAX_STREAMS {
            // Counted once: numbers of streams grow.
            if packet.stream >= self.next_stream {
                self.more_streams += 1;
                self.next_stream = after;
            }
            return;
        }
        self.next_stream = self.next_stream.max(after);
        let mut start = known.unwrap_or_else(|| {
            let is_from_server = source.port() < destination.port();
            let mut ends = Ends { client: source, server: destination };
            if is_from_server {
                ends.swap();
            }
            let (first_sequences, syns) = (Ends::default(), Ends::default());
            StreamStart { ends, roles_known: false, first_sequences, syns }
        });
        if is_syn {
            start.add_syn(packet);
        }
        self.streams.insert(packet.stream, start);
    }

    fn add_to_sample(&mut self, packet: &PacketFingerprint) {
        let hash = packet.hash();
        if let Some(known) = self.sample.get_mut(&hash) {
            known.count = known.count.saturating_add(1);
            return;
        }
        if self.sample.len() >= MAX_SAMPLED_PACKETS {
            if self.highest.peek().is_some_and(|highest| hash >= *highest) {
                return;
            }
            if let Some(highest) = self.highest.pop() {
                self.sample.remove(&highest);
            }
        }
        self.highest.push(hash);
        let sampled = SampledPacket {
            stream: packet.stream,
            source: packet.source,
            at: packet.at,
            number: packet.number,
            window: packet.window,
            id: packet.id,
            count: 1,
        };
        self.sample.insert(hash, sampled);
    }
}

impl StreamStart {
    fn add_syn(&mut self, packet: &PacketFingerprint) {
        let is_syn_ack = packet.flags.all(Flags::ACK);
        let side = if is_syn_ack { Side::Server } else { Side::Client };
        if !self.roles_known {
            self.roles_known = true;
            *self.ends.get_mut(side) = packet.source;
            *self.ends.get_mut(side.other()) = packet.destination;
        }
        *self.first_sequences.get_mut(side) = Some(packet.sequence);
        if is_syn_ack {
            let first = packet.acknowledgement.wrapping_sub(1);
            self.first_sequences.client.get_or_insert(first);
        }
        self.syns.get_mut(side).get_or_insert(CapturedSyn {
            number: packet.number,
            at: packet.at,
            options: packet.syn_options,
            timestamp: packet.timestamp().unwrap_or(0),
        });
    }
}
