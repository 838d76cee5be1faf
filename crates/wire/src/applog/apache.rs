//! Apache's error log: `[Sat Nov 21 04:17:39.540937 2026] [mpm_event:error] [pid 1:tid 2] …`.
//!
//! Recognised by the message numbers (`AH00484`), which stay the same between versions, and by the
//! system's error number before them. Text of clients comes after both, escaped.

use model::Meaning;

use super::message::{LogMessage, Subject, meaning_of_errno};
use super::scan::{after, before, has_form, number, split_at_mark};

/// Fewest bytes of a time stamp: `Sat Nov 21 04:17:39.540937 2026`, maybe without a fraction.
const MIN_STAMP_BYTES: usize = 20;
/// APR_TIMEUP, "The timeout specified has expired" (`apr_errno.h`): APR_OS_START_STATUS + 7.
const APR_TIMEUP: u32 = 70_007;
const ETIMEDOUT: u32 = 110;

/// What a line means; `None` when it does not have the form of Apache's default `ErrorLogFormat`.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    let (stamp, rest) = split_at_mark(line.strip_prefix(b"[")?, b"] [")?;
    if stamp.len() < MIN_STAMP_BYTES || !has_form(stamp, b"aaa ") {
        return None;
    }
    let (module, rest) = split_at_mark(rest, b"] [pid ")?;
    let rest = after(rest, b"] ")?;
    let (module, level) = split_at_mark(module, b":")?;
    match level {
        b"warn" | b"error" | b"crit" | b"alert" | b"emerg" => {}
        b"notice" | b"info" | b"debug" => return Some(LogMessage::NOTHING),
        level if level.starts_with(b"trace") => return Some(LogMessage::NOTHING),
        _ => return None,
    }
    let other = LogMessage::new(Meaning::Other, None);
    if let Some(failed) = rest.strip_prefix(b"(") {
        return Some(parse_failed_call(module, failed).unwrap_or(other));
    }
    let meaning = match rest.get(..8) {
        // "server reached MaxRequestWorkers setting": prefork, worker, event.
        Some(b"AH00161:" | b"AH00286:" | b"AH00484:") => Meaning::WorkerLimitReached,
        // "server is within MinSpareThreads of MaxRequestWorkers": worker, event.
        Some(b"AH00287:" | b"AH10159:") => Meaning::PoolBusy,
        _ => return Some(other),
    };
    Some(LogMessage::new(meaning, None))
}

/// A call that failed: `111)Connection refused: AH00957: http: attempt to connect to …`.
fn parse_failed_call<'a>(module: &[u8], failed: &'a [u8]) -> Option<LogMessage<'a>> {
    let (errno, rest) = number(failed)?;
    let text = after(rest.strip_prefix(b")")?, b": ")?;
    let meaning = meaning_of_errno(if errno == APR_TIMEUP { ETIMEDOUT } else { errno })?;
    if meaning == Meaning::TooManyOpenFiles {
        return Some(LogMessage::new(meaning, None));
    }
    if !module.starts_with(b"proxy") {
        return None;
    }
    let subject = if let Some(rest) = after(text, b"attempt to connect to Unix domain socket ") {
        Some(Subject::Unix(before(rest, b" ")?))
    } else if let Some(rest) = after(text, b"attempt to connect to ") {
        Some(Subject::Plain(before(rest, b" ")?))
    } else {
        let host = after(text, b"from remote server ")
            .map(|rest| rest.split(|b| matches!(b, b' ' | b'/' | b',')).next().unwrap_or(rest));
        host.map(Subject::Plain)
    };
    if meaning == Meaning::UpstreamQueueFull && !matches!(subject, Some(Subject::Unix(_))) {
        return None;
    }
    Some(LogMessage::new(meaning, subject))
}
