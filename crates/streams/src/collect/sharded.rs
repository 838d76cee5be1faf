//! A capture on several CPUs: each has a collector that sees all packets and takes its shard of the
//! streams. They are joined when everything is read, and the result is the same as that of one
//! collector alone.

use std::cmp::Reverse;

use super::collector::{Collector, MAX_WORST_STREAMS};
use super::shard::Shard;
use crate::table::Table;

/// Part of its memory that the numbers of its streams may take.
const NUMBERS_SHARE: usize = 8;

impl Collector {
    /// A collector of one of several shards of the streams, numbered from 0. It is shown all
    /// packets.
    pub fn shard(number: u32, of: u32) -> Self {
        let shard = Some(Shard::new(number, of));
        Collector { shard, table: Table::shard(), ..Collector::default() }
    }

    /// Whether the numbers of its streams take more than their share of its memory: they alone grow with
    /// the length of a capture. Then one collector has to take all streams.
    pub fn has_too_many_streams(&self) -> bool {
        let most = self.max_bytes.unsigned_abs() / NUMBERS_SHARE;
        most > 0 && self.table.first_packets_bytes() > most
    }

    /// The capture is over: adds all streams that are left.
    pub fn close(&mut self) {
        self.first_packets.push(self.table.take_first_packets());
        self.streams += self.table.count();
        std::mem::take(&mut self.table).finish(&mut |stream| self.end_stream(stream));
    }

    /// Takes the result of another shard. Both are closed; the first shard, which counts what belongs
    /// to no stream, takes the others.
    pub fn join(&mut self, other: Collector) {
        // All have seen as many packets, unless the user has stopped them.
        self.packets = self.packets.max(other.packets);
        self.last = self.last.max(other.last);
        self.segments += other.segments;
        self.duplicate_packets += other.duplicate_packets;
        self.streams += other.streams;
        self.evicted += other.evicted;
        self.first_packets.extend(other.first_packets);
        self.services.merge(other.services);
        self.shared_paths.merge(other.shared_paths);
        self.worst.extend(other.worst);
        while self.worst.len() > MAX_WORST_STREAMS {
            self.worst.pop();
        }
    }

    /// Names the buckets that streams share, in those that are reported.
    pub(super) fn name_shared_buckets(&mut self) {
        let mut worst = std::mem::take(&mut self.worst).into_vec();
        let streams = worst.iter_mut().map(|Reverse(ranked)| &mut ranked.stream);
        self.shared_paths.name_in(streams.chain(&mut self.requested_stream));
        self.worst = worst.into();
    }

    /// Numbers the streams of shards in the order of their first packets, which are their numbers
    /// until all of them are known.
    pub(super) fn renumber(&mut self) {
        if self.shard.is_none() {
            return;
        }
        let mut worst = std::mem::take(&mut self.worst).into_vec();
        worst.sort_unstable_by_key(|Reverse(ranked)| ranked.stream.number);
        let mut numbers = vec![0; worst.len()];
        for first_packets in &self.first_packets {
            let mut first_packets = first_packets.iter().peekable();
            let mut before = 0;
            for (Reverse(ranked), number) in worst.iter().zip(&mut numbers) {
                let is_before = |packet: &u64| *packet < ranked.stream.number;
                while first_packets.next_if(is_before).is_some() {
                    before += 1;
                }
                *number += before;
            }
        }
        for (Reverse(ranked), number) in worst.iter_mut().zip(numbers) {
            ranked.renumber(number);
        }
        self.worst = worst.into();
    }
}
