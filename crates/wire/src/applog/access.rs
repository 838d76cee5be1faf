//! Access logs: where the HTTP status is in a line.
//!
//! A format is known from its template (nginx's `log_format`) or recognised from a line: the common and
//! combined formats, and JSON with a member `status`. Either way the position is counted in double
//! quotes: nginx writes a quote inside a value as `\x22`, Apache and JSON as `\"`, so that clients cannot
//! shift it with what they send. A template with clients' text unquoted on both sides of the status, or
//! unescaped before it, is refused.

use memchr::{memchr, memchr2, memmem, memrchr};

use super::scan::after;

/// Where the status is in the lines of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessFormat {
    position: StatusPosition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum StatusPosition {
    /// After this many quotes, then after a number of bytes, then after these texts one after another.
    Forward { quotes: u32, fixed: usize, skip: Vec<Vec<u8>> },
    /// After this many quotes; counted backwards from the next quote or the end of the line.
    Backward { quotes: u32, fixed: usize, skip: Vec<Vec<u8>> },
    /// In the member `status` of a JSON object.
    Json,
}

impl AccessFormat {
    /// The common and combined formats: the status follows the quoted request.
    pub fn combined() -> Self {
        let position = StatusPosition::Forward { quotes: 2, fixed: 1, skip: Vec::new() };
        AccessFormat { position }
    }

    /// Recognises a format from one line.
    pub fn recognise(line: &[u8]) -> Option<Self> {
        let format = if line.trim_ascii_start().starts_with(b"{") {
            AccessFormat { position: StatusPosition::Json }
        } else {
            // `addr - user [21/Nov/2026:03:41:36 +0000] "…" 200`; php-fpm omits the brackets.
            let dated = memmem::find(line, b"/20").is_some() && memchr(b':', line).is_some();
            dated.then(AccessFormat::combined)?
        };
        format.status(line).is_some().then_some(format)
    }

    /// The format of an nginx `log_format`, whose strings are joined; `escape` is its parameter
    /// `escape=`, `None` when absent.
    ///
    /// # Errors
    /// Why the status cannot be located reliably in such lines, in words.
    pub fn from_nginx(template: &[u8], escape: Option<&str>) -> Result<Self, &'static str> {
        const NO_STATUS: &str = "its log_format has no $status";
        let parts = split(template);
        let is_status = |part: &Part<'_>| *part == Part::Variable(b"status");
        let at = parts.iter().position(is_status).ok_or(NO_STATUS)?;
        let (ahead, rest) = parts.split_at_checked(at).ok_or(NO_STATUS)?;
        let behind = rest.get(1..).unwrap_or_default();
        let neighbours = [ahead.last(), behind.first()];
        if neighbours.into_iter().flatten().any(|part| part.literal().is_none()) {
            return Err("its log_format has nothing between $status and its neighbour");
        }
        let [text_ahead, text_behind] =
            neighbours.map(|part| part.and_then(Part::literal).unwrap_or_default());
        let adjacent = [text_ahead.last(), text_behind.first()];
        if adjacent.into_iter().flatten().any(u8::is_ascii_digit) {
            return Err("its log_format has a digit next to $status");
        }
        let free_ahead = ahead.iter().any(|p| value_kind(p) == ValueKind::Free);
        if free_ahead && escape == Some("none") {
            return Err("its log_format has escape=none: clients' text may contain quotes");
        }
        let literals = ahead.iter().filter_map(Part::literal);
        if literals.clone().any(|text| text.contains(&b'\\')) {
            return Err("its log_format has a backslash");
        }
        let quotes = literals.flatten().filter(|b| **b == b'"').count();
        let quotes = u32::try_from(quotes).map_err(|_| "its log_format is too long")?;
        let position = forward(ahead, quotes)
            .or_else(|| backward(behind, quotes))
            .ok_or("its log_format does not separate $status from clients' text")?;
        Ok(AccessFormat { position })
    }

    /// The status in a line (without its line feed), 100 to 999; `None` when there is none where it
    /// should be.
    pub fn status(&self, line: &[u8]) -> Option<u16> {
        match &self.position {
            StatusPosition::Forward { quotes, fixed, skip } => {
                let mut rest = after_quotes(line, *quotes)?.get(*fixed..)?;
                for text in skip {
                    rest = after(rest, text)?;
                }
                leading_status(rest)
            }
            StatusPosition::Backward { quotes, fixed, skip } => {
                let mut rest = before_quote(after_quotes(line, *quotes)?);
                rest = rest.get(..rest.len().checked_sub(*fixed)?)?;
                for text in skip {
                    rest = rest.get(..memmem::rfind(rest, text)?)?;
                }
                let (before, digits) = rest.split_last_chunk::<3>()?;
                let longer = before.last().is_some_and(u8::is_ascii_digit);
                if longer { None } else { leading_status(digits) }
            }
            StatusPosition::Json => {
                let rest = after(line, b"\"status\":")?.trim_ascii_start();
                leading_status(rest.strip_prefix(b"\"").unwrap_or(rest))
            }
        }
    }
}

