//! The captures, and what `streams` makes of them packet by packet.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use streams::{Kind, Stall, Stream, Table};
use sys::capture::Capture;
use wire::packet::{DecodeError, Tcp, decode};

use super::frame::{Again, Verdict};

/// The captures of a folder; `None`, after saying so, without them.
pub(crate) fn of(folder: &str) -> Option<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folder = std::env::var_os("NETWHY_CAPTURES").map_or(beside, PathBuf::from).join(folder);
    let mut all = Vec::new();
    files(&folder, &mut all);
    if all.is_empty() {
        eprintln!("skipped: no captures in {} (NETWHY_CAPTURES names others)", folder.display());
        return None;
    }
    Some(all)
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
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

/// What a packet is for `streams`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stream: u64,
    pub(crate) from: SocketAddr,
    pub(crate) length: u64,
    pub(crate) kind: Kind,
    pub(crate) says: Verdict,
}

/// A capture, read to its end.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// By the number of the frame, from 1: what it is, or why it is no TCP.
    pub(crate) packets: HashMap<u64, Result<Seen, DecodeError>>,
    /// All streams, those that were replaced too, by their numbers.
    pub(crate) streams: Vec<Stream>,
    pub(crate) stalls: Vec<Stall>,
}

impl Read {
    /// Whether `streams` sees a segment in it.
    pub(crate) fn has_segments(&self) -> bool {
        self.packets.values().any(Result::is_ok)
    }
}

pub(crate) fn read(path: &Path) -> Read {
    let mut read = Read::default();
    let mut table = Table::new();
    let mut capture = Capture::open(path).expect("a capture");
    let mut number = 0;
    // Duplicate acknowledgements and closed windows of a stream so far.
    let mut so_far: HashMap<u64, (u32, u32)> = HashMap::new();
    let Read { packets, streams, stalls } = &mut read;
    let each = |packet: wire::capture::Packet<'_>| {
        number += 1;
        table.number(number);
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
        let counts = taken.stream.directions.each_ref().map(|direction| &direction.counts);
        let now = (
            counts.iter().map(|counts| counts.duplicate_acks).sum(),
            counts.iter().map(|counts| counts.zero_windows).sum(),
        );
        let before = so_far.insert(taken.stream.number, now).unwrap_or_default();
        let again = match taken.event.kind {
            Kind::Repeated | Kind::RepeatedFast | Kind::RepeatedTimeout | Kind::RepeatedUnseen => {
                Again::Repeated
            }
            Kind::Reordered => Again::Reordered,
            _ => Again::No,
        };
        let seen = Seen {
            stream: taken.stream.number,
            from: SocketAddr::new(decoded.ip.source, tcp.source),
            length: tcp.length.into(),
            kind: taken.event.kind,
            says: Verdict { again, duplicate_ack: now.0 > before.0, zero_window: now.1 > before.1 },
        };
        packets.insert(number, Ok(seen));
        ControlFlow::Continue(())
    };
    // Damaged ones too: what is before the damage counts.
    let _ = capture.for_each_packet(each);
    streams.extend(table.streams().iter().cloned());
    streams.sort_by_key(|stream| stream.number);
    assert_eq!(streams.len() as u64, table.count());
    stalls.extend(streams.iter_mut().flat_map(|stream| stream.last_stalls().collect::<Vec<_>>()));
    read
}
