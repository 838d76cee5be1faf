//! nginx's error log: `2026/11/21 03:41:36 [error] 8#8: *56 connect() to … failed (99: …) …`.
//!
//! The line is written by `ngx_log_error_core` and, for requests, `ngx_http_log_error`: level, process,
//! connection, message, errno in parentheses, what nginx was doing, then client, server, request,
//! upstream, host, referrer. The last ones and paths in the message are as clients sent them, unescaped.

use memchr::memmem;
use model::Meaning;

use super::message::{LogMessage, Subject, meaning_of_errno};
use super::scan::{after, before, has_form, number, split_at_mark};

/// How a line begins.
const STAMP: &[u8] = b"dddd/dd/dd dd:dd:dd [";

/// What a line means; `None` when it does not have the form of nginx's error log.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    if !has_form(line, STAMP) {
        return None;
    }
    let (level, rest) = split_at_mark(line.get(STAMP.len()..)?, b"] ")?;
    match level {
        b"warn" | b"error" | b"crit" | b"alert" | b"emerg" => {}
        b"notice" | b"info" | b"debug" => return Some(LogMessage::NOTHING),
        _ => return None,
    }
    // `1234#1234: *56 message`; the connection is not always there.
    let (_, rest) = number(rest)?;
    let (_, rest) = number(rest.strip_prefix(b"#")?)?;
    let mut message = rest.strip_prefix(b": ")?;
    if let Some(starred) = message.strip_prefix(b"*") {
        let (_, rest) = number(starred)?;
        message = rest.strip_prefix(b" ")?;
    }
    Some(parse_message(message))
}

/// What a message means.
fn parse_message(message: &[u8]) -> LogMessage<'_> {
    // `1024 worker_connections are not enough`. With `, reusing connections` after it (since nginx
    // 1.19.6) nginx closes idle ones in good time and loses nothing yet.
    if let Some((_, rest)) = number(message)
        && let Some(rest) = rest.strip_prefix(b" worker_connections are not enough")
    {
        let lost = !rest.starts_with(b", reusing connections");
        let meaning = if lost { Meaning::WorkerConnectionsNotEnough } else { Meaning::Other };
        return LogMessage::new(meaning, None);
    }
    if message.starts_with(b"upstream timed out (110") {
        return LogMessage::new(Meaning::UpstreamTimedOut, upstream(message));
    }
    if message.starts_with(b"upstream prematurely closed connection") {
        return LogMessage::new(Meaning::UpstreamClosed, upstream(message));
    }
    for verb in [&b"open() \""[..], b"openat() \"", b"opendir() \"", b"stat() \"", b"mkdir() \""] {
        if message.starts_with(verb) {
            return LogMessage::new(meaning_of_failed_path(message), None);
        }
    }
    // Messages that begin with a call and have no stranger's bytes before its error number.
    const CALLS: &[&[u8]] = &[
        b"connect()",
        b"accept",
        b"socket()",
        b"bind(",
        b"recv()",
        b"readv()",
        b"send()",
        b"writev()",
        b"sendfile()",
        b"SSL_",
        b"peer closed connection",
        b"epoll_create()",
        b"eventfd()",
        b"pipe()",
        b"ioctl(",
    ];
    if CALLS.iter().any(|call| message.starts_with(call)) {
        return parse_failed_call(message).unwrap_or(LogMessage::new(Meaning::Other, None));
    }
    LogMessage::new(Meaning::Other, None)
}

/// A call that failed: `connect() to ADDRESS failed (99: …) while connecting to upstream, …`.
fn parse_failed_call(message: &[u8]) -> Option<LogMessage<'_>> {
    let (call, rest) = split_at_mark(message, b" (")?;
    let (errno, _) = number(rest)?;
    let doing = before(message, b", client: ").unwrap_or(message);
    let to_upstream = memmem::find(doing, b"upstream").is_some();
    let named = call.strip_suffix(b" failed").and_then(|call| {
        let address = call.strip_prefix(b"connect() to ").or(call.strip_prefix(b"bind() to "));
        address.or(call.strip_prefix(b"bind(").and_then(|a| a.strip_suffix(b")")))
    });
    let subject = named.map(address).or_else(|| upstream(message));
    let meaning = match meaning_of_errno(errno) {
        Some(Meaning::UpstreamQueueFull) => {
            let full =
                message.starts_with(b"connect()") && matches!(subject, Some(Subject::Unix(_)));
            if full { Meaning::UpstreamQueueFull } else { Meaning::Other }
        }
        // These also happen with clients, where they are common.
        Some(Meaning::UpstreamClosed | Meaning::UpstreamTimedOut) if !to_upstream => Meaning::Other,
        Some(meaning) => meaning,
        None => Meaning::Other,
    };
    Some(LogMessage::new(meaning, subject.filter(|_| meaning != Meaning::Other)))
}

/// A file that could not be opened: `open() "PATH" failed (24: Too many open files), client: …`. The path
/// is a decoded URI and headers follow the client, so that strangers write on both sides of the error
/// number: it counts only if all such numbers in the line are the same.
fn meaning_of_failed_path(message: &[u8]) -> Meaning {
    const FAILED: &[u8] = b" failed (";
    let mut meanings = memmem::find_iter(message, FAILED)
        .map(|at| {
            let (errno, _) = number(message.get(at + FAILED.len()..)?)?;
            meaning_of_errno(errno)
        })
        .peekable();
    let any = meanings.peek().is_some();
    if any && meanings.all(|meaning| meaning == Some(Meaning::TooManyOpenFiles)) {
        return Meaning::TooManyOpenFiles;
    }
    Meaning::Other
}

/// The upstream after the request: `upstream: "fastcgi://unix:/run/php/fpm.sock:"`.
fn upstream(message: &[u8]) -> Option<Subject<'_>> {
    let context = after(message, b", client: ")?;
    let url = before(after(context, b", upstream: \"")?, b"\"")?;
    Some(address(after(url, b"://").unwrap_or(url)))
}

/// The address at the beginning of an upstream's URL, without its path.
fn address(text: &[u8]) -> Subject<'_> {
    if let Some(path) = text.strip_prefix(b"unix:") {
        return Subject::Unix(path.split(|b| *b == b':').next().unwrap_or(path));
    }
    Subject::Plain(text.split(|b| *b == b'/').next().unwrap_or(text))
}
