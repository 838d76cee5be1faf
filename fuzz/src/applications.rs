//! Targets of what applications write: their logs and their configuration.

use std::collections::BTreeMap;
use std::rc::Rc;

use wire::appconfig::{ini, nginx};
use wire::applog::{self, AccessFormat, LogFormat, LogMessage, Subject, Tally};

/// Whether a text could act on a terminal: such a log line must not come through.
fn acts(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && c != '\t')
        || text.contains(|c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

fn said<'a>(dialect: &LogFormat, line: &'a [u8]) -> Option<LogMessage<'a>> {
    match dialect {
        LogFormat::Access(_) => None,
        LogFormat::Nginx => applog::nginx::parse(line),
        LogFormat::PhpFpm => applog::php_fpm::parse(line),
        LogFormat::Apache => applog::apache::parse(line),
        LogFormat::Postgresql => applog::postgresql::parse(line),
    }
}

/// The first byte chooses a dialect, the rest are lines.
pub(super) fn log(bytes: &[u8]) {
    let Some((choice, lines)) = bytes.split_first() else { return };
    let recognised = lines.split(|byte| *byte == b'\n').find_map(|line| {
        let dialect = LogFormat::recognise(line)?;
        let read = matches!(dialect, LogFormat::Access(_)) || said(&dialect, line).is_some();
        assert!(read, "a line has the dialect that is recognised from it");
        Some(dialect)
    });
    let dialect = match choice % 6 {
        0 => LogFormat::Nginx,
        1 => LogFormat::PhpFpm,
        2 => LogFormat::Apache,
        3 => LogFormat::Postgresql,
        4 => LogFormat::Access(AccessFormat::combined()),
        _ => match recognised {
            Some(dialect) => dialect,
            None => return,
        },
    };
    let mut tally = Tally::default();
    tally.count(&dialect, lines);
    let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(tally.lines(), count);
    let (statuses, complaints) = (tally.statuses(), tally.complaints());
    assert!(statuses.keys().all(|status| (100..=999).contains(status)));
    let answered: u64 = statuses.values().sum();
    let complained: u64 = complaints.iter().map(|complaint| complaint.count).sum();
    assert!(answered + complained + tally.unparsed() <= count);
    if matches!(dialect, LogFormat::Access(_)) {
        assert_eq!((answered + tally.unparsed(), complained), (count, 0));
    }
    // 256 that are told apart, and one of each meaning that is about nothing.
    assert!(complaints.len() <= 256 + 32);
    for complaint in &complaints {
        let about = complaint.about.as_deref().unwrap_or_default();
        assert!(about.len() <= 128 + "unix:".len() && !acts(about));
        assert!(complaint.first_line.len() <= 300 && !acts(&complaint.first_line));
    }
    // The same in pieces that end with a line.
    let mut pieces = Tally::default();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        pieces.count(&dialect, line);
        if let Some(LogMessage {
            subject: Some(Subject::Plain(about) | Subject::Unix(about)),
            ..
        }) = said(&dialect, line.strip_suffix(b"\n").unwrap_or(line))
        {
            assert!(about.len() <= line.len());
        }
    }
    assert_eq!(pieces.statuses(), statuses);
    assert_eq!(pieces.complaints(), complaints);
    assert_eq!((pieces.lines(), pieces.unparsed()), (tally.lines(), tally.unparsed()));
}

/// Variables in which clients' text stands.
const STRANGERS: [&str; 6] =
    ["request", "http_user_agent", "http_referer", "remote_user", "uri", "args"];

/// A template of nginx, then a byte that chooses how values are escaped, then what a stranger sent.
/// A line is written as nginx would: the status that is read must be the one that was written.
pub(super) fn access_format(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let (template, choice) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let stranger = parts.next().unwrap_or_default();
    let escape = match choice.first().map(|byte| byte % 3) {
        Some(1) => Some("json"),
        Some(2) => Some("none"),
        _ => None,
    };
    let Ok(format) = AccessFormat::from_nginx(template, escape) else { return };
    // Any line has a status of three digits, or none.
    let any = format.status(stranger);
    assert!(any.is_none_or(|status| (100..=999).contains(&status)));
    let Some(line) = written(template, escape, stranger) else { return };
    let read = format.status(&line);
    assert_eq!(read, Some(418), "{}", String::from_utf8_lossy(&line));
}

/// The line that nginx writes; `None` for a template that it refuses.
fn written(template: &[u8], escape: Option<&str>, stranger: &[u8]) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        line.extend(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.first() == Some(&b'{');
        rest = &rest[usize::from(braced)..];
        let end = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
        let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
        if name.is_empty() || (braced && behind.first() != Some(&b'}')) {
            return None;
        }
        rest = &behind[usize::from(braced)..];
        let name = std::str::from_utf8(name).ok()?;
        match name {
            "status" => line.extend(b"418"),
            "time_local" => line.extend(b"21/Nov/2026:03:41:36 +0000"),
            name if STRANGERS.contains(&name) => escaped(stranger, escape, &mut line),
            // What nginx makes itself: a word.
            _ => {
                let word = |b: &&u8| b.is_ascii_alphanumeric() || b":._+-/".contains(*b);
                let value: Vec<u8> = stranger.iter().filter(word).take(20).copied().collect();
                line.extend(if value.is_empty() { b"-" } else { value.as_slice() });
            }
        }
    }
    line.extend(rest);
    Some(line)
}

/// A value as `ngx_http_log_escape` and its JSON sister write it.
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
    // What is kept grows with the text, not with its square. Replacement characters take three
    // bytes for one.
    assert!(kept <= 4 * text.len(), "{kept} bytes of words");
    let around: usize = blocks.values().sum();
    assert!(around <= 4 * text.len() + 4, "{around} bytes of names of blocks");
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
