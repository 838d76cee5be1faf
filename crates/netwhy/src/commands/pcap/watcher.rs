//! Watches a capture while it is read: selects streams by the filter, records the stream that is shown
//! in depth, writes the rows of tables.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use model::CapturedStream;
use streams::depth::{Recorder, StreamRecording, TimeTracker, events};
use streams::{Nanos, Stream, Watch, WatchedSegment};

use super::filter::{Filter, KnownStream};
use super::tables::Tables;

/// Most streams that are recorded at once, when it is known only at the end which of them is shown.
pub(super) const MAX_RECORDED_STREAMS: usize = 64;

/// Watches a capture.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) filter: Option<Filter>,
    /// The streams that the filter selects, if the capture was read before.
    pub(super) known: Option<StreamNumbers>,
    /// Collects the streams that the filter selects, if the capture is read again.
    pub(super) selected: Option<StreamNumbers>,
    pub(super) recording: Recording,
    pub(super) tables: Option<Tables>,
    /// Why a row could not be written.
    pub(super) failed: Option<anyhow::Error>,
    pub(super) open: HashMap<u64, OpenStream>,
    pub(super) recorders: BTreeMap<u64, Recorder>,
    /// The recordings of streams that are over.
    pub(super) recorded: BTreeMap<u64, (CapturedStream, Option<StreamRecording>)>,
}

/// A set of stream numbers, a bit for each: there may be millions.
#[derive(Debug, Default, Clone)]
pub(super) struct StreamNumbers(Vec<u64>);

impl StreamNumbers {
    fn add(&mut self, number: u64) {
        let Ok(word) = usize::try_from(number / 64) else { return };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= 1 << (number % 64);
        }
    }

    fn has(&self, number: u64) -> bool {
        let bits = usize::try_from(number / 64).ok().and_then(|word| self.0.get(word));
        bits.is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }
}

/// Which streams are recorded packet by packet.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Recording {
    /// None.
    #[default]
    None,
    /// One stream by its number.
    One { number: u64, max_packets: usize },
    /// The first streams that the filter may select.
    First { max_packets: usize },
}

/// A stream that is not over.
#[derive(Debug, Default)]
pub(super) struct OpenStream {
    tracker: TimeTracker,
    longest_stall: Nanos,
}

impl Watcher {
    /// Whether every packet is needed, not just the evidence.
    fn needs_packets(&self) -> bool {
        self.tables.is_some() || self.filter.as_ref().is_some_and(Filter::asks_for_stalls)
    }

    fn selects_now(&self, known: &KnownStream) -> Option<bool> {
        if let Some(selected) = &self.known {
            return Some(selected.has(known.number));
        }
        self.filter.as_ref().map_or(Some(true), |filter| filter.selects(known))
    }

    /// Whether a packet between these ends belongs to a selected stream.
    pub(super) fn selects_packet(&self, number: u64, ends: [SocketAddr; 2]) -> bool {
        let known = KnownStream { ends, number, longest_stall: Duration::ZERO, over: false };
        self.selects_now(&known).unwrap_or(false)
    }

    /// Writes rows, unless that failed before.
    fn write(&mut self, write: impl FnOnce(&mut Tables) -> anyhow::Result<()>) {
        if let Some(tables) = &mut self.tables
            && self.failed.is_none()
            && let Err(failure) = write(tables)
        {
            self.failed = Some(failure);
        }
    }

    /// Records a packet of a stream that may be shown.
    fn record(&mut self, segment: &WatchedSegment<'_>) {
        let stream = segment.stream.number;
        let max_packets = match self.recording {
            Recording::One { number, max_packets } if number == stream => max_packets,
            Recording::First { max_packets } => max_packets,
            _ => return,
        };
        let ends = segment.stream.addresses();
        let known =
            KnownStream { ends, number: stream, longest_stall: Duration::ZERO, over: false };
        if let Some(recorder) = self.recorders.get_mut(&stream) {
            return recorder.record(segment);
        }
        // A stream is recorded from its first packet, or not at all.
        let packets_so_far = segment.stream.captured_packets();
        let is_wanted = matches!(self.recording, Recording::One { .. })
            || self.recorders.len() < MAX_RECORDED_STREAMS
                && self.selects_now(&known) != Some(false);
        if packets_so_far == 1 && is_wanted {
            self.recorders
                .entry(stream)
                .or_insert_with(|| Recorder::new(max_packets))
                .record(segment);
        }
    }

