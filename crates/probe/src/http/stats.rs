//! Histograms and counts of a load: kept by each thread, added up at the end.

use std::time::Duration;

use hdrhistogram::Histogram;
use model::{HttpClient, HttpErrors, HttpLoad, HttpPhases, Latency, StatusCount};

use super::client_limits::client_limits;
use super::failure::{Failure, add_errors};
use super::intervals::Intervals;
use super::non_empty::NonEmpty;
use super::origin::Origin;
use super::plan::Plan;
use super::syn_retransmissions::SynCounts;
use crate::Error;

/// Longest time that a histogram records as it is, microseconds: an hour.
const MAX_US: u64 = 3_600_000_000;
/// Significant digits of a percentile.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Most URLs in the result.
const MAX_URLS_REPORTED: usize = 100;
/// The lowest status; one counter for each up to 599, and one for all others.
const FIRST_STATUS: u16 = 100;
const STATUS_COUNTERS: usize = 501;

/// Histograms of a load, in microseconds.
#[derive(Debug)]
pub struct Histograms {
    /// Requests from when they could be sent.
    pub latency: Histogram<u64>,
    /// Open loop: requests from when they were due.
    pub intended: Option<Histogram<u64>>,
    connect: Histogram<u64>,
    tls: Histogram<u64>,
    send: Histogram<u64>,
    first_byte: Histogram<u64>,
    receive: Histogram<u64>,
    read_delay: Histogram<u64>,
}

impl Histograms {
    fn new(open_loop: bool) -> Result<Self, Error> {
        Ok(Histograms {
            latency: histogram()?,
            intended: open_loop.then(histogram).transpose()?,
            connect: histogram()?,
            tls: histogram()?,
            send: histogram()?,
            first_byte: histogram()?,
            receive: histogram()?,
            read_delay: histogram()?,
        })
    }

    fn add(&mut self, other: &Histograms) {
        for (sum, other) in [
            (&mut self.latency, &other.latency),
            (&mut self.connect, &other.connect),
            (&mut self.tls, &other.tls),
            (&mut self.send, &other.send),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.receive, &other.receive),
            (&mut self.read_delay, &other.read_delay),
        ] {
            // All have the same bounds: it cannot fail.
            let _ = sum.add(other);
        }
        if let (Some(sum), Some(other)) = (&mut self.intended, &other.intended) {
            let _ = sum.add(other);
        }
    }
}

fn histogram() -> Result<Histogram<u64>, Error> {
    Histogram::new_with_bounds(1, MAX_US, SIGNIFICANT_DIGITS)
        .map_err(|error| Error::Failed(format!("cannot create a histogram: {error}")))
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadResult {
    /// The figures.
    pub load: HttpLoad,
    /// The histograms behind them.
    pub histograms: Histograms,
}

/// The times of one request, nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTimes {
    /// When it was due, in an open loop.
    pub(super) due: Option<u64>,
    /// When it could have been sent.
    pub(super) start: u64,
    /// When its first and its last byte were written.
    pub(super) first_sent: u64,
    pub(super) last_sent: u64,
    /// When the first and the last byte of the response were received.
    pub(super) first_received: u64,
    pub(super) last_received: u64,
}

/// What one thread, or all of them, counted.
#[derive(Debug)]
pub(super) struct Stats {
    histograms: Histograms,
    /// Complete responses.
    pub(super) requests: u64,
    pub(super) failed_requests: u64,
    pub(super) unfinished: u64,
    pub(super) unsent: u64,
    pub(super) bytes: u64,
    connections_opened: u64,
    errors: HttpErrors,
    /// By origin.
    syn_counts: Vec<SynCounts>,
    /// By status from 100 to 599; the last is for all others.
    statuses: Box<[u64; STATUS_COUNTERS]>,
    intervals: Intervals,
    /// Requests in flight times nanoseconds.
    in_flight_ns: u128,
    pub(super) elapsed: Duration,
    pub(super) cpu_time: Duration,
    /// Share of the time that the busiest of the added threads spent on a CPU.
    busiest_thread_share: f64,
}

