//! The captures, and what `streams` says of them packet by packet.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use streams::{SegmentKind, Stall, Stream, Table};
use sys::capture::Capture;
use wire::packet::{DecodeError, Tcp, decode};

use super::frame::{Again, Verdict};

/// The captures of a folder; `None` without them: the calling test is skipped.
pub(crate) fn of(folder: &str) -> Option<Vec<PathBuf>> {
    let folder = test_support::captures(folder)?;
    let mut all = Vec::new();
    files(&folder, &mut all);
    assert!(!all.is_empty(), "no captures in {}", folder.display());
    Some(all)
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, into);
        } else if path
            .extension()
            .is_some_and(|end| end == "pcap" || end == "pcapng" || end == "gz")
        {
            into.push(path);
        }
    }
}

/// What `streams` says of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) stream: u64,
    pub(crate) from: SocketAddr,
    pub(crate) length: u64,
    pub(crate) kind: SegmentKind,
    pub(crate) verdict: Verdict,
}

/// A capture, read to its end.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// By the number of the frame, from 1: its segment, or why there is none.
    pub(crate) packets: HashMap<u64, Result<Segment, DecodeError>>,
    /// All streams by number, those that were replaced included.
    pub(crate) streams: Vec<Stream>,
    pub(crate) stalls: Vec<Stall>,
}

impl Read {
    /// Whether it has a segment.
    pub(crate) fn has_segments(&self) -> bool {
        self.packets.values().any(Result::is_ok)
    }
}

pub(crate) fn read(path: &Path) -> Read {
    let mut read = Read::default();
    let mut table = Table::new();
    let mut capture = Capture::open(path).expect("a capture");
    let mut number = 0;
    // Duplicate acknowledgements and zero windows of each stream so far.
    let mut counted: HashMap<u64, (u32, u32)> = HashMap::new();
    let Read { packets, streams, stalls } = &mut read;
    let each = |packet: wire::capture::Packet<'_>| {
        number += 1;
        table.set_packet(number);
        let decoded = decode(packet.link, packet.bytes, packet.length);
        let decoded = decoded.and_then(|decoded| Tcp::of(&decoded.ip).map(|tcp| (decoded, tcp)));
        let (decoded, tcp) = match decoded {
            Ok(both) => both,
            Err(skip) => {
                packets.insert(number, Err(skip));
                return ControlFlow::Continue(());
            }
        };
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
        let taken = table.take(&decoded, &tcp, at, &mut |stream| streams.push(stream.clone()));
        stalls.extend(taken.event.stall);
        let counts = || taken.stream.ends.iter().map(|end| &end.sent.counts);
        let now = (
            counts().map(|counts| counts.duplicate_acks).sum(),
            counts().map(|counts| counts.zero_windows).sum(),
        );
        let before = counted.insert(taken.stream.number, now).unwrap_or_default();
        let again = match taken.event.kind {
            kind if kind.is_retransmission() => Again::Retransmitted,
            SegmentKind::Reordered => Again::Reordered,
            _ => Again::No,
        };
        let segment = Segment {
            stream: taken.stream.number,
            from: SocketAddr::new(decoded.ip.source, tcp.source),
            length: tcp.length.into(),
            kind: taken.event.kind,
            verdict: Verdict {
                again,
                duplicate_ack: now.0 > before.0,
                zero_window: now.1 > before.1,
            },
        };
        packets.insert(number, Ok(segment));
        ControlFlow::Continue(())
    };
    // Of a damaged capture, what is before the damage counts.
    let _ = capture.for_each_packet(each);
    streams.extend(table.streams().iter().cloned());
    streams.sort_by_key(|stream| stream.number);
    assert_eq!(streams.len() as u64, table.count());
    stalls.extend(streams.iter_mut().flat_map(|stream| stream.end_stalls()).flatten());
    read
}
