//! Reading what was written to a log in the window: all of it, or parts spread over it.

use std::sync::Arc;

use memchr::{memchr, memrchr};
use sys::{OpenFile, Result};
use wire::applog::{LogFormat, Tally};

/// Most bytes read of an access log in one window.
const MAX_ACCESS_LOG_BYTES: u64 = 8 << 20;
/// Most bytes read of an error log in one window. Its lines are rarer and differ more.
const MAX_ERROR_LOG_BYTES: u64 = 16 << 20;
/// Most bytes read of all logs in one window: 64 MiB take about a tenth of a second.
pub(super) const MAX_BYTES_OF_ALL: u64 = 64 << 20;
/// Fewest bytes read of a log, however many logs there are: a part must have some lines.
pub(super) const MIN_BYTES_OF_ONE: u64 = 256 << 10;
/// Parts in which a log is read that is too busy to be read whole.
const PARTS: u64 = 64;
/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// Lines searched for one in a known format, and bytes in which they are.
const MAX_LINES_TO_RECOGNISE: usize = 50;
const MAX_BYTES_TO_RECOGNISE: usize = 64 << 10;

/// A range of a file that was written in the window.
#[derive(Clone)]
pub(super) struct WrittenRange {
    pub(super) file: Arc<dyn OpenFile>,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl WrittenRange {
    pub(super) fn bytes(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Most bytes read of a log in this format.
pub(super) fn max_bytes(format: &LogFormat) -> u64 {
    match format {
        LogFormat::Access(_) => MAX_ACCESS_LOG_BYTES,
        _ => MAX_ERROR_LOG_BYTES,
    }
}

/// The format of the first line of a range that has a known one.
///
/// # Errors
/// The file cannot be read.
pub(super) fn recognise(range: &WrittenRange, buffer: &mut Vec<u8>) -> Result<Option<LogFormat>> {
    let length = usize::try_from(range.bytes()).unwrap_or(usize::MAX);
    buffer.resize(length.min(MAX_BYTES_TO_RECOGNISE), 0);
    let bytes = fill(range, range.from, buffer)?;
    let lines = bytes.split(|b| *b == b'\n').take(MAX_LINES_TO_RECOGNISE);
    Ok(lines.filter(|line| !line.is_empty()).find_map(LogFormat::recognise))
}

/// Counts the lines of a range, reading at most `max` bytes; returns the bytes of the lines that were
/// counted. When there is more, [`PARTS`] parts are read at even distances, each cut to whole lines.
///
/// # Errors
/// The file cannot be read; what was counted before stays in the tally.
pub(super) fn count(
    range: &WrittenRange,
    max: u64,
    format: &LogFormat,
    tally: &mut Tally,
    buffer: &mut Vec<u8>,
) -> Result<u64> {
    if range.bytes() <= max {
        return count_all(range, format, tally, buffer);
    }
    let part = max / PARTS;
    let mut counted = 0;
    for index in 0..PARTS {
        let start = range.from + (range.bytes() - part) / (PARTS - 1).max(1) * index;
        buffer.resize(usize::try_from(part).unwrap_or(BLOCK_BYTES), 0);
        let bytes = fill(range, start, buffer)?;
        // The first line began before this part, unless this is the first one.
        let first = match index {
            0 => 0,
            _ => memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1),
        };
        let last = memrchr(b'\n', bytes).map_or(first, |at| at + 1).max(first);
        let lines = bytes.get(first..last).unwrap_or_default();
        tally.count(format, lines);
        counted += lines.len() as u64;
    }
    Ok(counted)
}

fn count_all(
    range: &WrittenRange,
    format: &LogFormat,
    tally: &mut Tally,
    buffer: &mut Vec<u8>,
) -> Result<u64> {
    let mut at = range.from;
    // The beginning of a line, from the block before.
    let mut begun: Vec<u8> = Vec::new();
    while at < range.to {
        let left = usize::try_from(range.to - at).unwrap_or(BLOCK_BYTES);
        buffer.resize(left.min(BLOCK_BYTES), 0);
        let bytes = fill(range, at, buffer)?;
        if bytes.is_empty() {
            break; // it was truncated while it was read
        }
        at += bytes.len() as u64;
        // The line that the block before began, then whole lines, then the beginning of another.
        let (mut rest, mut lines): (&[u8], &[u8]) = (bytes, &[]);
        if !begun.is_empty() {
            let first = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            let (head, tail) = bytes.split_at_checked(first).unwrap_or((bytes, &[]));
            begun.extend_from_slice(head);
            rest = tail;
            if begun.ends_with(b"\n") {
                tally.count(format, &begun);
                begun.clear();
            }
        }
        if let Some(last) = memrchr(b'\n', rest) {
            (lines, rest) = rest.split_at_checked(last + 1).unwrap_or((rest, &[]));
        }
        tally.count(format, lines);
        begun.extend_from_slice(rest);
        // A line longer than a block is none of a known form.
        if begun.len() > BLOCK_BYTES {
            begun.clear();
        }
    }
    Ok(at - range.from)
}

/// Reads from an offset until the buffer is full or the file ends; what was read.
fn fill<'b>(range: &WrittenRange, from: u64, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
    let mut filled = 0;
    while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
        match range.file.read_at(from + filled as u64, free)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(buffer.get(..filled).unwrap_or_default())
}
