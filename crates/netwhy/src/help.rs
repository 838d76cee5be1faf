//! The text below the options of a command (`after_help`): how it is laid out, and its parts.
//!
//! It is written for 80 columns. Lines that begin with two spaces are entries: something to type, and
//! what it does, in a column of their own. In other widths paragraphs are filled, and an entry that does
//! not fit has what it does below it; what is to be typed is never broken.

use text::{columns, wrap};

/// A space at which clap does not break lines; printed as a space.
pub(crate) const KEPT_SPACE: char = '\u{a0}';

/// Spaces before an entry, and before what it does where that stands below it.
const ENTRY: &str = "  ";
const BELOW: &str = "      ";
/// Fewest columns in which what an entry does stands beside it.
const MIN_DOES_COLUMNS: usize = 24;

/// A part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `Examples:`
    Heading(String),
    /// Sentences.
    Paragraph(String),
    /// Something to type, and what it does, from a column on.
    Entry { typed: String, does: String, column: usize },
    /// An empty line.
    Empty,
}

/// The parts of the text.
pub(crate) fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in text.lines() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        match parts.last_mut() {
            _ if body.is_empty() => parts.push(Part::Empty),
            // The rest of what the entry above does, or of what is to be typed.
            Some(Part::Entry { typed, does, column })
                if indent > 2
                    && !typed.ends_with('\\')
                    && (does.is_empty() || indent == *column) =>
            {
                *column = indent;
                let space = if does.is_empty() { "" } else { " " };
                *does = format!("{does}{space}{body}");
            }
            Some(Part::Entry { typed, does, .. }) if indent > 2 && typed.ends_with('\\') => {
                let (rest, more, _) = entry(body, indent);
                *typed = format!("{typed}\n{}{rest}", " ".repeat(indent));
                *does = more;
            }
            _ if indent >= 2 => {
                let (typed, does, column) = entry(body, indent);
                parts.push(Part::Entry { typed, does, column });
            }
            Some(Part::Paragraph(paragraph)) if !paragraph.ends_with('.') => {
                *paragraph = format!("{paragraph} {body}");
            }
            _ if body.ends_with(':') => parts.push(Part::Heading(body.to_string())),
            _ => parts.push(Part::Paragraph(body.to_string())),
        }
    }
    parts
}

/// What is typed, what it does, and the column of that: two spaces separate them.
fn entry(body: &str, indent: usize) -> (String, String, usize) {
    match body.split_once("  ") {
        None => (body.to_string(), String::new(), usize::MAX),
        Some((typed, rest)) => {
            let does = rest.trim_start();
            (typed.to_string(), does.to_string(), indent + body.len() - does.len())
        }
    }
}

/// The text in lines of a width, with [`KEPT_SPACE`] instead of spaces.
pub(crate) fn layout(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for part in parts(text) {
        match part {
            Part::Empty => lines.push(String::new()),
            Part::Heading(text) | Part::Paragraph(text) => {
                lines.extend(wrap(&text, "", "", width));
            }
            Part::Entry { typed, does, column } => put(&typed, &does, column, width, &mut lines),
        }
    }
    lines.join("\n").replace(' ', &KEPT_SPACE.to_string())
}

/// An entry: what it does beside it where there is room, otherwise below it.
fn put(typed: &str, does: &str, column: usize, width: usize, lines: &mut Vec<String>) {
    let mut all = typed.lines();
    let last = all.next_back().unwrap_or_default();
    let first = if lines_of(typed) > 1 { "" } else { ENTRY };
    for (number, line) in all.enumerate() {
        lines.push(format!("{}{line}", if number == 0 { ENTRY } else { "" }));
    }
    let line = format!("{first}{last}");
    if does.is_empty() {
        lines.push(line);
    } else if column.saturating_add(MIN_DOES_COLUMNS) <= width {
        let hang = " ".repeat(column);
        if columns(&line) < column {
            let pad = " ".repeat(column - columns(&line));
            lines.extend(wrap(does, &format!("{line}{pad}"), &hang, width));
        } else {
            lines.push(line);
            lines.extend(wrap(does, &hang, &hang, width));
        }
    } else if columns(&line) + 2 + columns(does) <= width {
        lines.push(format!("{line}  {does}"));
    } else {
        lines.push(line);
        lines.extend(wrap(does, BELOW, BELOW, width));
    }
}

fn lines_of(text: &str) -> usize {
    text.lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Examples:
  netwhy                       watch this host for 10 seconds, name the causes
  netwhy pcap a.pcapng --annotate b.pcapng
                               a copy with
                               comments
  netwhy ping 198.18.0.1 \\
      --from here --from netns:pc2

Lost are packets without a reply within
--timeout. Raw sockets need CAP_NET_RAW.
Exit codes: 0 done.";

    fn laid_out(width: usize) -> String {
        layout(TEXT, width).replace(KEPT_SPACE, " ")
    }

    #[test]
    fn in_80_columns_entries_stay_as_they_are_written() {
        let shown = laid_out(80);
        assert!(shown.starts_with(TEXT.split("\n  netwhy pcap").next().unwrap()), "{shown}");
        let rest = "
  netwhy ping 198.18.0.1 \\
      --from here --from netns:pc2

Lost are packets without a reply within --timeout. Raw sockets need CAP_NET_RAW.
Exit codes: 0 done.";
        assert!(shown.ends_with(rest), "{shown}");
    }

    #[test]
    fn in_a_narrow_terminal_commands_stay_whole() {
        assert_eq!(
            laid_out(40),
            "\
Examples:
  netwhy
      watch this host for 10 seconds,
      name the causes
  netwhy pcap a.pcapng --annotate b.pcapng
      a copy with comments
  netwhy ping 198.18.0.1 \\
      --from here --from netns:pc2

Lost are packets without a reply
within --timeout. Raw sockets need
CAP_NET_RAW.
Exit codes: 0 done."
        );
    }
}
