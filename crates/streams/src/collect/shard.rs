//! Which of the streams a collector takes, where several share them.

use std::net::IpAddr;

use wire::packet::{Ip, Tcp};

use crate::dns::DNS_PORT;

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
    #[inline(always)]
    pub(super) fn has(self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> bool {
        if tcp.source == DNS_PORT || tcp.destination == DNS_PORT {
            // Queries over UDP and over TCP belong together.
            return self.is_first();
        }
        let addresses = bits(ip.source) ^ bits(ip.destination);
        let ports = u64::from(tcp.source ^ tcp.destination);
        // Fibonacci hashing, whose upper bits are spread best.
        let mixed = (addresses ^ ports).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (mixed * self.of) >> 32 == self.number
    }

    /// The first shard takes what belongs to no stream.
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
