//! Lines of at most so many columns, with a hanging indent.
//!
//! Columns are counted, not bytes or characters. A word that is longer than a line is broken,
//! except in lines that are to be pasted, which do not come here.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns that a text takes in a terminal, SGR sequences not counted.
pub fn columns(text: &str) -> usize {
    if text.contains('\x1b') { without_paint(text).width() } else { text.width() }
}

/// The text without SGR sequences.
fn without_paint(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        rest = rest[at..].find('m').map_or("", |end| &rest[at + end + 1..]);
    }
    plain.push_str(rest);
    plain
}

/// Breaks a text into lines of at most `width` columns. The first line begins with `first`, the
/// others with `hang`; a line feed in the text ends a line. Runs of spaces inside a line stay,
/// as texts may be aligned with them; what a line of the text begins with is kept as an indent
/// of its continuation.
pub fn wrap(text: &str, first: &str, hang: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, part) in text.split('\n').enumerate() {
        let body = part.trim_start_matches(' ');
        let indent = &part[..part.len() - body.len()];
        let start = if at == 0 { first } else { hang };
        one(body, &format!("{start}{indent}"), &format!("{hang}{indent}"), width, &mut lines);
    }
    lines
}

fn one(text: &str, first: &str, hang: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = first.to_string();
    let mut used = columns(first);
    let mut empty = true;
    let mut break_line = |line: &mut String, used: &mut usize| {
        lines.push(std::mem::replace(line, hang.to_string()).trim_end().to_string());
        *used = columns(hang);
    };
    for word in words(text) {
        let wide = columns(&word.text);
        if !empty && used + word.spaces + wide > width {
            break_line(&mut line, &mut used);
            empty = true;
        }
        if !empty {
            line.push_str(&" ".repeat(word.spaces));
            used += word.spaces;
        }
        if used + wide <= width {
            line.push_str(&word.text);
            used += wide;
            empty = false;
            continue;
        }
        for c in without_paint(&word.text).chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width && !empty {
                break_line(&mut line, &mut used);
            }
            line.push(c);
            used += wide;
            empty = false;
        }
    }
    lines.push(line.trim_end().to_string());
}

/// A word and the spaces before it.
struct Word {
    spaces: usize,
    text: String,
}

/// The words of a text; a figure and its unit, and a word and the dot after it, are one.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut spaces = 0;
    for part in text.split(' ') {
        if part.is_empty() {
            spaces += 1;
            continue;
        }
        match words.last_mut() {
            Some(last) if spaces == 1 && stays_with(&last.text, part) => {
                last.text.push(' ');
                last.text.push_str(part);
            }
            _ => words.push(Word { spaces, text: part.to_string() }),
        }
        spaces = 1;
    }
    words
}

fn stays_with(before: &str, word: &str) -> bool {
    const UNITS: [&str; 15] = [
        "%", "B", "KiB", "MiB", "GiB", "TiB", "µs", "ms", "s", "min", "h", "d", "CPU", "CPUs",
        "Mbit/s",
    ];
    let unit = word.trim_end_matches(['.', ',', ';', ':', ')']);
    word == "·" || (before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::{columns, wrap};

    #[test]
    fn hangs_under_the_first_line() {
        let text = "one two three four five six";
        assert_eq!(
            wrap(text, "a  ", "   ", 12),
            ["a  one two", "   three", "   four five", "   six"]
        );
    }

    #[test]
    fn keeps_alignment_and_line_feeds() {
        assert_eq!(
            wrap("limit\n  backlog 10   <- rules here\n\nend", "> ", "  ", 17),
            ["> limit", "    backlog 10", "    <- rules here", "", "  end"]
        );
    }

    #[test]
    fn figures_keep_their_units() {
        assert_eq!(wrap("dropped (30 %), 10.0 s", "", "", 12), ["dropped", "(30 %),", "10.0 s"]);
        assert_eq!(wrap("cause · subject", "", "", 9), ["cause ·", "subject"]);
    }

    #[test]
    fn breaks_what_is_longer_than_a_line() {
        assert_eq!(wrap("abcdefghij kl", "- ", "  ", 6), ["- abcd", "  efgh", "  ij", "  kl"]);
        // Two columns each: a line of 7 holds three.
        assert_eq!(wrap("漢字漢字", "", "", 7), ["漢字漢", "字"]);
        // A width that holds nothing still ends.
        assert_eq!(wrap("漢字", "", "", 1), ["漢", "字"]);
    }

    #[test]
    fn paint_takes_no_columns() {
        assert_eq!(columns("\x1b[1;31mred\x1b[0m"), 3);
        assert_eq!(wrap("\x1b[1mbold\x1b[0m word", "", "", 9), ["\x1b[1mbold\x1b[0m word"]);
    }

    #[test]
    fn nothing_is_one_empty_line() {
        assert_eq!(wrap("", "a ", "  ", 20), ["a"]);
    }
}
