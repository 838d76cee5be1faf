//! Apache's error log: `[Sat Nov 21 04:17:39.540937 2026] [mpm_event:error] [pid 1:tid 2] …`.
//!
//! Recognised by the message numbers (`AH00484`), which stay the same between versions, and by
//! the system's error number before them. What clients sent comes behind both, escaped.

use model::Meaning;

use super::{LogMessage, Subject, after, before, errno, number};

/// What a line says; `None` when it has not the form of Apache's default `ErrorLogFormat`.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    let stamp = before(line.strip_prefix(b"[")?, b"] [")?;
    // `Sat Nov 21 04:17:39.540937 2026`
    if stamp.len() < 20 || !stamp[..3].iter().all(u8::is_ascii_alphabetic) || stamp[3] != b' ' {
        return None;
    }
    let rest = &line[stamp.len() + 4..];
    let module = before(rest, b"] [pid ")?;
    let rest = after(&rest[module.len() + 7..], b"] ")?;
    let colon = module.iter().position(|b| *b == b':')?;
    let (module, level) = (&module[..colon], &module[colon + 1..]);
    match level {
        b"warn" | b"error" | b"crit" | b"alert" | b"emerg" => {}
        b"notice" | b"info" | b"debug" => return Some(LogMessage::NOTHING),
        level if level.starts_with(b"trace") => return Some(LogMessage::NOTHING),
        _ => return None,
    }
    if let Some(failed) = rest.strip_prefix(b"(") {
        return Some(of_errno(module, failed).unwrap_or(LogMessage::new(Meaning::Other, None)));
    }
    let meaning = match rest.get(..8) {
        // "server reached MaxRequestWorkers setting": prefork, worker, event.
        Some(b"AH00161:" | b"AH00286:" | b"AH00484:") => Meaning::WorkerLimitReached,
        // "server is within MinSpareThreads of MaxRequestWorkers": worker, event.
        Some(b"AH00287:" | b"AH10159:") => Meaning::PoolBusy,
        _ => Meaning::Other,
    };
    Some(LogMessage::new(meaning, None))
}

/// A call that failed: `111)Connection refused: AH00957: http: attempt to connect to …`.
fn of_errno<'a>(module: &[u8], failed: &'a [u8]) -> Option<LogMessage<'a>> {
    let (number, rest) = number(failed)?;
    let text = after(rest.strip_prefix(b")")?, b": ")?;
    // APR_TIMEUP, "The timeout specified has expired" (`apr_errno.h`): APR_OS_START_STATUS + 7.
    let number = if number == 70007 { 110 } else { number };
    let meaning = errno(number)?;
    if meaning == Meaning::TooManyOpenFiles {
        return Some(LogMessage::new(meaning, None));
    }
    if !module.starts_with(b"proxy") {
        return None;
    }
    let about = if let Some(rest) = after(text, b"attempt to connect to Unix domain socket ") {
        Some(Subject::Unix(before(rest, b" ")?))
    } else if let Some(rest) = after(text, b"attempt to connect to ") {
        Some(Subject::Plain(before(rest, b" ")?))
    } else {
        let host = after(text, b"from remote server ")
            .map(|rest| rest.split(|b| matches!(b, b' ' | b'/' | b',')).next().unwrap_or(rest));
        host.map(Subject::Plain)
    };
    if meaning == Meaning::UpstreamQueueFull && !matches!(about, Some(Subject::Unix(_))) {
        return None;
    }
    Some(LogMessage::new(meaning, about))
}
