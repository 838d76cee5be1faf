//! What fixing the fault of a group of streams is expected to give.

use model::{CapturedStream, ExpectedGain, GainFigure, StreamEnd, TimeCategory};

use super::direction::StreamDirection;
use super::group::Group;
use crate::gain;

/// A flight that is delivered so many times as fast as what is sent on average shows the rate of the
/// path.
const MIN_FASTER: f64 = 1.5;
/// Initial window (RFC 6928), segments.
const INITIAL_SEGMENTS: u64 = 10;
/// Of a stream that goes on, the last exchange may not be over.
const MIN_WHOLE_EXCHANGES: u64 = 3;
/// Bytes that a segment has beside its data: IP and TCP headers with time stamps.
const HEADER_BYTES: f64 = 52.0;

impl Group<'_> {
    /// Without the time that was lost: the mean time of an exchange, or the rate of streams that hold
    /// none.
    pub(crate) fn gain(&self) -> ExpectedGain {
        self.gain_of_some(self.exchanges())
    }

    /// The same of the exchanges that lost time, so many of all.
    pub(crate) fn gain_of_some(&self, hit: u64) -> ExpectedGain {
        let busy_us = self.sum_of_streams(CapturedStream::busy_us);
        let rest_us = busy_us.saturating_sub(self.lost_us);
        let exchanges = self.exchanges();
        if exchanges == 0 {
            return gain::of_rate(self.rate_bps(busy_us), [self.rate_bps(rest_us)]);
        }
        let mean_ms = |us: u64, count: u64| us as f64 / 1e3 / count.max(1) as f64;
        let lost_ms = mean_ms(busy_us - rest_us, hit.min(exchanges));
        let now_ms = mean_ms(rest_us, exchanges) + lost_ms;
        let least_ms = self.round_trip_ms().unwrap_or(0.0);
        gain::of_time(GainFigure::ExchangeTime, now_ms, lost_ms, least_ms)
    }

    /// Of transfers: the rate at which the path delivers a flight, and other limits of a stream, bits of
    /// data a second; `None` where no flight was delivered faster than what is sent on average: a
    /// sender that paces does not show the rate of the path.
    pub(crate) fn gain_of_transfers(
        &self,
        other_limit: impl Fn(&StreamDirection<'_>) -> Option<f64>,
    ) -> Option<ExpectedGain> {
        let now = self.rate_bps(self.sum_of_streams(CapturedStream::busy_us));
        let path = self.path();
        let path = path.rate_bps? / path.streams_at_once;
        let limits = self.directions.iter().filter_map(other_limit);
        // Of whole transfers: their bits, and the time in which nothing is transmitted.
        let (bits, least_s) =
            self.directions.iter().fold((0.0, 0.0), |(bits, all_s), one| match slow_start_s(one) {
                Some(time_s) => (bits + one.sent().new_bytes as f64 * 8.0, all_s + time_s),
                None => (bits, all_s),
            });
        let limits = limits.chain([path, bits / (least_s + bits / path)]);
        (path >= now * MIN_FASTER).then(|| gain::of_rate(now, limits))
    }

    /// Of transfers that the receiver's window limits. A sender that spreads a window over the round trip
    /// shows no more of the path than that.
    pub(crate) fn gain_without_window(&self) -> ExpectedGain {
        let window = self.directions.iter().filter_map(window_limit).max_by(f64::total_cmp);
        let path = self.path().rate_bps.unwrap_or(0.0);
        let gain = if path >= window.unwrap_or(0.0) * MIN_FASTER {
            self.gain_of_transfers(loss_limit)
        } else {
            None
        };
        gain.unwrap_or_else(gain::path_is_not_known)
    }

    /// At a rate that the remedy keeps to, bits a second.
    pub(crate) fn gain_at(&self, bps: f64) -> ExpectedGain {
        gain::of_rate(self.rate_bps(self.sum_of_streams(CapturedStream::busy_us)), [bps])
    }

    /// Rate of a stream that sends what these streams sent in so much time, bits of data a second.
    fn rate_bps(&self, us: u64) -> f64 {
        text::share(self.sum(|sent| sent.new_bytes) as f64 * 8e6, us as f64)
    }

    /// Shortest round trip of the stream that lost most, milliseconds.
    pub(crate) fn round_trip_ms(&self) -> Option<f64> {
        self.worst().stream.round_trip_us().map(|us| us as f64 / 1e3)
    }

    fn sum_of_streams(&self, of: impl Fn(&CapturedStream) -> u64) -> u64 {
        self.directions.iter().map(|direction| of(direction.stream)).fold(0, u64::saturating_add)
    }
}

