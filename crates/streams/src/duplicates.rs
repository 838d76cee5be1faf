//! Duplicate packets of the capture: it runs on several interfaces, a mirror port copies both of its
//! directions, or a router is captured on both sides. They are no retransmissions.
//!
//! A duplicate has everything that the first packet had, the IP identification included, which a
//! sender changes for each packet. Where the identification is zero (IPv6, and IPv4 that may not be
//! fragmented), a packet counts as a duplicate only if it was routed in between or comes at once. A
//! SYN is never retransmitted as soon as its duplicate comes.

use std::hash::{BuildHasher as _, Hasher as _};

use hashbrown::DefaultHashBuilder;
use wire::packet::tcp::Flags;
use wire::packet::{Ip, Tcp};

use crate::time::Nanos;

/// Packets of a stream that are remembered: as many as pass while one waits in a router.
const MAX_PACKETS: usize = 16;
/// How late a duplicate may be: behind a router with a long queue, or from a place further on. A
/// retransmission has another identification, so waiting that long does no harm.
const MAX_DELAY: Nanos = 200_000_000;
/// The same for packets without an identification: between two interfaces of one host.
const MAX_DELAY_WITHOUT_ID: Nanos = 5_000;
/// Times are kept in ticks of 2^8 ns: 32 bits of them last for 18 minutes.
const TICK_BITS: u32 = 8;

/// The latest packets of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct DuplicateFilter {
    /// Hashes of their headers.
    hashes: [u32; MAX_PACKETS],
    /// When they passed, ticks.
    times: [u32; MAX_PACKETS],
    /// Their hop limits.
    hops: [u8; MAX_PACKETS],
    next: u8,
}

impl DuplicateFilter {
    /// Whether this packet is a duplicate of an earlier one; if not, it is remembered.
    #[inline(always)]
    pub(crate) fn is_duplicate(
        &mut self,
        build: &DefaultHashBuilder,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        timestamps: Option<(u32, u32)>,
        at: Nanos,
    ) -> bool {
        let hash = header_hash(build, ip, tcp, timestamps);
        let now = (at >> TICK_BITS) as u32;
        // Equal hashes are rare: all are compared at once first.
        if self.hashes.iter().fold(false, |found, known| found | (*known == hash)) {
            let identified = ip.id.is_some_and(|id| id != 0) || tcp.flags.all(Flags::SYN);
            let mut all = self.hashes.iter().zip(&self.times).zip(&self.hops);
            if all.any(|((known, then), hops)| {
                let max_delay =
                    if identified || *hops != ip.ttl { MAX_DELAY } else { MAX_DELAY_WITHOUT_ID };
                // Times of two interfaces may be a little out of order.
                let apart = now.wrapping_sub(*then).min(then.wrapping_sub(now));
                *known == hash && apart <= (max_delay >> TICK_BITS) as u32
            }) {
                return true;
            }
        }
        self.keep(hash, now, ip.ttl);
        false
    }

    /// Remembers a packet that cannot be a duplicate: it goes beyond all before it.
    #[inline(always)]
    pub(crate) fn remember(
        &mut self,
        build: &DefaultHashBuilder,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        timestamps: Option<(u32, u32)>,
        at: Nanos,
    ) {
        self.keep(header_hash(build, ip, tcp, timestamps), (at >> TICK_BITS) as u32, ip.ttl);
    }

    #[inline(always)]
    fn keep(&mut self, hash: u32, now: u32, ttl: u8) {
        let slot = usize::from(self.next) % MAX_PACKETS;
        if let (Some(known), Some(then), Some(hops)) =
            (self.hashes.get_mut(slot), self.times.get_mut(slot), self.hops.get_mut(slot))
        {
            (*known, *then, *hops) = (hash, now, ttl);
        }
        self.next = self.next.wrapping_add(1);
    }
}

/// A hash of all that a duplicate has in common with its original; never 0, the hash of an empty
/// slot.
#[inline(always)]
fn header_hash(
    build: &DefaultHashBuilder,
    ip: &Ip<'_>,
    tcp: &Tcp<'_>,
    timestamps: Option<(u32, u32)>,
) -> u32 {
    let mut hasher = build.build_hasher();
    let numbers = u64::from(tcp.sequence) | (u64::from(tcp.acknowledgement) << 32);
    let rest =
        u64::from(tcp.window) | (u64::from(tcp.flags.0) << 16) | (u64::from(tcp.length) << 32);
    let (value, echo) = timestamps.unwrap_or_default();
    let timestamps = u64::from(value) | (u64::from(echo) << 32);
    hasher.write_u128(u128::from(numbers) | u128::from(rest) << 64);
    // The port tells the sender: its side may not be known before the second packet.
    let sender = u64::from(ip.id.unwrap_or(0)) | (u64::from(tcp.source) << 32);
    hasher.write_u128(u128::from(timestamps) | u128::from(sender) << 64);
    hasher.finish() as u32 | 1
}

#[cfg(test)]
mod tests {
    use wire::capture::LinkType;
    use wire::packet::decode;

    use super::*;

    /// A packet without an identification, with this hop limit.
    fn packet(flags: u8, hops: u8) -> Vec<u8> {
        let mut out = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, hops, 6, 0, 0];
        out.extend([198, 18, 0, 1, 198, 18, 0, 2, 16, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1]);
        out.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        out
    }

    /// Whether the second of two packets is a duplicate of the first.
    fn is_duplicate(first: Vec<u8>, second: Vec<u8>, delay: Nanos) -> bool {
        let (mut filter, build) = (DuplicateFilter::default(), DefaultHashBuilder::default());
        let mut last = false;
        for (bytes, at) in [(first, 0), (second, delay)] {
            let decoded = decode(LinkType::RAW, &bytes, bytes.len() as u32).expect("IP");
            let tcp = Tcp::of(&decoded.ip).expect("TCP");
            last = filter.is_duplicate(&build, &decoded.ip, &tcp, tcp.time_stamps(), at);
        }
        last
    }

    #[test]
    fn without_an_identification_hops_and_time_decide() {
        const ACK: u8 = 0x10;
        const MILLI: Nanos = 1_000_000;
        assert!(is_duplicate(packet(ACK, 64), packet(ACK, 64), 2_000));
        assert!(!is_duplicate(packet(ACK, 64), packet(ACK, 64), MILLI), "retransmitted");
        assert!(is_duplicate(packet(ACK, 64), packet(ACK, 63), MILLI), "routed");
        assert!(!is_duplicate(packet(ACK, 64), packet(ACK, 63), 400 * MILLI));
    }

    #[test]
    fn a_syn_is_not_retransmitted_at_once() {
        const SYN_ACK: u8 = 0x12;
        assert!(is_duplicate(packet(SYN_ACK, 64), packet(SYN_ACK, 64), 100_000));
        assert!(!is_duplicate(packet(SYN_ACK, 64), packet(SYN_ACK, 64), 1_000_000_000));
    }
}
