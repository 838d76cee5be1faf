//! Tests of token buckets in virtual time.

use super::*;

/// 100 kB of credit, then 8 Mbit/s: one byte per microsecond.
fn bucket(mode: Mode, burst_rate: Option<u64>) -> Profile {
    let bucket = Bucket { credit_bytes: 100_000, rate: 8_000_000, burst_rate, mode };
    Profile { bucket: Some(bucket), ..Profile::default() }
}

#[test]
fn a_policer_passes_its_credit_and_then_its_rate() {
    let mut pipe = pipe(bucket(Mode::Police, None));
    // 80 Mbit/s for one second: 1000 bytes every 100 µs.
    for n in 0..10_000 {
        pipe.offer(100 * US * n, &frame(1000, n));
    }
    let left = drain(&mut pipe);
    // The credit and what refills it meanwhile, 100/(1 − 0.1) packets, pass at full rate.
    let at_full_rate =
        numbers(&left).iter().enumerate().take_while(|(n, number)| **number == *n as u32).count();
    assert_eq!(at_full_rate, 111);
    // 100 kB + 999.9 kB in total: exact to a packet.
    assert_eq!(left.len(), 1099);
    assert_eq!(pipe.counters().dropped_by_policer, 10_000 - 1099);
    // After an idle second the bucket has credit again.
    for n in 0..10 {
        pipe.offer(2000 * MS, &frame(1000, n));
    }
    assert_eq!(drain(&mut pipe).len(), 10);
}

#[test]
fn credit_returns_while_idle_and_never_exceeds_its_maximum() {
    for (idle, packets) in [(50 * MS, 50), (100 * MS, 100), (Duration::from_secs(3600), 100)] {
        let mut pipe = pipe(bucket(Mode::Police, None));
        for n in 0..200 {
            pipe.offer(Duration::ZERO, &frame(1000, n));
        }
        assert_eq!(drain(&mut pipe).len(), 100);
        for n in 0..200 {
            pipe.offer(idle, &frame(1000, n));
        }
        assert_eq!(drain(&mut pipe).len(), packets);
    }
}

#[test]
fn a_shaper_passes_its_credit_and_then_queues() {
    let mut pipe = pipe(bucket(Mode::Shape { queue: 50_000 }, Some(80_000_000)));
    for n in 0..300 {
        pipe.offer(Duration::ZERO, &frame(1000, n));
    }
    // One on the line, fifty in the queue.
    assert_eq!(pipe.counters().dropped_by_queue, 249);
    assert_eq!(drain(&mut pipe).len(), 51);

    // One second at 80 Mbit/s, the burst rate, with room for all.
    let mut pipe = Pipe::new(bucket(Mode::Shape { queue: 1 << 30 }, Some(80_000_000)).into(), 1);
    for n in 0..10_000 {
        pipe.offer(100 * US * n, &frame(1000, n));
    }
    let left = drain(&mut pipe);
    assert_eq!(left.len(), 10_000);
    // At the burst rate nothing is queued: 100 µs on the line.
    for (n, (at, _)) in left.iter().enumerate().take(111) {
        assert_eq!(*at, 100 * US * (n as u32 + 1), "packet {n}");
    }
    // Then exactly one millisecond per packet.
    for pair in left[112..].windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, MS);
    }
    assert_eq!(pipe.counters().dropped(), 0);
}
