//! php-fpm's configuration: PHP's ini syntax, the part of it that php-fpm uses.
//!
//! `[section]`, `key = value`, comments behind `;`, values in quotes. `include` is a key like any
//! other here, and constants are left as written.

/// One `key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Section, empty before the first; of a long name the beginning.
    pub section: String,
    /// Key: `pm.max_children`.
    pub key: String,
    /// Value without its quotes.
    pub value: String,
    /// Line in the file, from 1.
    pub line: u32,
}

/// Most entries taken from one file.
const MAX_ENTRIES: usize = 20_000;
/// Longest name of a section that is kept, bytes: each entry in it carries it.
const MAX_SECTION_BYTES: usize = 256;

/// The entries of a file. `section` is the section in which an included file begins, and becomes
/// the one in which this file ends.
pub fn entries(text: &[u8], section: &mut String) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (line, number) in text.split(|b| *b == b'\n').zip(1u32..) {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"[") {
            if let Some(end) = rest.iter().position(|b| *b == b']') {
                let name = rest[..end].trim_ascii();
                let name = &name[..name.len().min(MAX_SECTION_BYTES)];
                *section = String::from_utf8_lossy(name).into_owned();
            }
            continue;
        }
        // `#` has begun no comment since PHP 7; a key cannot hold it either.
        if line.is_empty() || matches!(line[0], b';' | b'#') {
            continue;
        }
        let Some(at) = line.iter().position(|b| *b == b'=') else {
            continue;
        };
        if entries.len() >= MAX_ENTRIES {
            break;
        }
        entries.push(Entry {
            section: section.clone(),
            key: String::from_utf8_lossy(line[..at].trim_ascii()).into_owned(),
            value: value(line[at + 1..].trim_ascii()),
            line: number,
        });
    }
    entries
}

/// A value without quotes and without a comment behind it.
fn value(text: &[u8]) -> String {
    if let Some((quote @ (b'"' | b'\''), rest)) = text.split_first() {
        let end = rest.iter().position(|b| b == quote).unwrap_or(rest.len());
        return String::from_utf8_lossy(&rest[..end]).into_owned();
    }
    let end = text.iter().position(|b| *b == b';').unwrap_or(text.len());
    String::from_utf8_lossy(text[..end].trim_ascii_end()).into_owned()
}
