//! Tests of a collector with a limit of streams.

use wire::capture::{LinkType, Packet};

use super::{Collected, Collector, MemoryLimits};

/// A packet of the stream with this number.
fn packet(collector: &mut Collector, stream: u16, flags: u8, at_ms: i128) {
    let mut bytes = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
    bytes.extend(stream.to_be_bytes());
    bytes.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes[4..6].copy_from_slice(&(at_ms as u16 + 1).to_be_bytes());
    let time_ns = Some(at_ms * 1_000_000);
    let (link, length) = (LinkType::RAW, bytes.len() as u32);
    collector.take_by_ref(&Packet {
        time_ns,
        interface: 0,
        link,
        bytes: &bytes,
        length,
        drops: None,
    });
}

fn collected(max_streams: usize) -> Collected {
    let mut collector =
        Collector::default().limited(MemoryLimits { streams: max_streams, bytes: 0 });
    for stream in 0..10 {
        packet(&mut collector, 4000 + stream, 2, 10 * i128::from(stream));
        // One of them goes on all the time.
        packet(&mut collector, 4000, 2, 10 * i128::from(stream) + 1000);
    }
    let snapshot = collector.snapshot(Vec::new(), 3);
    let collected = collector.finish(Vec::new(), 3);
    assert_eq!(snapshot, collected.packets);
    collected
}

#[test]
fn evicted_streams_are_counted() {
    let (all, some) = (collected(0), collected(4));
    assert_eq!((all.evicted, all.packets.streams), (0, 10));
    // 10 streams: whenever there are four, the two that have been idle for longest go.
    assert_eq!((some.evicted, some.packets.streams), (8, 10));
    let sums = |one: &Collected| {
        let packets = &one.packets;
        let service = &packets.services[0];
        (packets.packets, packets.segments, packets.span_us, service.server, service.streams)
    };
    assert_eq!(sums(&all), sums(&some));
    let mut numbers: Vec<u64> = some.packets.worst.iter().map(|stream| stream.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    // The one that went on is the same to the end.
    let first = some.packets.worst.iter().find(|stream| stream.number == 0);
    assert_eq!(first.map(|stream| stream.span_us), Some(1_090_000));
}

#[test]
fn a_flood_of_forged_addresses_is_bounded() {
    let mut collector = Collector::default().limited(MemoryLimits { streams: 100, bytes: 0 });
    // Those that come again have been evicted, and begin anew.
    for stream in (0..20_000).chain(0..20_000) {
        packet(&mut collector, stream, 2, 1);
        assert!(collector.table.streams().len() <= 100);
    }
    let collected = collector.finish(Vec::new(), 0);
    assert_eq!((collected.packets.streams, collected.packets.worst.len()), (40_000, 1024));
}

/// The numbers of the streams of a shard grow with the capture: they have a limit, too.
#[test]
fn a_shard_of_too_many_streams_says_so() {
    let limits = MemoryLimits { streams: 10, bytes: 8 * 1000 };
    let mut shard = Collector::shard(0, 1).limited(limits);
    let mut alone = Collector::new(None).limited(limits);
    for stream in 0..1000 {
        packet(&mut shard, stream, 2, 1);
        packet(&mut alone, stream, 2, 1);
    }
    assert!(!shard.has_too_many_streams());
    packet(&mut shard, 1000, 2, 1);
    assert!(shard.has_too_many_streams() && !alone.has_too_many_streams());
}
