//! What a line of an error log means.

use model::Meaning;

/// A line of an error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// What it means; `None` below level warning.
    pub meaning: Option<Meaning>,
    /// What it is about, as in the line.
    pub subject: Option<Subject<'a>>,
}

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject<'a> {
    /// An address, a pool: as in the line.
    Plain(&'a [u8]),
    /// A Unix socket, without the `unix:` that its text begins with.
    Unix(&'a [u8]),
}

impl<'a> LogMessage<'a> {
    /// A line that does not matter here.
    pub(super) const NOTHING: LogMessage<'static> = LogMessage { meaning: None, subject: None };

    pub(super) fn new(meaning: Meaning, subject: Option<Subject<'a>>) -> Self {
        LogMessage { meaning: Some(meaning), subject }
    }
}

/// What the failure of a system call means to an application's client, by error number
/// (`include/uapi/asm-generic/errno.h`); `None` for a number that does not matter here.
pub(super) fn meaning_of_errno(number: u32) -> Option<Meaning> {
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
