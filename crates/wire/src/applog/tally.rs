//! Lines of a log, counted: statuses, and complaints by meaning and subject.
//!
//! Bounded whatever the log has. Keeps no line but the first of each complaint.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use memchr::memchr;
use model::{Complaint, Meaning};

use super::format::LogFormat;
use super::message::{LogMessage, Subject};
use super::{apache, nginx, php_fpm, postgresql};

/// Most complaints that are distinguished; the subject of further ones is not kept.
const MAX_COMPLAINTS: usize = 256;
/// Longest first line that is kept, bytes.
const MAX_FIRST_LINE_BYTES: usize = 300;
/// Bytes of a line in which URLs are searched: a password must not lose the `@` after it.
const MAX_LINE_BYTES_READ: usize = 4 << 10;
/// Longest subject that is kept, bytes: a Unix socket's path has at most 108.
const MAX_SUBJECT_BYTES: usize = 128;
/// Statuses have three digits.
const STATUSES: usize = 1000;

/// Lines of one log, counted.
#[derive(Debug, Clone)]
pub struct Tally {
    lines: u64,
    unparsed: u64,
    statuses: Box<[u64; STATUSES]>,
    /// Count and first line.
    complaints: HashMap<(Meaning, Option<String>), (u64, String)>,
    /// Room for a subject, so that a flood of one complaint does not allocate.
    scratch: String,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            lines: 0,
            unparsed: 0,
            statuses: Box::new([0; STATUSES]),
            complaints: HashMap::new(),
            scratch: String::new(),
        }
    }
}

impl Tally {
    /// Counts the whole lines in `bytes`; a last line without its line feed is left out.
    pub fn count(&mut self, format: &LogFormat, bytes: &[u8]) {
        match format {
            LogFormat::Access(format) => self.each(bytes, |tally, line| {
                let status = format.status(line).map(usize::from);
                match status.and_then(|status| tally.statuses.get_mut(status)) {
                    Some(count) => *count += 1,
                    None => tally.unparsed += 1,
                }
            }),
            LogFormat::Nginx => {
                self.each(bytes, |tally, line| tally.add(line, nginx::parse(line)));
            }
            LogFormat::PhpFpm => {
                self.each(bytes, |tally, line| tally.add(line, php_fpm::parse(line)));
            }
            LogFormat::Apache => {
                self.each(bytes, |tally, line| tally.add(line, apache::parse(line)));
            }
            LogFormat::Postgresql => {
                self.each(bytes, |tally, line| tally.add(line, postgresql::parse(line)));
            }
        }
    }

    fn each(&mut self, mut bytes: &[u8], mut line: impl FnMut(&mut Self, &[u8])) {
        while let Some((first, rest)) =
            memchr(b'\n', bytes).and_then(|at| bytes.split_at_checked(at))
        {
            self.lines += 1;
            line(self, first);
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    fn add(&mut self, line: &[u8], message: Option<LogMessage<'_>>) {
        let Some(message) = message else {
            self.unparsed += 1;
            return;
        };
        let Some(meaning) = message.meaning else { return };
        let mut subject = message.subject.map(|subject| {
            let mut text = std::mem::take(&mut self.scratch);
            text.clear();
            match subject {
                Subject::Plain(bytes) => push_printable(bytes, MAX_SUBJECT_BYTES, &mut text),
                Subject::Unix(bytes) => {
                    text.push_str("unix:");
                    push_printable(bytes, MAX_SUBJECT_BYTES, &mut text);
                }
            }
            text
        });
        if self.complaints.len() >= MAX_COMPLAINTS {
            let key = (meaning, subject);
            let known = self.complaints.contains_key(&key);
            subject = key.1.filter(|_| known);
        }
        let mut key = (meaning, subject);
        if let Some((count, _)) = self.complaints.get_mut(&key) {
            *count += 1;
            self.scratch = key.1.take().unwrap_or_default();
            return;
        }
        let mut first = String::new();
        push_printable(line, MAX_LINE_BYTES_READ, &mut first);
        if let Cow::Owned(text) = model::without_credentials(&first) {
            first = text;
        }
        first.truncate(first.floor_char_boundary(MAX_FIRST_LINE_BYTES));
        self.complaints.insert(key, (1, first));
    }

    /// Lines counted.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines among them that did not have the log's format.
    pub fn unparsed(&self) -> u64 {
        self.unparsed
    }

    /// Lines by HTTP status.
    pub fn statuses(&self) -> BTreeMap<u16, u64> {
        (0u16..).zip(self.statuses.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }

    /// Complaints, most frequent first.
    pub fn complaints(&self) -> Vec<Complaint> {
        let mut complaints: Vec<Complaint> = self
            .complaints
            .iter()
            .map(|((meaning, subject), (count, first))| Complaint {
                meaning: *meaning,
                about: subject.clone(),
                count: *count,
                first_line: first.clone(),
            })
            .collect();
        complaints.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (a.meaning, &a.about).cmp(&(b.meaning, &b.about)))
        });
        complaints
    }
}

/// Appends bytes as text, at most `max` of them; what could control a terminal becomes U+FFFD.
fn push_printable(bytes: &[u8], max: usize, into: &mut String) {
    let end = into.len() + max;
    for chunk in bytes.get(..max).unwrap_or(bytes).utf8_chunks() {
        for c in chunk.valid().chars() {
            let direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let shown = if (c.is_control() && c != '\t') || direction { '\u{fffd}' } else { c };
            if into.len() + shown.len_utf8() > end {
                return;
            }
            into.push(shown);
        }
        if !chunk.invalid().is_empty() {
            if into.len() + 3 > end {
                return;
            }
            into.push('\u{fffd}');
        }
    }
}