/// What follows this many quotes; a backslash escapes the byte after it.
fn after_quotes(line: &[u8], quotes: u32) -> Option<&[u8]> {
    let mut rest = line;
    let mut left = quotes;
    while left > 0 {
        let at = memchr2(b'"', b'\\', rest)?;
        rest = match rest.get(at..)? {
            [b'"', after @ ..] => {
                left -= 1;
                after
            }
            [_, _, after @ ..] => after,
            _ => return None,
        };
    }
    Some(rest)
}

/// What comes before the next quote; a backslash escapes the byte after it.
fn before_quote(line: &[u8]) -> &[u8] {
    let mut at = 0;
    while let Some(next) = line.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        match line.split_at_checked(at + next) {
            Some((before, [b'"', ..])) => return before,
            _ => at += next + 2,
        }
    }
    line
}

/// Three digits at the beginning that no fourth follows.
fn leading_status(rest: &[u8]) -> Option<u16> {
    let ([a, b, c], rest) = rest.split_first_chunk::<3>()?;
    let digits = a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit();
    if !digits || *a == b'0' || rest.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
}

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a [u8]),
    Variable(&'a [u8]),
}

impl<'a> Part<'a> {
    fn literal(&self) -> Option<&'a [u8]> {
        match self {
            Part::Literal(text) => Some(text),
            Part::Variable(_) => None,
        }
    }
}

/// Splits a template into texts and variables (`$name`, `${name}`).
fn split(template: &[u8]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, variable)) =
        memchr(b'$', rest).and_then(|at| rest.split_at_checked(at))
    {
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let (braced, name) = match variable {
            [_, b'{', name @ ..] => (true, name),
            [_, name @ ..] => (false, name),
            [] => (false, variable),
        };
        let length = name.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let (name, after) = name.split_at_checked(length).unwrap_or((name, &[]));
        parts.push(Part::Variable(name));
        rest = match after {
            [b'}', after @ ..] if braced => after,
            _ => after,
        };
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    parts
}

/// What a part of a line may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// Text of the template.
    Literal,
    /// One word of letters, digits and `:._+-/`.
    Word,
    /// `21/Nov/2026:03:41:36 +0000`: one space.
    TimeLocal,
    /// Anything.
    Free,
}

