//! Lines that applications write to their logs, to statuses and complaints.
//!
//! - [`access`]: access logs: where the HTTP status stands in a line
//! - [`nginx`], [`php_fpm`], [`apache`], [`postgresql`]: what a line of their error logs means
//! - [`tally`]: lines counted
//!
//! Words are matched where the application puts them, never anywhere in a line: request lines,
//! headers and what scripts print are written by strangers. A stranger who can make an
//! application log a line feed (nginx writes decoded paths to its error log as they are) can
//! still forge a whole line: a complaint is a witness, not a proof of its own.
//!
//! Knows the words of Apache 2.4, nginx 1.22, php-fpm 8.2 and PostgreSQL 15 as these programs
//! wrote them (`fixtures/`). HAProxy is not here: its logs go to syslog.

pub mod access;
pub mod apache;
pub mod nginx;
pub mod php_fpm;
pub mod postgresql;
pub mod tally;

pub use access::AccessFormat;
pub use tally::Tally;

use model::Meaning;

/// How the lines of a log are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// An access log.
    Access(AccessFormat),
    /// nginx's error log.
    Nginx,
    /// php-fpm's error log.
    PhpFpm,
    /// Apache's error log.
    Apache,
    /// PostgreSQL's log.
    Postgresql,
}

impl LogFormat {
    /// The dialect of a line, from its form; `None` when it has none of the known forms.
    pub fn recognise(line: &[u8]) -> Option<LogFormat> {
        if nginx::parse(line).is_some() {
            return Some(LogFormat::Nginx);
        }
        if php_fpm::parse(line).is_some() {
            return Some(LogFormat::PhpFpm);
        }
        if apache::parse(line).is_some() {
            return Some(LogFormat::Apache);
        }
        // Its severity alone is no form: other programs write `WARNING:  ` too.
        let dated = line.len() > 11 && line[4] == b'-' && line[7] == b'-' && line[10] == b' ';
        if dated && postgresql::parse(line).is_some() {
            return Some(LogFormat::Postgresql);
        }
        AccessFormat::recognise(line).map(LogFormat::Access)
    }
}

/// What a line of an error log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// What it means; `None` below level warning.
    pub meaning: Option<Meaning>,
    /// What it speaks of, as in the line.
    pub subject: Option<Subject<'a>>,
}

/// What a line speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject<'a> {
    /// An address, a pool: as in the line.
    Plain(&'a [u8]),
    /// A Unix socket, without the `unix:` that this type's text puts before it.
    Unix(&'a [u8]),
}

impl<'a> LogMessage<'a> {
    /// A line that says nothing that matters.
    pub(crate) const NOTHING: LogMessage<'static> = LogMessage { meaning: None, subject: None };

    pub(crate) fn new(meaning: Meaning, about: Option<Subject<'a>>) -> Self {
        LogMessage { meaning: Some(meaning), subject: about }
    }
}

/// What a system call's failure means to an application's client, by error number
/// (`include/uapi/asm-generic/errno.h`); `None` for a number that is not of interest here.
pub(crate) fn errno(number: u32) -> Option<Meaning> {
    Some(match number {
        11 => Meaning::UpstreamQueueFull,     // EAGAIN
        23 | 24 => Meaning::TooManyOpenFiles, // ENFILE, EMFILE
        32 | 104 => Meaning::UpstreamClosed,  // EPIPE, ECONNRESET
        99 => Meaning::AddressNotAvailable,   // EADDRNOTAVAIL
        110 => Meaning::UpstreamTimedOut,     // ETIMEDOUT
        111 => Meaning::ConnectionRefused,    // ECONNREFUSED
        _ => return None,
    })
}

/// The bytes before the first `end`.
pub(crate) fn before<'a>(bytes: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    Some(&bytes[..memchr::memmem::find(bytes, end)?])
}

/// The bytes after the first `start`.
pub(crate) fn after<'a>(bytes: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    bytes.get(memchr::memmem::find(bytes, start)? + start.len()..)
}

/// A decimal number at the beginning and what follows it.
pub(crate) fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = std::str::from_utf8(&bytes[..digits]).ok()?;
    Some((text.parse().ok()?, &bytes[digits..]))
}

#[cfg(test)]
mod tests;
