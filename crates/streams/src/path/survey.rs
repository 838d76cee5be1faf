//! The first look at one of two captures: how its streams began, and a sample of its packets.
//!
//! Both captures sample the same packets: those whose marks are the lowest numbers (trajectory
//! sampling, Duffield and Grossglauser 2000). So streams and clocks are compared in bounded memory,
//! however long the captures and however far apart their clocks.

use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;

use wire::packet::tcp::Flags;

use super::glimpse::{Glimpse, Syn};
use crate::{Kind, Nanos};

/// Packets that are sampled.
const SAMPLE: usize = 1 << 16;
/// Streams of which the beginning is known; the others are not followed.
pub(super) const STREAMS: usize = 200_000;

/// How a stream began in one capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Its ends, the client first; where no handshake was seen, the end with the higher port.
    pub(super) ends: [SocketAddr; 2],
    /// Whether the handshake told which is which.
    pub(super) roles: bool,
    /// First sequence numbers of both, by their SYNs.
    pub(super) begins: [Option<u32>; 2],
    /// Their SYNs: number of the packet, when, options, window, time stamp.
    pub(super) syns: [Option<(u64, Nanos, Syn, u32)>; 2],
}

/// A packet of the sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampled {
    pub(super) stream: u64,
    pub(super) from: SocketAddr,
    pub(super) at: Nanos,
    pub(super) number: u64,
    pub(super) window: u16,
    pub(super) id: u32,
    /// How often it was seen: of several, which is which is not known.
    pub(super) count: u32,
}

/// What one capture has.
#[derive(Debug, Default)]
pub struct Survey {
    pub(super) streams: HashMap<u64, Known>,
    pub(super) sample: HashMap<u64, Sampled>,
    highest: BinaryHeap<u64>,
    pub(super) first: Option<Nanos>,
    pub(super) last: Nanos,
    /// Streams beyond those that are known.
    pub(super) more: u64,
    greatest: u64,
}

impl Survey {
    /// A packet.
    pub fn add(&mut self, seen: &Glimpse) {
        self.first = Some(self.first.map_or(seen.at, |first| first.min(seen.at)));
        self.last = self.last.max(seen.at);
        self.stream(seen);
        if seen.kind != Kind::Copy {
            self.sample(seen);
        }
    }

    /// Streams of which the beginning is known.
    pub fn streams(&self) -> u64 {
        self.streams.len() as u64 + self.more
    }

    /// One of the streams, for messages.
    pub fn example(&self) -> Option<[SocketAddr; 2]> {
        self.streams.iter().min_by_key(|(number, _)| **number).map(|(_, known)| known.ends)
    }

    fn stream(&mut self, seen: &Glimpse) {
        let syn = seen.flags.all(Flags::SYN);
        let [a, b] = seen.ends;
        let first = match self.streams.get(&seen.stream) {
            Some(known) => {
                if !syn {
                    return;
                }
                *known
            }
            None if self.streams.len() >= STREAMS => {
                // Counted once: numbers of streams grow.
                if seen.stream >= self.greatest {
                    self.more += 1;
                    self.greatest = seen.stream + 1;
                }
                return;
            }
            None => {
                let ends = if a.port() < b.port() { [b, a] } else { [a, b] };
                Known { ends, roles: false, begins: [None; 2], syns: [None; 2] }
            }
        };
        self.greatest = self.greatest.max(seen.stream + 1);
        let mut known = first;
        if syn {
            let answer = seen.flags.all(Flags::ACK);
            if !known.roles {
                known.roles = true;
                known.ends = if answer { [b, a] } else { [a, b] };
            }
            let side = usize::from(answer);
            known.begins[side] = Some(seen.sequence);
            if answer {
                known.begins[0].get_or_insert(seen.acknowledgement.wrapping_sub(1));
            }
            let stamp = seen.stamps.map_or(0, |(value, _)| value);
            known.syns[side].get_or_insert((seen.number, seen.at, seen.syn, stamp));
        }
        self.streams.insert(seen.stream, known);
    }

    fn sample(&mut self, seen: &Glimpse) {
        let mark = seen.mark();
        if let Some(known) = self.sample.get_mut(&mark) {
            known.count = known.count.saturating_add(1);
            return;
        }
        if self.sample.len() >= SAMPLE {
            if self.highest.peek().is_some_and(|highest| mark >= *highest) {
                return;
            }
            if let Some(highest) = self.highest.pop() {
                self.sample.remove(&highest);
            }
        }
        self.highest.push(mark);
        let sampled = Sampled {
            stream: seen.stream,
            from: seen.ends[0],
            at: seen.at,
            number: seen.number,
            window: seen.window,
            id: seen.id,
            count: 1,
        };
        self.sample.insert(mark, sampled);
    }
}
