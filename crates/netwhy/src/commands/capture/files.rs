//! The files of a capture: pcapng, one after the other, each whole in itself.
//!
//! What is written to a file are whole blocks. When one cannot be written, the file is cut back to
//! the last that was.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sys::packet_ring::Counts;
use wire::capture::Packet;
use wire::capture::write::{self, Flags, Record, Statistics};

use super::names::Names;
use crate::packets::Sink;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 << 10;
/// Bytes of the statistics of one interface at the end of a file, and a few more.
const STATISTICS: u64 = 128;

/// When to begin another file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// Before it would have more bytes.
    pub(super) bytes: Option<u64>,
    /// When it is so old and another packet comes.
    pub(super) time: Option<Duration>,
}

/// A capture could not be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    name: String,
    pub(super) source: io::Error,
}

impl std::fmt::Display for Unwritten {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "cannot write {}: {}", self.name, words(&self.source))
    }
}

impl std::error::Error for Unwritten {}

fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Where blocks go.
enum Out {
    Standard(io::Stdout),
    File(File),
}

/// The files.
pub(super) struct Files {
    names: Names,
    limits: Limits,
    out: Out,
    /// Section and interfaces: the beginning of each file.
    head: Vec<u8>,
    /// Whole blocks that are not written yet.
    buffer: Vec<u8>,
    /// Bytes of the current file that are written.
    written: u64,
    /// Number of the current file, from 0.
    number: u64,
    since: Instant,
    since_ns: i128,
    interfaces: Vec<Interface>,
    packets_here: u64,
    /// Bytes of the packets in the buffer.
    pending_bytes: u64,
    total: Total,
}

/// What is known of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct Interface {
    now: Counts,
    /// When the current file was begun.
    then: Counts,
    /// Packets in the current file, and in the buffer.
    delivered: u64,
    pending: u64,
}

/// What was written, in all files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    pub(super) packets: u64,
    /// Bytes of the packets, as captured.
    pub(super) packet_bytes: u64,
    /// Bytes of the files, those written anew since among them.
    pub(super) file_bytes: u64,
}

impl Files {
    /// Standard output.
    pub(super) fn standard(head: Vec<u8>, interfaces: usize) -> Self {
        let out = Out::Standard(io::stdout());
        Files::of(out, Names::one(Path::new("-")), Limits::default(), head, interfaces)
    }

    /// The first file of some names, which is open.
    pub(super) fn begin(
        mut names: Names,
        limits: Limits,
        head: Vec<u8>,
        interfaces: usize,
    ) -> Result<Self, Unwritten> {
        let file = names.open(0);
        let file = file.map_err(|source| Unwritten { name: show(&names.path(0)), source })?;
        Ok(Files::of(Out::File(file), names, limits, head, interfaces))
    }

    fn of(out: Out, names: Names, limits: Limits, head: Vec<u8>, interfaces: usize) -> Self {
        Files {
            names,
            limits,
            out,
            buffer: head.clone(),
            head,
            written: 0,
            number: 0,
            since: Instant::now(),
            since_ns: now_ns(),
            interfaces: vec![Interface::default(); interfaces],
            packets_here: 0,
            pending_bytes: 0,
            total: Total::default(),
        }
    }

    /// What was written.
    pub(super) fn total(&self) -> Total {
        self.total
    }

    /// The files there are now, oldest first: first and last, and how many.
    pub(super) fn there_are(&self) -> (PathBuf, PathBuf, u64) {
        let Range { start, end } = self.names.kept(self.number);
        (self.names.path(start), self.names.path(self.number), end - start)
    }

    /// Ends the last file.
    pub(super) fn finish(&mut self) -> Result<(), Unwritten> {
        self.end()?;
        // Files that were made and not needed are captures too, without packets.
        for (path, mut file) in self.names.unused(self.number) {
            file.write_all(&self.head).map_err(|source| Unwritten { name: show(&path), source })?;
        }
        Ok(())
    }

