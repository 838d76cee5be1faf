//! Untrusted strings made safe for a terminal.
//!
//! Process names, log lines, host names, server banners and paths are written by others. Sent to a
//! terminal unchanged, they could move the cursor, change the window's title, hide a line of the
//! report or add one. Control characters are replaced by visible escapes; all other characters stay.
//! Very long strings are truncated, with a note of how much is missing.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Most characters of one untrusted string that are shown.
pub const MAX_CHARACTERS: usize = 4_096;

/// An untrusted string inside a line: line feeds become `\n`, two characters.
pub fn line(text: &str) -> Cow<'_, str> {
    limited(text, false)
}

/// An untrusted string of several lines: line feeds stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    limited(text, true)
}

fn limited(text: &str, keep_line_feeds: bool) -> Cow<'_, str> {
    let Some((cut, _)) = text.char_indices().nth(MAX_CHARACTERS) else {
        return escape(text, keep_line_feeds);
    };
    let (shown, rest) = text.split_at(cut);
    let more = rest.chars().count();
    Cow::Owned(format!("{}… ({more} more characters)", escape(shown, keep_line_feeds)))
}

/// Output that netwhy laid out itself, of any length: line feeds and the colours of
/// [`crate::paint`](mod@crate::paint) stay, all other control characters are escaped. Strings that
/// were sanitized one by one pass unchanged; this is the last check, for strings that were not.
pub fn output(text: &str) -> Cow<'_, str> {
    if acting(text, true).is_none() {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, from) = rest.split_at(at);
        safe.push_str(&escape(before, true));
        let (shown, length) = match crate::paint::sequence_at(from) {
            Some(colour) => (colour, colour.len()),
            None => ("\\x1b", '\x1b'.len_utf8()),
        };
        safe.push_str(shown);
        rest = from.get(length..).unwrap_or_default();
    }
    safe.push_str(&escape(rest, true));
    Cow::Owned(safe)
}

/// JSON with `\u` escapes for characters that act on a terminal: the same value to a JSON parser.
/// JSON itself escapes characters below U+0020 only; C1 controls and bidirectional overrides pass.
/// JSON has none of them outside of strings, so replacing them everywhere is safe.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(text, true, |c, safe| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    })
}

fn escape(text: &str, keep_line_feeds: bool) -> Cow<'_, str> {
    replaced(text, keep_line_feeds, |c, safe| match c {
        '\n' => safe.push_str("\\n"),
        '\r' => safe.push_str("\\r"),
        '\t' => safe.push(' '),
        // Writing to a String does not fail.
        c if (c as u32) < 0x100 => {
            let _ = write!(safe, "\\x{:02x}", c as u32);
        }
        c => {
            let _ = write!(safe, "\\u{{{:x}}}", c as u32);
        }
    })
}

/// The text with each character that acts on a terminal replaced.
fn replaced(
    text: &str,
    keep_line_feeds: bool,
    mut replace: impl FnMut(char, &mut String),
) -> Cow<'_, str> {
    let mut rest = text;
    let mut safe = String::new();
    while let Some((at, c)) = acting(rest, keep_line_feeds) {
        let (before, from) = rest.split_at(at);
        safe.push_str(before);
        replace(c, &mut safe);
        rest = from.get(c.len_utf8()..).unwrap_or_default();
    }
    if safe.is_empty() {
        return Cow::Borrowed(rest);
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// The first character that acts on a terminal, and its place.
fn acting(text: &str, keep_line_feeds: bool) -> Option<(usize, char)> {
    let mut from = 0;
    loop {
        let at = from + plain_length(text.as_bytes().get(from..)?, keep_line_feeds);
        let c = text.get(at..)?.chars().next()?;
        if acts_on_terminal(c) && !(keep_line_feeds && c == '\n') {
            return Some((at, c));
        }
        from = at + c.len_utf8();
    }
}

/// How many bytes at the beginning are printable ASCII. JSON of a capture has millions of them: they are
/// compared a register at a time.
fn plain_length(bytes: &[u8], keep_line_feeds: bool) -> usize {
    const CHUNK: usize = 32;
    let line_feed = if keep_line_feeds { b'\n' } else { b' ' };
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) | (byte == line_feed);
    let mut chunks = bytes.chunks_exact(CHUNK);
    let all_plain = |chunk: &[u8]| chunk.iter().fold(true, |all, byte| all & is_plain(*byte));
    let whole = chunks.position(|chunk| !all_plain(chunk)).unwrap_or(bytes.len() / CHUNK) * CHUNK;
    let rest = bytes.get(whole..).unwrap_or_default();
    whole + rest.iter().take_while(|byte| is_plain(**byte)).count()
}

