//! How long a transfer takes when only the path and slow start limit it.
//!
//! A round trip for the handshake of a new connection, one from the request to the first byte of the
//! response (for uploads, to the confirmation), and the size divided by the bandwidth. Slow start adds
//! the time that the sender waits: it sends its window, waits for the acknowledgement, and sends twice
//! as much, until sending a window takes a round trip. Each such round costs a round trip minus the time
//! to send its window (Kurose and Ross, Computer Networking, "TCP delay modelling"; RFC 6928, appendix
//! A).

use model::TheoreticalTime;

/// Rounds after which any window is large enough.
const MAX_ROUNDS: u32 = 40;

/// What the time of a transfer depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Conditions {
    /// Size of the transfer.
    pub(super) bytes: u64,
    /// Bandwidth of the path, bits of payload a second; more than 0.
    pub(super) bandwidth_bps: f64,
    /// Round-trip time of the empty path, microseconds.
    pub(super) round_trip_us: u64,
    /// Congestion window at its start, segments.
    pub(super) window_segments: u32,
    /// Bytes of a segment.
    pub(super) segment_bytes: u32,
    /// Whether it opens a new connection.
    pub(super) new_connection: bool,
}

/// The theoretical time of a transfer.
pub(super) fn theoretical_time(conditions: Conditions) -> TheoreticalTime {
    let Conditions { bytes, bandwidth_bps, round_trip_us, window_segments, .. } = conditions;
    let send_us = |bytes: f64| bytes * 8e6 / bandwidth_bps.max(1.0);
    let segment_bytes = f64::from(conditions.segment_bytes.max(1));
    let mut window = f64::from(window_segments.max(1)) * segment_bytes;
    let mut left = bytes as f64;
    let mut waiting_us = 0.0;
    let mut rounds = 0;
    while left > window && send_us(window) < round_trip_us as f64 && rounds < MAX_ROUNDS {
        waiting_us += round_trip_us as f64 - send_us(window);
        left -= window;
        window *= 2.0;
        rounds += 1;
    }
    let connect_us = if conditions.new_connection { round_trip_us } else { 0 };
    let transmission_us = send_us(bytes as f64) as u64;
    let slow_start_us = waiting_us as u64;
    TheoreticalTime {
        total_us: connect_us
            .saturating_add(round_trip_us)
            .saturating_add(slow_start_us)
            .saturating_add(transmission_us),
        connect_us,
        request_us: round_trip_us,
        slow_start_us,
        transmission_us,
        rounds: rounds + 1 + u32::from(conditions.new_connection),
        window_segments,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FOUR_MB: Conditions = Conditions {
        bytes: 4_000_000,
        bandwidth_bps: 1e8,
        round_trip_us: 100_000,
        window_segments: 10,
        segment_bytes: 1448,
        new_connection: true,
    };

    #[test]
    fn four_megabytes_over_100_mbit_and_100_ms() {
        // Windows of 14, 29, 58, 116, 232, 463, 927 kB are smaller than the path's 1.25 MB.
        let theory = theoretical_time(FOUR_MB);
        assert_eq!(theory.rounds, 2 + 7);
        assert_eq!((theory.connect_us, theory.transmission_us), (100_000, 320_000));
        let sent_us = 127.0 * 14_480.0 * 8e6 / 1e8;
        assert_eq!(theory.slow_start_us, (700_000.0 - sent_us) as u64);
        assert_eq!(theory.total_us, 200_000 + 320_000 + theory.slow_start_us);
    }

    #[test]
    fn with_a_large_window_there_is_no_waiting_in_slow_start() {
        let large = Conditions { window_segments: 1000, new_connection: false, ..FOUR_MB };
        let large = theoretical_time(large);
        assert_eq!((large.rounds, large.slow_start_us, large.total_us), (1, 0, 420_000));
        let small = theoretical_time(Conditions { bytes: 10_000, ..FOUR_MB });
        assert_eq!((small.rounds, small.slow_start_us), (2, 0));
        let three = theoretical_time(Conditions { window_segments: 3, ..FOUR_MB });
        assert!(three.rounds > theoretical_time(FOUR_MB).rounds);
    }

    proptest! {
        #[test]
        fn any_conditions_have_a_time(
            bytes in any::<u64>(),
            bandwidth_bps in any::<f64>(),
            round_trip_us in any::<u64>(),
            window_segments in any::<u32>(),
            segment_bytes in any::<u32>(),
        ) {
            let conditions = Conditions {
                bytes,
                bandwidth_bps,
                round_trip_us,
                window_segments,
                segment_bytes,
                new_connection: true,
            };
            prop_assert!(theoretical_time(conditions).rounds <= MAX_ROUNDS + 2);
        }
    }
}
