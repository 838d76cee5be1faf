//! What fixing the fault of a group of streams is expected to give.

use model::{CapturedStream, ExpectedGain, GainFigure, TimeCategory};

use super::direction::StreamDirection;
use super::group::Group;
use crate::gain;

/// A flight that is delivered so many times as fast as what is sent on average shows the rate of the
/// path.
const MIN_FASTER: f64 = 1.5;
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
        (path >= now * MIN_FASTER).then(|| gain::of_rate(now, limits.chain([path])))
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

/// Rate at which a window that was full limits a direction, bits of data a second.
pub(crate) fn window_limit(direction: &StreamDirection<'_>) -> Option<f64> {
    let was_full = direction.sent().time_us(TimeCategory::ReceiveWindow) > 0;
    let window = f64::from(direction.reverse().max_window);
    let trip = direction.stream.round_trip_us().filter(|us| was_full && *us > 0)?;
    Some(window * 8e6 / trip as f64)
}

/// Rate at which losses limit a direction whose sender takes them for congestion, bits of data a second.
pub(crate) fn loss_limit(direction: &StreamDirection<'_>) -> Option<f64> {
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
    use model::{Evidence, TimeCategory};

    use crate::captured::group_directions;
    use crate::fixtures::{add_stream, healthy, set_time};

    /// The gain of the transfers to one port, where a path of 100 Mbit/s is shared with others.
    fn expected(others: &[&str], path_bps: u64) -> Option<f64> {
        let mut evidence: Evidence = healthy();
        for server in ["198.18.0.2:80"].iter().chain(others) {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", server);
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
    fn a_flight_no_faster_than_the_stream_shows_no_path() {
        // 1 MB in 1.1 s.
        assert_eq!(expected(&[], 9_000_000), None);
    }
}
