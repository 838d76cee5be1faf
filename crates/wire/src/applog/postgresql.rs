//! PostgreSQL's log: `2026-11-21 04:17:32.253 UTC [98] bob@shop FATAL:  sorry, too many …`.
//!
//! The text before the severity is `log_line_prefix`, which may be anything: the first word that ends in
//! a colon and two spaces is the severity.

use model::Meaning;

use super::message::{LogMessage, Subject};
use super::scan::{before, split_at_mark};

/// Longest prefix that is searched for a severity, bytes.
const MAX_PREFIX_BYTES: usize = 400;
const SEVERITY_END: &[u8] = b":  ";

/// What a line means; `None` when it has no severity.
pub fn parse(line: &[u8]) -> Option<LogMessage<'_>> {
    // The second line of a statement begins with a tab and belongs to the line before.
    if line.first().is_none_or(|b| *b == b'\t') {
        return None;
    }
    let (prefix, _) = split_at_mark(line.get(..MAX_PREFIX_BYTES).unwrap_or(line), SEVERITY_END)?;
    let message = line.get(prefix.len() + SEVERITY_END.len()..)?;
    let severity = prefix.rsplit(|b| !b.is_ascii_uppercase() && !b.is_ascii_digit()).next()?;
    match severity {
        b"FATAL" | b"PANIC" | b"ERROR" | b"WARNING" => {}
        // Logged at level LOG by the postmaster's accept().
        b"LOG" if message.starts_with(b"could not accept new connection: Too many open files") => {
            return Some(LogMessage::new(Meaning::TooManyOpenFiles, None));
        }
        b"LOG" | b"DEBUG1" | b"DEBUG2" | b"DEBUG3" | b"DEBUG4" | b"DEBUG5" | b"INFO"
        | b"NOTICE" | b"DETAIL" | b"HINT" | b"QUERY" | b"CONTEXT" | b"LOCATION" | b"STATEMENT" => {
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
        for limit in
            [&b"too many connections for role \""[..], b"too many connections for database \""]
        {
            if let Some(name) = message.strip_prefix(limit).and_then(|rest| before(rest, b"\"")) {
                let subject = Some(Subject::Plain(name));
                return Some(LogMessage::new(Meaning::WorkerLimitReached, subject));
            }
        }
    }
    Some(LogMessage::new(Meaning::Other, None))
}
