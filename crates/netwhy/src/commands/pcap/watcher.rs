//! Who watches a capture while it is read: selects streams by the filter, records the stream that is
//! shown in depth, writes rows.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use model::CapturedStream;
use streams::depth::{Recorder, StreamRecording, TimeTracker, events};
use streams::{Nanos, Stream, Watch, WatchedSegment};

use super::filter::{Filter, Known};
use super::rows::Rows;

/// Streams that are recorded at once, when which of them is shown is known only at the end.
pub(super) const CANDIDATES: usize = 64;

/// Watches a capture.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) filter: Option<Filter>,
    /// The streams that are selected, where that is known before.
    pub(super) known: Option<Numbers>,
    /// Streams that are selected, where they are to be known afterwards.
    pub(super) selected: Option<Numbers>,
    pub(super) record: Record,
    pub(super) rows: Option<Rows>,
    /// Why rows could not be written.
    pub(super) failed: Option<anyhow::Error>,
    pub(super) streams: HashMap<u64, Watched>,
    pub(super) recorders: BTreeMap<u64, Recorder>,
    /// What was recorded of streams that are over.
    pub(super) recorded: BTreeMap<u64, (CapturedStream, Option<StreamRecording>)>,
}

/// Numbers of streams, a bit for each: there may be millions.
#[derive(Debug, Default, Clone)]
pub(super) struct Numbers(Vec<u64>);

impl Numbers {
    fn add(&mut self, number: u64) {
        let Ok(place) = usize::try_from(number / 64) else { return };
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        self.0[place] |= 1 << (number % 64);
    }

    fn has(&self, number: u64) -> bool {
        let bits = usize::try_from(number / 64).ok().and_then(|place| self.0.get(place));
        bits.is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }
}

/// Which streams are recorded packet by packet.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Record {
    /// None.
    #[default]
    None,
    /// This one, with so many packets.
    One(u64, usize),
    /// The first that may be selected, with so many packets each.
    First(usize),
}

/// A stream that goes on.
#[derive(Debug, Default)]
pub(super) struct Watched {
    tracker: TimeTracker,
    longest: Nanos,
}

impl Watcher {
    /// Whether every packet is looked at; else the evidence alone is made.
    fn looks(&self) -> bool {
        self.rows.is_some() || self.filter.as_ref().is_some_and(Filter::asks_for_stalls)
    }

    fn selects_now(&self, known: &Known) -> Option<bool> {
        if let Some(selected) = &self.known {
            return Some(selected.has(known.number));
        }
        self.filter.as_ref().map_or(Some(true), |filter| filter.selects(known))
    }

    /// Whether a packet between these ends belongs to a stream that is selected.
    pub(super) fn selects_packet(&self, number: u64, ends: [SocketAddr; 2]) -> bool {
        let known = Known { ends, number, longest_stall: Duration::ZERO, over: false };
        self.selects_now(&known).unwrap_or(false)
    }

    fn row(&mut self, write: impl FnOnce(&mut Rows) -> anyhow::Result<()>) {
        if let Some(rows) = &mut self.rows
            && self.failed.is_none()
            && let Err(failure) = write(rows)
        {
            self.failed = Some(failure);
        }
    }

    /// Records a packet of a stream that may be shown.
    fn record(&mut self, segment: &WatchedSegment<'_>) {
        let number = segment.stream.number;
        let packets = match self.record {
            Record::One(wanted, packets) if wanted == number => packets,
            Record::First(packets) => packets,
            _ => return,
        };
        let ends = segment.stream.addresses();
        let known = Known { ends, number, longest_stall: Duration::ZERO, over: false };
        if let Some(recorder) = self.recorders.get_mut(&number) {
            return recorder.record(segment);
        }
        // From its first packet, or not at all.
        let packets_so_far = segment.stream.captured_packets();
        let one = matches!(self.record, Record::One(..));
        let room = self.recorders.len() < CANDIDATES && self.selects_now(&known) != Some(false);
        if packets_so_far == 1 && (one || room) {
            self.recorders.entry(number).or_insert_with(|| Recorder::new(packets)).record(segment);
        }
    }

