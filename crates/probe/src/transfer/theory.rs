//! How long a transfer takes when nothing but the path and slow start hold it.
//!
//! A round trip for the handshake of a new connection, one from the request to the first byte of its
//! answer (or, for what this host sends, until it is confirmed), and the size divided by the
//! bandwidth. To that slow start adds what the sender waits: it sends its window, waits for the
//! acknowledgement, and sends twice as much, until a window takes a round trip to send. Each such
//! round costs a round trip less the time that its window takes to send (Kurose and Ross, Computer
//! Networking, "TCP delay modelling"; RFC 6928, appendix A).

use model::TheoreticalTime;

/// Rounds after which any window is large enough.
const MOST_ROUNDS: u32 = 40;

/// What theory is told of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Given {
    /// Bytes.
    pub(super) bytes: u64,
    /// Bandwidth of the path, bits of data a second; more than 0.
    pub(super) bandwidth_bps: f64,
    /// Round trip of the empty path, microseconds.
    pub(super) round_trip_us: u64,
    /// Window that it begins with, segments.
    pub(super) window_segments: u32,
    /// Bytes of a segment.
    pub(super) segment_bytes: u32,
    /// Whether its connection is new.
    pub(super) new: bool,
}

/// How long it takes.
pub(super) fn theory(given: Given) -> TheoreticalTime {
    let trip = given.round_trip_us as f64;
    let us = |bytes: f64| bytes * 8e6 / given.bandwidth_bps.max(1.0);
    let mut window =
        f64::from(given.window_segments.max(1)) * f64::from(given.segment_bytes.max(1));
    let mut left = given.bytes as f64;
    let mut stalled = 0.0;
    let mut rounds = 0;
    while left > window && us(window) < trip && rounds < MOST_ROUNDS {
        stalled += trip - us(window);
        left -= window;
        window *= 2.0;
        rounds += 1;
    }
    let connect_us = if given.new { given.round_trip_us } else { 0 };
    let transmission_us = us(given.bytes as f64) as u64;
    let slow_start_us = stalled as u64;
    TheoreticalTime {
        total_us: connect_us
            .saturating_add(given.round_trip_us)
            .saturating_add(slow_start_us)
            .saturating_add(transmission_us),
        connect_us,
        request_us: given.round_trip_us,
        slow_start_us,
        transmission_us,
        rounds: rounds + 1 + u32::from(given.new),
        window_segments: given.window_segments,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FOUR_MB: Given = Given {
        bytes: 4_000_000,
        bandwidth_bps: 1e8,
        round_trip_us: 100_000,
        window_segments: 10,
        segment_bytes: 1448,
        new: true,
    };

    #[test]
    fn four_megabytes_over_100_mbit_and_100_ms() {
        // Windows of 14, 29, 58, 116, 232, 463, 927 kB are less than the 1.25 MB of the path.
        let theory = theory(FOUR_MB);
        assert_eq!(theory.rounds, 2 + 7);
        assert_eq!((theory.connect_us, theory.transmission_us), (100_000, 320_000));
        let sent_us = 127.0 * 14_480.0 * 8e6 / 1e8;
        assert_eq!(theory.slow_start_us, (700_000.0 - sent_us) as u64);
        assert_eq!(theory.total_us, 200_000 + 320_000 + theory.slow_start_us);
    }

    #[test]
    fn a_window_that_is_large_enough_waits_for_nothing() {
        let kept = theory(Given { window_segments: 1000, new: false, ..FOUR_MB });
        assert_eq!((kept.rounds, kept.slow_start_us, kept.total_us), (1, 0, 420_000));
        let small = theory(Given { bytes: 10_000, ..FOUR_MB });
        assert_eq!((small.rounds, small.slow_start_us), (2, 0));
        let three = theory(Given { window_segments: 3, ..FOUR_MB });
        assert!(three.rounds > theory(FOUR_MB).rounds);
    }

    proptest! {
        #[test]
        fn any_figures_give_an_answer(
            bytes in any::<u64>(),
            bandwidth_bps in any::<f64>(),
            round_trip_us in any::<u64>(),
            window_segments in any::<u32>(),
            segment_bytes in any::<u32>(),
        ) {
            let given = Given { bytes, bandwidth_bps, round_trip_us, window_segments, segment_bytes, new: true };
            prop_assert!(theory(given).rounds <= MOST_ROUNDS + 2);
        }
    }
}