fn value_kind(part: &Part<'_>) -> ValueKind {
    /// Variables whose values nginx sets itself, without spaces, quotes or brackets.
    const WORDS: &[&str] = &[
        "body_bytes_sent",
        "bytes_sent",
        "connection",
        "connection_requests",
        "connection_time",
        "content_length",
        "hostname",
        "http2",
        "https",
        "limit_req_status",
        "limit_conn_status",
        "msec",
        "nginx_version",
        "pid",
        "pipe",
        "proxy_protocol_addr",
        "proxy_protocol_port",
        "realip_remote_addr",
        "realip_remote_port",
        "remote_addr",
        "remote_port",
        "request_id",
        "request_length",
        "request_time",
        "scheme",
        "server_addr",
        "server_port",
        "server_protocol",
        "ssl_cipher",
        "ssl_protocol",
        "ssl_session_reused",
        "status",
        "tcpinfo_rcv_space",
        "tcpinfo_rtt",
        "tcpinfo_rttvar",
        "tcpinfo_snd_cwnd",
        "time_iso8601",
        "upstream_cache_status",
        "gzip_ratio",
    ];
    match part {
        Part::Literal(_) => ValueKind::Literal,
        Part::Variable(b"time_local") => ValueKind::TimeLocal,
        Part::Variable(name) if WORDS.iter().any(|w| w.as_bytes() == *name) => ValueKind::Word,
        Part::Variable(_) => ValueKind::Free,
    }
}

/// Whether a text of the template cannot be part of a [`ValueKind::Word`].
fn divides(text: &[u8]) -> bool {
    text.iter().any(|b| !b.is_ascii_alphanumeric() && !b":._+-/".contains(b))
}

/// The position counted from the last quote before the status.
fn forward(ahead: &[Part<'_>], quotes: u32) -> Option<StatusPosition> {
    // Parts after the last quote, of the text with the quote what follows it.
    let last = ahead.iter().rposition(|p| p.literal().is_some_and(|t| t.contains(&b'"')));
    let mut parts: Vec<Part<'_>> = ahead.get(last.unwrap_or(0)..)?.to_vec();
    if last.is_some()
        && let Some(Part::Literal(text)) = parts.first_mut()
    {
        *text = text.get(memrchr(b'"', text)? + 1..)?;
    }
    let mut fixed = 0;
    let mut skip: Vec<Vec<u8>> = Vec::new();
    let mut before = ValueKind::Literal;
    for part in parts {
        let now = value_kind(&part);
        match (before, part) {
            (ValueKind::Literal, Part::Literal(text)) => fixed += text.len(),
            (_, Part::Literal(text)) => {
                if !divides(text) {
                    return None;
                }
                if before == ValueKind::TimeLocal && text.starts_with(b" ") {
                    skip.push(b" ".to_vec());
                }
                skip.push(text.to_vec());
            }
            (ValueKind::Literal, Part::Variable(_)) if now != ValueKind::Free => {}
            // Two variables without a text between them, or clients' text.
            (_, Part::Variable(_)) => return None,
        }
        before = now;
    }
    (before == ValueKind::Literal).then_some(StatusPosition::Forward { quotes, fixed, skip })
}

/// The position counted backwards from the next quote after the status, or from the end of the line.
fn backward(behind: &[Part<'_>], quotes: u32) -> Option<StatusPosition> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for part in behind {
        if let Part::Literal(text) = part
            && let Some(at) = memchr(b'"', text)
        {
            parts.push(Part::Literal(text.get(..at)?));
            break;
        }
        parts.push(*part);
    }
    // A backslash would escape a byte of the template.
    if parts.iter().filter_map(Part::literal).any(|text| text.contains(&b'\\')) {
        return None;
    }
    let mut fixed = 0;
    let mut skip: Vec<Vec<u8>> = Vec::new();
    let mut after = ValueKind::Literal;
    for part in parts.into_iter().rev() {
        let now = value_kind(&part);
        match (after, part) {
            (ValueKind::Literal, Part::Literal(text)) => fixed += text.len(),
            (_, Part::Literal(text)) => {
                if !divides(text) {
                    return None;
                }
                if after == ValueKind::TimeLocal && text.ends_with(b" ") {
                    skip.push(b" ".to_vec());
                }
                skip.push(text.to_vec());
            }
            (ValueKind::Literal, Part::Variable(_)) if now != ValueKind::Free => {}
            (_, Part::Variable(_)) => return None,
        }
        after = now;
    }
    (after == ValueKind::Literal).then_some(StatusPosition::Backward { quotes, fixed, skip })
}