    /// The longest stall of a stream that is over.
    fn longest_stall(&self, stream: &Stream) -> Nanos {
        let Some(open) = self.open.get(&stream.number) else { return 0 };
        let (since, _) = open.tracker.end(stream);
        let closed = open.tracker.open_stall(stream).map_or(0, |(_, time)| time);
        open.longest_stall.max(since.lost()).max(closed)
    }
}

impl Watch for Watcher {
    fn wants(&self, stream: u64) -> bool {
        match self.recording {
            Recording::One { number, .. } if number == stream => true,
            Recording::First { .. } => true,
            _ => self.needs_packets(),
        }
    }

    fn segment(&mut self, segment: &WatchedSegment<'_>) {
        self.record(segment);
        if !self.needs_packets() {
            return;
        }
        let (stream, number) = (segment.stream, segment.stream.number);
        let ends = stream.addresses();
        let known = KnownStream { ends, number, longest_stall: Duration::ZERO, over: false };
        let now = self.selects_now(&known);
        if now == Some(false) {
            return;
        }
        let open = self.open.entry(number).or_default();
        let (since, ended) = open.tracker.packet(stream, segment.event);
        open.longest_stall = open.longest_stall.max(events::stall_time(segment, &since));
        if self.tables.is_none() || now.is_none() {
            return;
        }
        self.write(|tables| {
            tables.set_start(segment.capture_began);
            if let Some(ended) = ended {
                tables.exchange(&ended.captured(stream, segment.capture_began))?;
            }
            let mut found = Vec::new();
            events::of_segment(segment, &since, |event| found.push(event));
            found.iter().try_for_each(|event| tables.event(event))
        });
    }

    fn selects(&self, stream: &Stream, captured: &CapturedStream) -> bool {
        let longest_stall = Duration::from_nanos(self.longest_stall(stream).max(0).cast_unsigned());
        let ends = [captured.client, captured.server];
        let known = KnownStream { ends, number: captured.number, longest_stall, over: true };
        self.selects_now(&known).unwrap_or(false)
    }

    fn end_stream(
        &mut self,
        stream: &Stream,
        captured: &CapturedStream,
        began: Nanos,
        selected: bool,
    ) {
        let open = self.open.remove(&captured.number);
        let recorder = self.recorders.remove(&captured.number);
        let may_be_shown = match self.recording {
            Recording::None => false,
            Recording::One { number, .. } => number == captured.number,
            Recording::First { .. } => selected && recorder.is_some(),
        };
        if may_be_shown {
            let recorded = recorder.map(|recorder| recorder.finish(stream, began));
            self.recorded.insert(captured.number, (captured.clone(), recorded));
            self.keep_worst();
        }
        if !selected {
            return;
        }
        if let Some(selected) = &mut self.selected {
            selected.add(captured.number);
        }
        self.write(|tables| {
            tables.set_start(began);
            if let Some(open) = open {
                let (_, last) = open.tracker.end(stream);
                if let Some(last) = last {
                    tables.exchange(&last.captured(stream, began))?;
                }
                if let Some(event) = events::open_stall(stream, &open.tracker, began) {
                    tables.event(&event)?;
                }
            }
            tables.stream(captured)
        });
    }
}

impl Watcher {
    /// Drops the recording of the stream that lost least time, if there are too many.
    fn keep_worst(&mut self) {
        if self.recorded.len() > MAX_RECORDED_STREAMS {
            let least = self.recorded.iter().min_by_key(|(_, (stream, _))| stream.lost_us());
            if let Some(number) = least.map(|(number, _)| *number) {
                self.recorded.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamNumbers;

    #[test]
    fn stream_numbers_are_bits() {
        let mut numbers = StreamNumbers::default();
        [0, 63, 64, 1_000].into_iter().for_each(|number| numbers.add(number));
        let all: Vec<u64> = (0..2_000).filter(|number| numbers.has(*number)).collect();
        assert_eq!(all, [0, 63, 64, 1_000]);
        assert!(!numbers.has(u64::MAX));
    }
}
