//! Lines of limited width, with a hanging indent.
//!
//! Columns are counted, not bytes or characters. Lines break between words only: what users copy, such as
//! a path or an address, stays whole on a line of its own, however long. So do a program and its options;
//! for other commands see [`wrap_items`].

use unicode_width::UnicodeWidthStr as _;

/// Columns that a text takes in a terminal, SGR sequences not counted.
pub fn columns(text: &str) -> usize {
    if text.contains('\x1b') { without_paint(text).width() } else { text.width() }
}

/// The text without SGR sequences.
fn without_paint(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = sequence.split_once('m').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

/// Breaks a text into lines of at most `width` columns; only a line of one word may be longer. The first
/// line begins with `first`, the
/// others with `hang`; a line feed in the text ends a line. Runs of spaces inside a line stay,
/// because texts may be aligned with them; the spaces at the beginning of a line of the text indent
/// its continuation too.
pub fn wrap(text: &str, first: &str, hang: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let body = line.trim_start_matches(' ');
        let indent = line.strip_suffix(body).unwrap_or_default();
        let first = if number == 0 { first } else { hang };
        wrap_line(body, &format!("{first}{indent}"), &format!("{hang}{indent}"), width, &mut lines);
    }
    lines
}

/// A list of items in lines of at most `width` columns, with a separator (`" · "`, `", "`) between
/// them. Lines break between items only: a command among them can be copied, and may make a line
/// longer than `width`.
pub fn wrap_items<S: AsRef<str>>(
    items: &[S],
    separator: &str,
    first: &str,
    hang: &str,
    width: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let spaces = separator.strip_prefix(separator.trim_end()).unwrap_or_default();
    for (number, item) in items.iter().enumerate() {
        let is_last = number + 1 == items.len();
        let item = format!("{}{}", item.as_ref(), if is_last { "" } else { separator.trim_end() });
        let spaces = if number == 0 { "" } else { spaces };
        let room = width.saturating_sub(columns(&line) + columns(spaces));
        if columns(&item) > room && columns(&line) > columns(hang) {
            lines.push(std::mem::replace(&mut line, hang.to_string()).trim_end().to_string());
        } else {
            line.push_str(spaces);
        }
        line.push_str(&item);
    }
    lines.push(line.trim_end().to_string());
    lines
}

fn wrap_line(text: &str, first: &str, hang: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = first.to_string();
    let mut used = columns(first);
    let mut is_empty = true;
    let mut break_line = |line: &mut String, used: &mut usize| {
        lines.push(std::mem::replace(line, hang.to_string()).trim_end().to_string());
        *used = columns(hang);
    };
    for word in words(text) {
        let word_columns = columns(&word.text);
        if !is_empty && used + word.spaces + word_columns > width {
            break_line(&mut line, &mut used);
            is_empty = true;
        }
        if !is_empty {
            line.push_str(&" ".repeat(word.spaces));
            used += word.spaces;
        }
        line.push_str(&word.text);
        used += word_columns;
        is_empty = false;
    }
    lines.push(line.trim_end().to_string());
}

/// A word and the number of spaces before it.
struct Word {
    spaces: usize,
    text: String,
}

/// The words of a text. A number and its unit are one word, and so are a word and the `·` after it, a
/// program, its option and the value of that.
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

/// The word after which the name of a command stands.
const COMMAND: &str = "netwhy";

fn stays_with(before: &str, word: &str) -> bool {
    const UNITS: [&str; 15] = [
        "%", "B", "KiB", "MiB", "GiB", "TiB", "µs", "ms", "s", "min", "h", "d", "CPU", "CPUs",
        "Mbit/s",
    ];
    let unit = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let last = before.rsplit(' ').next().unwrap_or_default();
    word == "·"
        || last == COMMAND
        || (before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit))
        || is_option(word)
        || (is_option(last) && last.ends_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether a word of a text is an option of a program: `-s`, `--capture`.
fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::{columns, wrap, wrap_items};

    #[test]
    fn later_lines_hang_under_the_first() {
        let text = "one two three four five six";
        assert_eq!(
            wrap(text, "a  ", "   ", 12),
            ["a  one two", "   three", "   four five", "   six"]
        );
    }

    #[test]
    fn alignment_and_line_feeds_are_kept() {
        assert_eq!(
            wrap("limit\n  backlog 10   <- rules here\n\nend", "> ", "  ", 17),
            ["> limit", "    backlog 10", "    <- rules here", "", "  end"]
        );
    }

    #[test]
    fn numbers_stay_with_their_units() {
        assert_eq!(wrap("dropped (30 %), 10.0 s", "", "", 12), ["dropped", "(30 %),", "10.0 s"]);
        assert_eq!(wrap("cause · subject", "", "", 9), ["cause ·", "subject"]);
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        assert_eq!(wrap("ab abcdefghij kl", "- ", "  ", 6), ["- ab", "  abcdefghij", "  kl"]);
        assert_eq!(wrap("漢字漢字", "", "", 7), ["漢字漢字"]);
        assert_eq!(wrap("漢字 a", "", "", 0), ["漢字", "a"]);
    }

    #[test]
    fn a_program_stays_with_its_option_and_the_value_of_that() {
        assert_eq!(
            wrap("listen() again, then nginx -s reload; see netwhy --capture.", "", "", 24),
            ["listen() again, then", "nginx -s reload; see", "netwhy --capture."]
        );
        assert_eq!(
            wrap("To see it: netwhy ping --df", "", "", 18),
            ["To see it:", "netwhy ping --df"]
        );
        assert_eq!(wrap("from 3 - 4 to -1, -- x", "", "", 8), ["from 3 -", "4 to -1,", "-- x"]);
    }

    #[test]
    fn sgr_sequences_take_no_columns() {
        assert_eq!(columns("\x1b[1;31mred\x1b[0m"), 3);
        assert_eq!(wrap("\x1b[1mbold\x1b[0m word", "", "", 9), ["\x1b[1mbold\x1b[0m word"]);
    }

    #[test]
    fn an_empty_text_is_one_line() {
        assert_eq!(wrap("", "a ", "  ", 20), ["a"]);
    }

    #[test]
    fn items_of_a_list_are_never_broken() {
        let commands = ["netwhy explain a", "netwhy explain b", "--json"];
        assert_eq!(
            wrap_items(&commands, " · ", "More: ", "  ", 26),
            ["More: netwhy explain a ·", "  netwhy explain b ·", "  --json"]
        );
        assert_eq!(
            wrap_items(&commands, " · ", "More: ", "  ", 80),
            ["More: netwhy explain a · netwhy explain b · --json"]
        );
        assert_eq!(
            wrap_items(&commands, ", ", "More: ", "  ", 20),
            ["More:", "  netwhy explain a,", "  netwhy explain b,", "  --json"]
        );
        assert_eq!(wrap_items(&commands, ", ", "", "  ", 4)[0], "netwhy explain a,");
        assert_eq!(wrap_items(&[""; 0], ", ", "None", "", 10), ["None"]);
    }
}
