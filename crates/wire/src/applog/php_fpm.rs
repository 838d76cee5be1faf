//! php-fpm's error log: `[21-Nov-2026 03:41:36] WARNING: [pool www] server reached …`.
//!
//! Written by `zlog` (`sapi/fpm/fpm/zlog.c`); a worker's own output comes quoted behind
//! `child N said into stderr:` and is never matched.

use model::Meaning;

use super::{LogMessage, Subject, after, before, number};

/// What a line says; `None` when it has not the form of php-fpm's error log.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    // `[21-Nov-2026 03:41:36]`, with microseconds at log level debug.
    let stamp = before(line.strip_prefix(b"[")?, b"] ")?;
    let date_ok = stamp.len() >= 20
        && stamp.len() <= 27
        && stamp[..2].iter().all(u8::is_ascii_digit)
        && stamp[2] == b'-'
        && stamp[3..6].iter().all(u8::is_ascii_alphabetic)
        && stamp[6] == b'-'
        && stamp[11] == b' ';
    if !date_ok {
        return None;
    }
    let rest = &line[stamp.len() + 3..];
    let level = before(rest, b": ")?;
    let mut message = &rest[level.len() + 2..];
    match level {
        b"WARNING" | b"ERROR" | b"ALERT" => {}
        b"NOTICE" | b"DEBUG" => return Some(LogMessage::NOTHING),
        _ => return None,
    }
    // At log level debug: `pid 12, fpm_pctl_perform_idle_server_maintenance(), line 370: `.
    if let Some(behind) = message.strip_prefix(b"pid ").and_then(|m| after(m, b", line "))
        && let Some((_, rest)) = number(behind)
        && let Some(rest) = rest.strip_prefix(b": ")
    {
        message = rest;
    }
    let mut pool = None;
    if let Some(named) = message.strip_prefix(b"[pool ")
        && let Some(name) = before(named, b"] ")
    {
        pool = Some(Subject::Plain(name));
        message = &named[name.len() + 2..];
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
