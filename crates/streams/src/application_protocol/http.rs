//! Requests and statuses of HTTP/1, by exchange.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use wire::payload::http;

use super::moments::Moments;
use super::payload::Payload;
use crate::time::{Nanos, OptionalTime};

/// Bytes of a request line that are kept.
pub(super) const MAX_LINE_BYTES: usize = 160;
/// Statuses of one stream that are counted apart.
const MAX_STATUSES: usize = 16;
/// Slow requests of one stream that are counted apart.
pub(super) const MAX_SLOW_REQUESTS: usize = 16;
/// A response that begins this much after its request, or more, is slow.
const MIN_SLOW_WAIT: Nanos = 10_000_000;
/// Think time that people notice.
const MIN_NOTICED: Nanos = 100_000_000;
/// Requests of one stream whose quick responses are counted apart.
const MAX_QUICK_REQUESTS: usize = 32;
/// Status of `100 Continue`.
const CONTINUE: u16 = 100;
/// `HTTP/1.1 200` and what follows it.
pub(super) const STATUS_LINE_BYTES: usize = 13;

/// HTTP/1 of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Http {
    lines: RequestLines,
    current: ExchangeMetadata,
    previous: ExchangeMetadata,
    /// Statuses, and how often each came.
    statuses: Vec<(u16, u32)>,
    /// The beginning of the last status line that was counted before, up to what ends its status, and
    /// the place of that.
    last_status: ([u8; STATUS_LINE_BYTES], usize),
    slow_requests: Vec<SlowRequest>,
    /// Quick responses to the two request lines, since each came last.
    quick: [u32; 2],
    /// Quick responses to others.
    quick_requests: Vec<(RequestHash, u32)>,
}

/// A request without its query, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestHash(u64);

impl RequestHash {
    /// Of a request without its query.
    pub(crate) fn of(request: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        RequestHash(hasher.finish())
    }
}

/// A request line without its query.
fn without_query(line: &str) -> &str {
    line.split_once('?').map_or(line, |(request, _)| request)
}

/// The request lines of the current and the previous exchange, `GET /path?query`. They are often the
/// same, and one then.
#[derive(Debug, Clone, Default)]
struct RequestLines {
    first: String,
    second: String,
}

/// Which of two request lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LineSlot {
    #[default]
    First,
    Second,
}

impl LineSlot {
    fn other(self) -> Self {
        match self {
            LineSlot::First => LineSlot::Second,
            LineSlot::Second => LineSlot::First,
        }
    }
}

impl RequestLines {
    fn get(&self, slot: LineSlot) -> &str {
        match slot {
            LineSlot::First => &self.first,
            LineSlot::Second => &self.second,
        }
    }

    fn get_mut(&mut self, slot: LineSlot) -> &mut String {
        match slot {
            LineSlot::First => &mut self.first,
            LineSlot::Second => &mut self.second,
        }
    }
}

/// What one exchange showed.
#[derive(Debug, Clone, Copy, Default)]
struct ExchangeMetadata {
    exchange: u32,
    line: LineSlot,
    /// Whether that line is its request.
    has_request: bool,
    /// The last status; 0: none.
    status: u16,
}

/// Request and status of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpExchange<'a> {
    /// Method and target.
    pub request: Option<(&'a str, &'a str)>,
    /// Status of the response.
    pub status: Option<u16>,
}

/// A request with slow responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowRequest {
    /// Method and path; the query is left out.
    pub request: String,
    /// Exchanges whose response began 10 ms after the request or later, the round trip left out.
    pub exchanges: u32,
    /// Total of those times, nanoseconds.
    pub think_time: Nanos,
    /// Exchanges among them with 100 ms or more, and the total of those.
    pub noticed: u32,
    /// See `noticed`.
    pub noticed_time: Nanos,
    /// When these were answered.
    pub moments: Moments,
}

