//! Tests of one direction of a link in virtual time.

use std::time::Duration;

use proptest::prelude::*;

use super::super::packet::checksum;
use super::super::profile::{Bucket, Loss, Mode, Reorder};
use super::super::{frames, profile::Queue};
use super::*;

mod buckets;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const NS: Duration = Duration::from_nanos(1);

fn pipe(profile: Profile) -> Pipe {
    Pipe::new(profile.into(), 1)
}

/// A frame of this length with a number at its end.
fn frame(bytes: usize, number: u32) -> Vec<u8> {
    let mut frame = frames::udp_v4(bytes - 14);
    frame[bytes - 4..].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap())
}

/// Lets time run until nothing is in transit: when each frame left, and the frame.
fn drain(pipe: &mut Pipe) -> Vec<(Duration, Vec<u8>)> {
    let mut left = Vec::new();
    while let Some(now) = pipe.next_due() {
        while let Some(departure) = pipe.due(now) {
            assert_eq!(departure.due(), now, "next_due() was too late");
            left.push((now, departure.frame().to_vec()));
            pipe.sent(departure, now, true);
        }
    }
    left
}

fn numbers(left: &[(Duration, Vec<u8>)]) -> Vec<u32> {
    left.iter().map(|(_, frame)| number(frame)).collect()
}

#[test]
fn the_default_profile_changes_nothing() {
    let mut pipe = pipe(Profile::default());
    for n in 0..5000 {
        assert!(pipe.offer(MS, &frame(100, n)).is_none());
    }
    let left = drain(&mut pipe);
    assert_eq!(numbers(&left), (0..5000).collect::<Vec<_>>());
    assert!(left.iter().all(|(at, _)| *at == MS));
    let counters = pipe.counters();
    assert_eq!((counters.packets_out, counters.bytes_out), (5000, 500_000));
    assert_eq!((counters.dropped(), counters.max_queue_bytes, counters.in_transit), (0, 0, 0));
    assert_eq!(counters.lateness.max(), Duration::ZERO);
}

#[test]
fn delay_is_exact_to_the_nanosecond() {
    let delay = Duration::from_nanos(20_123_457);
    let mut pipe = pipe(Profile { delay, ..Profile::default() });
    pipe.offer(3 * NS, &frame(100, 0));
    assert_eq!(pipe.next_due(), Some(delay + 3 * NS));
    assert!(pipe.due(delay + 2 * NS).is_none());
    let departure = pipe.due(delay + 3 * NS).unwrap();
    pipe.sent(departure, delay + 10 * NS, true);
    assert_eq!(pipe.counters().lateness.max(), 7 * NS);
}

#[test]
fn rate_is_exact_over_ten_thousand_packets() {
    // 7 Mbit/s: 1,730.285714… µs for 1514 bytes.
    let profile =
        Profile { rate: Some(7_000_000), queue: Queue::Packets(10_000), ..Profile::default() };
    let mut pipe = pipe(profile);
    for n in 0..10_000 {
        pipe.offer(Duration::ZERO, &frame(1514, n));
    }
    let left = drain(&mut pipe);
    for (n, (at, _)) in left.iter().enumerate() {
        let exact = (n as u128 + 1) * 1514 * 8_000_000_000 / 7_000_000;
        assert_eq!(at.as_nanos(), exact, "packet {n}");
    }
    assert_eq!(left.len(), 10_000);
    assert_eq!(pipe.counters().max_queue_bytes, 9_999 * 1514);
}

#[test]
fn a_rate_and_a_delay_add_up() {
    let profile = Profile { rate: Some(8_000_000), delay: 5 * MS, ..Profile::default() };
    let mut pipe = pipe(profile);
    pipe.offer(Duration::ZERO, &frame(1000, 0));
    pipe.offer(Duration::ZERO, &frame(500, 1));
    pipe.offer(10 * MS, &frame(500, 2)); // the line has rested
    let times: Vec<_> = drain(&mut pipe).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [6 * MS, 6 * MS + 500 * US, 15 * MS + 500 * US]);
}

#[test]
fn the_queue_is_limited_in_bytes_and_in_packets() {
    for (queue, room) in [
        (Queue::Bytes(10_000), 10),
        (Queue::Bytes(10_999), 10),
        (Queue::Packets(7), 7),
        (Queue::Packets(0), 0),
    ] {
        let mut pipe = pipe(Profile { rate: Some(8_000_000), queue, ..Profile::default() });
        for n in 0..100 {
            pipe.offer(Duration::ZERO, &frame(1000, n));
        }
        // One is on the line, the first ones wait, the rest are dropped.
        assert_eq!(pipe.counters().max_queue_bytes, u64::from(room) * 1000);
        assert_eq!(numbers(&drain(&mut pipe)), (0..=room).collect::<Vec<_>>());
        assert_eq!(pipe.counters().dropped_by_queue, 99 - u64::from(room));
    }
}

