//! Measured transfers held against theory: bandwidth, round trip, the window that each began with.

use model::{
    BandwidthSource, OneTransfer, SenderTimeCategory, TheoreticalTime, Transfer, TransferDirection,
    TransferSender,
};

use super::theory::{Given, theory};
use super::{Options, sysctl};

/// An estimate of the bandwidth is raised in such steps, so often at most, for as long as theory is
/// slower than a transfer by this factor.
const STEP: f64 = 1.25;
const MOST_STEPS: usize = 60;
const TOO_SLOW: f64 = 1.03;
/// First window of a sender that does not tell its own (RFC 6928), and its segments.
const USUAL: (u32, u32) = (10, 1448);

/// Holds each transfer against what theory says.
pub(super) fn compare(all: &mut Transfer, options: &Options, arrival: f64) {
    if options.direction == TransferDirection::Up {
        let after_idle = sysctl("net/ipv4/tcp_slow_start_after_idle").map(|value| value != "0");
        for sender in &mut all.senders {
            sender.slow_start_after_idle = after_idle;
            sender.tcp_wmem = sysctl("net/ipv4/tcp_wmem");
        }
    }
    let told = all.senders.iter().filter_map(|sender| sender.min_rtt_us).min();
    let connects = all.transfers.iter().filter_map(|one| one.connect_us).min();
    all.round_trip_us = told.map(u64::from).into_iter().chain(connects).min();
    for one in &mut all.transfers {
        let sender = all.senders.iter().find(|sender| sender.stream == one.stream);
        let start =
            sender.and_then(|sender| sender.starts.iter().find(|start| start.number == one.number));
        one.window_segments = start.map(|start| start.window_segments);
        one.segment_bytes = start.map(|start| start.segment_bytes);
    }
    let sum = |of: fn(&TransferSender) -> u64| {
        all.senders.iter().map(of).fold(0, u64::saturating_add) as f64 * 8.0
    };
    let best = [
        (options.bandwidth_bps.unwrap_or(0.0), BandwidthSource::Given),
        (sum(|sender| sender.best_delivery_rate), BandwidthSource::DeliveryRate),
        (arrival * 8.0, BandwidthSource::ReceiveRate),
        (sum(|sender| sender.best_delivery_rate_any), BandwidthSource::LowerBound),
    ];
    let Some((mut bps, mut from)) = best.into_iter().find(|(bps, _)| *bps > 0.0) else { return };
    let given = from == BandwidthSource::Given;
    // What an end held itself did not fill the path.
    if from == BandwidthSource::DeliveryRate && held_by_ends(all) {
        from = BandwidthSource::LowerBound;
    }
    // What is too short to fill the path shows no more than its own rate: a path over which it went
    // faster than that rate allows has more.
    for _ in 0..if given { 0 } else { MOST_STEPS } {
        let mut likely =
            all.transfers.iter().filter_map(|one| Some((one, of(all, options, one, bps)?)));
        if !likely.any(|(one, theory)| theory.total_us as f64 > one.duration_us as f64 * TOO_SLOW) {
            break;
        }
        (bps, from) = (bps * STEP, BandwidthSource::LowerBound);
    }
    (all.bandwidth_bps, all.bandwidth_source) = (Some(bps), Some(from));
    let theories: Vec<_> = all.transfers.iter().map(|one| of(all, options, one, bps)).collect();
    for (one, theory) in all.transfers.iter_mut().zip(theories) {
        one.theory = theory;
    }
}

/// Whether the ends, and not the path, held the transfers for most of the time.
fn held_by_ends(all: &Transfer) -> bool {
    let shares = all.time_breakdown();
    let sum = |of: &dyn Fn(SenderTimeCategory) -> bool| {
        shares.iter().filter(|share| of(share.category)).map(|share| share.time_us).sum::<u64>()
    };
    let ends = sum(&|part| {
        matches!(
            part,
            SenderTimeCategory::Application
                | SenderTimeCategory::Writing
                | SenderTimeCategory::SendBuffer
                | SenderTimeCategory::ReceiveWindow
        )
    });
    ends > sum(&|_| true) / 2
}

