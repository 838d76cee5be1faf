//! Compares measured transfers with theory: bandwidth, round-trip time, the window at their start.

use model::{
    BandwidthSource, OneTransfer, SenderTimeCategory, TheoreticalTime, Transfer, TransferDirection,
    TransferSender,
};

use super::options::Options;
use super::sysctl;
use super::theory::{Conditions, theoretical_time};

/// An estimate of the bandwidth is raised by this factor, at most so often, while the theoretical time
/// of a transfer exceeds the measured one by the tolerance.
const BANDWIDTH_STEP: f64 = 1.25;
const MAX_BANDWIDTH_STEPS: usize = 60;
const TOLERANCE: f64 = 1.03;
/// Initial window of a sender that does not report its own (RFC 6928), and its segments.
const INITIAL_WINDOW_SEGMENTS: u32 = 10;
const USUAL_SEGMENT_BYTES: u32 = 1448;

/// Adds bandwidth, round-trip time and the theoretical time of each transfer. `receive_rate`: the best
/// rate of arrival of all streams together, bytes a second; 0: none.
pub(super) fn compare_with_theory(all: &mut Transfer, options: &Options, receive_rate: f64) {
    if options.direction == TransferDirection::Up {
        let slow_start_after_idle = sysctl::slow_start_after_idle();
        for sender in &mut all.senders {
            sender.slow_start_after_idle = slow_start_after_idle;
            sender.tcp_wmem = sysctl::tcp_wmem();
        }
    }
    let min_rtt = all.senders.iter().filter_map(|sender| sender.min_rtt_us).min();
    let handshake = all.transfers.iter().filter_map(|one| one.connect_us).min();
    all.round_trip_us = min_rtt.map(u64::from).into_iter().chain(handshake).min();
    for one in &mut all.transfers {
        let sender = all.senders.iter().find(|sender| sender.stream == one.stream);
        let start =
            sender.and_then(|sender| sender.starts.iter().find(|start| start.number == one.number));
        one.window_segments = start.map(|start| start.window_segments);
        one.segment_bytes = start.map(|start| start.segment_bytes);
    }
    let Some((bps, source)) = bandwidth(all, options, receive_rate) else { return };
    (all.bandwidth_bps, all.bandwidth_source) = (Some(bps), Some(source));
    let theories: Vec<_> = all.transfers.iter().map(|one| theory(all, options, one, bps)).collect();
    for (one, theory) in all.transfers.iter_mut().zip(theories) {
        one.theory = theory;
    }
}

/// The bandwidth of the path and its source; `None`: nothing was transferred.
fn bandwidth(
    all: &Transfer,
    options: &Options,
    receive_rate: f64,
) -> Option<(f64, BandwidthSource)> {
    let bits_per_s = |rate: fn(&TransferSender) -> u64| {
        all.senders.iter().map(rate).fold(0, u64::saturating_add) as f64 * 8.0
    };
    let sources = [
        (options.bandwidth_bps.unwrap_or(0.0), BandwidthSource::Given),
        (bits_per_s(|sender| sender.best_delivery_rate), BandwidthSource::DeliveryRate),
        (receive_rate * 8.0, BandwidthSource::ReceiveRate),
        (bits_per_s(|sender| sender.best_delivery_rate_any), BandwidthSource::LowerBound),
    ];
    let (mut bps, mut source) = sources.into_iter().find(|(bps, _)| *bps > 0.0)?;
    if source == BandwidthSource::Given {
        return Some((bps, source));
    }
    // Transfers that an end limited did not fill the path.
    if source == BandwidthSource::DeliveryRate && is_limited_by_ends(all) {
        source = BandwidthSource::LowerBound;
    }
    // A transfer too short to fill the path shows no more than its own rate: if that rate does not
    // explain how fast it was, the path has more.
    for _ in 0..MAX_BANDWIDTH_STEPS {
        let faster_than_theory = |one: &OneTransfer| {
            theory(all, options, one, bps)
                .is_some_and(|theory| theory.total_us as f64 > one.duration_us as f64 * TOLERANCE)
        };
        if !all.transfers.iter().any(faster_than_theory) {
            break;
        }
        (bps, source) = (bps * BANDWIDTH_STEP, BandwidthSource::LowerBound);
    }
    Some((bps, source))
}