/// Seconds that a stream of whole transfers takes beside the transmission: its handshake, slow start from
/// its first flight (or ten segments), and a round trip for each further request (Cardwell, Savage,
/// Anderson: Modeling TCP latency, INFOCOM 2000). `None`: the capture ends in the middle.
fn slow_start_s(direction: &StreamDirection<'_>) -> Option<f64> {
    let (stream, sent) = (direction.stream, direction.sent());
    // One transfer that is most of the stream goes on.
    let is_whole =
        stream.exchanges >= MIN_WHOLE_EXCHANGES && stream.last_exchange_bytes < sent.new_bytes / 2;
    if stream.end == StreamEnd::Open && !is_whole {
        return None;
    }
    let trip_s = stream.round_trip_us()? as f64 / 1e6;
    let first_flight = match sent.slow_starts.first_flight {
        0 => INITIAL_SEGMENTS * u64::from(direction.mss()),
        bytes => bytes,
    };
    let rounds = (sent.new_bytes as f64 / first_flight as f64 + 1.0).log2().ceil();
    let further = stream.exchanges.saturating_sub(1) as f64;
    Some(stream.handshake_us.unwrap_or(0) as f64 / 1e6 + trip_s * (rounds + further))
}

/// Rate at which a window that was full limits a direction, bits of data a second.
pub(crate) fn window_limit(direction: &StreamDirection<'_>) -> Option<f64> {
    let was_full = direction.sent().time_us(TimeCategory::ReceiveWindow) > 0;
    let window = f64::from(direction.reverse().max_window);
    let trip = direction.stream.round_trip_us().filter(|us| was_full && *us > 0)?;
    Some(window * 8e6 / trip as f64)
}

/// Rate at which losses limit a direction whose sender takes them for congestion, bits of data a second.
fn loss_limit(direction: &StreamDirection<'_>) -> Option<f64> {
    let sent = direction.sent();
    let lost = text::share(sent.lost() as f64, sent.data_segments as f64);
    let trip = direction.stream.round_trip_us()? as f64 / 1e6;
    let segment = f64::from(sent.max_segment_bytes.min(direction.mss()));
    gain::loss_limit_bps(segment, trip, lost)
}

impl StreamDirection<'_> {
    /// Bytes of data in a segment on the path: offload makes captured ones larger.
    fn mss(&self) -> u32 {
        let accepted = self.reverse().mss.map_or(1460, u32::from);
        accepted.saturating_sub(HEADER_BYTES as u32 - 40).max(1)
    }
}

#[cfg(test)]
mod tests {
    use model::{Evidence, StreamEnd, TimeCategory};

    use crate::captured::group_directions;
    use crate::fixtures::{add_stream, healthy, set_time};

    /// The gain of the transfers to one port, where a path of 100 Mbit/s is shared with others.
    fn expected(others: &[&str], path_bps: u64) -> Option<f64> {
        let mut evidence: Evidence = healthy();
        for server in ["198.18.0.2:80"].iter().chain(others) {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", server);
            // A transfer that goes on.
            (stream.exchanges, stream.end) = (1, StreamEnd::Open);
            stream.from_server.flight_rate_bps = Some(path_bps);
            set_time(&mut stream.from_server, TimeCategory::Network, 1_000_000);
        }
        let packets = evidence.packets.as_ref().unwrap();
        let groups = group_directions(packets, |direction| direction.server_sends.then_some(1));
        let of_port = groups.iter().find(|group| group.server.port() == 80).unwrap();
        Some(of_port.gain_of_transfers(|_| None)?.predicted()?.expected)
    }

