//! HTTP/1 of all streams of a service.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use model::{SlowRequest, StatusCount};

use crate::application_protocol::ApplicationProtocol;
use crate::time::{Nanos, micros};

/// Requests of one service that are counted apart, and those of all services.
const MAX_REQUESTS: usize = 1024;
const MAX_REQUESTS_OF_ALL: usize = 32 * MAX_REQUESTS;
/// Requests that are reported.
const MAX_REQUESTS_REPORTED: usize = 16;

/// HTTP/1 of all streams of a service.
#[derive(Debug, Clone, Default)]
pub(super) struct HttpTotals {
    statuses: BTreeMap<u16, u64>,
    slow_requests: HashMap<String, SlowTotal>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SlowTotal {
    exchanges: u64,
    think_time: Nanos,
}

impl HttpTotals {
    /// Adds a stream; `requests` are those of all services so far.
    pub(super) fn add(&mut self, protocol: &ApplicationProtocol, requests: &mut usize) {
        for (status, count) in protocol.statuses() {
            *self.statuses.entry(*status).or_default() += u64::from(*count);
        }
        for slow in protocol.slow_requests() {
            let (exchanges, think_time) = (slow.exchanges.into(), slow.think_time);
            self.add_slow(&slow.request, SlowTotal { exchanges, think_time }, requests);
        }
    }

    fn add_slow(&mut self, request: &str, more: SlowTotal, requests: &mut usize) {
        let is_full = self.slow_requests.len() >= MAX_REQUESTS || *requests >= MAX_REQUESTS_OF_ALL;
        let total = match self.slow_requests.get_mut(request) {
            Some(total) => total,
            None if is_full => return,
            None => {
                *requests += 1;
                self.slow_requests.entry(request.to_string()).or_default()
            }
        };
        total.exchanges += more.exchanges;
        total.think_time = total.think_time.saturating_add(more.think_time);
    }

    /// Adds the totals of other streams.
    pub(super) fn merge(&mut self, other: HttpTotals, requests: &mut usize) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (request, total) in other.slow_requests {
            self.add_slow(&request, total, requests);
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
            })
            .collect();
        requests.sort_by(|a, b| {
            (Reverse(a.think_time_us), &a.request).cmp(&(Reverse(b.think_time_us), &b.request))
        });
        requests.truncate(MAX_REQUESTS_REPORTED);
        requests
    }
}