    /// The longest stall of a stream that is over.
    fn longest(&self, stream: &Stream) -> Nanos {
        let Some(watched) = self.streams.get(&stream.number) else { return 0 };
        let (since, _) = watched.tracker.end(stream);
        let closed = watched.tracker.open_stall(stream).map_or(0, |(_, time)| time);
        watched.longest.max(since.lost()).max(closed)
    }
}

impl Watch for Watcher {
    fn wants(&self, stream: u64) -> bool {
        match self.record {
            Record::One(wanted, _) if wanted == stream => true,
            Record::First(_) => true,
            _ => self.looks(),
        }
    }

    fn segment(&mut self, segment: &WatchedSegment<'_>) {
        self.record(segment);
        if !self.looks() {
            return;
        }
        let (stream, number) = (segment.stream, segment.stream.number);
        let ends = stream.addresses();
        let known = Known { ends, number, longest_stall: Duration::ZERO, over: false };
        let now = self.selects_now(&known);
        if now == Some(false) {
            return;
        }
        let watched = self.streams.entry(number).or_default();
        let (since, ended) = watched.tracker.packet(stream, segment.event);
        watched.longest = watched.longest.max(events::stall_time(segment, &since));
        if self.rows.is_none() || now.is_none() {
            return;
        }
        self.row(|rows| {
            rows.began(segment.capture_began);
            if let Some(ended) = ended {
                rows.turn(&ended.captured(stream, segment.capture_began))?;
            }
            let mut found = Vec::new();
            events::of_segment(segment, &since, |event| found.push(event));
            found.iter().try_for_each(|event| rows.event(event))
        });
    }

    fn selects(&self, stream: &Stream, told: &CapturedStream) -> bool {
        let longest = Duration::from_nanos(self.longest(stream).max(0).cast_unsigned());
        let ends = [told.client, told.server];
        let known = Known { ends, number: told.number, longest_stall: longest, over: true };
        self.selects_now(&known).unwrap_or(false)
    }

    fn end_stream(&mut self, stream: &Stream, told: &CapturedStream, began: Nanos, selected: bool) {
        let watched = self.streams.remove(&told.number);
        let recorder = self.recorders.remove(&told.number);
        let wanted = match self.record {
            Record::None => false,
            Record::One(wanted, _) => wanted == told.number,
            Record::First(_) => selected && recorder.is_some(),
        };
        if wanted {
            let recorded = recorder.map(|recorder| recorder.finish(stream, began));
            self.recorded.insert(told.number, (told.clone(), recorded));
            self.keep_worst();
        }
        if !selected {
            return;
        }
        if let Some(selected) = &mut self.selected {
            selected.add(told.number);
        }
        self.row(|rows| {
            rows.began(began);
            if let Some(watched) = watched {
                let (_, last) = watched.tracker.end(stream);
                if let Some(last) = last {
                    rows.turn(&last.captured(stream, began))?;
                }
                if let Some(event) = events::open_stall(stream, &watched.tracker, began) {
                    rows.event(&event)?;
                }
            }
            rows.stream(told)
        });
    }
}

impl Watcher {
    /// Of the streams that are over, those that may be shown: the worst ones.
    fn keep_worst(&mut self) {
        if self.recorded.len() > CANDIDATES {
            let least = self.recorded.iter().min_by_key(|(_, (told, _))| told.lost_us());
            if let Some(number) = least.map(|(number, _)| *number) {
                self.recorded.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn numbers_are_bits() {
        let mut numbers = Numbers::default();
        [0, 63, 64, 1_000].into_iter().for_each(|number| numbers.add(number));
        let all: Vec<u64> = (0..2_000).filter(|number| numbers.has(*number)).collect();
        assert_eq!(all, [0, 63, 64, 1_000]);
        assert!(!numbers.has(u64::MAX));
    }
}
