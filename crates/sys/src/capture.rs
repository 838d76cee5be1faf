//! Capture files: opened, decompressed (gzip, zstd), and passed on packet by packet.
//!
//! A file, standard input (`-`) or anything that implements `Read`. Takes the memory of one buffer,
//! whatever the length of the capture; a record that is larger makes the buffer grow, up to the
//! largest record that `wire::capture` accepts.

use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use wire::capture::{Damage, MAX_RECORD_BYTES, Packet, Reader, Step};

use crate::error::{Error, ErrorKind, Result};
use crate::live_input::{StoppableInput, open_input};
use crate::stop::Stop;

/// Size of the buffer in which records are parsed.
const BUFFER_BYTES: usize = 256 << 10;
/// Most packets in one batch.
pub const MAX_BATCH_PACKETS: usize = 256;
/// Size of the buffer before decompression.
const COMPRESSED_BUFFER_BYTES: usize = 256 << 10;

/// Largest window of zstd, 128 MiB: that of `zstd --long`, which its own decoder accepts.
const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// A capture that is being read.
pub struct Capture {
    name: String,
    source: Box<dyn Read + Send>,
    compressed: bool,
    reader: Reader,
    buffer: Vec<u8>,
    /// The part of the buffer that is not parsed yet. Both are at most its length.
    start: usize,
    end: usize,
    stop: Stop,
}

/// What came of reading more of the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Enough,
    AtEnd,
    Stopped,
}

/// How reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadEnd {
    /// At the end of the file, after a whole record.
    Complete,
    /// At the end of the file, within a record, of which this many bytes are there.
    Truncated(usize),
    /// At damage.
    Damaged(Damage),
    /// The caller stopped it.
    Stopped,
}

/// Compressions, by their first bytes.
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    fn of(magic: &[u8]) -> Option<Self> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Compression::Zstd),
            _ => None,
        }
    }
}

