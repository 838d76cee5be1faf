//! Files of evidence: JSON in a zstd frame. They are untrusted: a file may be truncated, something else,
//! written by a newer netwhy, or made to exhaust memory.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Context as _;
use model::Evidence;
use serde::Deserialize;

use crate::failure::Failure;
use crate::output;
use crate::saved_file::SavedFile;

/// Most bytes of JSON that are read: evidence of 100,000 sockets takes about 200 MB.
const MAX_JSON_BYTES: u64 = 2 << 30;
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

/// The fields that evidence of every version has.
#[derive(Deserialize)]
struct Version {
    schema_version: u32,
    netwhy_version: String,
}

fn decode(from: impl Read) -> Result<Evidence, String> {
    let mut from = BufReader::new(from);
    let mut magic = Vec::new();
    (&mut from).take(4).read_to_end(&mut magic).map_err(|e| e.to_string())?;
    let from = magic.as_slice().chain(from);
    let mut json = Vec::new();
    if magic == ZSTD_MAGIC {
        let mut decoder =
            zstd::Decoder::new(from).map_err(|e| e.to_string())?.take(MAX_JSON_BYTES + 1);
        decoder.read_to_end(&mut json).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                format!("it is truncated (after {} bytes of evidence); copy it again", json.len())
            }
            _ => format!("it is damaged ({error}); copy it again"),
        })?;
    } else if magic.first().is_some_and(|byte| *byte == b'{') {
        from.take(MAX_JSON_BYTES + 1).read_to_end(&mut json).map_err(|e| e.to_string())?;
    } else {
        return Err(foreign(&magic));
    }
    if json.len() as u64 > MAX_JSON_BYTES {
        return Err(format!("it has more than {MAX_JSON_BYTES} bytes, more than any evidence"));
    }
    let version: Version = serde_json::from_slice(&json).map_err(|error| {
        if error.is_eof() {
            format!("it is truncated (after {} bytes); copy it again", json.len())
        } else {
            "it is not evidence of netwhy: save evidence with netwhy record -o FILE".to_string()
        }
    })?;
    if version.schema_version > Evidence::SCHEMA_VERSION {
        return Err(format!(
            "it was written by netwhy {} with schema version {}, but this netwhy {} reads versions up \
             to {}; use a newer netwhy",
            version.netwhy_version,
            version.schema_version,
            env!("CARGO_PKG_VERSION"),
            Evidence::SCHEMA_VERSION,
        ));
    }
    serde_json::from_slice(&json).map_err(|error| format!("it is damaged: {error}"))
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