impl Http {
    /// Takes new data. Returns whether it is a request or a response.
    #[inline]
    pub(super) fn take(&mut self, payload: &Payload<'_>) -> bool {
        if payload.begins_request { self.request(payload) } else { self.response(payload) }
    }

    /// Takes the status line of before: most servers answer with the same one.
    #[inline(always)]
    pub(super) fn repeats_status(&mut self, bytes: &[u8], exchange: u32) -> bool {
        let repeats = bytes.first_chunk().is_some_and(|line| *line == self.last_status.0);
        if repeats && let Some((status, count)) = self.statuses.get_mut(self.last_status.1) {
            *count = count.saturating_add(1);
            let status = *status;
            self.metadata(exchange).status = status;
            return true;
        }
        false
    }

    /// Takes the request line of before: most clients send the same one.
    #[inline(always)]
    pub(super) fn repeats_request(&mut self, bytes: &[u8], exchange: u32) -> bool {
        let line = self.lines.get(self.current.line).as_bytes();
        let rest = bytes.strip_prefix(line).filter(|_| !line.is_empty());
        let repeats = rest.is_some_and(|rest| rest.starts_with(b" HTTP/1."));
        if repeats {
            self.metadata(exchange).has_request = true;
        }
        repeats
    }

    /// The line of the latest request; empty: there was none.
    pub(super) fn latest_line(&self) -> &str {
        self.lines.get(self.current.line)
    }

    /// The beginning of the latest status line.
    pub(super) fn latest_status(&self) -> Option<[u8; STATUS_LINE_BYTES]> {
        let (line, place) = self.last_status;
        self.statuses.get(place).map(|_| line)
    }

    /// Counts the latest status so many times more. Returns it.
    pub(super) fn add_to_latest_status(&mut self, more: u32) -> u16 {
        let latest = self.statuses.get_mut(self.last_status.1);
        latest.map_or(0, |(status, count)| {
            *count = count.saturating_add(more);
            *status
        })
    }

    /// The latest status again, in this exchange.
    pub(super) fn set_status(&mut self, exchange: u32, status: u16) {
        self.metadata(exchange).status = status;
    }

    /// The latest request again, in this exchange.
    pub(super) fn begin_repeated(&mut self, exchange: u32, status: u16) {
        let metadata = self.metadata(exchange);
        (metadata.has_request, metadata.status) = (true, status);
    }

    /// So many quick responses more to the latest request.
    pub(super) fn add_quick(&mut self, more: u32) {
        if let Some(quick) = self.quick.get_mut(self.current.line as usize) {
            *quick = quick.saturating_add(more);
        }
    }

    fn response(&mut self, payload: &Payload<'_>) -> bool {
        if self.repeats_status(payload.bytes, payload.exchange) {
            return true;
        }
        let line = payload.bytes.first_chunk();
        let Some(status) = http::status(payload.bytes) else { return false };
        self.metadata(payload.exchange).status = status;
        if let Some(line) = line
            && let Some(place) = self.statuses.iter().position(|(known, _)| *known == status)
        {
            self.last_status = (*line, place);
        }
        let known = self.statuses.iter_mut().find(|(known, _)| *known == status);
        if let Some((_, count)) = known {
            *count = count.saturating_add(1);
        } else if self.statuses.len() < MAX_STATUSES {
            self.statuses.push((status, 1));
        }
        true
    }

    fn request(&mut self, payload: &Payload<'_>) -> bool {
        if self.repeats_request(payload.bytes, payload.exchange) {
            return true;
        }
        let Some(request) = http::request(payload.bytes) else { return false };
        let current = self.metadata(payload.exchange);
        // The other line: this one may be that of the previous exchange.
        (current.has_request, current.line) = (true, current.line.other());
        let slot = self.current.line;
        self.keep_quick(slot);
        let line = self.lines.get_mut(slot);
        line.clear();
        line.push_str(request.method);
        line.push(' ');
        // A target is ASCII: it can be cut anywhere.
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.push_str(request.target.get(..room).unwrap_or(request.target));
        true
    }