impl Capture {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// It cannot be opened or read, or its compression is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        Capture::open_until(path, &Stop::new())
    }

    /// The same; reading ends as [`ReadEnd::Stopped`] once this token is set, also while nobody writes
    /// into a pipe, or no packet comes.
    ///
    /// # Errors
    ///
    /// As [`Capture::open`]; also if the token is set before the first bytes have come.
    pub fn open_until(path: &Path, stop: &Stop) -> Result<Self> {
        let name = match path.to_str() {
            Some("-") => "standard input".to_string(),
            _ => path.display().to_string(),
        };
        let file = open_input(path).map_err(|error| failed(&name, &error))?;
        let meta = file.metadata().map_err(|error| failed(&name, &error))?;
        if meta.is_dir() {
            return Err(Error::new("read the capture", name, "it is a folder", ErrorKind::Other));
        }
        let mut capture = match meta.is_file() {
            true => Capture::from_reader(&name, file)?,
            false => Capture::from_reader(&name, StoppableInput::new(file, stop))?,
        };
        capture.stop = stop.clone();
        Ok(capture)
    }

    /// Reads from anything; `name` is for errors.
    ///
    /// # Errors
    ///
    /// As [`Capture::open`].
    pub fn from_reader(name: &str, mut source: impl Read + Send + 'static) -> Result<Self> {
        // The first bytes show whether it is compressed; they may come one by one.
        let mut magic = Vec::with_capacity(4);
        while magic.len() < 4 {
            let mut byte = [0];
            match source.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => magic.extend(byte),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(name, &error)),
            }
        }
        let compression = Compression::of(&magic);
        let compressed = compression.is_some();
        let whole = io::Cursor::new(magic).chain(source);
        let buffered = BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, whole);
        let source: Box<dyn Read + Send> = match compression {
            Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
            Some(Compression::Zstd) => {
                let decoder = zstd::Decoder::with_buffer(buffered).and_then(|mut decoder| {
                    decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
                    Ok(decoder)
                });
                Box::new(decoder.map_err(|error| failed(name, &error))?)
            }
            None => Box::new(buffered.into_inner()),
        };
        let (reader, buffer) = (Reader::new(), vec![0; BUFFER_BYTES]);
        let (name, stop) = (name.to_string(), Stop::new());
        Ok(Capture { name, source, compressed, reader, buffer, start: 0, end: 0, stop })
    }

    /// Calls for each packet until the end, or until the call breaks. It may be called again: after
    /// [`ReadEnd::Stopped`], and at the end of a file that has grown since, it continues.
    ///
    /// # Errors
    ///
    /// The source cannot be read any further (a broken disk, damaged compression). The packets before
    /// are sound.
    pub fn for_each_packet(
        &mut self,
        mut each: impl FnMut(Packet<'_>) -> ControlFlow<()>,
    ) -> Result<ReadEnd> {
        loop {
            let unparsed = self.buffer.get(self.start..self.end).unwrap_or_default();
            let (taken, step) = self.reader.step(unparsed);
            self.start += taken;
            match step {
                Step::Packet(packet) => {
                    if each(packet).is_break() {
                        return Ok(ReadEnd::Stopped);
                    }
                }
                Step::Skipped | Step::Comment(_) => {}
                Step::NeedBytes(needed) => match self.fill(needed)? {
                    Filled::Enough => {}
                    Filled::AtEnd => return Ok(self.end_of_source()),
                    Filled::Stopped => return Ok(ReadEnd::Stopped),
                },
                Step::Damaged(damage) => return Ok(ReadEnd::Damaged(damage)),
            }
        }
    }

    /// The same in batches: as many packets as are in the buffer, up to [`MAX_BATCH_PACKETS`].
    ///
    /// # Errors
    ///
    /// As [`Capture::for_each_packet`].
    pub fn for_each_batch(
        &mut self,
        mut each: impl FnMut(&[Packet<'_>]) -> ControlFlow<()>,
    ) -> Result<ReadEnd> {
        loop {
            let mut batch = Vec::with_capacity(MAX_BATCH_PACKETS);
            let last = loop {
                let unparsed = self.buffer.get(self.start..self.end).unwrap_or_default();
                let taken = self.reader.packets(unparsed, &mut batch);
                self.start += taken;
                if batch.len() >= MAX_BATCH_PACKETS {
                    break None;
                }
                let (taken, step) = self.reader.step(unparsed.get(taken..).unwrap_or_default());
                self.start += taken;
                match step {
                    Step::Packet(packet) => batch.push(packet),
                    Step::Skipped | Step::Comment(_) => {}
                    Step::NeedBytes(needed) => break Some(Ok(needed)),
                    Step::Damaged(damage) => break Some(Err(damage)),
                }
            };
            if !batch.is_empty() && each(&batch).is_break() {
                return Ok(ReadEnd::Stopped);
            }
            match last {
                Some(Ok(needed)) => match self.fill(needed)? {
                    Filled::Enough => {}
                    Filled::AtEnd => return Ok(self.end_of_source()),
                    Filled::Stopped => return Ok(ReadEnd::Stopped),
                },
                Some(Err(damage)) => return Ok(ReadEnd::Damaged(damage)),
                None => {}
            }
        }
    }

    /// Whether it is compressed: then it cannot be continued when it grows.
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Interfaces, warnings and the offset so far.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// How reading ended at the end of the source.
    fn end_of_source(&self) -> ReadEnd {
        let skipped = self.reader.bytes_of_skipped_record() as usize;
        match skipped.saturating_add(self.end - self.start) {
            0 => ReadEnd::Complete,
            left => ReadEnd::Truncated(left),
        }
    }

    /// Reads until `needed` bytes are in the buffer.
    fn fill(&mut self, needed: usize) -> Result<Filled> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // No reader asks for more than the largest record.
        let room = needed.min(MAX_RECORD_BYTES);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        while self.end < needed {
            if self.stop.is_set() {
                return Ok(Filled::Stopped);
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(free) {
                Ok(0) => return Ok(Filled::AtEnd),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A compressed file that ends too early: what could be decompressed is there.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Filled::AtEnd);
                }
                Err(_) if self.stop.is_set() => return Ok(Filled::Stopped),
                Err(error) => return Err(failed(&self.name, &error)),
            }
        }
        Ok(Filled::Enough)
    }
}

