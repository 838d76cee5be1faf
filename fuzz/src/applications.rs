//! Targets of applications: their logs and their configuration.

use std::collections::BTreeMap;
use std::rc::Rc;

use wire::appconfig::{ini, nginx};
use wire::applog::{self, AccessFormat, LogFormat, LogMessage, Subject, Tally};

/// Whether a text could control a terminal: no such text may come from a log line.
fn controls_terminal(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && c != '\t')
        || text.contains(|c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

fn parsed<'a>(format: &LogFormat, line: &'a [u8]) -> Option<LogMessage<'a>> {
    match format {
        LogFormat::Access(_) => None,
        LogFormat::Nginx => applog::nginx::parse(line),
        LogFormat::PhpFpm => applog::php_fpm::parse(line),
        LogFormat::Apache => applog::apache::parse(line),
        LogFormat::Postgresql => applog::postgresql::parse(line),
    }
}

/// The first byte chooses a format, the rest are lines.
pub(super) fn log(bytes: &[u8]) {
    let Some((choice, lines)) = bytes.split_first() else { return };
    let recognised = lines.split(|byte| *byte == b'\n').find_map(|line| {
        let format = LogFormat::recognise(line)?;
        let is = matches!(format, LogFormat::Access(_)) || parsed(&format, line).is_some();
        assert!(is, "a line has the format that is recognised");
        Some(format)
    });
    let format = match choice % 6 {
        0 => LogFormat::Nginx,
        1 => LogFormat::PhpFpm,
        2 => LogFormat::Apache,
        3 => LogFormat::Postgresql,
        4 => LogFormat::Access(AccessFormat::combined()),
        _ => match recognised {
            Some(format) => format,
            None => return,
        },
    };
    let mut tally = Tally::default();
    tally.count(&format, lines);
    let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(tally.lines(), count);
    let (statuses, complaints) = (tally.statuses(), tally.complaints());
    assert!(statuses.keys().all(|status| (100..=999).contains(status)));
    let with_status: u64 = statuses.values().sum();
    let with_complaint: u64 = complaints.iter().map(|complaint| complaint.count).sum();
    assert!(with_status + with_complaint + tally.unparsed() <= count);
    if matches!(format, LogFormat::Access(_)) {
        assert_eq!((with_status + tally.unparsed(), with_complaint), (count, 0));
    }
    // 256 that are distinguished, and one of each meaning without a subject.
    assert!(complaints.len() <= 256 + 32);
    for complaint in &complaints {
        let about = complaint.about.as_deref().unwrap_or_default();
        assert!(about.len() <= 128 + "unix:".len() && !controls_terminal(about));
        assert!(complaint.first_line.len() <= 300 && !controls_terminal(&complaint.first_line));
    }
    // The same in pieces that end with a line.
    let mut pieces = Tally::default();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        pieces.count(&format, line);
        if let Some(LogMessage {
            subject: Some(Subject::Plain(subject) | Subject::Unix(subject)),
            ..
        }) = parsed(&format, line.strip_suffix(b"\n").unwrap_or(line))
        {
            assert!(subject.len() <= line.len());
        }
    }
    assert_eq!(pieces.statuses(), statuses);
    assert_eq!(pieces.complaints(), complaints);
    assert_eq!((pieces.lines(), pieces.unparsed()), (tally.lines(), tally.unparsed()));
}

/// Variables whose values are clients' text.
const CLIENT_VARIABLES: [&str; 6] =
    ["request", "http_user_agent", "http_referer", "remote_user", "uri", "args"];

/// A template of nginx, then a byte that chooses how values are escaped, then what a client sent. A line is
/// written as nginx would: the status that is parsed must be the one that was written.
pub(super) fn access_format(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let (template, choice) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let client_text = parts.next().unwrap_or_default();
    let escape = match choice.first().map(|byte| byte % 3) {
        Some(1) => Some("json"),
        Some(2) => Some("none"),
        _ => None,
    };
    let Ok(format) = AccessFormat::from_nginx(template, escape) else { return };
    // Any line has a status of three digits, or none.
    let any = format.status(client_text);
    assert!(any.is_none_or(|status| (100..=999).contains(&status)));
    let Some(line) = written(template, escape, client_text) else { return };
    let status = format.status(&line);
    assert_eq!(status, Some(418), "{}", String::from_utf8_lossy(&line));
}

