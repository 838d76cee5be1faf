//! Packets that were captured twice: a capture on several interfaces, a mirror port that sends both
//! its directions, a router that is seen before and behind. They are no retransmissions.
//!
//! A copy has all that the packet before had, its identification included, which a sender changes
//! for each packet that it sends. Where that is zero (IPv6, and IPv4 that may not be fragmented), only
//! one that was routed in between, or that comes at once, is taken for a copy. No SYN is sent again as
//! soon as a copy comes.

use std::hash::Hasher as _;

use hashbrown::DefaultHashBuilder;
use wire::packet::tcp::Flags;
use wire::packet::{Ip, Tcp};

use crate::Nanos;

/// Packets of a stream that are remembered: as many as pass while one is in a router.
const REMEMBERED: usize = 16;
/// How much later a copy may come: through a router whose queue is long, or from a place further on.
/// What is sent again has another identification, so that there is no harm in waiting.
const LATER: Nanos = 200_000_000;
/// The same for packets without an identification: between two interfaces of one host.
const AT_ONCE: Nanos = 5_000;
/// Times are remembered in steps of 256 ns: 32 bits of them last for 18 minutes.
const STEP: u32 = 8;

/// The last packets of a stream: what was in them, and when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copies {
    marks: [u32; REMEMBERED],
    times: [u32; REMEMBERED],
    /// Routers that each could still pass.
    hops: [u8; REMEMBERED],
    next: u8,
}

impl Copies {
    /// Whether this packet is a copy of one before; it is remembered if not.
    #[inline(always)]
    pub(crate) fn is_copy(
        &mut self,
        build: &DefaultHashBuilder,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        stamps: Option<(u32, u32)>,
        at: Nanos,
    ) -> bool {
        let mark = mark(build, ip, tcp, stamps);
        let now = (at >> STEP) as u32;
        // Times of two interfaces may be a little out of order.
        // Almost never: looked for in all at once first.
        if self.marks.iter().fold(false, |seen, known| seen | (*known == mark)) {
            let named = ip.id.is_some_and(|id| id != 0) || tcp.flags.all(Flags::SYN);
            let mut all = self.marks.iter().zip(&self.times).zip(&self.hops);
            if all.any(|((known, when), hops)| {
                let most = if named || *hops != ip.ttl { LATER } else { AT_ONCE };
                let apart = now.wrapping_sub(*when).min(when.wrapping_sub(now));
                *known == mark && apart <= (most >> STEP) as u32
            }) {
                return true;
            }
        }
        let slot = usize::from(self.next) % REMEMBERED;
        (self.marks[slot], self.times[slot], self.hops[slot]) = (mark, now, ip.ttl);
        self.next = self.next.wrapping_add(1);
        false
    }
}

#[inline(always)]
fn mark(build: &DefaultHashBuilder, ip: &Ip<'_>, tcp: &Tcp<'_>, stamps: Option<(u32, u32)>) -> u32 {
    use std::hash::BuildHasher as _;
    let mut hasher = build.build_hasher();
    let place = u64::from(tcp.sequence) | (u64::from(tcp.acknowledgement) << 32);
    let rest =
        u64::from(tcp.window) | (u64::from(tcp.flags.0) << 16) | (u64::from(tcp.length) << 32);
    let (value, echo) = stamps.unwrap_or_default();
    let stamps = u64::from(value) | (u64::from(echo) << 32);
    hasher.write_u128(u128::from(place) | u128::from(rest) << 64);
    // Who sent it: the side may not be known before the second packet.
    let named = u64::from(ip.id.unwrap_or(0)) | (u64::from(tcp.source) << 32);
    hasher.write_u128(u128::from(stamps) | u128::from(named) << 64);
    // Never that of an empty place.
    hasher.finish() as u32 | 1
}

#[cfg(test)]
mod tests {
    use wire::capture::LinkType;
    use wire::packet::decode;

    use super::*;

    /// A packet without an identification, that may pass so many routers.
    fn packet(flags: u8, hops: u8) -> Vec<u8> {
        let mut out = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, hops, 6, 0, 0];
        out.extend([198, 18, 0, 1, 198, 18, 0, 2, 16, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1]);
        out.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        out
    }

    /// Whether the second of two packets is a copy of the first.
    fn is_copy(first: Vec<u8>, second: Vec<u8>, later: Nanos) -> bool {
        let (mut copies, build) = (Copies::default(), DefaultHashBuilder::default());
        let mut last = false;
        for (bytes, at) in [(first, 0), (second, later)] {
            let decoded = decode(LinkType::RAW, &bytes, bytes.len() as u32).expect("IP");
            let tcp = Tcp::of(&decoded.ip).expect("TCP");
            last = copies.is_copy(&build, &decoded.ip, &tcp, tcp.time_stamps(), at);
        }
        last
    }

    #[test]
    fn without_an_identification_routers_and_time_tell() {
        const ACK: u8 = 0x10;
        const MILLI: Nanos = 1_000_000;
        assert!(is_copy(packet(ACK, 64), packet(ACK, 64), 2_000));
        assert!(!is_copy(packet(ACK, 64), packet(ACK, 64), MILLI), "sent again");
        assert!(is_copy(packet(ACK, 64), packet(ACK, 63), MILLI), "routed");
        assert!(!is_copy(packet(ACK, 64), packet(ACK, 63), 400 * MILLI));
    }

    #[test]
    fn a_syn_is_not_sent_again_at_once() {
        const SYN_ACK: u8 = 0x12;
        assert!(is_copy(packet(SYN_ACK, 64), packet(SYN_ACK, 64), 100_000));
        assert!(!is_copy(packet(SYN_ACK, 64), packet(SYN_ACK, 64), 1_000_000_000));
    }
}
