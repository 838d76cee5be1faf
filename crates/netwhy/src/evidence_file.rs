//! Files of evidence: JSON in a zstd frame. They are untrusted: a file may be truncated, something else,
//! written by a newer netwhy, or made to exhaust memory.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Context as _;
use model::Evidence;
use serde::Deserialize as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use sys::allocator::bytes_of_this_thread;

use crate::failure::Failure;
use crate::output;
use crate::saved_file::SavedFile;

/// Most bytes of JSON that are read: evidence of 100,000 sockets takes about 200 MB.
const MAX_JSON_BYTES: u64 = 512 << 20;
/// Most memory that evidence takes while it is read: that of 100,000 sockets takes about 100 MB.
const MAX_HELD_BYTES: isize = 192 << 20;
/// Bytes that are parsed between two checks of that.
const BUFFER_BYTES: usize = 64 << 10;
/// The beginning of a file, in which its version is.
const BEGINNING_BYTES: u64 = 4 << 10;
/// Largest window of zstd, 8 MiB: that of the highest level without `--ultra` or `--long`.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;
/// The default level of zstd, which compresses faster than disks write.
const ZSTD_LEVEL: i32 = 3;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where evidence will be written. It is opened before the window, so that an error is reported before
/// the user has waited.
pub(crate) struct Destination(Option<SavedFile>);

/// Opens a file for writing; `-` is standard output.
pub(crate) fn create(path: &Path, force: bool) -> Result<Destination, Failure> {
    let to_standard = path == Path::new("-");
    let file = (!to_standard).then(|| SavedFile::create(path, force)).transpose()?;
    Ok(Destination(file))
}

impl Destination {
    /// Writes the evidence; returns the size of the file.
    pub(crate) fn write(self, evidence: &Evidence) -> anyhow::Result<u64> {
        let Some(mut file) = self.0 else {
            encode(evidence, output::binary().lock())?;
            return Ok(0);
        };
        encode(evidence, &mut file)
            .with_context(|| format!("cannot write {}", file.path().display()))?;
        let bytes = file.bytes();
        file.keep()?;
        Ok(bytes)
    }
}

fn encode(evidence: &Evidence, to: impl Write) -> anyhow::Result<()> {
    let mut encoder = zstd::Encoder::new(BufWriter::new(to), ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    let mut json = BufWriter::with_capacity(1 << 16, encoder);
    serde_json::to_writer(&mut json, evidence)?;
    let encoder = json.into_inner().map_err(|error| error.into_error())?;
    encoder.finish()?.flush()?;
    Ok(())
}

/// Reads a file of evidence; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<Evidence> {
    let result = if path == Path::new("-") {
        decode(std::io::stdin().lock())
    } else {
        File::open(path).map_err(|e| e.to_string()).and_then(decode)
    };
    result.map_err(|what| {
        let name = path.display();
        Failure::Observe(format!("cannot read evidence from {name}: {what}")).into()
    })
}

/// The fields that evidence of every version has, as far as they are known.
#[derive(Default)]
struct Version {
    schema: Option<u32>,
    netwhy: Option<String>,
}

impl Version {
    /// From the beginning of a file, where netwhy writes them.
    fn at_the_beginning(json: &[u8]) -> Self {
        let mut version = Version::default();
        let mut reader = serde_json::Deserializer::from_slice(json);
        // The rest is cut off: that this fails says nothing.
        let _ = serde::Deserializer::deserialize_map(&mut reader, VersionFields(&mut version));
        version
    }

    fn check(&self) -> Result<(), String> {
        let Some(schema) = self.schema.filter(|schema| *schema > Evidence::SCHEMA_VERSION) else {
            return Ok(());
        };
        Err(format!(
            "it was written by netwhy {} with schema version {schema}, but this netwhy {} reads \
             versions up to {}; use a newer netwhy",
            self.netwhy.as_deref().unwrap_or("of a later version"),
            env!("CARGO_PKG_VERSION"),
            Evidence::SCHEMA_VERSION,
        ))
    }
}

/// Reads the fields of a map until both are known.
struct VersionFields<'a>(&'a mut Version);

impl<'de> Visitor<'de> for VersionFields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("evidence")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while self.0.schema.is_none() || self.0.netwhy.is_none() {
            match map.next_key::<String>()?.as_deref() {
                Some("schema_version") => self.0.schema = Some(map.next_value()?),
                Some("netwhy_version") => self.0.netwhy = Some(map.next_value()?),
                Some(_) => _ = map.next_value::<IgnoredAny>()?,
                None => break,
            }
        }
        Ok(())
    }
}

