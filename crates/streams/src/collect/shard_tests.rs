//! Tests of collectors that share the streams of a capture.

use std::ops::Range;

use wire::capture::{LinkType, Packet};

use super::{Collected, Collector};

/// A small generator of pseudo-random numbers: the same each time.
struct Random(u64);

impl Random {
    fn within(&mut self, range: Range<u32>) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        range.start + ((self.0 >> 33) as u32) % (range.end - range.start)
    }
}

/// Packets that no two ends would send, of streams that come and go, and others.
fn packets(count: u32) -> Vec<(i128, Vec<u8>)> {
    let mut random = Random(7);
    let mut packets = Vec::new();
    for number in 0..count {
        let (client, port) = (random.within(1..4) as u8, random.within(4000..4200) as u16);
        let v6 = port % 5 == 0;
        let flags = [2, 0x12, 0x10, 0x18, 0x18, 0x18, 0x10, 0x11, 4][random.within(0..9) as usize];
        let length = if flags == 0x18 { random.within(1..1449) as u16 } else { 0 };
        // Names are looked up over TCP too.
        let server = if port % 16 == 3 { 53 } else { 80 + port % 3 };
        let mut ends = [(client, port), (9, server)];
        if random.within(0..2) == 0 {
            ends.reverse();
        }
        let mut bytes = if v6 {
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend((20 + length).to_be_bytes());
            bytes.extend([6, 64]);
            for (host, _) in ends {
                bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
            bytes
        } else {
            let mut bytes = vec![0x45, 0];
            bytes.extend((40 + length).to_be_bytes());
            bytes.extend([0, number as u8, 0x40, 0, 64, 6, 0, 0]);
            ends.iter().for_each(|(host, _)| bytes.extend([198, 18, 0, *host]));
            bytes
        };
        ends.iter().for_each(|(_, port)| bytes.extend(port.to_be_bytes()));
        bytes.extend((random.within(1..20_000)).to_be_bytes());
        bytes.extend((random.within(1..20_000)).to_be_bytes());
        bytes.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        let request = format!("GET /{} HTTP/1.1\r\n\r\n", port % 7);
        bytes.extend(request.into_bytes().into_iter().chain([0; 1500]).take(length.into()));
        match number % 50 {
            // No IP, a truncated header, and a query that is repeated.
            7 => bytes = vec![0x20; 60],
            8 => bytes.truncate(30),
            9 => bytes = query(number as u8 / 100),
            _ => {}
        }
        packets.push((i128::from(number) * 3_000_000, bytes));
    }
    packets
}

/// A query for a name to one of two servers.
fn query(kind: u8) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 47, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1];
    bytes.extend([198, 18, 0, 53 + kind % 2, 0x30, 0, 0, 53, 0, 27, 0, 0]);
    bytes.extend([0, kind, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]);
    bytes
}

fn taken(mut collector: Collector, packets: &[(i128, Vec<u8>)]) -> Collector {
    for packets in packets.chunks(100) {
        let batch: Vec<Packet<'_>> = packets
            .iter()
            .map(|(time_ns, bytes)| Packet {
                time_ns: Some(*time_ns),
                interface: 0,
                link: LinkType::RAW,
                bytes,
                length: bytes.len() as u32,
                drops: None,
            })
            .collect();
        collector.take_batch(&batch);
    }
    collector
}

fn sharded(of: u32, packets: &[(i128, Vec<u8>)]) -> Collected {
    let shard = |number| {
        let mut collector = taken(Collector::shard(number, of), packets);
        collector.close();
        collector
    };
    let mut first = shard(0);
    (1..of).for_each(|number| first.join(shard(number)));
    first.finish(vec!["a test".to_string()], 3)
}

#[test]
fn shards_give_the_same_as_one_collector() {
    let packets = packets(40_000);
    let alone = taken(Collector::default(), &packets).finish(vec!["a test".to_string()], 3);
    assert!(alone.packets.streams > 2_000, "{}", alone.packets.streams);
    assert!(alone.packets.resolvers.len() == 2 && alone.undecodable > 0);
    for of in [1, 2, 3, 8] {
        let sharded = sharded(of, &packets);
        assert_eq!(sharded.packets, alone.packets, "{of} shards");
        assert_eq!(sharded.undecodable, alone.undecodable);
    }
}

#[test]
fn shards_are_about_equal() {
    let packets = packets(20_000);
    for number in 0..4 {
        let mut one = taken(Collector::shard(number, 4), &packets);
        one.close();
        let share = one.segments as f64 / 20_000.0;
        assert!((0.15..0.35).contains(&share), "{number}: {share}");
    }
}

/// Two transfers of one server to one client: 10 MB a second for 1.5 s, then 1 MB a second, of which each
/// has most for a while, and acknowledgements 80 ms later instead of 2 ms.
fn shaped_transfers() -> Vec<(i128, Vec<u8>)> {
    const SEGMENT: u32 = 10_000;
    let mut packets = Vec::new();
    let (mut next, mut count) = ([1_u32; 2], 0);
    for milli in 0..8_000 {
        let is_burst = milli < 1_500;
        if !is_burst && milli % 10 > 0 {
            continue;
        }
        let (has_most, is_other) = (milli / 700 % 2 == 0, milli % 100 == 0);
        let is_first = if is_burst { milli % 2 == 0 } else { has_most != is_other };
        let stream = usize::from(!is_first);
        let mut packet = |at: i128, from_server: bool, seq: u32, ack: u32, length: u32| {
            count += 1;
            let mut bytes = vec![0x45, 0];
            bytes.extend((40 + length as u16).to_be_bytes());
            bytes.extend([(count >> 8) as u8, count as u8, 0x40, 0, 64, 6, 0, 0]);
            let mut ends = [(9, 80), (1, 4000 + stream as u16)];
            if !from_server {
                ends.reverse();
            }
            ends.iter().for_each(|(host, _)| bytes.extend([198, 18, 0, *host]));
            ends.iter().for_each(|(_, port): &(u8, u16)| bytes.extend(port.to_be_bytes()));
            bytes.extend(seq.to_be_bytes());
            bytes.extend(ack.to_be_bytes());
            bytes.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            bytes.resize(40 + length as usize, 0);
            packets.push((at * 1_000_000, bytes));
        };
        packet(milli, true, next[stream], 1, SEGMENT);
        next[stream] += SEGMENT;
        let trip = if is_burst { 2 } else { 80 };
        packet(milli + trip, false, 1, next[stream], 0);
    }
    packets.sort_by_key(|(at, _)| *at);
    packets
}

#[test]
fn streams_of_several_shards_share_a_shaper() {
    let packets = shaped_transfers();
    let alone = taken(Collector::default(), &packets).finish(vec!["a test".to_string()], 3);
    for stream in &alone.packets.worst {
        let shaped = stream.from_server.shaped.expect("the shaper of both");
        assert_eq!(shaped.other_streams, 1);
        assert!(shaped.rate_bps.abs_diff(8_000_000) < 800_000, "{shaped:?}");
        assert!(shaped.before_bps.abs_diff(80_000_000) < 8_000_000, "{shaped:?}");
    }
    assert_eq!(alone.packets.worst.len(), 2);
    for of in [2, 3, 8] {
        assert_eq!(sharded(of, &packets).packets, alone.packets, "{of} shards");
    }
}
