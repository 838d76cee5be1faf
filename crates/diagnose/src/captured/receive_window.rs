//! A receive window that is full for long, and whether it could be larger.

use model::TimeCategory;

use super::direction::StreamDirection;

/// Share of the sending time from which on the window limits.
const MIN_FULL_SHARE: f64 = 0.05;
/// Windows of the largest size that were filled.
const MIN_WINDOWS_FILLED: u64 = 4;
/// Round trips during which the window was full, after it stopped growing.
const MIN_ROUND_TRIPS: u64 = 8;
/// The same of a short transfer, whose window was full for this share of the sending time.
const MIN_ROUND_TRIPS_OF_SHORT: u64 = 4;
const MIN_FULL_SHARE_OF_SHORT: f64 = 0.5;
/// Mean round trips of so many times the shortest are those of a queue.
const QUEUED_FACTOR: f64 = 3.0;
/// The same where they follow the bytes in flight: what is more than the path holds waits.
const QUEUED_FACTOR_BY_FLIGHT: f64 = 1.1;
/// Correlation of round trips with the bytes in flight from which on they follow them.
const MIN_FLIGHT_CORRELATION: f64 = 0.3;
/// The same where the window is also larger, by this factor, than what the path holds in the shortest round
/// trip: the rest waits in a queue, whichever stream fills it.
const QUEUED_FACTOR_OF_FULL_PATH: f64 = 1.25;
/// By so much the mean round trip exceeds the shortest where there is a queue, microseconds.
const MIN_QUEUE_US: u64 = 5_000;
/// A window that is nearly as large as it can be without scaling, bytes.
const MIN_UNSCALED_WINDOW_BYTES: u32 = 48 * 1024;

/// Share of the sending time of a direction in which the receiver's window was full.
pub(crate) fn window_full_share(direction: StreamDirection<'_>) -> f64 {
    let sent = direction.sent();
    let limited = sent.time_us(TimeCategory::ReceiveWindow);
    let other = [
        TimeCategory::Network,
        TimeCategory::Loss,
        TimeCategory::Application,
        TimeCategory::Unexplained,
    ];
    let all = other.into_iter().map(|part| sent.time_us(part)).fold(limited, u64::saturating_add);
    limited as f64 / all.max(1) as f64
}

/// Time in which the window was full, microseconds, where that was long.
pub(crate) fn window_limited_us(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let limited = sent.time_us(TimeCategory::ReceiveWindow);
    // Near a receiver without many time stamps, data is acknowledged at once: the path takes longer.
    let trip = sent.round_trip.map(|trip| trip.mean_us).max(direction.stream.round_trip_us())?;
    // A queue holds what the window lets out: a larger window would only make the queue longer.
    let queue = sent.round_trip.is_some_and(|trip| {
        let ours = trip.follows_flight.is_some_and(|follows| follows >= MIN_FLIGHT_CORRELATION);
        let factor = match ours {
            true => QUEUED_FACTOR_BY_FLIGHT,
            false if is_path_full(direction, trip.min_us) => QUEUED_FACTOR_OF_FULL_PATH,
            false => QUEUED_FACTOR,
        };
        trip.mean_us as f64 >= factor * trip.min_us as f64
            && trip.mean_us >= trip.min_us.saturating_add(MIN_QUEUE_US)
    });
    // A window that still grew is no limit.
    let settled = sent.settled_window_us.unwrap_or(limited);
    let full_share = window_full_share(direction);
    let settled_share = full_share * text::share(settled as f64, limited as f64).min(1.0);
    let min_round_trips = match settled_share >= MIN_FULL_SHARE_OF_SHORT {
        true => MIN_ROUND_TRIPS_OF_SHORT,
        false => MIN_ROUND_TRIPS,
    };
    let lasting = settled > trip.max(1).saturating_mul(min_round_trips)
        && settled > sent.reader_behind_us.unwrap_or(0);
    // A transfer that goes on sends more than the windows that were full.
    let goes_on = sent.new_bytes > MIN_WINDOWS_FILLED * u64::from(direction.reverse().max_window);
    // Within one host, who waits for room waits for the reader.
    let limits = lasting && goes_on && !queue && !direction.is_within_one_host();
    (full_share > MIN_FULL_SHARE && limits).then_some(limited)
}

/// Whether the window is more than the path holds at the rate at which it delivers flights.
fn is_path_full(direction: StreamDirection<'_>, min_us: u64) -> bool {
    let window_bits = f64::from(direction.reverse().max_window) * 8.0;
    direction.sent().flight_rate_bps.is_some_and(|rate| {
        let held_bits = rate as f64 * min_us as f64 / 1e6;
        window_bits >= QUEUED_FACTOR_OF_FULL_PATH * held_bits
    })
}

/// Whether the handshake shows that windows do not scale, and the receiver's window is as large as it
/// can be then.
pub(crate) fn is_unscaled(direction: StreamDirection<'_>) -> bool {
    let ends = direction.stream.directions();
    let captured = ends.iter().all(|end| end.mss.is_some() && !end.options_truncated);
    let off = ends.iter().any(|end| end.window_scale.is_none());
    let windows = MIN_UNSCALED_WINDOW_BYTES..=u32::from(u16::MAX);
    captured && off && windows.contains(&direction.reverse().max_window)
}
