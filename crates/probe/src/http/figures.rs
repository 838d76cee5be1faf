//! Histograms and counts: kept by each thread, joined and told at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use model::{
    HttpClient, HttpErrors, HttpInterval, HttpLoad, HttpPhases, Latency, StatusCount,
    SynRetransmissions,
};

use super::plan::Plan;
use super::site::{Address, Site};

/// Longest time that a histogram tells apart, microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;
/// Digits that it keeps.
const DIGITS: u8 = 3;
/// Stretches of time that are told; above, pairs are joined.
const INTERVALS: usize = 600;
/// Share of a CPU from which a thread of the client has no time left.
const BUSY: f64 = 0.95;
/// Kinds of errors of one sort: words of a server are its own, and may be endless.
const KINDS: usize = 32;

/// Histograms of a load, in microseconds.
#[derive(Debug)]
pub struct Histograms {
    /// Whole requests.
    pub latency: Histogram<u64>,
    /// From the moment they were due; open loop.
    pub intended: Option<Histogram<u64>>,
    connect: Histogram<u64>,
    tls: Histogram<u64>,
    send: Histogram<u64>,
    first_byte: Histogram<u64>,
    rest: Histogram<u64>,
    late: Histogram<u64>,
}

impl Histograms {
    fn new(intended: bool) -> Self {
        Histograms {
            latency: histogram(),
            intended: intended.then(histogram),
            connect: histogram(),
            tls: histogram(),
            send: histogram(),
            first_byte: histogram(),
            rest: histogram(),
            late: histogram(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    // These bounds are in range for the library: it cannot fail.
    match Histogram::new_with_bounds(1, LONGEST_US, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("a histogram of an hour: {error}"),
    }
}

/// The times of one request, nanoseconds since the load began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When it was due, in an open loop.
    pub(super) due: Option<u64>,
    /// When it could have been sent.
    pub(super) begun: u64,
    /// When the first byte of it was handed to the kernel, and the last.
    pub(super) sending: u64,
    pub(super) sent: u64,
    /// First byte of the answer, and its last.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Connections to one site whose SYN was repeated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeats {
    pub(super) tried: u64,
    /// Once, twice, … seven times and more.
    opened: [u64; 7],
    given_up: u64,
    unopened: u64,
    waited_ns: u64,
}

/// What became of a connection whose SYN was repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    Opened,
    GivenUp,
    /// Not open when the load ended.
    Unopened,
}

impl Repeats {
    /// What became of a connection after this time and so many SYNs more than one.
    pub(super) fn add(&mut self, what: Late, waited_ns: u64, repeated: u8) {
        match what {
            Late::Opened => self.opened[usize::from(repeated.clamp(1, 7)) - 1] += 1,
            Late::GivenUp => self.given_up += 1,
            Late::Unopened => self.unopened += 1,
        }
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
    }

    fn join(&mut self, other: &Repeats) {
        self.tried += other.tried;
        self.given_up += other.given_up;
        self.unopened += other.unopened;
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        for (mine, theirs) in self.opened.iter_mut().zip(other.opened) {
            *mine += theirs;
        }
    }

    fn told(&self, site: &Site) -> Option<SynRetransmissions> {
        let Address::Tcp(server) = site.address else { return None };
        let some = self.given_up + self.unopened + self.opened.iter().sum::<u64>() > 0;
        let last = self.opened.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        some.then(|| SynRetransmissions {
            server,
            attempted: self.tried,
            opened: self.opened[..last].to_vec(),
            timed_out: self.given_up,
            still_connecting: self.unopened,
            waited_us: self.waited_ns / 1_000,
        })
    }
}

/// What one thread counted.
#[derive(Debug)]
pub(super) struct Figures {
    histograms: Option<Histograms>,
    pub(super) requests: u64,
    pub(super) unfinished: u64,
    pub(super) unsent: u64,
    pub(super) bytes: u64,
    pub(super) opened: u64,
    pub(super) errors: HttpErrors,
    pub(super) errors_count: u64,
    /// By site.
    pub(super) repeats: Vec<Repeats>,
    /// By status, from 100 to 599; the last is for all others.
    statuses: Box<[u64; 501]>,
    intervals: Intervals,
    /// Requests under way, times nanoseconds.
    pub(super) area: u128,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
    cpu_all: Duration,
    busiest: f64,
}

impl Figures {
    /// What all threads are joined into.
    pub(super) fn new() -> Self {
        Figures {
            histograms: None,
            requests: 0,
            unfinished: 0,
            unsent: 0,
            bytes: 0,
            opened: 0,
            errors: HttpErrors::default(),
            errors_count: 0,
            repeats: Vec::new(),
            statuses: Box::new([0; 501]),
            intervals: Intervals::default(),
            area: 0,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            cpu_all: Duration::ZERO,
            busiest: 0.0,
        }
    }