    /// Writes what the interfaces counted, and all that is left of the current file.
    fn end(&mut self) -> Result<(), Unwritten> {
        let until_ns = now_ns();
        for (number, interface) in self.interfaces.iter().enumerate() {
            let (now, then) = (interface.now, interface.then);
            write::statistics(
                &mut self.buffer,
                &Statistics {
                    interface: number as u32,
                    since_ns: self.since_ns,
                    until_ns,
                    received: Some(now.received - then.received),
                    dropped: Some(now.dropped - then.dropped),
                    delivered: Some(interface.delivered + interface.pending),
                },
            );
        }
        self.flush()
    }

    /// Ends the current file and begins the next.
    fn next(&mut self) -> Result<(), Unwritten> {
        self.end()?;
        self.number += 1;
        let file = self.names.open(self.number);
        let name = || show(&self.names.path(self.number));
        let file = file.map_err(|source| Unwritten { name: name(), source })?;
        self.out = Out::File(file);
        self.written = 0;
        self.packets_here = 0;
        self.since = Instant::now();
        self.since_ns = now_ns();
        self.interfaces.iter_mut().for_each(|interface| {
            *interface =
                Interface { now: interface.now, then: interface.now, ..Interface::default() };
        });
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.head);
        Ok(())
    }

    /// Writes the buffer. When that fails, what of it was written is taken away again.
    fn flush(&mut self) -> Result<(), Unwritten> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = match &mut self.out {
            Out::Standard(out) => out.write_all(&self.buffer).and_then(|()| out.flush()),
            Out::File(file) => file.write_all(&self.buffer).inspect_err(|_| {
                // The first error is the one to tell. What is no file cannot be cut.
                let _ = file.set_len(self.written);
                let _ = file.seek(io::SeekFrom::Start(self.written));
            }),
        };
        let length = self.buffer.len() as u64;
        self.buffer.clear();
        let packet_bytes = std::mem::take(&mut self.pending_bytes);
        let mut packets = 0;
        for interface in &mut self.interfaces {
            let pending = std::mem::take(&mut interface.pending);
            // What could not be written does not count.
            if written.is_ok() {
                interface.delivered += pending;
                packets += pending;
            }
        }
        written.map_err(|source| {
            let name = match &self.out {
                Out::Standard(_) => "to standard output".to_string(),
                Out::File(_) => show(&self.names.path(self.number)),
            };
            Unwritten { name, source }
        })?;
        self.written += length;
        self.total.packets += packets;
        self.total.packet_bytes += packet_bytes;
        self.total.file_bytes += length;
        Ok(())
    }

    /// Whether the current file has room for what is in the buffer and for its end.
    fn has_room(&self) -> bool {
        let end = STATISTICS * self.interfaces.len() as u64;
        self.limits.bytes.is_none_or(|most| self.written + self.buffer.len() as u64 + end <= most)
    }
}

impl Sink for Files {
    fn counted(&mut self, interface: usize, counts: Counts) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.now = counts;
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, flags: Flags) -> anyhow::Result<()> {
        if self.packets_here > 0
            && self.limits.time.is_some_and(|most| self.since.elapsed() >= most)
        {
            self.next()?;
        }
        let record = Record {
            interface: packet.interface as u32,
            time_ns: packet.time_ns.unwrap_or_default(),
            bytes: packet.bytes,
            length: packet.length,
            flags,
            ..Record::default()
        };
        let before = self.buffer.len();
        write::packet(&mut self.buffer, &record);
        if self.packets_here > 0 && !self.has_room() {
            // Without this packet, whose turn comes in the next file.
            self.buffer.truncate(before);
            self.next()?;
            write::packet(&mut self.buffer, &record);
        }
        self.packets_here += 1;
        self.pending_bytes += packet.bytes.len() as u64;
        if let Some(interface) = self.interfaces.get_mut(packet.interface) {
            interface.pending += 1;
        }
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(())
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        Ok(self.flush()?)
    }
}

fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128)
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