impl Stats {
    pub(super) fn new(plan: &Plan, origins: usize) -> Result<Self, Error> {
        Ok(Stats {
            histograms: Histograms::new(plan.rate.is_some())?,
            requests: 0,
            failed_requests: 0,
            unfinished: 0,
            unsent: 0,
            bytes: 0,
            connections_opened: 0,
            errors: HttpErrors::default(),
            syn_counts: vec![SynCounts::default(); origins],
            statuses: Box::new([0; STATUS_COUNTERS]),
            intervals: Intervals::default(),
            in_flight_ns: 0,
            elapsed: Duration::ZERO,
            cpu_time: Duration::ZERO,
            busiest_thread_share: 0.0,
        })
    }

    /// A complete response.
    pub(super) fn record_response(&mut self, times: RequestTimes, status: u16) {
        self.requests += 1;
        let index = usize::from(status.wrapping_sub(FIRST_STATUS)).min(STATUS_COUNTERS - 1);
        if let Some(count) = self.statuses.get_mut(index) {
            *count += 1;
        }
        self.intervals.count(times.last_received, |interval| interval.requests += 1);
        let histograms = &mut self.histograms;
        record(&mut histograms.latency, times.start, times.last_received);
        record(&mut histograms.send, times.first_sent, times.last_sent);
        // A server may respond before the request is sent completely, when it rejects it.
        let waiting_from = times.last_sent.min(times.first_received);
        record(&mut histograms.first_byte, waiting_from, times.first_received);
        record(&mut histograms.receive, times.first_received, times.last_received);
        if let (Some(due), Some(intended)) = (times.due, &mut histograms.intended) {
            record(intended, due, times.last_received);
        }
    }

    /// Bytes of responses.
    pub(super) fn record_bytes(&mut self, at: u64, bytes: usize) {
        self.bytes += bytes as u64;
        self.intervals.count(at, |interval| interval.bytes += bytes as u64);
    }

    /// A failed request.
    pub(super) fn record_failure(&mut self, at: u64, failure: &Failure) {
        self.failed_requests += 1;
        self.intervals.count(at, |interval| interval.errors += 1);
        failure.count(&mut self.errors);
    }

    /// An established connection.
    pub(super) fn record_connect(&mut self, from: u64, to: u64) {
        self.connections_opened += 1;
        record(&mut self.histograms.connect, from, to);
    }

    /// A complete TLS handshake.
    pub(super) fn record_handshake(&mut self, from: u64, to: u64) {
        record(&mut self.histograms.tls, from, to);
    }

    /// Bytes that this thread read some time after the kernel received them.
    pub(super) fn record_read_delay(&mut self, received: u64, read: u64) {
        record(&mut self.histograms.read_delay, received, read);
    }

    /// So many requests were in flight for some time.
    pub(super) fn record_in_flight(&mut self, requests: u64, duration_ns: u64) {
        self.in_flight_ns += u128::from(requests) * u128::from(duration_ns);
    }

    /// The counts of SYN retransmissions of an origin.
    pub(super) fn syn_counts(&mut self, origin: usize) -> Option<&mut SynCounts> {
        self.syn_counts.get_mut(origin)
    }

    /// Adds what a thread counted.
    pub(super) fn add_thread(&mut self, thread: Stats) {
        self.requests += thread.requests;
        self.failed_requests += thread.failed_requests;
        self.unfinished += thread.unfinished;
        self.unsent += thread.unsent;
        self.bytes += thread.bytes;
        self.connections_opened += thread.connections_opened;
        self.in_flight_ns += thread.in_flight_ns;
        self.cpu_time += thread.cpu_time;
        let cpu_share = thread.cpu_time.as_secs_f64() / thread.elapsed.as_secs_f64().max(1e-9);
        self.busiest_thread_share = self.busiest_thread_share.max(cpu_share);
        self.elapsed = self.elapsed.max(thread.elapsed);
        for (count, other) in self.statuses.iter_mut().zip(thread.statuses.iter()) {
            *count += other;
        }
        self.intervals.add(thread.intervals);
        for (counts, other) in self.syn_counts.iter_mut().zip(&thread.syn_counts) {
            counts.add(other);
        }
        add_errors(&mut self.errors, thread.errors);
        self.histograms.add(&thread.histograms);
    }