#[test]
fn the_loss_rate_is_the_configured_one() {
    for seed in 0..20 {
        let loss = Some(Loss::Random { probability: 0.02 });
        let mut pipe = Pipe::new(Profile { loss, ..Profile::default() }.into(), seed);
        for n in 0..20_000 {
            pipe.offer(MS, &frame(100, n));
        }
        // 400 ± four standard deviations.
        let lost = pipe.counters().dropped_by_loss;
        assert!((321..=479).contains(&lost), "{lost}");
        assert_eq!(drain(&mut pipe).len() as u64 + lost, 20_000);
    }
}

#[test]
fn jitter_varies_the_delay_and_keeps_the_order() {
    let profile = Profile { delay: 10 * MS, jitter: 4 * MS, ..Profile::default() };
    let mut sparse = pipe(profile.clone());
    let mut sum = Duration::ZERO;
    let (mut min, mut max) = (Duration::MAX, Duration::ZERO);
    for n in 0..10_000 {
        let now = 100 * MS * n;
        sparse.offer(now, &frame(100, n));
        let (at, _) = drain(&mut sparse)[0];
        let delay = at - now;
        (min, max, sum) = (min.min(delay), max.max(delay), sum + delay);
    }
    assert!(min >= 6 * MS && min < 6 * MS + 20 * US, "{min:?}");
    assert!(max <= 14 * MS && max > 14 * MS - 20 * US, "{max:?}");
    let mean = sum / 10_000;
    assert!(mean > 10 * MS - 100 * US && mean < 10 * MS + 100 * US, "{mean:?}");

    let mut dense = pipe(profile);
    for n in 0..10_000 {
        dense.offer(100 * US * n, &frame(100, n));
    }
    assert_eq!(numbers(&drain(&mut dense)), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn jitter_above_the_delay_never_delivers_before_sending() {
    let mut pipe = pipe(Profile { delay: MS, jitter: 50 * MS, ..Profile::default() });
    for n in 0..1000 {
        let now = Duration::from_secs(1) * n;
        pipe.offer(now, &frame(100, n));
        assert!(drain(&mut pipe)[0].0 >= now);
    }
}

#[test]
fn packets_overtake_one_that_is_held_back() {
    let reorder = Some(Reorder { probability: 0.1, delay: 5 * MS });
    let mut pipe = pipe(Profile { delay: 10 * MS, reorder, ..Profile::default() });
    for n in 0..1000 {
        pipe.offer(MS * n, &frame(100, n));
    }
    let left = drain(&mut pipe);
    let late: Vec<_> =
        left.iter().filter(|(at, frame)| *at > MS * number(frame) + 10 * MS).collect();
    assert!((70..130).contains(&late.len()), "{}", late.len());
    assert!(late.iter().all(|(at, frame)| *at == MS * number(frame) + 15 * MS));
    let mut order = numbers(&left);
    assert!(order.windows(2).filter(|pair| pair[0] > pair[1]).count() > 50);
    order.sort_unstable();
    assert_eq!(order, (0..1000).collect::<Vec<_>>());
    assert_eq!(pipe.counters().reordered, late.len() as u64);
}

#[test]
fn a_duplicate_follows_its_original() {
    let mut pipe = pipe(Profile { duplicate: 0.25, delay: MS, ..Profile::default() });
    for n in 0..4000 {
        pipe.offer(MS * n, &frame(100, n));
    }
    let order = numbers(&drain(&mut pipe));
    let duplicates = order.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((890..1110).contains(&duplicates), "{duplicates}");
    assert_eq!(order.len(), 4000 + duplicates);
    assert!(order.is_sorted());
    assert_eq!(pipe.counters().duplicated, duplicates as u64);
}

#[test]
fn corruption_breaks_only_the_transport_checksum() {
    let mut pipe = pipe(Profile { corrupt: 1.0, ..Profile::default() });
    for n in 0..500 {
        let intact = frames::udp_v4(30 + n);
        pipe.offer(MS, &intact);
        let (_, corrupt) = drain(&mut pipe).remove(0);
        let flipped: u32 = intact.iter().zip(&corrupt).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1);
        assert_eq!(checksum(&[&corrupt[14..34]]), 0, "the IP header is intact");
        assert_eq!(frames::udp_v4_sum(&intact[14..34], &intact[34..]), 0);
        assert_ne!(frames::udp_v4_sum(&corrupt[14..34], &corrupt[34..]), 0);
        assert_eq!(intact[34..42], corrupt[34..42], "the data is hit, not the ports");
    }
    assert_eq!(pipe.counters().corrupted, 500);
}

#[test]
fn a_packet_too_big_gets_an_icmp_error_or_is_lost() {
    let mut router = pipe(Profile { mtu: Some(1400), delay: MS, ..Profile::default() });
    assert!(router.offer(MS, &frames::udp_v4(1400)).is_none());
    let icmp_error = router.offer(MS, &frames::udp_v4(1401)).unwrap().to_vec();
    assert_eq!(icmp_error[34..36], [3, 4]);
    assert_eq!(checksum(&[&icmp_error[34..]]), 0);
    let mut fragmentable = frames::udp_v4(1500);
    fragmentable[14 + 6] = 0;
    assert!(router.offer(MS, &fragmentable).is_none());
    assert_eq!(drain(&mut router).len(), 2);
    let counters = router.counters();
    assert_eq!((counters.dropped_by_mtu, counters.icmp_too_big_sent), (1, 1));

    let mut hole = pipe(Profile { black_hole_above: Some(1400), ..Profile::default() });
    for bytes in [1400, 1401] {
        assert!(hole.offer(MS, &frames::udp_v4(bytes)).is_none());
    }
    assert_eq!(drain(&mut hole).len(), 1);
    assert_eq!(hole.counters().dropped_by_black_hole, 1);
}

#[test]
fn the_timeline_changes_the_profile_and_keeps_the_queue() {
    let slow = Profile { rate: Some(8_000_000), ..Profile::default() };
    let slower = Profile { rate: Some(800_000), ..Profile::default() };
    let still = Profile { rate: Some(0), ..Profile::default() };
    let timeline = vec![
        (20 * MS + 500 * US, still),
        (10 * MS + 500 * US, slower.clone()),
        (50 * MS, slow.clone()),
    ];
    let mut pipe = Pipe::new(Direction { profile: slow, timeline }, 1);
    for n in 0..15 {
        pipe.offer(Duration::ZERO, &frame(1000, n));
    }
    // Nothing is polled until the end, and still everything happens at its time.
    let times: Vec<_> = drain(&mut pipe).into_iter().map(|(at, _)| at.as_micros()).collect();
    // Eleven at the first rate (the last was on the line already), one that began at 11 ms at the
    // second, three after the standstill.
    let mut expected: Vec<u128> = (1..=11).map(|n| n * 1000).collect();
    expected.extend([21_000, 51_000, 52_000, 53_000]);
    assert_eq!(times, expected);
}

#[test]
fn a_new_profile_applies_to_queued_packets() {
    let mut pipe = pipe(Profile { rate: Some(0), ..Profile::default() });
    pipe.offer(MS, &frame(1000, 0));
    assert_eq!(pipe.next_due(), None);
    assert_eq!(pipe.counters().in_transit, 1);
    pipe.set_profile(7 * MS, Profile { rate: Some(8_000_000), delay: MS, ..Profile::default() });
    assert_eq!(drain(&mut pipe)[0].0, 9 * MS);
}

#[test]
fn housekeeping_frames_pass_at_once() {
    let profile = Profile {
        delay: 100 * MS,
        rate: Some(8),
        loss: Some(Loss::Random { probability: 1.0 }),
        ..Profile::default()
    };
    let mut pipe = pipe(profile);
    let mut arp = vec![0; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    pipe.offer(MS, &arp);
    assert_eq!(drain(&mut pipe), [(MS, arp)]);
    let counters = pipe.counters();
    assert_eq!((counters.housekeeping, counters.packets_in, counters.packets_out), (1, 0, 0));
}

fn impaired() -> Profile {
    Profile {
        delay: 5 * MS,
        jitter: 2 * MS,
        rate: Some(20_000_000),
        queue: Queue::Bytes(20_000),
        loss: Some(Loss::GilbertElliott { to_bad: 0.05, to_good: 0.3, in_bad: 0.8, in_good: 0.01 }),
        reorder: Some(Reorder { probability: 0.05, delay: MS }),
        duplicate: 0.05,
        corrupt: 0.05,
        mtu: Some(1400),
        black_hole_above: Some(1300),
        bucket: None,
    }
}

#[test]
fn decisions_depend_on_the_seed_and_not_on_timing() {
    let run = |seed: u64, step: Duration, arp: bool| {
        let mut pipe =
            Pipe::new(Profile { queue: Queue::Packets(5000), ..impaired() }.into(), seed);
        for n in 0..2000 {
            if arp && n % 7 == 0 {
                let mut arp = vec![0; 42];
                arp[12..14].copy_from_slice(&[8, 6]);
                pipe.offer(step * n, &arp);
            }
            pipe.offer(step * n, &frame(200 + n as usize % 1000, n));
        }
        let left = drain(&mut pipe);
        let mut numbers: Vec<_> = numbers(&left);
        numbers.sort_unstable();
        (left, numbers)
    };
    assert_eq!(run(5, MS, false), run(5, MS, false));
    let passed = |step, arp| {
        let (_, mut numbers) = run(5, step, arp);
        numbers.retain(|number| *number < 2000);
        numbers
    };
    assert_eq!(passed(MS, false), passed(10 * US, false));
    let mut with_arp = passed(MS, true);
    with_arp.retain(|number| *number != 0);
    let mut without = passed(MS, false);
    without.retain(|number| *number != 0);
    assert_eq!(with_arp, without);
    assert_ne!(run(5, MS, false).1, run(6, MS, false).1);
}

#[test]
fn buffers_are_reused() {
    let mut pipe = pipe(impaired());
    for n in 0..20_000 {
        let now = 400 * US * n;
        pipe.offer(now, &frame(1000, n));
        while let Some(departure) = pipe.due(now) {
            pipe.sent(departure, now, true);
        }
    }
    assert!(pipe.spare_buffers.len() < 100, "{} buffers", pipe.spare_buffers.len());
}

fn profiles() -> impl Strategy<Value = Profile> {
    let shares = (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0);
    let sizes = (any::<u16>(), 0_u64..20_000, any::<bool>());
    (shares, sizes, 0_u64..5_000_000, 0_u64..200_000_000, 0_u8..64).prop_map(
        |((p, q, r, s), (mtu, room, police), time, rate, some)| {
            let has = |bit: u8| some & (1 << bit) != 0;
            let time = Duration::from_nanos(time);
            let mode = if police { Mode::Police } else { Mode::Shape { queue: room } };
            let loss = match has(0) {
                true => Loss::Random { probability: p / 4.0 },
                false => Loss::GilbertElliott { to_bad: p, to_good: q, in_bad: r, in_good: s },
            };
            Profile {
                delay: time,
                jitter: time / 3,
                rate: has(1).then_some(rate),
                queue: if has(0) { Queue::Bytes(room) } else { Queue::Packets(room as u32 / 500) },
                loss: has(2).then_some(loss),
                reorder: has(3).then_some(Reorder { probability: q, delay: time }),
                duplicate: r,
                corrupt: s,
                mtu: has(4).then_some(mtu),
                black_hole_above: has(3).then_some(mtu / 2),
                bucket: has(5).then_some(Bucket {
                    credit_bytes: room,
                    rate,
                    burst_rate: None,
                    mode,
                }),
            }
        },
    )
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for(
        profile in profiles(),
        later in profiles(),
        offers in prop::collection::vec((frames::any(), 0_u64..1_000_000), 0..80),
        seed in any::<u64>(),
    ) {
        let timeline = vec![(10 * MS, later)];
        let mut pipe = Pipe::new(Direction { profile, timeline }, seed);
        let mut now = Duration::ZERO;
        let mut housekeeping = 0;
        for (frame, pause) in &offers {
            now += Duration::from_nanos(*pause);
            housekeeping += u64::from(Packet::of(frame).is_housekeeping());
            let _ = pipe.offer(now, frame);
            if pause % 3 == 0 && let Some(departure) = pipe.due(now) {
                prop_assert!(departure.due() <= now);
                pipe.sent(departure, now, pause % 2 == 0);
            }
            let counters = pipe.counters();
            prop_assert_eq!(
                counters.packets_in + counters.duplicated,
                counters.packets_out + counters.undelivered + counters.dropped() + counters.in_transit
            );
        }
        // A line that stands still may keep frames for ever; all others leave, never in the past.
        let mut last = now;
        while let Some(next) = pipe.next_due() {
            let at = next.max(last);
            while let Some(departure) = pipe.due(at) {
                pipe.sent(departure, at, true);
            }
            last = at;
        }
        let counters = pipe.counters();
        prop_assert_eq!(counters.housekeeping, housekeeping);
        prop_assert_eq!(counters.packets_in, offers.len() as u64 - housekeeping);
        prop_assert_eq!(
            counters.packets_in + counters.duplicated,
            counters.packets_out + counters.undelivered + counters.dropped() + counters.in_transit
        );
        prop_assert_eq!(pipe.queued_bytes, pipe.queue.iter().map(|p| p.frame.len() as u64).sum::<u64>());
        prop_assert_eq!(pipe.in_flight_bytes, 0);
    }
}