/// Whether the ends, not the path, limited the transfers for most of the time.
fn is_limited_by_ends(all: &Transfer) -> bool {
    let at_the_ends = |category: SenderTimeCategory| {
        matches!(
            category,
            SenderTimeCategory::Application
                | SenderTimeCategory::Writing
                | SenderTimeCategory::SendBuffer
                | SenderTimeCategory::ReceiveWindow
        )
    };
    let shares = all.time_breakdown();
    let total_us: u64 = shares.iter().map(|share| share.time_us).sum();
    let ends = shares.iter().filter(|share| at_the_ends(share.category));
    ends.map(|share| share.time_us).sum::<u64>() > total_us / 2
}

/// The theoretical time of a transfer; `None`: it did not complete, has no size, or the round-trip time
/// is not known.
fn theory(
    all: &Transfer,
    options: &Options,
    one: &OneTransfer,
    bps: f64,
) -> Option<TheoreticalTime> {
    // A bulk transfer takes as long as it may.
    let bulk = options.size.is_none() && options.url.is_none();
    if !one.completed || one.bytes == 0 || bulk {
        return None;
    }
    let new_connection = one.connect_us.is_some();
    let (window_segments, segment_bytes) = match one.window_segments.zip(one.segment_bytes) {
        Some(start) => start,
        None if new_connection => (INITIAL_WINDOW_SEGMENTS, USUAL_SEGMENT_BYTES),
        // The window of another program's existing connection is not known: assumed to be unlimited.
        None => (u32::MAX, USUAL_SEGMENT_BYTES),
    };
    Some(theoretical_time(Conditions {
        bytes: one.bytes,
        bandwidth_bps: bps / f64::from(options.streams.max(1)),
        round_trip_us: all.round_trip_us?,
        window_segments,
        segment_bytes,
        new_connection,
    }))
}

#[cfg(test)]
mod tests {
    use model::{SendStart, SenderTimeShare};

    use super::super::tests::options;
    use super::*;

    fn test_options() -> Options {
        Options { size: Some(100_000), streams: 1, ..options("198.18.0.2:7717".parse().unwrap()) }
    }

    fn measured(duration_us: u64, best_delivery_rate: u64) -> Transfer {
        let start = SendStart {
            number: 0,
            window_segments: 10,
            previous_window_segments: None,
            segment_bytes: 1448,
        };
        let slow_start = SenderTimeShare { category: SenderTimeCategory::SlowStart, time_us: 9 };
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
                time_breakdown: vec![slow_start],
                ..TransferSender::default()
            }],
            ..Transfer::default()
        }
    }

    #[test]
    fn a_transfer_too_short_to_fill_the_path_shows_a_lower_bound() {
        let mut all = measured(327_000, 5_000_000 / 8);
        compare_with_theory(&mut all, &test_options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::LowerBound));
        let theory = all.transfers[0].theory.unwrap();
        assert!(theory.total_us.abs_diff(327_000) < 12_000, "{theory:?}");
        assert_eq!((theory.rounds, theory.window_segments), (4, 10));
        // One that is slower than its own rate allows leaves the estimate as it is.
        let mut all = measured(900_000, 100_000_000 / 8);
        compare_with_theory(&mut all, &test_options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::DeliveryRate));
        assert_eq!(all.bandwidth_bps, Some(1e8));
    }

    #[test]
    fn limits_of_the_ends_make_a_lower_bound_and_a_given_bandwidth_stays() {
        let mut all = measured(900_000, 100_000_000 / 8);
        let category = SenderTimeCategory::SendBuffer;
        all.senders[0].time_breakdown.push(SenderTimeShare { category, time_us: 10 });
        compare_with_theory(&mut all, &test_options(), 0.0);
        assert_eq!(all.bandwidth_source, Some(BandwidthSource::LowerBound));
        let mut all = measured(1, 1);
        let given = Options { bandwidth_bps: Some(2e6), ..test_options() };
        compare_with_theory(&mut all, &given, 9.0);
        let bandwidth = (all.bandwidth_bps, all.bandwidth_source);
        assert_eq!(bandwidth, (Some(2e6), Some(BandwidthSource::Given)));
        let mut nothing = Transfer::default();
        compare_with_theory(&mut nothing, &test_options(), 0.0);
        assert_eq!(nothing.bandwidth_bps, None);
    }
}