/// Whether a terminal does anything with this character other than show it.
fn acts_on_terminal(c: char) -> bool {
    c.is_control() // C0, DEL and C1 (ECMA-48): C1 begins sequences too
        || matches!(c,
            '\u{00ad}'                  // soft hyphen: invisible
            | '\u{061c}'                // Arabic letter mark
            | '\u{180e}'                // Mongolian vowel separator: invisible
            | '\u{200b}'..='\u{200f}'   // zero width, direction marks
            | '\u{2028}'..='\u{202e}'   // line and paragraph separators, bidirectional overrides
            | '\u{2060}'..='\u{206f}'   // invisible operators, bidirectional isolates
            | '\u{feff}'                // byte order mark
            | '\u{fff9}'..='\u{fffb}'   // interlinear annotations
            | '\u{e0000}'..='\u{e007f}' // tags: invisible
        )
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::{Paint, Style, paint};

    #[test]
    fn plain_text_is_not_copied() {
        let plain = "nginx: worker · µs 漢字";
        for cleaned in [line(plain), lines(plain), output(plain)] {
            assert!(matches!(cleaned, Cow::Borrowed(_)));
        }
    }

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(line("\x1b]0;pwned\x07x"), "\\x1b]0;pwned\\x07x");
        assert_eq!(line("a\u{9b}2Jb\u{7f}"), "a\\x9b2Jb\\x7f");
        assert_eq!(line("abc\u{202e}fdp"), "abc\\u{202e}fdp");
        assert_eq!(line("a\tb\r\n"), "a b\\r\\n");
        assert_eq!(output("a\x1b[2Jb\x1b"), "a\\x1b[2Jb\\x1b");
    }

    #[test]
    fn line_feeds_stay_where_several_lines_are_allowed() {
        assert_eq!((line("a\nb"), lines("a\nb\x08")), ("a\\nb".into(), "a\nb\\x08".into()));
    }

    #[test]
    fn long_strings_are_truncated_with_a_note() {
        let long = "é".repeat(MAX_CHARACTERS + 5);
        let cut = line(&long);
        assert!(cut.ends_with("é… (5 more characters)"), "{}", &cut[cut.len() - 40..]);
        assert_eq!(line(&long[..2 * MAX_CHARACTERS]).chars().count(), MAX_CHARACTERS);
    }

    #[test]
    fn json_is_escaped_and_parses_to_the_same_value() {
        let name = "\u{9b}1m\u{202e}\u{e0041}\u{7f}µ";
        let safe = json(name);
        assert_eq!(safe, "\\u009b1m\\u202e\\udb40\\udc41\\u007fµ");
        let json = format!("\"{safe}\"");
        assert_eq!(serde_json::from_str::<String>(&json).ok().as_deref(), Some(name));
    }

    #[test]
    fn colours_of_the_report_pass_and_no_other_sequences() {
        let style = Style { colour: true, ..Style::default() };
        let title = paint("title", Paint::Critical, style);
        assert_eq!(output(&title), title);
        assert_eq!(output("\x1b[8mhidden"), "\\x1b[8mhidden");
        assert_eq!(output(&format!("{title}\x1b[2J")), format!("{title}\\x1b[2J"));
    }

    proptest! {
        #[test]
        fn the_first_acting_character_is_found_wherever_it_is(
            text in "[ -~\n]{0,100}(é|\u{7f}|\u{202e}|\t|\u{1b})?[ -~\n]{0,100}",
            keep_line_feeds in any::<bool>(),
        ) {
            let is_acting = |c| acts_on_terminal(c) && !(keep_line_feeds && c == '\n');
            let found = acting(&text, keep_line_feeds);
            prop_assert_eq!(found.map(|(at, _)| at), text.find(is_acting));
            prop_assert_eq!(found.map(|(_, c)| c), text.chars().find(|c| is_acting(*c)));
        }

        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!line(&text).contains(acts_on_terminal));
            prop_assert!(!lines(&text).contains(|c| acts_on_terminal(c) && c != '\n'));
            let output = output(&text).into_owned();
            let mut rest = output.as_str();
            while let Some(at) = rest.find(|c| acts_on_terminal(c) && c != '\n') {
                let colour = crate::paint::sequence_at(&rest[at..]);
                prop_assert!(colour.is_some());
                rest = &rest[at + colour.map_or(1, str::len)..];
            }
        }
    }
}
