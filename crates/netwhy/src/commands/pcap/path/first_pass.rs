//! The first pass: each capture alone, its own diagnosis, and a summary by which its streams are found
//! in the other capture.

use std::ops::ControlFlow;
use std::path::Path as FilePath;

use model::{PathCapture, Report};
use streams::MemoryLimits;
use streams::path::{CaptureSummary, PacketFingerprint};
use sys::Stop;

use super::super::reader::{CaptureReader, open};
use crate::failure::Failure;

/// Packets between two checks for Ctrl-C.
const PACKETS_PER_CHECK: u64 = 4096;

/// Limits of each of the two captures: the same in both passes, so that streams have the same numbers.
pub(super) const LIMITS: MemoryLimits = MemoryLimits { streams: 50_000, bytes: 96 << 20 };

/// What the first pass finds out about a capture.
pub(super) struct FirstPass {
    pub(super) summary: CaptureSummary,
    pub(super) report: Report,
    pub(super) capture: PathCapture,
}

pub(super) fn read(file: &FilePath, stop: &Stop) -> anyhow::Result<FirstPass> {
    let name = file.display().to_string();
    let is_special = file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    if file == FilePath::new("-") || is_special {
        return Err(Failure::Usage(format!(
            "cannot compare {name}: it must be read twice, but is no regular file; write it to a file \
             first"
        ))
        .into());
    }
    let mut reader = CaptureReader::without_files(vec![name.clone()], LIMITS, stop);
    let mut capture = open(file, stop)?;
    let mut summary = CaptureSummary::default();
    let mut last = 0;
    let end = capture.for_each_packet(|packet| {
        let seen = reader.take(&packet);
        if let Some(seen) = seen
            && let Some(fingerprint) = PacketFingerprint::of(&packet, reader.packets(), &seen, last)
        {
            last = fingerprint.at;
            summary.add(&fingerprint);
        }
        if reader.packets().is_multiple_of(PACKETS_PER_CHECK) && stop.is_set() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let end = end.map_err(|error| Failure::Observe(error.to_string()))?;
    reader.file_ended(&capture, &end, &name, 0)?;
    let evidence = reader.finish(None)?.evidence;
    let report = diagnose::diagnose(&evidence);
    let packets = evidence.packets.unwrap_or_default();
    let capture = PathCapture {
        file: name,
        packets: packets.packets,
        streams: packets.streams,
        first_unix_us: packets.first_unix_us,
        span_us: packets.span_us,
    };
    Ok(FirstPass { summary, report, capture })
}