/// The line that nginx writes; `None` for a template that it refuses.
fn written(template: &[u8], escape: Option<&str>, client_text: &[u8]) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        line.extend(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.first() == Some(&b'{');
        rest = &rest[usize::from(braced)..];
        let end = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        if name.is_empty() || (braced && after.first() != Some(&b'}')) {
            return None;
        }
        rest = &after[usize::from(braced)..];
        let name = std::str::from_utf8(name).ok()?;
        match name {
            "status" => line.extend(b"418"),
            "time_local" => line.extend(b"21/Nov/2026:03:41:36 +0000"),
            name if CLIENT_VARIABLES.contains(&name) => escaped(client_text, escape, &mut line),
            // Values that nginx sets itself: a word.
            _ => {
                let word = |b: &&u8| b.is_ascii_alphanumeric() || b":._+-/".contains(*b);
                let value: Vec<u8> = client_text.iter().filter(word).take(20).copied().collect();
                line.extend(if value.is_empty() { b"-" } else { value.as_slice() });
            }
        }
    }
    line.extend(rest);
    Some(line)
}

/// A value as `ngx_http_log_escape` and its JSON variant write it.
fn escaped(value: &[u8], escape: Option<&str>, line: &mut Vec<u8>) {
    for byte in value {
        match (escape, byte) {
            (Some("none"), b'\n') => {}
            (Some("none"), byte) => line.push(*byte),
            (Some(_), b'"' | b'\\') => line.extend([b'\\', *byte]),
            (Some(_), 0..=31) => line.extend(format!("\\u{byte:04X}").bytes()),
            (Some(_), byte) => line.push(*byte),
            (None, b'"' | b'\\' | 0..=31 | 127..) => line.extend(format!("\\x{byte:02X}").bytes()),
            (None, byte) => line.push(*byte),
        }
    }
    if value.is_empty() && escape.is_none() {
        line.push(b'-');
    }
}

pub(super) fn nginx(text: &[u8]) {
    let outside: Rc<[Rc<str>]> = Rc::from([Rc::from("http")]);
    let directives = nginx::directives(text, &outside);
    assert!(directives.len() <= text.len().min(50_000));
    let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
    let mut line = 1;
    let mut blocks = BTreeMap::new();
    let mut kept = 0;
    for directive in &directives {
        assert!(directive.line >= line && directive.line as usize <= lines);
        line = directive.line;
        assert!(directive.blocks.len() <= 33 && directive.blocks.starts_with(&outside));
        assert!(directive.section().starts_with("http"));
        kept += directive.name.len() + directive.value().len();
        blocks.extend(directive.blocks.iter().map(|block| (block.as_ptr(), block.len())));
    }
    // Memory grows with the text, not with its square. Replacement characters take three bytes for one.
    assert!(kept <= 4 * text.len(), "{kept} bytes of words");
    let names: usize = blocks.values().sum();
    assert!(names <= 4 * text.len() + 4, "{names} bytes of names of blocks");
    assert!(blocks.values().all(|block| *block <= 256));
}

pub(super) fn ini(text: &[u8]) {
    let mut section = "global".to_string();
    let entries = ini::entries(text, &mut section);
    assert!(entries.len() <= text.len().min(20_000));
    let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
    let mut line = 0;
    let mut kept = 0;
    for entry in &entries {
        assert!(entry.line > line && entry.line as usize <= lines);
        line = entry.line;
        assert!(!entry.key.contains(['=', '\n']) && !entry.value.contains('\n'));
        kept += entry.key.len() + entry.value.len();
        assert!(entry.section.len() <= 3 * 256);
    }
    assert!(kept <= 3 * text.len(), "{kept} bytes of entries");
    assert!(section.len() <= 3 * 256);
}
