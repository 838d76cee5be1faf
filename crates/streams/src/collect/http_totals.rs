//! HTTP/1 of all streams of a service.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use model::{SlowRequest, StatusCount};

use crate::application_protocol::{ApplicationProtocol, Moments, RequestHash};
use crate::time::{Nanos, micros};

/// Requests of one service that are counted apart, and those of all services.
const MAX_REQUESTS: usize = 1024;
const MAX_REQUESTS_OF_ALL: usize = 32 * MAX_REQUESTS;
/// Requests that are reported.
const MAX_REQUESTS_REPORTED: usize = 16;

/// How many requests are counted apart, of all services: with slow responses, and with quick ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestCounts {
    slow: usize,
    quick: usize,
}

/// HTTP/1 of all streams of a service.
#[derive(Debug, Clone, Default)]
pub(super) struct HttpTotals {
    statuses: BTreeMap<u16, u64>,
    slow_requests: HashMap<String, SlowTotal>,
    quick_requests: HashMap<RequestHash, u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SlowTotal {
    exchanges: u64,
    think_time: Nanos,
    noticed: u64,
    noticed_time: Nanos,
    moments: Moments,
}

impl HttpTotals {
    /// Adds a stream; `counts` are of all services so far.
    pub(super) fn add(&mut self, protocol: &ApplicationProtocol, counts: &mut RequestCounts) {
        for (status, count) in protocol.statuses() {
            *self.statuses.entry(*status).or_default() += u64::from(*count);
        }
        for slow in protocol.slow_requests() {
            let total = SlowTotal {
                exchanges: slow.exchanges.into(),
                think_time: slow.think_time,
                noticed: slow.noticed.into(),
                noticed_time: slow.noticed_time,
                moments: slow.moments,
            };
            self.add_slow(&slow.request, total, counts);
        }
        for (request, count) in protocol.quick_requests() {
            self.add_quick(request, count.into(), counts);
        }
    }

    fn add_quick(&mut self, request: RequestHash, more: u64, counts: &mut RequestCounts) {
        let is_full =
            self.quick_requests.len() >= MAX_REQUESTS || counts.quick >= MAX_REQUESTS_OF_ALL;
        match self.quick_requests.get_mut(&request) {
            Some(count) => *count += more,
            None if is_full => {}
            None => {
                counts.quick += 1;
                self.quick_requests.insert(request, more);
            }
        }
    }

    fn add_slow(&mut self, request: &str, more: SlowTotal, counts: &mut RequestCounts) {
        let is_full =
            self.slow_requests.len() >= MAX_REQUESTS || counts.slow >= MAX_REQUESTS_OF_ALL;
        let total = match self.slow_requests.get_mut(request) {
            Some(total) => total,
            None if is_full => return,
            None => {
                counts.slow += 1;
                self.slow_requests.entry(request.to_string()).or_default()
            }
        };
        total.exchanges += more.exchanges;
        total.think_time = total.think_time.saturating_add(more.think_time);
        total.noticed += more.noticed;
        total.noticed_time = total.noticed_time.saturating_add(more.noticed_time);
        total.moments.merge(&more.moments);
    }

    /// Adds the totals of other streams.
    pub(super) fn merge(&mut self, other: HttpTotals, counts: &mut RequestCounts) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (request, total) in other.slow_requests {
            self.add_slow(&request, total, counts);
        }
        for (request, count) in other.quick_requests {
            self.add_quick(request, count, counts);
        }
    }

    pub(super) fn statuses(&self) -> Vec<StatusCount> {
        let counts = self.statuses.iter();
        counts.map(|(status, count)| StatusCount { status: *status, count: *count }).collect()
    }

    /// Slow requests, those that took most time first.
    pub(super) fn slow_requests(&self) -> Vec<SlowRequest> {
        let mut requests: Vec<SlowRequest> = self
            .slow_requests
            .iter()
            .map(|(request, total)| SlowRequest {
                request: request.clone(),
                exchanges: total.exchanges,
                think_time_us: micros(total.think_time),
                quick: self.quick_requests.get(&RequestHash::of(request)).copied().unwrap_or(0),
                noticed: total.noticed,
                noticed_us: micros(total.noticed_time),
                moments: Some(total.moments.count()),
            })
            .collect();
        requests.sort_by(|a, b| {
            (Reverse(a.think_time_us), &a.request).cmp(&(Reverse(b.think_time_us), &b.request))
        });
        requests.truncate(MAX_REQUESTS_REPORTED);
        requests
    }
}
