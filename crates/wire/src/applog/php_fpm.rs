//! php-fpm's error log: `[21-Nov-2026 03:41:36] WARNING: [pool www] server reached …`.
//!
//! Written by `zlog` (`sapi/fpm/fpm/zlog.c`); a worker's own output is quoted in a message of another
//! form, and is never matched.

use model::Meaning;

use super::message::{LogMessage, Subject};
use super::scan::{after, has_form, number, split_at_mark};

/// Bytes of a time stamp, without and with microseconds (at log level debug).
const STAMP_BYTES: std::ops::RangeInclusive<usize> = 20..=27;

/// What a line means; `None` when it does not have the form of php-fpm's error log.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    let (stamp, rest) = split_at_mark(line.strip_prefix(b"[")?, b"] ")?;
    let dated =
        has_form(stamp, b"dd-aaa-") && matches!(stamp, [_, _, _, _, _, _, _, _, _, _, _, b' ', ..]);
    if !STAMP_BYTES.contains(&stamp.len()) || !dated {
        return None;
    }
    let (level, mut message) = split_at_mark(rest, b": ")?;
    match level {
        b"WARNING" | b"ERROR" | b"ALERT" => {}
        b"NOTICE" | b"DEBUG" => return Some(LogMessage::NOTHING),
        _ => return None,
    }
    // At log level debug: `pid 12, fpm_pctl_perform_idle_server_maintenance(), line 370: `.
    if let Some(line) = message.strip_prefix(b"pid ").and_then(|m| after(m, b", line "))
        && let Some((_, rest)) = number(line)
        && let Some(rest) = rest.strip_prefix(b": ")
    {
        message = rest;
    }
    let mut pool = None;
    if let Some(named) = message.strip_prefix(b"[pool ")
        && let Some((name, rest)) = split_at_mark(named, b"] ")
    {
        pool = Some(Subject::Plain(name));
        message = rest;
    }
    if message.starts_with(b"server reached pm.max_children setting")
        || message.starts_with(b"The maximum number of processes has been reached")
    {
        return Some(LogMessage::new(Meaning::WorkerLimitReached, pool));
    }
    if message.starts_with(b"seems busy (") {
        return Some(LogMessage::new(Meaning::PoolBusy, pool));
    }
    Some(LogMessage::new(Meaning::Other, None))
}
