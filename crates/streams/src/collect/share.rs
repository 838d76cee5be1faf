//! A capture on several CPUs: each has a collector that sees all packets and takes its share of the
//! streams in; what they found is joined when all is read, and is the same as one alone would tell.

use std::cmp::Reverse;
use std::net::IpAddr;

use wire::packet::{Ip, Tcp};

use super::{Collector, Sums, WORST};
use crate::lookups;
use crate::table::Table;

/// Which of the streams a collector takes in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    number: u64,
    of: u64,
}

impl Share {
    /// Whether a packet is of a stream of this share: both ends give the same.
    #[inline(always)]
    pub(super) fn has(self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> bool {
        if tcp.source == lookups::PORT || tcp.destination == lookups::PORT {
            // What is asked over UDP and then over TCP belongs together.
            return self.is_first();
        }
        let ends = bits(ip.source) ^ bits(ip.destination);
        let ports = u64::from(tcp.source ^ tcp.destination);
        // Fibonacci hashing; the upper bits are spread best.
        let mixed = (ends ^ ports).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (mixed * self.of) >> 32 == self.number
    }

    pub(super) fn is_first(self) -> bool {
        self.number == 0
    }
}

#[inline(always)]
fn bits(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()) << 16,
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    }
}

impl Collector {
    /// One that takes in one of several shares of the streams, numbered from 0. It is shown all packets.
    pub fn share(number: u32, of: u32) -> Self {
        let share = Share { number: number.into(), of: of.max(1).into() };
        Collector { share: Some(share), table: Table::shared(), ..Collector::default() }
    }

    /// The capture is over: hands over all streams that are left.
    pub fn close(&mut self) {
        self.begun.push(self.table.begun());
        self.streams += self.table.count();
        std::mem::take(&mut self.table).finish(&mut |stream| self.over(stream));
    }

    /// Takes in what another share found. Both are closed; the first one, which counts what belongs to
    /// no stream, takes the others in.
    pub fn join(&mut self, other: Collector) {
        // All have seen as many, but where the user has stopped them.
        self.packets = self.packets.max(other.packets);
        self.last = self.last.max(other.last);
        self.segments += other.segments;
        self.captured_twice += other.captured_twice;
        self.streams += other.streams;
        self.cut += other.cut;
        self.begun.extend(other.begun);
        for (server, sums) in other.services {
            match self.places.get(&server) {
                Some(place) => self.services[*place as usize].1.join(sums),
                None => {
                    self.places.insert(server, self.services.len() as u32);
                    self.services.push((server, sums));
                }
            }
        }
        self.worst.extend(other.worst);
        while self.worst.len() > WORST {
            self.worst.pop();
        }
    }

    /// Streams of shares are numbered by their first packets until all of them are known.
    pub(super) fn renumber(&mut self) {
        if self.share.is_none() {
            return;
        }
        let mut worst = std::mem::take(&mut self.worst).into_vec();
        worst.sort_unstable_by_key(|Reverse(one)| one.1.number);
        let mut before = vec![0; worst.len()];
        for begun in &self.begun {
            let mut packets = begun.packets().peekable();
            let mut count = 0;
            for (Reverse(one), before) in worst.iter().zip(&mut before) {
                while packets.next_if(|packet| *packet < one.1.number).is_some() {
                    count += 1;
                }
                *before += count;
            }
        }
        for (Reverse(one), number) in worst.iter_mut().zip(before) {
            one.1.number = number;
            one.0.3 = Reverse(number);
        }
        self.worst = worst.into();
    }
}

impl Sums {
    fn join(&mut self, other: Sums) {
        self.streams += other.streams;
        self.turns += other.turns;
        self.bytes += other.bytes;
        self.data_segments += other.data_segments;
        self.repeated += other.repeated;
        for (sum, more) in self.parts.iter_mut().zip(other.parts) {
            *sum = sum.saturating_add(more);
        }
        for (sum, more) in self.turns_with.iter_mut().zip(other.turns_with) {
            *sum += more;
        }
        self.times.join(&other.times);
        self.said.join(other.said);
    }
}
