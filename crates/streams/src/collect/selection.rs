//! The streams that a watcher selects, and the durations of their exchanges.

use std::net::SocketAddr;

use hashbrown::HashMap;
use model::{CapturedStream, Packets};

use super::service_totals::{MAX_SERVICES, server};
use super::watch::Watch;
use crate::histogram::TimeHistogram;
use crate::stream::Stream;
use crate::time::Nanos;

/// A watcher, and what it has selected.
#[derive(Debug)]
pub(super) struct WatchedSelection {
    pub(super) watch: Box<dyn Watch>,
    /// Durations of exchanges of streams that are not over: steps of a histogram, and how many fell
    /// into each. Which of these streams are selected is known at their end.
    open: HashMap<u64, Vec<(u8, u32)>>,
    pub(super) selected: SelectedStreams,
}

/// The streams that were selected.
#[derive(Debug, Clone, Default)]
pub(super) struct SelectedStreams {
    count: u64,
    /// Durations of their exchanges by service.
    exchange_times: HashMap<SocketAddr, TimeHistogram>,
}

impl WatchedSelection {
    pub(super) fn new(watch: Box<dyn Watch>) -> Self {
        WatchedSelection { watch, open: HashMap::new(), selected: SelectedStreams::default() }
    }

    /// An exchange ended.
    pub(super) fn add_exchange(&mut self, stream: u64, duration: Nanos) {
        let step = TimeHistogram::step_of(duration);
        let steps = self.open.entry(stream).or_default();
        match steps.iter_mut().find(|(known, _)| *known == step) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => steps.push((step, 1)),
        }
    }

    /// A stream ended. Returns whether it is selected.
    pub(super) fn end_stream(
        &mut self,
        stream: &Stream,
        captured: &CapturedStream,
        capture_began: Nanos,
    ) -> bool {
        let steps = self.open.remove(&captured.number).unwrap_or_default();
        let is_selected = self.watch.selects(stream, captured);
        self.watch.end_stream(stream, captured, capture_began, is_selected);
        if is_selected {
            self.selected.add(stream, &steps);
        }
        is_selected
    }

    /// Adds a stream to some selected ones if it would be selected now. Returns whether it was.
    pub(super) fn add_if_selected(
        &self,
        selected: &mut SelectedStreams,
        stream: &Stream,
        captured: &CapturedStream,
    ) -> bool {
        let is_selected = self.watch.selects(stream, captured);
        if is_selected {
            let steps = self.open.get(&captured.number).map_or(&[][..], Vec::as_slice);
            selected.add(stream, steps);
        }
        is_selected
    }
}

impl SelectedStreams {
    /// Adds a stream with the durations of its exchanges, the last one included.
    fn add(&mut self, stream: &Stream, steps: &[(u8, u32)]) {
        self.count += 1;
        let server = server(stream);
        let is_full = self.exchange_times.len() >= MAX_SERVICES;
        if is_full && !self.exchange_times.contains_key(&server) {
            return;
        }
        let times = self.exchange_times.entry(server).or_default();
        for (step, count) in steps {
            times.add_to_step(*step, *count);
        }
        if let Some(duration) = stream.current_exchange().and_then(|exchange| exchange.total()) {
            times.add(duration);
        }
    }

    /// Makes evidence that of the selected streams alone.
    pub(super) fn restrict(&self, packets: &mut Packets) {
        packets.selected = Some(self.count);
        // A filter of streams selects no look-ups.
        packets.resolvers.clear();
        // Services without a selected stream.
        packets.services.retain(|service| service.streams > 0);
        for service in &mut packets.services {
            let times = self.exchange_times.get(&service.server);
            service.exchange_p50_us = times.and_then(|times| times.quantile(0.5));
            service.exchange_p99_us = times.and_then(|times| times.quantile(0.99));
        }
    }
}
