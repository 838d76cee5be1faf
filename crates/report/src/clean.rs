//! Strings of the machine made harmless before they reach a terminal.
//!
//! Process names, log lines and host names are written by others. Sent to a terminal as they
//! are, they could move the cursor, change the window's title or hide a line of the report.
//! Only characters that act are replaced; nothing is translated or cut.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes a string harmless: control characters and those that reverse or hide text become
/// visible escapes (`\x1b`, `\u{202e}`), a tab becomes a space. A line feed stays when `lines`
/// is set, for texts that may have several lines; else it becomes `\n` in two characters.
pub fn clean(text: &str, lines: bool) -> Cow<'_, str> {
    if !text.contains(|c| acts(c) && !(lines && c == '\n')) {
        return Cow::Borrowed(text);
    }
    let mut harmless = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if lines => harmless.push(c),
            '\n' => harmless.push_str("\\n"),
            '\r' => harmless.push_str("\\r"),
            '\t' => harmless.push(' '),
            // Writing to a String does not fail.
            c if acts(c) && (c as u32) < 0x100 => {
                let _ = write!(harmless, "\\x{:02x}", c as u32);
            }
            c if acts(c) => {
                let _ = write!(harmless, "\\u{{{:x}}}", c as u32);
            }
            c => harmless.push(c),
        }
    }
    Cow::Owned(harmless)
}

/// Whether a terminal does something else with this character than to show it.
pub(crate) fn acts(c: char) -> bool {
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
    use super::clean;

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(clean("nginx: worker · µs 漢字", false), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn sequences_are_shown_not_sent() {
        assert_eq!(clean("\x1b]0;pwned\x07x", false), "\\x1b]0;pwned\\x07x");
        assert_eq!(clean("a\u{9b}2Jb\u{7f}", false), "a\\x9b2Jb\\x7f");
        assert_eq!(clean("abc\u{202e}fdp", false), "abc\\u{202e}fdp");
        assert_eq!(clean("a\tb\r\n", false), "a b\\r\\n");
    }

    #[test]
    fn line_feeds_stay_when_asked() {
        assert_eq!(clean("a\nb\x08", true), "a\nb\\x08");
        assert_eq!(clean("a\nb", true), "a\nb");
        assert_eq!(clean("a\nb", false), "a\\nb");
    }
}