    /// What a thread counts into.
    pub(super) fn of_thread(open_loop: bool) -> Self {
        Figures { histograms: Some(Histograms::new(open_loop)), ..Figures::new() }
    }

    /// A whole answer.
    pub(super) fn answered(&mut self, times: Times, status: u16) {
        self.requests += 1;
        let place = usize::from(status).wrapping_sub(100).min(500);
        self.statuses[place] += 1;
        self.intervals.at(times.last).requests += 1;
        let Some(histograms) = &mut self.histograms else { return };
        record(&mut histograms.latency, times.begun, times.last);
        record(&mut histograms.send, times.sending, times.sent);
        // An answer may begin before the request is sent: a refusal.
        record(&mut histograms.first_byte, times.sent.min(times.first), times.first);
        record(&mut histograms.rest, times.first, times.last);
        if let (Some(due), Some(intended)) = (times.due, &mut histograms.intended) {
            record(intended, due, times.last);
        }
    }

    /// Bytes of answers.
    pub(super) fn received(&mut self, at: u64, bytes: usize) {
        self.bytes += bytes as u64;
        self.intervals.at(at).bytes += bytes as u64;
    }

    /// A request that failed.
    pub(super) fn failed(&mut self, at: u64) {
        self.errors_count += 1;
        self.intervals.at(at).errors += 1;
    }

    /// A connection that was made, and its TLS.
    pub(super) fn connected(&mut self, from: u64, to: u64) {
        self.opened += 1;
        if let Some(histograms) = &mut self.histograms {
            record(&mut histograms.connect, from, to);
        }
    }

    /// Bytes that this thread read after they had arrived.
    pub(super) fn read_late(&mut self, arrived: u64, read: u64) {
        if let Some(histograms) = &mut self.histograms {
            record(&mut histograms.late, arrived, read);
        }
    }

    /// A TLS handshake.
    pub(super) fn secured(&mut self, from: u64, to: u64) {
        if let Some(histograms) = &mut self.histograms {
            record(&mut histograms.tls, from, to);
        }
    }

