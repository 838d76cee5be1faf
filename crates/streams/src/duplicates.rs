//! Duplicate packets of the capture: it runs on several interfaces, a mirror port copies both of its
//! directions, or a router is captured on both sides. They are no retransmissions.
//!
//! A duplicate has everything that the first packet had, the IP identification included, which a
//! sender changes for each packet. Where the identification is zero (IPv6, and IPv4 that may not be
//! fragmented), a packet counts as a duplicate only if it was routed in between or comes at once; data
//! also if its sender had no reason to send it again: no timer is that short, and no packet of the other
//! end came in between. A SYN is never retransmitted as soon as its duplicate comes.

use wire::packet::tcp::Flags;
use wire::packet::{Ip, Tcp, identity};

use crate::time::Nanos;

/// Packets of a stream that are remembered: as many as pass while one waits in a router.
const MAX_PACKETS: usize = 16;
/// How late a duplicate may be: behind a router with a long queue, or from a place further on. A
/// retransmission has another identification, so waiting that long does no harm.
const MAX_DELAY: Nanos = 200_000_000;
/// The same for packets without an identification: between two interfaces of one host.
const MAX_DELAY_WITHOUT_ID: Nanos = 5_000;
/// The same for data, before a packet of the other end: half a tick of the shortest timers.
const MAX_DELAY_OF_DATA: Nanos = 500_000;
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
    pub(crate) fn is_duplicate(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>, at: Nanos) -> bool {
        let hash = hash_of(&identity(ip, tcp));
        let now = (at >> TICK_BITS) as u32;
        // Equal hashes are rare: all are compared at once first.
        if self.hashes.iter().fold(false, |found, known| found | (*known == hash)) {
            let identified = ip.id.is_some_and(|id| id != 0) || tcp.flags.all(Flags::SYN);
            let mut all = self.hashes.iter().zip(&self.times).zip(&self.hops).enumerate();
            if all.any(|(slot, ((known, then), hops))| {
                let max_delay = if identified || *hops != ip.ttl {
                    MAX_DELAY
                } else if tcp.length > 0 && self.was_not_answered(slot, tcp) {
                    MAX_DELAY_OF_DATA
                } else {
                    MAX_DELAY_WITHOUT_ID
                };
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
    pub(crate) fn remember(&mut self, identity: &[u64; 4], hops: u8, at: Nanos) {
        self.keep(hash_of(identity), (at >> TICK_BITS) as u32, hops);
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

    /// Whether all packets that are remembered since this one, of this sender, have the same sender.
    fn was_not_answered(&self, slot: usize, tcp: &Tcp<'_>) -> bool {
        let next = usize::from(self.next) % MAX_PACKETS;
        let since = (slot + 1..slot + MAX_PACKETS).map(|slot| slot % MAX_PACKETS);
        let sender = sender_of(tcp.source.swap_bytes(), tcp.destination.swap_bytes());
        let is_of_sender =
            |slot: usize| self.hashes.get(slot).is_some_and(|hash| hash & SENDER == sender);
        tcp.source != tcp.destination && since.take_while(|slot| *slot != next).all(is_of_sender)
    }
}

/// The bit of a hash that is always set: 0 is the hash of an empty slot.
const IN_USE: u32 = 1;
/// The bit that shows the sender: its side may not be known before the second packet.
const SENDER: u32 = 2;

/// A hash of what a duplicate has in common with its original (see [`identity`]).
#[inline(always)]
fn hash_of(identity: &[u64; 4]) -> u32 {
    // Multilinear hashing: the upper half of a sum of products depends on all of each number.
    let [numbers, rest, times, ports] = *identity;
    let sum = numbers
        .wrapping_mul(FACTORS[0])
        .wrapping_add(rest.wrapping_mul(FACTORS[1]))
        .wrapping_add(times.wrapping_mul(FACTORS[2]))
        .wrapping_add(ports.wrapping_mul(FACTORS[3]));
    (sum >> 32) as u32 & !SENDER | IN_USE | sender_of(ports as u16, (ports >> 16) as u16)
}

/// The bit of one of both senders, who have these ports in the same order of bytes.
#[inline(always)]
fn sender_of(source: u16, destination: u16) -> u32 {
    if source > destination { SENDER } else { 0 }
}

/// Odd numbers without a pattern: digits of pi.
const FACTORS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

#[cfg(test)]
mod tests {
    use wire::capture::LinkType;
    use wire::packet::decode;

    use super::*;

    const ACK: u8 = 0x10;
    const MILLI: Nanos = 1_000_000;
    const CLIENT: u16 = 4096;
    const SERVER: u16 = 80;

    /// A packet without an identification, with this hop limit, and its capture.
    fn packet(flags: u8, hops: u8, at: Nanos) -> (Vec<u8>, Nanos) {
        segment((CLIENT, SERVER), flags, hops, 0, at)
    }

    /// The same between these ports, with so much data.
    fn segment(
        (source, destination): (u16, u16),
        flags: u8,
        hops: u8,
        length: u8,
        at: Nanos,
    ) -> (Vec<u8>, Nanos) {
        let mut out = vec![0x45, 0, 0, 40 + length, 0, 0, 0x40, 0, hops, 6, 0, 0];
        out.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        out.extend(source.to_be_bytes());
        out.extend(destination.to_be_bytes());
        out.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        out.extend(vec![0; length.into()]);
        (out, at)
    }

    /// Whether the last of these packets is a duplicate of an earlier one.
    fn is_duplicate(packets: &[(Vec<u8>, Nanos)]) -> bool {
        let mut filter = DuplicateFilter::default();
        let mut last = false;
        for (bytes, at) in packets {
            let decoded = decode(LinkType::RAW, bytes, bytes.len() as u32).expect("IP");
            let tcp = Tcp::of(&decoded.ip).expect("TCP");
            last = filter.is_duplicate(&decoded.ip, &tcp, *at);
        }
        last
    }

    #[test]
    fn without_an_identification_hops_and_time_decide() {
        let first = packet(ACK, 64, 0);
        let after = |hops: u8, at: Nanos| is_duplicate(&[first.clone(), packet(ACK, hops, at)]);
        assert!(after(64, 2_000));
        assert!(!after(64, MILLI), "retransmitted");
        assert!(after(63, MILLI), "routed");
        assert!(!after(63, 400 * MILLI));
    }

    #[test]
    fn data_is_not_retransmitted_at_once_without_a_reason() {
        let data = |at| segment((CLIENT, SERVER), ACK, 64, 10, at);
        let more = |at| segment((CLIENT, SERVER), ACK, 64, 20, at);
        let answer = |at| segment((SERVER, CLIENT), ACK, 64, 0, at);
        assert!(is_duplicate(&[data(0), data(100_000)]));
        assert!(is_duplicate(&[answer(0), data(1_000), more(2_000), data(100_000)]));
        assert!(!is_duplicate(&[data(0), more(1_000), answer(50_000), data(100_000)]));
        assert!(!is_duplicate(&[data(0), data(MILLI)]));
        // The oldest of the packets that are remembered are not those after it.
        let mut many: Vec<_> =
            (0..20).map(|at| segment((SERVER, CLIENT), ACK, 64, 1, at)).collect();
        many.extend([data(1_000), more(2_000), data(100_000)]);
        assert!(is_duplicate(&many));
        // Acknowledgements may come in a row.
        assert!(!is_duplicate(&[packet(ACK, 64, 0), packet(ACK, 64, 100_000)]));
    }

    #[test]
    fn a_syn_is_not_retransmitted_at_once() {
        const SYN_ACK: u8 = 0x12;
        let after = |at: Nanos| is_duplicate(&[packet(SYN_ACK, 64, 0), packet(SYN_ACK, 64, at)]);
        assert!(after(100_000));
        assert!(!after(1_000_000_000));
    }
}
