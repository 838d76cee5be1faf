//! Segments that nobody would send, at times that no clock has: nothing panics, and counts are
//! consistent.

use proptest::prelude::*;
use streams::Table;
use streams::captured_stream::captured_stream;
use wire::capture::LinkType;
use wire::packet::{Tcp, decode};

/// One packet: whether the server sends it, sequence number, acknowledgement, flags, window, bytes of
/// data, identification, time.
type Segment = (bool, u32, u32, u8, u16, u16, u16, i64);

fn packet((back, sequence, acknowledgement, flags, window, data, id, _): Segment) -> Vec<u8> {
    let (source, destination) = if back { (2, 1) } else { (1, 2) };
    let mut out = vec![0x45, 0];
    out.extend((40 + data % 9000).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend([0x40, 0, 64, 6, 0, 0, 198, 18, 0, source, 198, 18, 0, destination]);
    out.extend([source, 0, destination, 0]);
    out.extend(sequence.to_be_bytes());
    out.extend(acknowledgement.to_be_bytes());
    out.extend([0x50, flags]);
    out.extend(window.to_be_bytes());
    out.extend([0; 4]);
    out
}

fn run(segments: &[Segment]) {
    let mut table = Table::new();
    let mut replaced = 0;
    for segment in segments {
        let bytes = packet(*segment);
        let decoded = decode(LinkType::RAW, &bytes, bytes.len() as u32).expect("IP");
        let tcp = Tcp::of(&decoded.ip).expect("TCP");
        table.take(&decoded, &tcp, segment.7, &mut |_| replaced += 1);
    }
    let mut packets = 0;
    for stream in table.streams() {
        let mut stream = stream.clone();
        stream.finish();
        stream.current_exchange().map(|exchange| (exchange.response_wait(), exchange.total()));
        let length = stream.last - stream.first.min(stream.last);
        assert_eq!(stream.times().total(), length, "the time breakdown adds up");
        captured_stream(&stream, stream.first);
        stream.handshake.duration();
        for end in stream.ends.iter() {
            assert!(end.times.values().all(|time| time >= 0));
            let counts = &end.sent.counts;
            assert!(counts.new_bytes <= counts.bytes, "{counts:?}");
            end.sent.round_trip.timeout();
        }
        packets += stream.captured_packets();
    }
    assert!(replaced > 0 || packets == segments.len() as u64);
    assert_eq!(table.count(), replaced + table.streams().len() as u64);
}

proptest! {
    #[test]
    fn any_segments(segments in proptest::collection::vec(any::<Segment>(), 0..60)) {
        run(&segments);
    }

    /// Closer to what happens: numbers near each other, times that go forward, and back now and then.
    #[test]
    fn likely_segments(steps in proptest::collection::vec(
        (any::<bool>(), -3000i32..3000, -3000i32..3000, any::<u8>(), any::<bool>(), 0u16..3000, 0u16..9, -1000i64..50_000_000),
        0..200,
    )) {
        let (mut sequence, mut acknowledgement, mut at) = (u32::MAX - 5000, 77u32, 0i64);
        let segments: Vec<Segment> = steps.into_iter().map(|(back, s, a, flags, open, data, id, later)| {
            sequence = sequence.wrapping_add_signed(s);
            acknowledgement = acknowledgement.wrapping_add_signed(a);
            at += later;
            let window = if open { 65535 } else { 0 };
            if back {
                (back, acknowledgement, sequence, flags, window, data, id, at)
            } else {
                (back, sequence, acknowledgement, flags, window, data, id, at)
            }
        }).collect();
        run(&segments);
    }
}
