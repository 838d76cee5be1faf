//! Reading what was written to a log between two offsets, all of it or parts spread over it.

use std::path::Path;

use memchr::{memchr, memrchr};
use sys::{Machine, Result};
use wire::applog::{LogFormat, Tally};

/// Most bytes read of an access log in one window.
pub(super) const MOST_OF_ACCESS: u64 = 8 << 20;
/// Most bytes read of an error log in one window. Their lines are rarer and differ more.
pub(super) const MOST_OF_ERRORS: u64 = 16 << 20;
/// Most bytes read of all logs in one window: 64 MiB take about a tenth of a second.
pub(super) const MOST_OF_ALL: u64 = 64 << 20;
/// Least bytes read of a log, however many there are: a part stays long enough for some lines.
pub(super) const LEAST: u64 = 256 << 10;
/// Parts in which a log that is too busy is read.
const PARTS: u64 = 64;
/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// Lines looked at to recognise a dialect, and bytes in which they are.
const LINES_TO_RECOGNISE: usize = 50;
const BYTES_TO_RECOGNISE: usize = 64 << 10;

/// Most bytes read of a log in this dialect.
pub(super) fn most(dialect: &LogFormat) -> u64 {
    if matches!(dialect, LogFormat::Access(_)) { MOST_OF_ACCESS } else { MOST_OF_ERRORS }
}

/// The dialect of the first line from an offset that has a known form.
///
/// # Errors
/// The file cannot be read.
pub(super) fn recognise(
    machine: &dyn Machine,
    path: &Path,
    from: u64,
    to: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<LogFormat>> {
    let length = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    buffer.resize(length.min(BYTES_TO_RECOGNISE), 0);
    let filled = fill(machine, path, from, buffer)?;
    let lines = buffer[..filled].split(|b| *b == b'\n').take(LINES_TO_RECOGNISE);
    Ok(lines.filter(|line| !line.is_empty()).find_map(LogFormat::recognise))
}

/// Counts the lines between two offsets, reading at most `most` bytes; gives the bytes of which
/// the lines were counted. When there is more, [`PARTS`] parts are read at even distances, each
/// cut to whole lines.
///
/// # Errors
/// The file cannot be read; what was counted before stays in the tally.
pub(super) fn count(
    machine: &dyn Machine,
    path: &Path,
    (from, to): (u64, u64),
    most: u64,
    dialect: &LogFormat,
    tally: &mut Tally,
    buffer: &mut Vec<u8>,
) -> Result<u64> {
    let written = to.saturating_sub(from);
    if written <= most {
        return whole(machine, path, from, to, dialect, tally, buffer);
    }
    let part = most / PARTS;
    let mut counted = 0;
    for index in 0..PARTS {
        let start = from + (written - part) / (PARTS - 1).max(1) * index;
        buffer.resize(usize::try_from(part).unwrap_or(BLOCK), 0);
        let filled = fill(machine, path, start, buffer)?;
        let bytes = &buffer[..filled];
        // The first line has begun before, unless this is the first part.
        let first = match index {
            0 => 0,
            _ => memchr(b'\n', bytes).map_or(filled, |at| at + 1),
        };
        let last = memrchr(b'\n', bytes).map_or(first, |at| at + 1).max(first);
        tally.count(dialect, &bytes[first..last]);
        counted += (last - first) as u64;
    }
    Ok(counted)
}

fn whole(
    machine: &dyn Machine,
    path: &Path,
    from: u64,
    to: u64,
    dialect: &LogFormat,
    tally: &mut Tally,
    buffer: &mut Vec<u8>,
) -> Result<u64> {
    let mut at = from;
    // Bytes at the beginning of the buffer that are the beginning of a line.
    let mut kept = 0;
    while at < to {
        let room = usize::try_from(to - at).unwrap_or(BLOCK).min(BLOCK);
        buffer.resize(kept + room, 0);
        let filled = fill(machine, path, at, &mut buffer[kept..])?;
        if filled == 0 {
            break; // it was cut while it was read
        }
        at += filled as u64;
        let bytes = &buffer[..kept + filled];
        let end = memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        tally.count(dialect, &bytes[..end]);
        kept = bytes.len() - end;
        // A line longer than a block is none that is known.
        if kept > BLOCK {
            kept = 0;
        }
        buffer.copy_within(end..end + kept, 0);
    }
    Ok(at - from)
}

/// Reads until the buffer is full or the file ends.
fn fill(machine: &dyn Machine, path: &Path, from: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match machine.read_at(path, from + filled as u64, &mut buffer[filled..])? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}
