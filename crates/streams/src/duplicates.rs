//! Duplicate packets of the capture: it runs on several interfaces, a mirror port copies both of its
//! directions, or a router is captured on both sides. They are no retransmissions.
//!
//! A duplicate has everything that the first packet had, the IP identification included, which a
//! sender changes for each packet. Where the identification is zero (IPv6, and IPv4 that may not be
//! fragmented), a packet counts as a duplicate only if it was routed in between or comes at once; data
//! also if its sender had no reason to send it again: no timer is that short, and no packet of the other
//! end came in between. A SYN is never retransmitted as soon as its duplicate comes.

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
    /// A bit for each: whether the end with the higher port sent it.
    senders: u16,
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
        self.keep(hash, now, ip.ttl, tcp);
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
        let hash = header_hash(build, ip, tcp, timestamps);
        self.keep(hash, (at >> TICK_BITS) as u32, ip.ttl, tcp);
    }

    #[inline(always)]
    fn keep(&mut self, hash: u32, now: u32, ttl: u8, tcp: &Tcp<'_>) {
        let slot = usize::from(self.next) % MAX_PACKETS;
        if let (Some(known), Some(then), Some(hops)) =
            (self.hashes.get_mut(slot), self.times.get_mut(slot), self.hops.get_mut(slot))
        {
            (*known, *then, *hops) = (hash, now, ttl);
        }
        let bit = 1 << slot;
        self.senders = self.senders & !bit | if is_of_higher_port(tcp) { bit } else { 0 };
        self.next = self.next.wrapping_add(1);
    }

    /// Whether all packets that are remembered since this one, of this sender, have the same sender.
    fn was_not_answered(&self, slot: usize, tcp: &Tcp<'_>) -> bool {
        let next = usize::from(self.next) % MAX_PACKETS;
        let since = (slot + 1..slot + MAX_PACKETS).map(|slot| slot % MAX_PACKETS);
        let is_of_sender = |slot: usize| {
            let was_higher = (self.senders >> slot) & 1 == 1;
            was_higher == is_of_higher_port(tcp)
        };
        tcp.source != tcp.destination && since.take_while(|slot| *slot != next).all(is_of_sender)
    }
}

/// Whether its sender is the end with the higher port.
fn is_of_higher_port(tcp: &Tcp<'_>) -> bool {
    tcp.source > tcp.destination
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
        let (mut filter, build) = (DuplicateFilter::default(), DefaultHashBuilder::default());
        let mut last = false;
        for (bytes, at) in packets {
            let decoded = decode(LinkType::RAW, bytes, bytes.len() as u32).expect("IP");
            let tcp = Tcp::of(&decoded.ip).expect("TCP");
            last = filter.is_duplicate(&build, &decoded.ip, &tcp, tcp.time_stamps(), *at);
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