/// Reads no more bytes than evidence has, as long as what is made of them takes no more memory than
/// evidence does.
struct Limited<R> {
    from: R,
    bytes: u64,
    held_before: isize,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.bytes = self.bytes.saturating_add(read as u64);
        let refused = |why: String| Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why));
        if self.bytes > MAX_JSON_BYTES {
            return refused(format!(
                "it has more than {}, more than any evidence",
                text::bytes(MAX_JSON_BYTES)
            ));
        }
        if bytes_of_this_thread().saturating_sub(self.held_before) > MAX_HELD_BYTES {
            return refused(format!(
                "it takes more than {} of memory, more than any evidence",
                text::bytes(MAX_HELD_BYTES as u64)
            ));
        }
        Ok(read)
    }
}

fn decode(from: impl Read) -> Result<Evidence, String> {
    let mut from = BufReader::new(from);
    let mut magic = Vec::new();
    (&mut from).take(4).read_to_end(&mut magic).map_err(|e| e.to_string())?;
    let from = magic.as_slice().chain(from);
    if magic == ZSTD_MAGIC {
        let mut decoder = zstd::Decoder::new(from).map_err(|e| e.to_string())?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG).map_err(|e| e.to_string())?;
        parse(decoder, true)
    } else if magic.first().is_some_and(|byte| *byte == b'{') {
        parse(from, false)
    } else {
        Err(foreign(&magic))
    }
}

/// Evidence from JSON, as it is read.
fn parse(from: impl Read, is_compressed: bool) -> Result<Evidence, String> {
    let mut from = Limited { from, bytes: 0, held_before: bytes_of_this_thread() };
    let mut beginning = Vec::new();
    let read = (&mut from).take(BEGINNING_BYTES).read_to_end(&mut beginning);
    let version = Version::at_the_beginning(&beginning);
    version.check()?;
    let is_known = version.schema.is_some();
    // What was read before an error is parsed first, so that both are reported as one.
    let rest = Failing { error: read.err(), from: &mut from };
    let buffered = BufReader::with_capacity(BUFFER_BYTES, beginning.as_slice().chain(rest));
    let evidence: Result<Evidence, serde_json::Error> = from_reader(buffered);
    match evidence {
        Ok(evidence) => {
            let Evidence { schema_version, netwhy_version, .. } = &evidence;
            let netwhy = Some(netwhy_version.clone());
            Version { schema: Some(*schema_version), netwhy }.check()?;
            Ok(evidence)
        }
        Err(error) => Err(unreadable(&error, from.bytes, is_known, is_compressed)),
    }
}

/// One value, and nothing after it.
fn from_reader(from: impl Read) -> Result<Evidence, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_reader(from);
    let evidence = Evidence::deserialize(&mut reader)?;
    reader.end()?;
    Ok(evidence)
}

/// Why JSON is no evidence, and what to do.
fn unreadable(
    error: &serde_json::Error,
    bytes: u64,
    is_known: bool,
    is_compressed: bool,
) -> String {
    let truncated = format!("it is truncated (after {bytes} bytes of evidence); copy it again");
    match error.io_error_kind() {
        Some(std::io::ErrorKind::FileTooLarge) => {
            let text = error.to_string();
            text.split(" at line ").next().unwrap_or_default().to_string()
        }
        Some(std::io::ErrorKind::UnexpectedEof) => truncated,
        Some(_) if is_compressed && error.to_string().contains("memory") => {
            format!("its decompression failed: {error}")
        }
        Some(_) if is_compressed => format!("it is damaged ({error}); copy it again"),
        Some(_) => error.to_string(),
        None if error.is_eof() => truncated,
        None if is_known => format!("it is damaged: {error}"),
        None => {
            "it is not evidence of netwhy: save evidence with netwhy record -o FILE".to_string()
        }
    }
}

/// A reader that has failed before, and fails again with the same error.
struct Failing<R> {
    error: Option<std::io::Error>,
    from: R,
}

impl<R: Read> Read for Failing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.from.read(buffer),
        }
    }
}

