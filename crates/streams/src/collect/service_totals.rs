//! Streams added up by service: by the end that serves.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use hashbrown::HashMap;
use model::{Service, Side, TimeCategory, TimeShare};

use super::http_totals::{HttpTotals, RequestCounts};
use crate::captured_stream::network_breakdown;
use crate::histogram::TimeHistogram;
use crate::network_time::NetworkTimes;
use crate::stream::{ServiceIndex, Stream};
use crate::time::{Nanos, micros};
use crate::time_breakdown::{CategoryTimes, PerCategory};

/// Services that are added up.
pub(super) const MAX_SERVICES: usize = 4096;
/// Services that are reported: those that lost most time.
const MAX_SERVICES_REPORTED: usize = 256;

/// All services.
#[derive(Debug, Clone, Default)]
pub(super) struct Services {
    /// Places in `totals`.
    places: HashMap<SocketAddr, ServiceIndex>,
    totals: Vec<(SocketAddr, ServiceTotals)>,
    /// HTTP requests that are counted apart.
    requests: RequestCounts,
}

/// All streams of a service.
#[derive(Debug, Clone, Default)]
struct ServiceTotals {
    streams: u64,
    exchanges: u64,
    bytes: u64,
    data_segments: u64,
    retransmitted: u64,
    times: CategoryTimes,
    network: NetworkTimes,
    exchanges_with: PerCategory<u64>,
    exchange_times: TimeHistogram,
    http: HttpTotals,
}

/// The end that serves.
pub(super) fn server(stream: &Stream) -> SocketAddr {
    stream.ends.get(stream.role(Side::Server)).address
}

impl Services {
    /// The totals of a stream's service, if there is room; the stream remembers their place.
    #[inline]
    fn totals_of(&mut self, stream: &mut Stream) -> Option<&mut ServiceTotals> {
        let index = match stream.service {
            Some(index) => index,
            None => {
                let index = self.index_of(server(stream))?;
                stream.service = Some(index);
                index
            }
        };
        self.at(index)
    }

    /// Place of a service; adds it if there is room.
    fn index_of(&mut self, server: SocketAddr) -> Option<ServiceIndex> {
        if let Some(index) = self.places.get(&server) {
            return Some(*index);
        }
        if self.totals.len() >= MAX_SERVICES { None } else { self.add_service(server) }
    }

    fn add_service(&mut self, server: SocketAddr) -> Option<ServiceIndex> {
        self.totals.push((server, ServiceTotals::default()));
        let count = u32::try_from(self.totals.len()).ok();
        let index = ServiceIndex(count.and_then(NonZeroU32::new)?);
        self.places.insert(server, index);
        Some(index)
    }

    #[inline]
    fn at(&mut self, ServiceIndex(count): ServiceIndex) -> Option<&mut ServiceTotals> {
        self.totals.get_mut(count.get() as usize - 1).map(|(_, totals)| totals)
    }

    /// Adds the duration of an exchange.
    #[inline]
    pub(super) fn add_exchange(&mut self, stream: &mut Stream, duration: Nanos) {
        if let Some(totals) = self.totals_of(stream) {
            totals.exchange_times.add(duration);
        }
    }

    /// The same, where it is known which service it belongs to.
    #[inline]
    pub(super) fn add_exchange_of(&mut self, index: ServiceIndex, duration: Nanos) {
        if let Some(totals) = self.at(index) {
            totals.exchange_times.add(duration);
        }
    }

    /// Adds a stream that is over, and its last exchange.
    pub(super) fn add(&mut self, stream: &mut Stream) {
        let mut requests = self.requests;
        if let Some(totals) = self.totals_of(stream) {
            totals.add(stream, &mut requests);
        }
        self.requests = requests;
    }

    /// Adds the totals of other streams. What each shard counts is added up, however much that is.
    pub(super) fn merge(&mut self, other: Services) {
        for (server, totals) in other.totals {
            let index = self.places.get(&server).copied();
            let index = index.or_else(|| self.add_service(server));
            let mut requests = self.requests;
            if let Some(sum) = index.and_then(|index| self.at(index)) {
                sum.merge(totals, &mut requests);
            }
            self.requests = requests;
        }
    }

    /// Those that lost most time first.
    pub(super) fn report(&self) -> Vec<Service> {
        let mut services: Vec<Service> =
            self.totals.iter().map(|(server, totals)| totals.service(*server)).collect();
        let lost = |service: &Service| {
            let lost = TimeCategory::ALL.into_iter().filter(|category| category.is_lost());
            (lost.map(|category| service.time_us(category)).sum::<u64>(), service.bytes)
        };
        services.sort_by_key(|service| (Reverse(lost(service)), service.server));
        services.truncate(MAX_SERVICES_REPORTED);
        services
    }
}

impl ServiceTotals {
    fn add(&mut self, stream: &Stream, counts: &mut RequestCounts) {
        if let Some(duration) = stream.current_exchange().and_then(|exchange| exchange.total()) {
            self.exchange_times.add(duration);
        }
        self.streams += 1;
        self.exchanges += stream.exchange_count();
        for end in stream.ends.iter() {
            let counts = &end.sent.counts;
            self.bytes = self.bytes.saturating_add(counts.new_bytes);
            self.data_segments += counts.data_packets;
            self.retransmitted += counts.retransmitted();
            self.network.add_all(&end.network_times());
        }
        self.times.add(&stream.times());
        self.exchanges_with.combine(&stream.exchanges_with, |sum, more| *sum += u64::from(more));
        if let Some(protocol) = stream.application_protocol() {
            self.http.add(protocol, counts);
        }
    }

    fn merge(&mut self, other: ServiceTotals, counts: &mut RequestCounts) {
        self.streams += other.streams;
        self.exchanges += other.exchanges;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.data_segments += other.data_segments;
        self.retransmitted += other.retransmitted;
        self.times.add(&other.times);
        self.network.add_all(&other.network);
        self.exchanges_with.combine(&other.exchanges_with, |sum, more| *sum += more);
        self.exchange_times.merge(&other.exchange_times);
        self.http.merge(other.http, counts);
    }

    fn service(&self, server: SocketAddr) -> Service {
        let times = self.times.iter().filter(|(_, time)| *time > 0);
        Service {
            server,
            streams: self.streams,
            exchanges: self.exchanges,
            bytes: self.bytes,
            data_segments: self.data_segments,
            retransmitted: self.retransmitted,
            exchange_p50_us: self.exchange_times.quantile(0.5),
            exchange_p99_us: self.exchange_times.quantile(0.99),
            time_breakdown: times
                .map(|(category, time)| TimeShare {
                    category,
                    time_us: micros(time),
                    exchanges: self.exchanges_with.get(category),
                })
                .collect(),
            network_breakdown: network_breakdown(&self.network),
            statuses: self.http.statuses(),
            slow_requests: self.http.slow_requests(),
        }
    }
}
