//! Which of the streams a collector takes, where several share them.

use std::net::IpAddr;

use wire::packet::{Ip, PlainEnds, Tcp};

use crate::dns::DNS_PORT;
use crate::stream::v4_number;

/// One of several equal parts of all streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shard {
    number: u64,
    of: u64,
}

impl Shard {
    pub(super) fn new(number: u32, of: u32) -> Self {
        Shard { number: number.into(), of: of.max(1).into() }
    }

    /// Whether a segment belongs to this shard: both directions of a stream do.
    pub(super) fn has(self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> bool {
        let ends = [(ip.source, tcp.source), (ip.destination, tcp.destination)];
        if let [Some(from), Some(to)] = ends.map(|end| v4_number(end.into())) {
            return self.has_ends(PlainEnds::new(from, to));
        }
        if ends.iter().any(|(_, port)| *port == DNS_PORT) {
            return self.is_first();
        }
        let addresses = bits(ip.source) ^ bits(ip.destination);
        let ports = u64::from(tcp.source ^ tcp.destination);
        // Fibonacci hashing, whose upper bits are spread best.
        self.has_hash((addresses ^ ports).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The same for a segment with these ends.
    #[inline(always)]
    pub(super) fn has_ends(self, ends: PlainEnds) -> bool {
        // Queries over UDP and over TCP belong together.
        if ends.has_port(DNS_PORT) { self.is_first() } else { self.has_hash(ends.symmetric_hash()) }
    }

    /// Whether a stream with this hash, whose upper bits are spread best, is of this shard.
    #[inline(always)]
    fn has_hash(self, hash: u64) -> bool {
        ((hash >> 32) * self.of) >> 32 == self.number
    }

    /// The first shard takes what belongs to no stream.
    pub(super) fn is_first(self) -> bool {
        self.number == 0
    }
}

#[inline(always)]
fn bits(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    }
}
