//! PostgreSQL's log: `2026-11-21 04:17:32.253 UTC [98] bob@shop FATAL:  sorry, too many …`.
//!
//! What stands before the severity is `log_line_prefix`, which may be anything: the first word
//! that ends in a colon and two spaces is the severity.

use memchr::memmem;
use model::Meaning;

use super::{LogMessage, Subject, before};

/// What a line says; `None` when there is no severity in it.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    // The second line of a statement begins with a tab and belongs to the line before.
    if line.first().is_none_or(|b| *b == b'\t') {
        return None;
    }
    let at = memmem::find(line.get(..400).unwrap_or(line), b":  ")?;
    let start = line[..at].iter().rposition(|b| !b.is_ascii_uppercase() && !b.is_ascii_digit());
    let severity = &line[start.map_or(0, |s| s + 1)..at];
    let message = &line[at + 3..];
    match severity {
        b"FATAL" | b"PANIC" | b"ERROR" | b"WARNING" => {}
        // Said at level LOG by the postmaster's accept().
        b"LOG" => {
            let files =
                message.starts_with(b"could not accept new connection: Too many open files");
            let said = LogMessage::new(Meaning::TooManyOpenFiles, None);
            return Some(if files { said } else { LogMessage::NOTHING });
        }
        b"DEBUG1" | b"DEBUG2" | b"DEBUG3" | b"DEBUG4" | b"DEBUG5" | b"INFO" | b"NOTICE"
        | b"DETAIL" | b"HINT" | b"QUERY" | b"CONTEXT" | b"LOCATION" | b"STATEMENT" => {
            return Some(LogMessage::NOTHING);
        }
        _ => return None,
    }
    if severity == b"FATAL" {
        if message.starts_with(b"sorry, too many clients already")
            || message.starts_with(b"remaining connection slots are reserved for")
        {
            return Some(LogMessage::new(Meaning::WorkerLimitReached, None));
        }
        for what in
            [&b"too many connections for role \""[..], b"too many connections for database \""]
        {
            if let Some(name) = message.strip_prefix(what).and_then(|rest| before(rest, b"\"")) {
                return Some(LogMessage::new(
                    Meaning::WorkerLimitReached,
                    Some(Subject::Plain(name)),
                ));
            }
        }
    }
    Some(LogMessage::new(Meaning::Other, None))
}
