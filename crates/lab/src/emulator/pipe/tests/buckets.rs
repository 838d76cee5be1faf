//! Tests of buckets of credit, in virtual time.

use super::*;

/// 100 kB of credit, then 8 Mbit/s: a byte a microsecond.
fn bucket(mode: Mode, burst_rate: Option<u64>) -> Profile {
    let bucket = Bucket { credit_bytes: 100_000, rate: 8_000_000, burst_rate, mode };
    Profile { bucket: Some(bucket), ..Profile::default() }
}

#[test]
fn a_policer_passes_its_credit_and_then_its_rate() {
    let mut pipe = pipe(bucket(Mode::Police, None));
    // 80 Mbit/s for a second: a packet of 1000 bytes every 100 µs.
    for n in 0..10_000 {
        pipe.offer(100 * US * n, &frame(1000, n));
    }
    let left = drain(&mut pipe);
    // Credit and what comes in meanwhile, 100/(1 − 0.1) packets, pass at full rate.
    let full =
        numbers(&left).iter().enumerate().take_while(|(n, seen)| **seen == *n as u32).count();
    assert_eq!(full, 111);
    // 100 kB + 999.9 kB in all: exact to a packet.
    assert_eq!(left.len(), 1099);
    assert_eq!(pipe.counters().dropped_by_policer, 10_000 - 1099);
    // After half a second of rest there is as much credit as half a second would give, no more.
    for n in 0..10 {
        pipe.offer(2000 * MS, &frame(1000, n));
    }
    assert_eq!(drain(&mut pipe).len(), 10);
}

#[test]
fn credit_comes_back_with_rest_and_no_further_than_full() {
    for (rest, packets) in [(50 * MS, 50), (100 * MS, 100), (Duration::from_secs(3600), 100)] {
        let mut pipe = pipe(bucket(Mode::Police, None));
        for n in 0..200 {
            pipe.offer(Duration::ZERO, &frame(1000, n));
        }
        assert_eq!(drain(&mut pipe).len(), 100);
        for n in 0..200 {
            pipe.offer(rest, &frame(1000, n));
        }
        assert_eq!(drain(&mut pipe).len(), packets);
    }
}

#[test]
fn a_shaper_passes_its_credit_and_then_makes_wait() {
    let mut pipe = pipe(bucket(Mode::Shape { queue: 50_000 }, Some(80_000_000)));
    for n in 0..300 {
        pipe.offer(Duration::ZERO, &frame(1000, n));
    }
    // One on the line, fifty in the queue.
    assert_eq!(pipe.counters().dropped_by_queue, 249);
    assert_eq!(drain(&mut pipe).len(), 51);

    // A second at 80 Mbit/s, the burst rate, with room for all.
    let mut pipe = Pipe::new(bucket(Mode::Shape { queue: 1 << 30 }, Some(80_000_000)).into(), 1);
    for n in 0..10_000 {
        pipe.offer(100 * US * n, &frame(1000, n));
    }
    let left = drain(&mut pipe);
    assert_eq!(left.len(), 10_000);
    // At the burst rate nothing waits: 100 µs on the line.
    for (n, (at, _)) in left.iter().enumerate().take(111) {
        assert_eq!(*at, 100 * US * (n as u32 + 1), "packet {n}");
    }
    // Then exactly a millisecond for each packet.
    for pair in left[112..].windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, MS);
    }
    assert_eq!(pipe.counters().dropped(), 0);
}