/// What a file is instead of evidence, by its first bytes, and what to do.
fn foreign(magic: &[u8]) -> String {
    let known = match magic {
        [] => "it is empty",
        [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0xc3, 0xd4]
        | [0x4d, 0x3c, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0x0a, 0x0d, 0x0d, 0x0a] => {
            return "it is a packet capture, not evidence: diagnose it with netwhy pcap"
                .to_string();
        }
        [0x1f, 0x8b, ..] => "it is a gzip file, not evidence",
        _ => "it is not evidence of netwhy",
    };
    format!("{known}: save evidence with netwhy record -o FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        Evidence {
            schema_version: Evidence::SCHEMA_VERSION,
            netwhy_version: "1".into(),
            ..Evidence::default()
        }
    }

    #[test]
    fn written_evidence_is_read_back() {
        let mut file = Vec::new();
        encode(&evidence(), &mut file).unwrap();
        assert_eq!(decode(file.as_slice()), Ok(evidence()));
        // Plain JSON is read too: users may have unpacked it.
        assert_eq!(decode(serde_json::to_vec(&evidence()).unwrap().as_slice()), Ok(evidence()));
    }

    #[test]
    fn every_truncation_is_reported() {
        let mut file = Vec::new();
        encode(&evidence(), &mut file).unwrap();
        for length in 0..file.len() {
            let error = decode(&file[..length]).unwrap_err();
            assert!(
                error.contains("copy it again") || error.contains("netwhy record"),
                "{length}: {error}"
            );
        }
    }

    /// A file of evidence with this instead of its list of samples, as often as this.
    fn with_samples(samples: &str, times: usize) -> Vec<u8> {
        let mut table = evidence();
        table.sockets = Some(model::SocketTable::default());
        let json = serde_json::to_string(&table).unwrap();
        let (before, after) = json.split_once("\"samples\":[").unwrap();
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(format!("{before}\"samples\":[").as_bytes()).unwrap();
        for _ in 0..times {
            encoder.write_all(samples.as_bytes()).unwrap();
        }
        encoder.write_all(after.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_exhausts_memory_is_refused() {
        let samples = r#"{"at_ms":1,"by_state":{"LISTEN":1}},"#.repeat(1000);
        let held_before = bytes_of_this_thread();
        for (samples, times, says) in [
            // Much of a little.
            (&*samples, 2_000, "it takes more than 192 MiB of memory"),
            // A deep nest.
            (&*"[".repeat(100_000), 1, "invalid type: sequence"),
            // A long string.
            (&*format!("\"{}", "x".repeat(1 << 20)), 1, "invalid type: string"),
        ] {
            let file = with_samples(samples, times);
            let error = decode(file.as_slice()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(bytes_of_this_thread() - held_before < 1 << 20, "all of it is freed");
    }

    #[test]
    fn a_window_of_zstd_larger_than_any_that_is_written_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(MAX_ZSTD_WINDOW_LOG + 1).unwrap();
        encoder.write_all(&serde_json::to_vec(&evidence()).unwrap()).unwrap();
        let error = decode(encoder.finish().unwrap().as_slice()).unwrap_err();
        assert!(error.contains("memory"), "{error}");
    }

    /// The largest evidence that is recorded: see [`model::SocketTable::MAX_SOCKETS`].
    #[test]
    fn the_largest_evidence_is_read() {
        let socket = model::Socket {
            local: "[2001:db8::1]:443".parse().unwrap(),
            remote: "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap(),
            state: model::TcpState::Established,
            inode: u32::MAX,
            cookie: u64::MAX,
            uid: u32::MAX,
            interface: 1,
            pid: Some(4_194_304),
            receive_queue_bytes: u32::MAX,
            send_queue_bytes: u32::MAX,
            timer: model::Timer::default(),
            memory: Some(model::SocketMemory::default()),
            tcp: Some(Box::default()),
            congestion: Some("cubic".to_string()),
            last_at_ms: 10_000,
            first: Some(model::FirstSample::default()),
        };
        // A fifth of them, as tests are slow.
        let sockets = vec![socket; model::SocketTable::MAX_SOCKETS / 5];
        let table = model::SocketTable { sockets, ..model::SocketTable::default() };
        let mut file = Vec::new();
        encode(&Evidence { sockets: Some(table), ..evidence() }, &mut file).unwrap();
        let held_before = bytes_of_this_thread();
        let read = decode(file.as_slice()).unwrap();
        let held = bytes_of_this_thread() - held_before;
        assert!(5 * held < MAX_HELD_BYTES, "{held}");
        assert_eq!(read.sockets.map(|table| table.sockets.len()), Some(20_000));
    }

    #[test]
    fn newer_and_other_files_are_recognised() {
        let newer = Evidence { schema_version: Evidence::SCHEMA_VERSION + 1, ..evidence() };
        let error = decode(serde_json::to_vec(&newer).unwrap().as_slice()).unwrap_err();
        assert!(error.contains("newer netwhy"), "{error}");
        for (file, says) in [
            (&b"\x0a\x0d\x0d\x0arest"[..], "packet capture"),
            (b"{\"a\": 1}", "not evidence"),
            (b"#!/bin/sh", "not evidence"),
            (b"", "empty"),
        ] {
            let error = decode(file).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
