//! What fixing the fault of a group of streams is expected to give.

use model::{CapturedStream, ExpectedGain, GainFigure};

use super::group::Group;
use crate::gain;

impl Group<'_> {
    /// Without the time that was lost: the mean time of an exchange, or the rate of a stream that holds
    /// none.
    pub(crate) fn gain(&self) -> ExpectedGain {
        let busy_us = self.sum_of_streams(CapturedStream::busy_us);
        match self.exchanges() {
            0 => self.gain_of_rate(busy_us),
            exchanges => {
                let each_ms = |us: u64| us as f64 / 1e3 / exchanges as f64;
                let lost_us = self.lost_us.min(busy_us);
                let least_ms = self.round_trip_ms().unwrap_or(0.0);
                gain::of_time(
                    GainFigure::ExchangeTime,
                    each_ms(busy_us),
                    each_ms(lost_us),
                    least_ms,
                )
            }
        }
    }

    /// Of streams that only send: the same bytes in less time.
    fn gain_of_rate(&self, busy_us: u64) -> ExpectedGain {
        let bits = self.sum(|sent| sent.new_bytes) as f64 * 8.0;
        let rate = |us: u64| bits * 1e6 / us as f64;
        match busy_us.saturating_sub(self.lost_us) {
            0 => gain::not_predictable("nothing was sent without it"),
            _ if bits == 0.0 => gain::not_predictable("nothing was sent"),
            rest_us => gain::of_rate(rate(busy_us), [rate(rest_us)]),
        }
    }

    /// Shortest round trip of the stream that lost most, milliseconds.
    pub(crate) fn round_trip_ms(&self) -> Option<f64> {
        self.worst().stream.round_trip_us().map(|us| us as f64 / 1e3)
    }

    fn sum_of_streams(&self, of: impl Fn(&CapturedStream) -> u64) -> u64 {
        self.directions.iter().map(|direction| of(direction.stream)).fold(0, u64::saturating_add)
    }
}
