//! Where the time between two packets of a stream went, and that of each exchange: differences of
//! the stream's time breakdown.

use model::{CapturedExchange, Side, TimeCategory, TimeShare};

use crate::application_protocol::ApplicationProtocol;
use crate::ends::Ends;
use crate::exchange::Exchange;
use crate::stream::{SegmentEvent, Stream};
use crate::time::{Nanos, micros, micros_between};
use crate::time_breakdown::CategoryTimes;

/// A wait counts if it is at least one of so many parts of the time.
const MIN_WAIT_PART: Nanos = 4;

/// An exchange, and where its time went.
#[derive(Debug, Clone)]
pub struct TimedExchange {
    /// The exchange.
    pub exchange: Exchange,
    /// Where its time went, up to the next request.
    pub times: CategoryTimes,
}

/// The time breakdown of one stream a packet ago, and when the exchange began.
#[derive(Debug, Clone, Default)]
pub struct TimeTracker {
    at_last_packet: CategoryTimes,
    at_exchange: CategoryTimes,
    has_exchange: bool,
    /// Total of the times for which windows were closed to each end.
    closed: Ends<Nanos>,
}

impl TimeTracker {
    /// A packet has passed. Returns where the time since the one before it went, as far as that is
    /// known, and the exchange that it ended.
    pub fn packet(
        &mut self,
        stream: &Stream,
        event: &SegmentEvent,
    ) -> (CategoryTimes, Option<TimedExchange>) {
        let now = stream.times();
        let since = now.since(&self.at_last_packet);
        self.closed = closed_window_times(stream);
        if !self.has_exchange && stream.exchange_count() > 0 {
            self.has_exchange = true;
            self.at_exchange = now.clone();
        }
        let ended = event.exchange.map(|exchange| {
            let times = now.since(&self.at_exchange);
            self.at_exchange = now.clone();
            TimedExchange { exchange, times }
        });
        self.at_last_packet = now;
        (since, ended.filter(|ended| !ended.exchange.is_of_tls))
    }

    /// The stream is over: the same for the time since its last packet, and its last exchange.
    pub fn end(&self, stream: &Stream) -> (CategoryTimes, Option<TimedExchange>) {
        let now = stream.times();
        let times = now.since(&self.at_exchange);
        let last = stream.current_exchange().map(|exchange| TimedExchange { exchange, times });
        (now.since(&self.at_last_packet), last)
    }

    /// The stream is over: the end that could not send then because its peer's window was closed,
    /// and for how long.
    pub fn open_stall(&self, stream: &Stream) -> Option<(Side, Nanos)> {
        let now = closed_window_times(stream);
        [Side::Client, Side::Server]
            .map(|side| (side, now.get(side).saturating_sub(*self.closed.get(side))))
            .into_iter()
            .find(|(_, time)| *time > 0)
    }
}

fn closed_window_times(stream: &Stream) -> Ends<Nanos> {
    stream.ends.each_ref().map(|end| end.stall_totals().closed_window.total)
}

/// What was waited for most, and for how long, if that is a good part of the time. The path and
/// transmission are no wait.
pub fn longest_wait(times: &CategoryTimes) -> Option<(TimeCategory, Nanos)> {
    let waits = times
        .iter()
        .filter(|(category, _)| !matches!(category, TimeCategory::Network | TimeCategory::Connect));
    let (category, time) = waits.max_by_key(|(_, time)| *time)?;
    (time > 0 && time >= times.total() / MIN_WAIT_PART).then_some((category, time))
}

impl TimedExchange {
    /// The exchange as a row. `capture_began` is the time of the first packet of the capture.
    pub fn captured(&self, stream: &Stream, capture_began: Nanos) -> CapturedExchange {
        let exchange = &self.exchange;
        let protocol = stream.application_protocol();
        let http =
            protocol.and_then(|one: &ApplicationProtocol| one.http_exchange(exchange.number));
        let request = http.and_then(|http| http.request);
        CapturedExchange {
            stream: stream.number,
            exchange: exchange.number.into(),
            requester: stream.role(exchange.requester),
            at_us: micros_between(capture_began, exchange.request_began),
            request_bytes: exchange.request_bytes,
            request_us: micros_between(exchange.request_began, exchange.request_ended),
            response_wait_us: exchange.response_wait().map(micros),
            response_bytes: exchange.response_bytes,
            total_us: exchange.total().map(micros),
            method: request.map(|(method, _)| method.to_string()),
            target: request.map(|(_, target)| target.to_string()),
            status: http.and_then(|http| http.status),
            time_breakdown: self
                .times
                .iter()
                .map(|(category, time)| (category, micros(time)))
                .filter(|(category, time_us)| *category != TimeCategory::ClientIdle && *time_us > 0)
                .map(|(category, time_us)| TimeShare { category, time_us, exchanges: 1 })
                .collect(),
        }
    }
}
