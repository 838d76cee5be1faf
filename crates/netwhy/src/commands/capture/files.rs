//! The files of a capture: pcapng, one after the other, each complete in itself.
//!
//! Only whole blocks are written. If one cannot be written, the file is truncated after the last whole
//! block.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sys::packet_ring::Counts;
use wire::capture::Packet;
use wire::capture::write::{self, Flags, Record, Statistics};

use super::names::Names;
use super::reason::reason;
use session::packets::Sink;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Room for the statistics of one interface at the end of a file.
const STATISTICS_BYTES: u64 = 128;

/// When to start a new file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// Before a file exceeds this size.
    pub(super) bytes: Option<u64>,
    /// With the first packet after this time.
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
        write!(to, "cannot write {}: {}", self.name, reason(&self.source))
    }
}

impl std::error::Error for Unwritten {}

/// Where blocks are written.
enum Out {
    Standard(io::Stdout),
    File(File),
}

/// The files.
pub(super) struct Files {
    names: Names,
    limits: Limits,
    out: Out,
    /// The blocks at the beginning of each file: section and interfaces.
    head: Vec<u8>,
    /// Whole blocks that are not written yet.
    buffer: Vec<u8>,
    /// Bytes written to the current file.
    written: u64,
    /// Number of the current file, from 0.
    number: u64,
    since: Instant,
    since_ns: i128,
    interfaces: Vec<Interface>,
    /// Packets in the current file, those in the buffer included.
    packets_in_file: u64,
    /// Bytes of the packets in the buffer.
    pending_bytes: u64,
    total: Total,
}

/// The counters of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct Interface {
    now: Counts,
    /// At the start of the current file.
    at_start: Counts,
    /// Packets written to the current file.
    written: u64,
    /// Packets in the buffer.
    pending: u64,
}

/// What was written to all files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    pub(super) packets: u64,
    /// Bytes of the packets, as captured.
    pub(super) packet_bytes: u64,
    /// Bytes of the files, overwritten ones included.
    pub(super) file_bytes: u64,
}

impl Files {
    /// Writes to standard output.
    pub(super) fn standard(head: Vec<u8>, interfaces: usize) -> Self {
        let out = Out::Standard(crate::output::binary());
        Files::of(out, Names::one(Path::new("-")), Limits::default(), head, interfaces)
    }

    /// Opens the first file.
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
            packets_in_file: 0,
            pending_bytes: 0,
            total: Total::default(),
        }
    }

    /// What was written to all files.
    pub(super) fn total(&self) -> Total {
        self.total
    }

    /// The files that are not overwritten: the oldest, the newest, and how many.
    pub(super) fn kept(&self) -> (PathBuf, PathBuf, u64) {
        let Range { start, end } = self.names.kept(self.number);
        (self.names.path(start), self.names.path(self.number), end - start)
    }

    /// Ends the last file.
    pub(super) fn finish(&mut self) -> Result<(), Unwritten> {
        self.end()?;
        // Files that were created but not needed become captures without packets.
        for (path, mut file) in self.names.unused(self.number) {
            file.write_all(&self.head).map_err(|source| Unwritten { name: show(&path), source })?;
        }
        Ok(())
    }

    /// Writes the statistics of the interfaces and the rest of the current file.
    fn end(&mut self) -> Result<(), Unwritten> {
        let until_ns = now_ns();
        for (number, interface) in self.interfaces.iter().enumerate() {
            let (now, at_start) = (interface.now, interface.at_start);
            write::statistics(
                &mut self.buffer,
                &Statistics {
                    interface: number as u32,
                    since_ns: self.since_ns,
                    until_ns,
                    received: Some(now.received.saturating_sub(at_start.received)),
                    dropped: Some(now.dropped.saturating_sub(at_start.dropped)),
                    delivered: Some(interface.written.saturating_add(interface.pending)),
                },
            );
        }
        self.flush()
    }

    /// Ends the current file and starts the next.
    fn next(&mut self) -> Result<(), Unwritten> {
        self.end()?;
        self.number += 1;
        let file = self.names.open(self.number);
        let name = || show(&self.names.path(self.number));
        let file = file.map_err(|source| Unwritten { name: name(), source })?;
        self.out = Out::File(file);
        self.written = 0;
        self.packets_in_file = 0;
        self.since = Instant::now();
        self.since_ns = now_ns();
        self.interfaces.iter_mut().for_each(|interface| {
            let now = interface.now;
            *interface = Interface { now, at_start: now, ..Interface::default() };
        });
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.head);
        Ok(())
    }

    /// Writes the buffer. If that fails, the part that was written is removed again.
    fn flush(&mut self) -> Result<(), Unwritten> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = match &mut self.out {
            Out::Standard(out) => out.write_all(&self.buffer).and_then(|()| out.flush()),
            Out::File(file) => file.write_all(&self.buffer).inspect_err(|_| {
                // The first error is reported; a pipe or device cannot be truncated.
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
            // Packets that could not be written do not count.
            if written.is_ok() {
                interface.written += pending;
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
        let end = STATISTICS_BYTES * self.interfaces.len() as u64;
        let size = self.written + self.buffer.len() as u64 + end;
        self.limits.bytes.is_none_or(|max| size <= max)
    }
}

impl Sink for Files {
    fn counted(&mut self, interface: usize, counts: Counts) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.now = counts;
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, flags: Flags) -> anyhow::Result<()> {
        if self.packets_in_file > 0
            && self.limits.time.is_some_and(|max| self.since.elapsed() >= max)
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
        if self.packets_in_file > 0 && !self.has_room() {
            // This packet goes into the next file.
            self.buffer.truncate(before);
            self.next()?;
            write::packet(&mut self.buffer, &record);
        }
        self.packets_in_file += 1;
        self.pending_bytes += packet.bytes.len() as u64;
        if let Some(interface) = self.interfaces.get_mut(packet.interface) {
            interface.pending += 1;
        }
        if self.buffer.len() >= BUFFER_BYTES {
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