    /// The result of the load.
    pub(super) fn into_result(
        self,
        plan: &Plan,
        origins: &NonEmpty<Origin>,
        name_lookup_us: &[u64],
    ) -> Result<LoadResult, Error> {
        let histograms = self.histograms;
        let mut resolve_times = histogram()?;
        for us in name_lookup_us {
            resolve_times.saturating_record(*us);
        }
        let elapsed_s = self.elapsed.as_secs_f64();
        let seconds = elapsed_s.max(1e-9);
        let latency_us = latency(&histograms.latency).unwrap_or_default();
        let per_s = self.requests as f64 / seconds;
        let mut client = HttpClient {
            cpu_s: self.cpu_time.as_secs_f64(),
            cpu_us_per_request: self.cpu_time.as_secs_f64() * 1e6 / self.requests.max(1) as f64,
            busiest_thread_share: self.busiest_thread_share.min(1.0),
            in_flight: self.in_flight_ns as f64 / 1e9 / seconds,
            rate_times_latency: per_s * latency_us.mean / 1e6,
            read_delay_us: latency(&histograms.read_delay),
            limits: Vec::new(),
        };
        client.limits = client_limits(plan, &client, &self.errors, self.unsent);
        let urls = plan.requests.iter().map(|request| request.url.clone());
        let statuses = (FIRST_STATUS..).zip(self.statuses.iter()).filter(|(_, count)| **count > 0);
        let syn_counts = origins.iter().zip(&self.syn_counts);
        let load = HttpLoad {
            urls: urls.take(MAX_URLS_REPORTED).collect(),
            addresses: origins.iter().map(Origin::address_text).collect(),
            version: if plan.http2 { "2" } else { "1.1" }.to_string(),
            connections: plan.connections,
            threads: plan.threads,
            new_connections: plan.new_connections,
            rate_per_s: plan.rate,
            duration_s: elapsed_s,
            requests: self.requests,
            requests_per_s: per_s,
            unfinished: self.unfinished,
            unsent: plan.rate.map(|_| self.unsent),
            received_bytes: self.bytes,
            connections_opened: self.connections_opened,
            syn_retransmissions: syn_counts
                .filter_map(|(origin, counts)| counts.result(origin))
                .collect(),
            statuses: statuses
                .map(|(status, count)| StatusCount { status, count: *count })
                .collect(),
            errors: self.errors,
            latency_us,
            intended_latency_us: histograms.intended.as_ref().and_then(latency),
            phases_us: HttpPhases {
                name_lookup: latency(&resolve_times),
                connect: latency(&histograms.connect),
                tls: latency(&histograms.tls),
                send: latency(&histograms.send),
                first_byte: latency(&histograms.first_byte),
                receive: latency(&histograms.receive),
            },
            over_time: self.intervals.into_result(elapsed_s),
            client,
        };
        Ok(LoadResult { load, histograms })
    }
}

fn record(histogram: &mut Histogram<u64>, from_ns: u64, to_ns: u64) {
    histogram.saturating_record(to_ns.saturating_sub(from_ns) / 1_000);
}

/// The figures of a histogram; `None` without a sample.
fn latency(histogram: &Histogram<u64>) -> Option<Latency> {
    let at = |quantile: f64| histogram.value_at_quantile(quantile).min(histogram.max());
    (!histogram.is_empty()).then(|| Latency {
        count: histogram.len(),
        min: histogram.min(),
        mean: histogram.mean(),
        stdev: histogram.stdev(),
        p50: at(0.5),
        p75: at(0.75),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::origin::resolve_origins;
    use super::super::plan::test_plan;
    use super::*;

    #[test]
    fn times_become_percentiles() {
        let mut plan = test_plan("http://127.0.0.1/");
        let (origins, _) = resolve_origins(&plan).unwrap();
        plan.rate = Some(100.0);
        let mut thread = Stats::new(&plan, 1).unwrap();
        for n in 1..=100_u64 {
            let last_received = n * 1_000_000;
            let times = RequestTimes {
                due: Some(0),
                start: 0,
                first_sent: 0,
                last_sent: 1,
                first_received: 2,
                last_received,
            };
            thread.record_response(times, 200);
        }
        thread.elapsed = Duration::from_secs(1);
        let mut all = Stats::new(&plan, 1).unwrap();
        all.add_thread(thread);
        let load = all.into_result(&plan, &origins, &[]).unwrap().load;
        assert_eq!((load.requests, load.latency_us.count), (100, 100));
        assert!(load.latency_us.p99.abs_diff(99_000) < 100, "{:?}", load.latency_us);
        assert_eq!(load.intended_latency_us.unwrap().p50, load.latency_us.p50);
        assert_eq!(load.statuses, [StatusCount { status: 200, count: 100 }]);
    }
}