    /// Adds what another thread counted.
    pub(super) fn join(&mut self, other: Figures) {
        self.requests += other.requests;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.bytes += other.bytes;
        self.opened += other.opened;
        self.errors_count += other.errors_count;
        self.area += other.area;
        self.cpu_all += other.cpu;
        let share = other.cpu.as_secs_f64() / other.elapsed.as_secs_f64().max(1e-9);
        self.busiest = self.busiest.max(share);
        self.elapsed = self.elapsed.max(other.elapsed);
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += theirs;
        }
        self.intervals.join(other.intervals);
        let most = self.repeats.len().max(other.repeats.len());
        self.repeats.resize(most, Repeats::default());
        for (mine, theirs) in self.repeats.iter_mut().zip(&other.repeats) {
            mine.join(theirs);
        }
        let (mine, theirs) = (&mut self.errors, other.errors);
        for (mine, theirs) in [
            (&mut mine.connect, theirs.connect),
            (&mut mine.tls, theirs.tls),
            (&mut mine.write, theirs.write),
            (&mut mine.read, theirs.read),
            (&mut mine.malformed, theirs.malformed),
        ] {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
        mine.closed_before_response += theirs.closed_before_response;
        mine.closed_mid_response += theirs.closed_mid_response;
        mine.timeout_connect += theirs.timeout_connect;
        mine.timeout_response += theirs.timeout_response;
        match (&mut self.histograms, other.histograms) {
            (Some(mine), Some(theirs)) => {
                add(&mut mine.latency, &theirs.latency);
                add(&mut mine.connect, &theirs.connect);
                add(&mut mine.tls, &theirs.tls);
                add(&mut mine.send, &theirs.send);
                add(&mut mine.first_byte, &theirs.first_byte);
                add(&mut mine.rest, &theirs.rest);
                add(&mut mine.late, &theirs.late);
                if let (Some(mine), Some(theirs)) = (&mut mine.intended, &theirs.intended) {
                    add(mine, theirs);
                }
            }
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
    }

    /// All of it as a result.
    pub(super) fn told(self, plan: &Plan, sites: &[Site], name_us: &[u64]) -> super::Outcome {
        let histograms = self.histograms.unwrap_or_else(|| Histograms::new(false));
        let mut names = histogram();
        for us in name_us {
            names.saturating_record(*us);
        }
        let elapsed_s = self.elapsed.as_secs_f64();
        let seconds = elapsed_s.max(1e-9);
        let latency_us = latency(&histograms.latency).unwrap_or_default();
        let each = self.requests.max(1) as f64;
        let per_s = self.requests as f64 / seconds;
        let statuses = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut client = HttpClient {
            cpu_s: self.cpu_all.as_secs_f64(),
            cpu_us_per_request: self.cpu_all.as_secs_f64() * 1e6 / each,
            busiest_thread_share: self.busiest.min(1.0),
            in_flight: self.area as f64 / 1e9 / seconds,
            rate_times_latency: per_s * latency_us.mean / 1e6,
            read_delay_us: latency(&histograms.late),
            limits: Vec::new(),
        };
        client.limits = limits(plan, &client, &self.errors, self.unsent);
        let load = HttpLoad {
            urls: plan.asks.iter().map(|ask| ask.url.clone()).take(100).collect(),
            addresses: sites.iter().map(Site::address_words).collect(),
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
            connections_opened: self.opened,
            syn_retransmissions: sites
                .iter()
                .zip(&self.repeats)
                .filter_map(|(site, repeats)| repeats.told(site))
                .collect(),
            statuses: statuses
                .map(|(place, count)| StatusCount { status: 100 + place as u16, count: *count })
                .collect(),
            errors: self.errors,
            latency_us,
            intended_latency_us: histograms.intended.as_ref().and_then(latency),
            phases_us: HttpPhases {
                name_lookup: latency(&names),
                connect: latency(&histograms.connect),
                tls: latency(&histograms.tls),
                send: latency(&histograms.send),
                first_byte: latency(&histograms.first_byte),
                receive: latency(&histograms.rest),
            },
            over_time: self.intervals.told(elapsed_s),
            client,
        };
        super::Outcome { load, histograms }
    }
}

/// Counts an error by its kind; kinds beyond some are one.
pub(super) fn count(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let kind = if kinds.contains_key(kind) || kinds.len() < KINDS { kind } else { "other" };
    *kinds.entry(kind.to_string()).or_default() += 1;
}

fn limits(plan: &Plan, client: &HttpClient, errors: &HttpErrors, unsent: u64) -> Vec<String> {
    let mut limits = Vec::new();
    if client.busiest_thread_share >= BUSY {
        limits.push(format!(
            "a thread of this client had a CPU for {:.0} % of the time: it may be the client that \
             is measured; try more --threads, or fewer --connections",
            100.0 * client.busiest_thread_share
        ));
    }
    let of = |kind: &str| errors.connect.get(kind).copied().unwrap_or(0);
    if of("EADDRNOTAVAIL") > 0 {
        limits.push(
            "this host ran out of local ports towards the server (ip_local_port_range, TIME_WAIT); \
             keep connections alive"
                .to_string(),
        );
    }
    if of("EMFILE") + of("ENFILE") > 0 {
        limits.push("this host ran out of files (ulimit -n, fs.file-max)".to_string());
    }
    if unsent > 0 && client.busiest_thread_share < BUSY {
        limits.push(format!(
            "{unsent} requests were due and found no free connection: more --connections, or the \
             server cannot do {} requests a second",
            plan.rate.unwrap_or_default()
        ));
    }
    limits
}

fn record(histogram: &mut Histogram<u64>, from_ns: u64, to_ns: u64) {
    histogram.saturating_record(to_ns.saturating_sub(from_ns) / 1_000);
}

fn add(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    // They have the same bounds.
    let _ = mine.add(theirs);
}

/// A histogram in figures; nothing when it is empty.
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

/// Stretches of time of equal length.
#[derive(Debug)]
struct Intervals {
    /// Nanoseconds of each.
    width: u64,
    all: Vec<HttpInterval>,
}

impl Default for Intervals {
    fn default() -> Self {
        Intervals { width: 1_000_000_000, all: Vec::new() }
    }
}

impl Intervals {
    fn at(&mut self, at: u64) -> &mut HttpInterval {
        while (at / self.width) as usize >= INTERVALS {
            self.widen();
        }
        let place = (at / self.width) as usize;
        if place >= self.all.len() {
            self.all.resize(place + 1, HttpInterval::default());
        }
        &mut self.all[place]
    }