fn failed(name: &str, error: &io::Error) -> Error {
    Error::from_io("read the capture", name, error)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;

    /// A pcap file of this many packets of this size.
    fn pcap(packets: usize, bytes: usize) -> Vec<u8> {
        let mut file = Vec::new();
        for number in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
            file.extend(number.to_le_bytes());
        }
        for number in 0..packets {
            for word in [number as u32, 0, bytes as u32, bytes as u32] {
                file.extend(word.to_le_bytes());
            }
            file.resize(file.len() + bytes, number as u8);
        }
        file
    }

    fn count(mut capture: Capture) -> (usize, ReadEnd) {
        let mut packets = 0;
        let end = capture.for_each_packet(|packet| {
            assert!(packet.bytes.iter().all(|byte| *byte == packets as u8));
            packets += 1;
            ControlFlow::Continue(())
        });
        (packets, end.expect("a source that can be read"))
    }

    fn of(bytes: Vec<u8>) -> (usize, ReadEnd) {
        count(Capture::from_reader("a test", io::Cursor::new(bytes)).expect("a capture"))
    }

    #[test]
    fn plain_and_compressed() {
        let file = pcap(3000, 1000);
        assert_eq!(of(file.clone()), (3000, ReadEnd::Complete));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&file).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(of(gzip.clone()), (3000, ReadEnd::Complete));
        let zstd = zstd::encode_all(&file[..], 1).unwrap();
        assert_eq!(of(zstd), (3000, ReadEnd::Complete));
        // Cut within the compression: what could be decompressed counts.
        let (packets, end) = of(gzip[..gzip.len() / 2].to_vec());
        assert!(packets > 500 && packets < 3000, "{packets} {end:?}");
    }

    #[test]
    fn records_larger_than_the_buffer() {
        assert_eq!(of(pcap(3, 260 << 10)), (3, ReadEnd::Complete));
        assert_eq!(of(pcap(3, 5 << 20)), (3, ReadEnd::Complete));
        let mut cut = pcap(3, 5 << 20);
        cut.truncate(cut.len() - 10);
        assert_eq!(of(cut), (3, ReadEnd::Truncated((5 << 20) + 16 - 10)));
    }

    #[test]
    fn a_claimed_length_reserves_nothing() {
        for claimed in [64 << 20, u32::MAX] {
            let mut file = pcap(1, 64 << 10);
            file[32..36].copy_from_slice(&claimed.to_le_bytes());
            let mut capture = Capture::from_reader("a test", io::Cursor::new(file)).unwrap();
            let end = capture.for_each_packet(|_| ControlFlow::Continue(())).unwrap();
            let is_damaged = matches!(end, ReadEnd::Damaged(_));
            assert_eq!(
                (is_damaged, end == ReadEnd::Truncated(16 + (64 << 10))),
                match claimed {
                    u32::MAX => (true, false),
                    _ => (false, true),
                }
            );
            assert!(capture.buffer.capacity() <= 2 * MAX_RECORD_BYTES);
        }
    }

    #[test]
    fn truncated_empty_and_foreign_files_end_as_such() {
        let mut file = pcap(3, 100);
        file.truncate(file.len() - 10);
        assert_eq!(of(file), (2, ReadEnd::Truncated(106)));
        assert_eq!(of(Vec::new()), (0, ReadEnd::Complete));
        assert!(matches!(of(b"GET / HTTP/1.1".to_vec()).1, ReadEnd::Damaged(_)));
        let missing = Capture::open(Path::new("no/such/file")).err().expect("an error");
        assert!(missing.to_string().starts_with("cannot read the capture no/such/file: no such"));
        assert!(Capture::open(Path::new(".")).is_err());
    }

    #[test]
    fn a_file_that_grows_is_continued() {
        let file = pcap(4, 100);
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut writer = File::create(path.path()).unwrap();
        writer.write_all(&file[..300]).unwrap();
        let mut capture = Capture::open(path.path()).unwrap();
        let mut packets = 0;
        let mut read = |capture: &mut Capture| {
            capture.for_each_packet(|_| {
                packets += 1;
                ControlFlow::Continue(())
            })
        };
        assert_eq!(read(&mut capture).unwrap(), ReadEnd::Truncated(44));
        writer.write_all(&file[300..]).unwrap();
        assert_eq!(read(&mut capture).unwrap(), ReadEnd::Complete);
        assert_eq!(packets, 4);
    }
}