/// What theory says of one transfer; `None`: it was not done, has no size, or the round trip is not
/// known.
fn of(all: &Transfer, options: &Options, one: &OneTransfer, bps: f64) -> Option<TheoreticalTime> {
    // One without a size takes as long as it is let.
    let bulk = options.size.is_none() && options.url.is_none();
    if !one.completed || one.bytes == 0 || bulk {
        return None;
    }
    let new = one.connect_us.is_some();
    let (window_segments, segment_bytes) = match one.window_segments.zip(one.segment_bytes) {
        Some(start) => start,
        None if new => USUAL,
        // What a sender that is not asked remembers of its window is not known: as if all.
        None => (u32::MAX, USUAL.1),
    };
    Some(theory(Given {
        bytes: one.bytes,
        bandwidth_bps: bps / f64::from(options.streams.max(1)),
        round_trip_us: all.round_trip_us?,
        window_segments,
        segment_bytes,
        new,
    }))
}

#[cfg(test)]
mod tests {
    use model::{SendStart, SenderTimeShare};

    use super::*;

    fn options() -> Options {
        Options {
            peer: String::new(),
            address: "198.18.0.2:7717".parse().unwrap(),
            url: None,
            direction: TransferDirection::Down,
            size: Some(100_000),
            interval: None,
            count: None,
            time: None,
            reconnect: false,
            streams: 1,
            buffer: 1,
            source_delay: std::time::Duration::ZERO,
            congestion: None,
            token: None,
            patience: std::time::Duration::ZERO,
            bandwidth_bps: None,
        }
    }

    fn measured(duration_us: u64, best_rate: u64) -> Transfer {
        let start = SendStart {
            number: 0,
            window_segments: 10,
            previous_window_segments: None,
            segment_bytes: 1448,
        };
        Transfer {
            transfers: vec![OneTransfer {
                duration_us,
                bytes: 100_000,
                completed: true,
                connect_us: Some(80_000),
                ..OneTransfer::default()
            }],
            senders: vec![TransferSender {
                starts: vec![start],
                best_delivery_rate,
                min_rtt_us: Some(80_000),
                time_breakdown: vec![SenderTimeShare {
                    category: SenderTimeCategory::SlowStart,
                    time_us: 9,
                }],
                ..TransferSender::default()
            }],
            ..Transfer::default()
        }
    }

    #[test]
    fn a_transfer_that_is_too_short_for_the_path_shows_the_least_that_it_has() {
        let mut all = measured(327_000, 5_000_000 / 8);
        compare(&mut all, &options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::LowerBound));
        let theory = all.transfers[0].theory.unwrap();
        assert!(theory.total_us.abs_diff(327_000) < 12_000, "{theory:?}");
        assert_eq!((theory.rounds, theory.window_segments), (4, 10));
        // One that took longer than its own rate says is as it is.
        let mut all = measured(900_000, 100_000_000 / 8);
        compare(&mut all, &options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::DeliveryRate));
        assert_eq!(all.bandwidth_bps, Some(1e8));
    }

    #[test]
    fn what_the_ends_hold_tells_nothing_of_the_path_and_what_is_given_stays() {
        let mut all = measured(900_000, 100_000_000 / 8);
        all.senders[0]
            .time_breakdown
            .push(SenderTimeShare { category: SenderTimeCategory::SendBuffer, time_us: 10 });
        compare(&mut all, &options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::LowerBound));
        let mut all = measured(1, 1);
        compare(&mut all, &Options { bandwidth_bps: Some(2e6), ..options() }, 9.0);
        assert_eq!(
            (all.bandwidth_bps, all.bandwidth_source),
            (Some(2e6), Some(BandwidthSource::Given))
        );
        let mut nothing = Transfer::default();
        compare(&mut nothing, &options(), 0.0);
        assert_eq!(nothing.bandwidth_bps, None);
    }
}
