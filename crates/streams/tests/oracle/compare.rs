//! netwhy and tshark on one capture, frame by frame.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;

use streams::{SegmentCounts, SegmentKind};

use super::captures::{Read, Segment};
use super::classes::{Case, Subject};
use super::facts::Streams;
use super::frame::{Again, Frame};

/// The comparison of one capture.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) totals: Totals,
    /// Disagreements: class, and number of the frame.
    pub(crate) classed: Vec<(usize, u64)>,
    /// Disagreements with no class or several, and other errors.
    pub(crate) wrong: Vec<String>,
}

/// What both agree on.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) streams: u64,
    pub(crate) packets: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) retransmitted: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) zero_windows: u64,
    pub(crate) handshakes: u64,
}

impl Compared {
    fn disagree(&mut self, number: u64, case: Case<'_>) {
        match case.classes()[..] {
            [class] => self.classed.push((class, number)),
            ref classes => self.wrong.push(format!("frame {number}, {classes:?}: {case:?}")),
        }
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// A frame with a segment for both.
    fn packet(&mut self, frame: &Frame, segment: Segment, facts: super::facts::Facts) {
        let (ours, theirs) = (segment.verdict, frame.verdict);
        let mut differ = |differs: bool, subject| {
            if differs {
                self.disagree(frame.number, Case::Packet(subject, frame, segment, facts));
            }
        };
        differ(frame.length != Some(segment.length), Subject::Length);
        differ(ours.again != theirs.again, Subject::Again);
        differ(ours.duplicate_ack != theirs.duplicate_ack, Subject::DuplicateAck);
        differ(ours.zero_window != theirs.zero_window, Subject::ZeroWindow);
        let both = |one: bool, other: bool| u64::from(one && other);
        let again = |kind| both(ours.again == kind, theirs.again == kind);
        let totals = &mut self.totals;
        totals.packets += 1;
        totals.segments += both(segment.length > 0, frame.length.is_some_and(|length| length > 0));
        totals.bytes += frame.length.filter(|length| *length == segment.length).unwrap_or(0);
        totals.retransmitted += again(Again::Retransmitted);
        totals.reordered += again(Again::Reordered);
        totals.duplicate_acks += both(ours.duplicate_ack, theirs.duplicate_ack);
        totals.zero_windows += both(ours.zero_window, theirs.zero_window);
        self.check(frame.from == segment.from, || format!("frame {}: sender", frame.number));
        // Where both agree, both may be wrong. Whether a frame is a duplicate is known from all frames
        // before it, and data that never passed was retransmitted only if a time stamp or an
        // identification shows it.
        let is_duplicate = segment.kind == SegmentKind::DuplicatePacket;
        self.check(is_duplicate == facts.is_duplicate || (is_duplicate && facts.is_copy), || {
            format!("frame {}: a duplicate? {segment:?} {facts:?}", frame.number)
        });
        let is_retransmitted = ours.again == Again::Retransmitted;
        self.check(!is_retransmitted || facts.passed > 0 || facts.after_later, || {
            format!("frame {}: never passed before: {segment:?} {facts:?}", frame.number)
        });
        let is_late = ours.again == Again::Reordered;
        self.check(!is_late || !(facts.after_first || facts.after_later), || {
            format!("frame {}: sent later, not late: {segment:?} {facts:?}", frame.number)
        });
    }
}

/// Compares what `streams` says of a capture with the frames of tshark.
pub(crate) fn compare(path: &Path, read: &Read, frames: &[Frame]) -> Compared {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut compared = Compared { name, ..Compared::default() };
    let mut streams = Streams::default();
    // Streams of each to those of the other.
    let (mut ours, mut theirs) = (HashMap::new(), HashMap::new());
    for frame in frames {
        match read.packets.get(&frame.number) {
            Some(Ok(segment)) => {
                let facts = streams.take(frame, segment.length);
                compared.packet(frame, *segment, facts);
                let one = *ours.entry(frame.stream).or_insert(segment.stream) == segment.stream;
                let other = *theirs.entry(segment.stream).or_insert(frame.stream) == frame.stream;
                compared.check(one && other, || format!("frame {}: stream", frame.number));
            }
            Some(Err(skip)) => {
                compared.disagree(frame.number, Case::Missing(Some(frame), Err(*skip)));
            }
            None => compared.wrong.push(format!("frame {}: not read", frame.number)),
        }
    }
    let known: BTreeSet<u64> = frames.iter().map(|frame| frame.number).collect();
    let mut alone = BTreeSet::new();
    for (number, segment) in &read.packets {
        if let Ok(segment) = segment
            && !known.contains(number)
        {
            alone.insert(segment.stream);
            compared.disagree(*number, Case::Missing(None, Ok(*segment)));
        }
    }
    alone.retain(|stream| !theirs.contains_key(stream));
    let counted = theirs.len() + alone.len();
    compared.check(read.streams.len() == counted, || format!("{counted} streams"));
    compared.totals.streams = theirs.len() as u64;
    for (number, stream) in streams.all() {
        let (handshake, has_times) = stream.handshake();
        let opened = ours.get(&number).and_then(|ours| {
            read.streams.iter().find(|stream| stream.number == *ours)?.handshake.duration()
        });
        compared.check(!has_times || opened == handshake.time(), || {
            format!("stream {number}: handshake {opened:?}, {handshake:?}")
        });
        let apart = opened.zip(handshake.theirs).map(|(one, other)| (one - other).abs());
        if apart.is_some_and(|apart| apart <= 1_000) {
            compared.totals.handshakes += 1;
        } else if opened.is_some() || handshake.theirs.is_some() {
            compared.disagree(stream.first, Case::Handshake(handshake, has_times, opened));
        }
    }
    directions(read, &mut compared);
    compared
}

/// The counts of each direction are the sums of its packets.
fn directions(read: &Read, compared: &mut Compared) {
    let mut sums: HashMap<(u64, SocketAddr), SegmentCounts> = HashMap::new();
    let mut retransmitted: HashMap<(u64, SocketAddr), u64> = HashMap::new();
    for segment in read.packets.values().flatten() {
        let key = (segment.stream, segment.from);
        let sum = sums.entry(key).or_default();
        if segment.kind == SegmentKind::DuplicatePacket {
            sum.duplicate_packets += 1;
            sum.duplicate_bytes += segment.length;
            continue;
        }
        sum.packets += 1;
        sum.data_packets += u64::from(segment.length > 0);
        sum.bytes += segment.length;
        sum.duplicate_acks += u32::from(segment.verdict.duplicate_ack);
        sum.zero_windows += u32::from(segment.verdict.zero_window);
        sum.reordered += u32::from(segment.verdict.again == Again::Reordered);
        // Counted are segments with data.
        let is_counted = segment.length > 0 && segment.verdict.again == Again::Retransmitted;
        *retransmitted.entry(key).or_default() += u64::from(is_counted);
    }
    for stream in &read.streams {
        for end in stream.ends.iter() {
            let key = (stream.number, end.address);
            let sum = sums.remove(&key).unwrap_or_default();
            let counts = &end.sent.counts;
            // A late original takes its retransmission out of the count of losses.
            let retransmitted = retransmitted.remove(&key).unwrap_or_default();
            let counted = counts.retransmitted() + u64::from(counts.late_originals);
            let of = |counts: &SegmentCounts| {
                [
                    counts.packets,
                    counts.data_packets,
                    counts.bytes,
                    counts.duplicate_bytes,
                    counts.duplicate_packets.into(),
                    counts.duplicate_acks.into(),
                    counts.zero_windows.into(),
                ]
            };
            compared.check(of(counts) == of(&sum) && counted == retransmitted, || {
                let (number, address) = key;
                format!("stream {number}, {address}: {counts:?}, {retransmitted} of {sum:?}")
            });
        }
    }
    compared.check(sums.is_empty(), || format!("packets of no direction: {sums:?}"));
}
