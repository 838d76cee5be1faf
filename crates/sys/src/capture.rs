//! Capture files: opened, decompressed (gzip, zstd), and handed over packet by packet.
//!
//! A file, standard input (`-`) or anything that reads. Memory is that of one buffer, whatever the
//! length of the capture; a record larger than it makes it grow, up to the largest record that
//! `wire::capture` takes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use wire::capture::{Damage, MAX_RECORD_BYTES, Packet, Reader, Step};

use crate::error::{Error, ErrorKind, Result};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Packets that are handed over at once.
pub const MAX_BATCH_PACKETS: usize = 256;
/// Bytes in front of decompression.
const COMPRESSED_BUFFER_BYTES: usize = 256 << 10;

/// A capture that is being read.
pub struct Capture {
    name: String,
    source: Box<dyn Read + Send>,
    compressed: bool,
    reader: Reader,
    buffer: Vec<u8>,
    /// What of the buffer has not been taken yet.
    start: usize,
    end: usize,
}

/// How reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadEnd {
    /// At the end of the file, after a whole record.
    Complete,
    /// At the end of the file, within a record: so many bytes are left.
    Truncated(usize),
    /// At damage.
    Damaged(Damage),
    /// Whoever reads has seen enough.
    Stopped,
}

impl Capture {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// It cannot be opened or read, or it is compressed in a way that cannot be.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            return Capture::from_reader("standard input", io::stdin());
        }
        let file = File::open(path).map_err(|error| failed(&name, &error))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::new("read the capture", name, "it is a folder", ErrorKind::Other));
        }
        Capture::from_reader(&name, file)
    }

    /// Reads from anything; `name` is for errors.
    ///
    /// # Errors
    ///
    /// As [`Capture::open`].
    pub fn from_reader(name: &str, mut source: impl Read + Send + 'static) -> Result<Self> {
        // The first bytes tell whether it is compressed; they may come one by one.
        let mut magic = [0; 4];
        let mut have = 0;
        while have < magic.len() {
            match source.read(&mut magic[have..]) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(name, &error)),
            }
        }
        let whole = io::Cursor::new(magic[..have].to_vec()).chain(source);
        let buffered = BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, whole);
        let source: Box<dyn Read + Send> = match magic {
            [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let decoder = zstd::Decoder::with_buffer(buffered);
                Box::new(decoder.map_err(|error| failed(name, &error))?)
            }
            _ => Box::new(buffered.into_inner()),
        };
        let compressed = matches!(magic, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd]);
        let (reader, buffer) = (Reader::new(), vec![0; BUFFER_BYTES]);
        Ok(Capture { name: name.to_string(), source, compressed, reader, buffer, start: 0, end: 0 })
    }

    /// Hands over packet by packet until the end, or until `each` breaks. It may be called again:
    /// after [`End::Enough`] it goes on, at the end of a file that has grown since too.
    ///
    /// # Errors
    ///
    /// The source cannot be read any further (a broken disk, damaged compression). What was handed
    /// over before is sound.
    pub fn for_each_packet(
        &mut self,
        mut each: impl FnMut(Packet<'_>) -> ControlFlow<()>,
    ) -> Result<ReadEnd> {
        loop {
            let (taken, step) = self.reader.step(&self.buffer[self.start..self.end]);
            self.start += taken;
            match step {
                Step::Packet(packet) => {
                    if each(packet).is_break() {
                        return Ok(ReadEnd::Stopped);
                    }
                }
                Step::Skipped | Step::Comment(_) => {}
                Step::NeedBytes(wanted) => {
                    if !self.fill(wanted)? {
                        let left = self.end - self.start;
                        return Ok(if left == 0 {
                            ReadEnd::Complete
                        } else {
                            ReadEnd::Truncated(left)
                        });
                    }
                }
                Step::Damaged(broken) => return Ok(ReadEnd::Damaged(broken)),
            }
        }
    }

    /// The same, several packets at once: as many as are there, up to [`BATCH`].
    ///
    /// # Errors
    ///
    /// As [`Capture::packets`].
    pub fn for_each_batch(
        &mut self,
        mut each: impl FnMut(&[Packet<'_>]) -> ControlFlow<()>,
    ) -> Result<ReadEnd> {
        loop {
            let mut batch = Vec::with_capacity(MAX_BATCH_PACKETS);
            let last = loop {
                let (taken, step) = self.reader.step(&self.buffer[self.start..self.end]);
                self.start += taken;
                match step {
                    Step::Packet(packet) => {
                        batch.push(packet);
                        if batch.len() == MAX_BATCH_PACKETS {
                            break None;
                        }
                    }
                    Step::Skipped | Step::Comment(_) => {}
                    Step::NeedBytes(wanted) => break Some(Ok(wanted)),
                    Step::Damaged(broken) => break Some(Err(broken)),
                }
            };
            if !batch.is_empty() && each(&batch).is_break() {
                return Ok(ReadEnd::Stopped);
            }
            match last {
                Some(Ok(wanted)) if !self.fill(wanted)? => {
                    let left = self.end - self.start;
                    return Ok(if left == 0 {
                        ReadEnd::Complete
                    } else {
                        ReadEnd::Truncated(left)
                    });
                }
                Some(Err(broken)) => return Ok(ReadEnd::Damaged(broken)),
                None | Some(Ok(_)) => {}
            }
        }
    }

    /// Whether it is compressed: then it cannot be read on when it grows.
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Interfaces, warnings and the offset so far.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads until `wanted` bytes are there; `false` at the end of the source.
    fn fill(&mut self, wanted: usize) -> Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // A record and its block header; a little more than the largest record.
        let room = wanted.min(MAX_RECORD_BYTES + BUFFER_BYTES);
        if self.buffer.len() < room {
            self.buffer.resize(room.next_power_of_two(), 0);
        }
        while self.end < wanted {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A compressed file that ends too soon: what came out of it is there.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(failed(&self.name, &error)),
            }
        }
        Ok(true)
    }
}

fn failed(name: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    let words = error.to_string();
    let words = words.split(" (os error").next().unwrap_or(&words).to_lowercase();
    Error::new("read the capture", name, words, kind)
}

#[cfg(test)]
mod tests {
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
        // Cut within the compression: what came out of it counts.
        let (packets, end) = of(gzip[..gzip.len() / 2].to_vec());
        assert!(packets > 500 && packets < 3000, "{packets} {end:?}");
    }

    #[test]
    fn records_larger_than_the_buffer() {
        assert_eq!(of(pcap(3, 5 << 20)), (3, ReadEnd::Complete));
    }

    #[test]
    fn what_is_cut_or_nothing_is_said() {
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
    fn a_file_that_grows_is_read_on() {
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