    fn widen(&mut self) {
        let pairs = self.all.chunks(2).map(|pair| {
            let mut sum = pair[0];
            for other in &pair[1..] {
                sum.requests += other.requests;
                sum.bytes += other.bytes;
                sum.errors += other.errors;
            }
            sum
        });
        self.all = pairs.collect();
        self.width = self.width.saturating_mul(2);
    }

    fn join(&mut self, mut other: Intervals) {
        while self.width < other.width {
            self.widen();
        }
        while other.width < self.width {
            other.widen();
        }
        if self.all.len() < other.all.len() {
            self.all.resize(other.all.len(), HttpInterval::default());
        }
        for (mine, theirs) in self.all.iter_mut().zip(other.all) {
            mine.requests += theirs.requests;
            mine.bytes += theirs.bytes;
            mine.errors += theirs.errors;
        }
    }

    fn told(mut self, elapsed_s: f64) -> Vec<HttpInterval> {
        let width_s = self.width as f64 / 1e9;
        for (number, interval) in self.all.iter_mut().enumerate() {
            interval.from_s = number as f64 * width_s;
            interval.duration_s = width_s.min((elapsed_s - interval.from_s).max(0.0));
        }
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_told_in_a_bounded_number_of_stretches() {
        let mut intervals = Intervals::default();
        for second in 0..10_000_u64 {
            intervals.at(second * 1_000_000_000).requests += 1;
        }
        let all = intervals.told(10_000.0);
        assert!(all.len() <= INTERVALS, "{}", all.len());
        assert_eq!(all.iter().map(|interval| interval.requests).sum::<u64>(), 10_000);
        assert_eq!(all[1].from_s, all[0].duration_s);
    }

    #[test]
    fn stretches_of_different_width_are_joined() {
        let (mut long, mut short) = (Intervals::default(), Intervals::default());
        long.at(700 * 1_000_000_000).requests += 1;
        short.at(3_000_000_000).requests += 1;
        short.join(long);
        let all = short.told(701.0);
        assert_eq!(all[1].requests, 1, "second 3 is of the second pair");
        assert_eq!(all.last().unwrap().requests, 1);
    }

    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut kinds = BTreeMap::new();
        for number in 0..1_000 {
            count(&mut kinds, &format!("kind {number}"));
        }
        assert_eq!(kinds.len(), KINDS + 1);
        assert_eq!(kinds.values().sum::<u64>(), 1_000);
    }

    #[test]
    fn times_become_percentiles() {
        let mut figures = Figures::of_thread(true);
        for n in 1..=100_u64 {
            let last = n * 1_000_000;
            let times = Times { due: Some(0), begun: 0, sending: 0, sent: 1, first: 2, last };
            figures.answered(times, 200);
        }
        figures.elapsed = Duration::from_secs(1);
        let mut all = Figures::new();
        all.join(figures);
        let plan = super::super::plan::tests_plan("http://127.0.0.1/");
        let load = all.told(&plan, &[], &[]).load;
        assert_eq!((load.requests, load.latency_us.count), (100, 100));
        assert!(load.latency_us.p99.abs_diff(99_000) < 100, "{:?}", load.latency_us);
        assert_eq!(load.intended_latency_us.unwrap().p50, load.latency_us.p50);
        assert_eq!(load.statuses, [StatusCount { status: 200, count: 100 }]);
    }
}