    /// The metadata of the current exchange.
    #[inline]
    fn metadata(&mut self, exchange: u32) -> &mut ExchangeMetadata {
        if self.current.exchange != exchange {
            self.previous = self.current;
            // A client that waits for «100 Continue» sends one request in two exchanges.
            let continues = self.previous.status == CONTINUE
                && self.previous.exchange.wrapping_add(1) == exchange;
            let has_request = continues && self.previous.has_request;
            let line = self.previous.line;
            self.current = ExchangeMetadata { exchange, line, has_request, status: 0 };
        }
        &mut self.current
    }

    /// An exchange ended in which the server took so long to answer, until then.
    pub(super) fn end_exchange(
        &mut self,
        exchange: u32,
        think_time: Nanos,
        answered_at: OptionalTime,
    ) {
        if self.current.exchange != exchange || !self.current.has_request {
            return;
        }
        if think_time >= MIN_SLOW_WAIT {
            self.add_slow(think_time, answered_at);
        } else if let Some(quick) = self.quick.get_mut(self.current.line as usize) {
            *quick = quick.saturating_add(1);
        }
    }

    #[cold]
    fn add_slow(&mut self, think_time: Nanos, answered_at: OptionalTime) {
        let request = without_query(self.lines.get(self.current.line));
        let place = self.slow_requests.iter().position(|slow| slow.request == request);
        let slow = match place {
            Some(place) => self.slow_requests.get_mut(place),
            None if self.slow_requests.len() >= MAX_SLOW_REQUESTS => None,
            None => {
                let request = request.to_string();
                self.slow_requests.push(SlowRequest { request, ..SlowRequest::default() });
                self.slow_requests.last_mut()
            }
        };
        let Some(slow) = slow else { return };
        slow.exchanges = slow.exchanges.saturating_add(1);
        slow.think_time = slow.think_time.saturating_add(think_time);
        if think_time >= MIN_NOTICED {
            slow.noticed = slow.noticed.saturating_add(1);
            slow.noticed_time = slow.noticed_time.saturating_add(think_time);
            if let Some(at) = answered_at.get() {
                slow.moments.add(at);
            }
        }
    }

    /// Another request line replaces this one.
    fn keep_quick(&mut self, slot: LineSlot) {
        let count = self.quick.get_mut(slot as usize).map_or(0, std::mem::take);
        if count == 0 {
            return;
        }
        let request = RequestHash::of(without_query(self.lines.get(slot)));
        let known = self.quick_requests.iter_mut().find(|(known, _)| *known == request);
        if let Some((_, quick)) = known {
            *quick = quick.saturating_add(count);
        } else if self.quick_requests.len() < MAX_QUICK_REQUESTS {
            self.quick_requests.push((request, count));
        }
    }

    /// Quick responses by request. A request may come more than once.
    pub(super) fn quick_requests(&self) -> impl Iterator<Item = (RequestHash, u32)> + '_ {
        let lines = [LineSlot::First, LineSlot::Second].into_iter();
        let current = lines.zip(self.quick).filter(|(_, count)| *count > 0);
        let current = current
            .map(|(slot, count)| (RequestHash::of(without_query(self.lines.get(slot))), count));
        self.quick_requests.iter().copied().chain(current)
    }

    pub(super) fn exchange(&self, exchange: u32) -> Option<HttpExchange<'_>> {
        let found = [&self.current, &self.previous].into_iter().find(|m| m.exchange == exchange)?;
        let line = Some(self.lines.get(found.line)).filter(|_| found.has_request);
        Some(HttpExchange {
            request: line.and_then(|line| line.split_once(' ')),
            status: (found.status > 0).then_some(found.status),
        })
    }

    pub(super) fn statuses(&self) -> &[(u16, u32)] {
        &self.statuses
    }

    pub(super) fn slow_requests(&self) -> &[SlowRequest] {
        &self.slow_requests
    }
}