    #[test]
    fn streams_between_the_same_hosts_share_the_path() {
        assert_eq!(expected(&[], 100_000_000), Some(100e6));
        assert_eq!(expected(&["198.18.0.2:81"], 100_000_000), Some(50e6));
        assert_eq!(expected(&["198.18.0.3:80"], 100_000_000), Some(100e6), "another host");
    }

    #[test]
    fn short_transfers_pay_for_slow_start_all_the_same() {
        let mut evidence: Evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        (stream.exchanges, stream.end) = (1, StreamEnd::Closed);
        (stream.handshake_us, stream.span_us) = (Some(80_000), 1_000_000);
        for end in [&mut stream.from_client, &mut stream.from_server] {
            end.round_trip = None;
            end.time_breakdown.clear();
        }
        stream.from_client.new_bytes = 100;
        (stream.from_server.new_bytes, stream.from_server.max_segment_bytes) = (400_000, 1448);
        stream.from_server.flight_rate_bps = Some(200_000_000);
        set_time(&mut stream.from_server, TimeCategory::Network, 1_000_000);
        let packets = evidence.packets.as_ref().unwrap();
        let groups = group_directions(packets, |direction| direction.server_sends.then_some(1));
        let gain = groups[0].gain_of_transfers(|_| None).unwrap();
        let gain = gain.predicted().unwrap();
        // A handshake, five flights (10, 20, 40, 80, 160 segments), and 16 ms at 200 Mbit/s.
        let trip_s = groups[0].round_trip_ms().unwrap() / 1e3;
        let expected = 3.2e6 / (0.08 + 5.0 * trip_s + 0.016);
        assert!((gain.expected / expected - 1.0).abs() < 1e-6, "{gain:?} {expected}");
    }

    #[test]
    fn a_window_that_is_spread_over_the_round_trip_shows_no_path() {
        // 100 kB each 20 ms are 40 Mbit/s.
        for (path_bps, is_known) in [(50_000_000, false), (100_000_000, true)] {
            let mut evidence: Evidence = healthy();
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            (stream.exchanges, stream.end) = (1, StreamEnd::Open);
            stream.from_server.flight_rate_bps = Some(path_bps);
            stream.from_client.max_window = 100_000;
            set_time(&mut stream.from_server, TimeCategory::ReceiveWindow, 1_000_000);
            let packets = evidence.packets.as_ref().unwrap();
            let groups = group_directions(packets, |direction| direction.server_sends.then_some(1));
            let gain = groups[0].gain_without_window();
            assert_eq!(gain.predicted().is_some(), is_known, "{gain:?}");
        }
    }

    #[test]
    fn one_transfer_that_goes_on_after_others_is_not_whole() {
        // 1 MB in ten exchanges of a round trip each, or nearly all of it in the last one.
        for (last_exchange_bytes, is_whole) in [(100_000, true), (900_000, false)] {
            let mut evidence: Evidence = healthy();
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            stream.end = StreamEnd::Open;
            (stream.exchanges, stream.last_exchange_bytes) = (10, last_exchange_bytes);
            stream.from_server.new_bytes = 1_000_000;
            stream.from_server.flight_rate_bps = Some(100_000_000);
            set_time(&mut stream.from_server, TimeCategory::Network, 1_000_000);
            let packets = evidence.packets.as_ref().unwrap();
            let groups = group_directions(packets, |direction| direction.server_sends.then_some(1));
            let gain = groups[0].gain_of_transfers(|_| None).unwrap();
            let reaches_path = gain.predicted().unwrap().expected == 100e6;
            assert_eq!(reaches_path, !is_whole, "{gain:?}");
        }
    }

    #[test]
    fn a_flight_no_faster_than_the_stream_shows_no_path() {
        // 1 MB in 1.1 s.
        assert_eq!(expected(&[], 9_000_000), None);
    }
}
