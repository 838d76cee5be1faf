//! php-fpm's configuration: PHP's ini syntax, the part of it that php-fpm uses.
//!
//! `[section]`, `key = value`, comments after `;`, values in quotes. `include` is a key like any other
//! here, and constants remain as written.

/// One `key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Section, empty before the first; long names are cut.
    pub section: String,
    /// Key: `pm.max_children`.
    pub key: String,
    /// Value without its quotes.
    pub value: String,
    /// Line in the file, from 1.
    pub line: u32,
}

/// Most entries of one file.
const MAX_ENTRIES: usize = 20_000;
/// Longest name of a section that is kept, bytes: each entry of the section has a copy.
const MAX_SECTION_BYTES: usize = 256;

/// The entries of a file. `section` is the section in which an included file begins, and becomes the one
/// in which this file ends.
pub fn entries(text: &[u8], section: &mut String) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (line, number) in text.split(|b| *b == b'\n').zip(1u32..) {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"[") {
            if let Some((name, _)) = split_at_byte(rest, b']') {
                let name = name.trim_ascii();
                let name = name.get(..MAX_SECTION_BYTES).unwrap_or(name);
                *section = String::from_utf8_lossy(name).into_owned();
            }
            continue;
        }
        // `#` has not begun a comment since PHP 7; a key cannot contain it either.
        if matches!(line, [] | [b';' | b'#', ..]) {
            continue;
        }
        let Some((key, text)) = split_at_byte(line, b'=') else {
            continue;
        };
        if entries.len() >= MAX_ENTRIES {
            break;
        }
        entries.push(Entry {
            section: section.clone(),
            key: String::from_utf8_lossy(key.trim_ascii()).into_owned(),
            value: value(text.trim_ascii()),
            line: number,
        });
    }
    entries
}

/// A value without quotes, and without a comment after it.
fn value(text: &[u8]) -> String {
    let plain = match text {
        [quote @ (b'"' | b'\''), rest @ ..] => {
            split_at_byte(rest, *quote).map_or(rest, |(quoted, _)| quoted)
        }
        _ => split_at_byte(text, b';').map_or(text, |(value, _)| value).trim_ascii_end(),
    };
    String::from_utf8_lossy(plain).into_owned()
}

/// What comes before and after the first such byte.
fn split_at_byte(bytes: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let (before, rest) = bytes.split_at_checked(bytes.iter().position(|b| *b == mark)?)?;
    Some((before, rest.get(1..)?))
}
