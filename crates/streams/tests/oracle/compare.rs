//! One capture through both, frame by frame.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;

use streams::Kind;
use streams::direction::Counts;

use super::captures::{Read, Seen};
use super::classes::{Case, Subject};
use super::facts::Streams;
use super::frame::{Again, Frame};

/// What was compared in a capture, and on what they disagree.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) totals: Totals,
    /// Class and number of the frame.
    pub(crate) classed: Vec<(usize, u64)>,
    /// What has no class, or more than one; and what else is wrong.
    pub(crate) wrong: Vec<String>,
}

/// What both see, and what both say of it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) streams: u64,
    pub(crate) packets: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) repeated: u64,
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

    /// A frame in which both see a segment.
    fn packet(&mut self, frame: &Frame, seen: Seen, facts: super::facts::Facts) {
        let (ours, theirs) = (seen.says, frame.says);
        let mut differ = |differs: bool, subject| {
            if differs {
                self.disagree(frame.number, Case::Packet(subject, frame, seen, facts));
            }
        };
        differ(frame.length != Some(seen.length), Subject::Length);
        differ(ours.again != theirs.again, Subject::Again);
        differ(ours.duplicate_ack != theirs.duplicate_ack, Subject::DuplicateAck);
        differ(ours.zero_window != theirs.zero_window, Subject::ZeroWindow);
        let both = |one: bool, other: bool| u64::from(one && other);
        let again = |kind| both(ours.again == kind, theirs.again == kind);
        let totals = &mut self.totals;
        totals.packets += 1;
        totals.segments += both(seen.length > 0, frame.length.is_some_and(|length| length > 0));
        totals.bytes += frame.length.filter(|length| *length == seen.length).unwrap_or(0);
        totals.repeated += again(Again::Repeated);
        totals.reordered += again(Again::Reordered);
        totals.duplicate_acks += both(ours.duplicate_ack, theirs.duplicate_ack);
        totals.zero_windows += both(ours.zero_window, theirs.zero_window);
        self.check(frame.from == seen.from, || format!("frame {}: sender", frame.number));
        // Where both agree they may both be wrong. A frame is a copy or not by all frames before,
        // and what never passed was sent again only if a stamp or an identification says so.
        self.check((seen.kind == Kind::Copy) == facts.copy, || {
            format!("frame {}: a copy? {seen:?} {facts:?}", frame.number)
        });
        let repeated = ours.again == Again::Repeated;
        self.check(!repeated || facts.passed > 0 || facts.after_later, || {
            format!("frame {}: never passed before: {seen:?} {facts:?}", frame.number)
        });
        let late = ours.again == Again::Reordered;
        self.check(!late || !(facts.after_first || facts.after_later), || {
            format!("frame {}: sent later, not late: {seen:?} {facts:?}", frame.number)
        });
    }
}

/// Compares what `streams` made of a capture with the frames of tshark.
pub(crate) fn compare(path: &Path, read: &Read, frames: &[Frame]) -> Compared {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut compared = Compared { name, ..Compared::default() };
    let mut streams = Streams::default();
    // Streams of one to those of the other, each to one.
    let (mut ours, mut theirs) = (HashMap::new(), HashMap::new());
    for frame in frames {
        match read.packets.get(&frame.number) {
            Some(Ok(seen)) => {
                let facts = streams.take(frame, seen.length);
                compared.packet(frame, *seen, facts);
                let one = *ours.entry(frame.stream).or_insert(seen.stream) == seen.stream;
                let other = *theirs.entry(seen.stream).or_insert(frame.stream) == frame.stream;
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
    for (number, seen) in &read.packets {
        if let Ok(seen) = seen
            && !known.contains(number)
        {
            alone.insert(seen.stream);
            compared.disagree(*number, Case::Missing(None, Ok(*seen)));
        }
    }
    alone.retain(|stream| !theirs.contains_key(stream));
    let counted = theirs.len() + alone.len();
    compared.check(read.streams.len() == counted, || format!("{counted} streams"));
    compared.totals.streams = theirs.len() as u64;
    for (number, stream) in streams.all() {
        let (handshake, clock) = stream.handshake();
        let opened = ours.get(&number).and_then(|ours| {
            read.streams.iter().find(|stream| stream.number == *ours)?.handshake_time()
        });
        compared.check(!clock || opened == handshake.time(), || {
            format!("stream {number}: handshake {opened:?}, {handshake:?}")
        });
        let apart = opened.zip(handshake.theirs).map(|(one, other)| (one - other).abs());
        if apart.is_some_and(|apart| apart <= 1_000) {
            compared.totals.handshakes += 1;
        } else if opened.is_some() || handshake.theirs.is_some() {
            compared.disagree(stream.first, Case::Handshake(handshake, clock, opened));
        }
    }
    directions(read, &mut compared);
    compared
}

/// The counts of each direction are those of its packets.
fn directions(read: &Read, compared: &mut Compared) {
    let mut sums: HashMap<(u64, SocketAddr), Counts> = HashMap::new();
    let mut again: HashMap<(u64, SocketAddr), u64> = HashMap::new();
    for seen in read.packets.values().flatten() {
        let sum = sums.entry((seen.stream, seen.from)).or_default();
        if seen.kind == Kind::Copy {
            sum.copies += 1;
            sum.copied_bytes += seen.length;
            continue;
        }
        sum.packets += 1;
        sum.data += u64::from(seen.length > 0);
        sum.bytes += seen.length;
        sum.duplicate_acks += u32::from(seen.says.duplicate_ack);
        sum.zero_windows += u32::from(seen.says.zero_window);
        sum.reordered += u32::from(seen.says.again == Again::Reordered);
        *again.entry((seen.stream, seen.from)).or_default() +=
            u64::from(seen.says.again == Again::Repeated);
    }
    for stream in &read.streams {
        for (end, direction) in stream.ends.iter().zip(&stream.directions) {
            let key = (stream.number, *end);
            let sum = sums.remove(&key).unwrap_or_default();
            let counts = &direction.counts;
            // A late original takes back what was counted as sent again for a loss.
            let repeated = again.remove(&key).unwrap_or_default();
            let told = counts.retransmissions() + u64::from(counts.late_originals);
            let of = |counts: &Counts| {
                [
                    counts.packets,
                    counts.data,
                    counts.bytes,
                    counts.copied_bytes,
                    counts.copies.into(),
                    counts.duplicate_acks.into(),
                    counts.zero_windows.into(),
                ]
            };
            compared.check(of(counts) == of(&sum) && told == repeated, || {
                format!("stream {}, {end}: {counts:?}, {repeated} of {sum:?}", stream.number)
            });
        }
    }
    compared.check(sums.is_empty(), || format!("packets of no direction: {sums:?}"));
}
