//! The page of a cause in a terminal.
//!
//! The pages are the module documentation of the causes: this knows the Markdown that they use
//! (headings, paragraphs, lists, quotes, tables, code, emphasis, links) and shows everything
//! else as it stands. It is no general Markdown renderer.

use std::fmt::Write as _;

use text::Style;
use text::sanitize;
use text::{Paint, paint};
use text::{columns, wrap};

/// What code blocks and nested texts begin with.
const INDENT: &str = "    ";

/// A page of Markdown as text of at most [`Style::width`] columns: headings bold (underlined
/// without colours), code blocks indented and never broken, all else wrapped.
pub fn markdown_to_terminal(page: &str, style: Style) -> String {
    let style = Style { width: style.width.max(40), ..style };
    let page = sanitize::lines(page);
    let lines: Vec<&str> = page.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let before = at;
        at = block(&lines, at, style, &mut out);
        debug_assert!(at > before, "a block takes at least one line");
    }
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    let mut text = out.join("\n");
    text.push('\n');
    text
}

/// Renders the block that begins at line `at`; gives the line after it.
fn block(lines: &[&str], at: usize, style: Style, out: &mut Vec<String>) -> usize {
    let line = lines[at];
    let trimmed = line.trim();
    if trimmed.is_empty() {
        separate(out);
        return at + 1;
    }
    if let Some(fence) = fence(line) {
        return code(lines, at + 1, fence, style, out);
    }
    if line.starts_with(INDENT) && out.last().is_none_or(String::is_empty) {
        out.push(paint(line.trim_end(), Paint::Code, style));
        return at + 1;
    }
    if let Some((level, title)) = heading(trimmed) {
        separate(out);
        let title = inline(title, style);
        for line in wrap(&title, "", "", style.width) {
            out.push(paint(&line, Paint::Strong, style));
        }
        if !style.colour && level <= 2 {
            let rule = if level == 1 { "=" } else { "-" };
            let length = out.last().map_or(0, |last| columns(last));
            out.push(rule.repeat(length));
        }
        separate(out);
        return at + 1;
    }
    if trimmed.starts_with('|') {
        return table(lines, at, style, out);
    }
    let (marker, first) = item(line).unwrap_or(("", line));
    let depth = line.len() - line.trim_start().len();
    let mut text = first.trim().trim_start_matches("> ").to_string();
    let mut end = at + 1;
    while end < lines.len() && continues(lines[end]) {
        text.push(' ');
        text.push_str(lines[end].trim().trim_start_matches("> "));
        end += 1;
    }
    let quote = if trimmed.starts_with("> ") { "  " } else { "" };
    let depth = if marker.is_empty() { 0 } else { depth.min(12) };
    let indent = format!("{}{quote}", " ".repeat(depth));
    let marker = if marker.is_empty() { String::new() } else { format!("{marker} ") };
    let hang = format!("{indent}{}", " ".repeat(columns(&marker)));
    out.extend(wrap(&inline(&text, style), &format!("{indent}{marker}"), &hang, style.width));
    end
}

fn separate(out: &mut Vec<String>) {
    if out.last().is_some_and(|line| !line.is_empty()) {
        out.push(String::new());
    }
}

/// Whether a line goes on with the paragraph or item before it.
fn continues(line: &str) -> bool {
    let trimmed = line.trim();
    !(trimmed.is_empty()
        || trimmed.starts_with('|')
        || fence(line).is_some()
        || heading(trimmed).is_some()
        || item(line).is_some())
}

fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| line.trim_start().starts_with(fence))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let title = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title.trim()))
}

/// The marker of a list item (`-`, `3.`) and its text.
fn item(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (marker, text) = line.split_once(' ')?;
    let digits = marker.strip_suffix('.').unwrap_or("");
    let numbered = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (numbered || matches!(marker, "-" | "*" | "+")).then_some((marker, text))
}

fn code(lines: &[&str], from: usize, fence: &str, style: Style, out: &mut Vec<String>) -> usize {
    let end =
        (from..lines.len()).find(|at| lines[*at].trim().starts_with(fence)).unwrap_or(lines.len());
    // A block inside of a list item is indented with it.
    let common = lines[from..end]
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    for line in &lines[from..end] {
        let line = line.get(common..).unwrap_or("").trim_end();
        let shown = if line.is_empty() { String::new() } else { format!("{INDENT}{line}") };
        out.push(paint(&shown, Paint::Code, style));
    }
    (end + 1).min(lines.len())
}

fn table(lines: &[&str], from: usize, style: Style, out: &mut Vec<String>) -> usize {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut at = from;
    while at < lines.len() && lines[at].trim().starts_with('|') {
        let cells = lines[at].trim().trim_start_matches('|').trim_end_matches('|').split('|');
        let cells: Vec<&str> = cells.map(str::trim).collect();
        if !cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':'))) {
            rows.push(cells.iter().map(|cell| inline(cell, style)).collect());
        }
        at += 1;
    }
    let last = rows.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
    let widths: Vec<usize> = (0..last)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|c| columns(c)).max().unwrap_or(0))
        .collect();
    // What cannot stand side by side stands below each other.
    let beside = widths.iter().map(|width| width + 2).sum::<usize>() + 20 <= style.width;
    for row in &rows {
        if beside {
            let mut head = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(head, "{cell}{}", " ".repeat(width - columns(cell) + 2));
            }
            let text = row.get(last).map_or("", String::as_str);
            out.extend(wrap(text, &head, &" ".repeat(columns(&head)), style.width));
        } else {
            for (at, cell) in row.iter().enumerate() {
                let indent = if at == 0 { "" } else { "  " };
                out.extend(wrap(cell, indent, indent, style.width));
            }
        }
    }
    at
}

/// Code, emphasis and links inside a line. Each word is painted on its own, as lines break
/// between words.
fn inline(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = out.chars().next_back();
        match span(rest, before) {
            Some((Span::Code(code), length)) => {
                if style.colour {
                    out.push_str(&each_word(code, Paint::Code, style));
                } else {
                    let _ = write!(out, "`{code}`");
                }
                rest = &rest[length..];
            }
            Some((Span::Painted(text, is), length)) => {
                out.push_str(&each_word(text, is, style));
                rest = &rest[length..];
            }
            Some((Span::Link(text, target), length)) => {
                out.push_str(&inline(text, style));
                if target.starts_with("http") && target != text {
                    let _ = write!(out, " ({target})");
                }
                rest = &rest[length..];
            }
            None => {
                let escaped =
                    c == '\\' && rest[1..].starts_with(|c: char| c.is_ascii_punctuation());
                rest = &rest[c.len_utf8()..];
                if let (true, Some(next)) = (escaped, rest.chars().next()) {
                    out.push(next);
                    rest = &rest[next.len_utf8()..];
                } else {
                    out.push(c);
                }
            }
        }
    }
    out
}

enum Span<'a> {
    Code(&'a str),
    Painted(&'a str, Paint),
    Link(&'a str, &'a str),
}

/// The span that a text begins with, and its length in bytes with its marks.
fn span(text: &str, before: Option<char>) -> Option<(Span<'_>, usize)> {
    if text.starts_with('`') {
        let ticks = text.bytes().take_while(|b| *b == b'`').count();
        let mark = &text[..ticks];
        let end = text[ticks..].find(mark)?;
        let code = text[ticks..ticks + end].trim();
        return Some((Span::Code(code), ticks + end + ticks));
    }
    for (mark, is) in [
        ("**", Paint::Strong),
        ("__", Paint::Strong),
        ("*", Paint::Emphasis),
        ("_", Paint::Emphasis),
    ] {
        let Some(inside) = text.strip_prefix(mark) else {
            continue;
        };
        if before.is_some_and(char::is_alphanumeric) || inside.starts_with([' ', '*', '_']) {
            continue;
        }
        let Some(end) = inside.find(mark) else {
            continue;
        };
        let after = inside[end + mark.len()..].chars().next();
        if end > 0
            && !inside[..end].ends_with(' ')
            && after.is_none_or(|c| !c.is_alphanumeric() && c != '*')
        {
            return Some((Span::Painted(&inside[..end], is), end + 2 * mark.len()));
        }
    }
    if let Some(inside) = text.strip_prefix('<') {
        let end = inside.find('>')?;
        return inside[..end]
            .starts_with("http")
            .then_some((Span::Link(&inside[..end], &inside[..end]), end + 2));
    }
    let inside = text.strip_prefix('[')?;
    let end = inside.find(']')?;
    let label = &inside[..end];
    let after = &inside[end + 1..];
    if let Some(target) = after.strip_prefix('(') {
        let close = target.find(')')?;
        return Some((Span::Link(label, &target[..close]), end + close + 4));
    }
    // A name of the source: [`Evidence`].
    let name = label.strip_prefix('`')?.strip_suffix('`')?;
    Some((Span::Code(name), end + 2))
}

fn each_word(text: &str, is: Paint, style: Style) -> String {
    text.split(' ').map(|word| paint(word, is, style)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{inline, markdown_to_terminal};
    use text::Style;

    const PLAIN: Style = Style { colour: false, width: 60 };
    const COLOUR: Style = Style { colour: true, width: 60 };

    #[test]
    fn spans() {
        assert_eq!(inline("a `b *c* d` e", PLAIN), "a `b *c* d` e");
        assert_eq!(inline("**bold** and *soft* words", PLAIN), "bold and soft words");
        assert_eq!(
            inline("tcp_max_tw_buckets 2 * 3 * 4 *", PLAIN),
            "tcp_max_tw_buckets 2 * 3 * 4 *"
        );
        assert_eq!(inline(r"\*literal\* C:\path", PLAIN), r"*literal* C:\path");
        assert_eq!(inline("see [`Evidence`] [x]", PLAIN), "see `Evidence` [x]");
        assert_eq!(
            inline("[RFC 9293](https://www.rfc-editor.org/rfc/rfc9293) [a](b.md)", PLAIN),
            "RFC 9293 (https://www.rfc-editor.org/rfc/rfc9293) a"
        );
        assert_eq!(
            inline("<https://example.net>, a < b > c", PLAIN),
            "https://example.net, a < b > c"
        );
        assert_eq!(inline("**two words**", COLOUR), "\x1b[1mtwo\x1b[0m \x1b[1mwords\x1b[0m");
        assert_eq!(
            inline("open `tick, open [bracket, open **", PLAIN),
            "open `tick, open [bracket, open **"
        );
    }

    #[test]
    fn a_page() {
        let page = "\
# A queue is full

A paragraph that is
longer than a line of sixty columns, so that it is wrapped again here.

## Check by hand

- one `ss -ltn` item that is long enough to be wrapped under its own text
  and goes on
  - nested
1. numbered

```console
$ ss -ltnm 'sport = :80' and a command that is never broken however long it is

  indented
```

| field | means |
|---|---|
| Recv-Q | connections that wait for accept(), one more than the limit at most |
| Send-Q | the limit |

> quoted words
";
        insta::assert_snapshot!(markdown_to_terminal(page, PLAIN));
    }

    #[test]
    fn hostile_pages_end() {
        for page in
            ["", "\n\n", "```", "```\n", "|", "||\n|-|", "#", "- ", "[", "[]()", "\\", "**", "> "]
        {
            let text = markdown_to_terminal(page, COLOUR);
            assert!(text.ends_with('\n'), "{page:?} gave {text:?}");
        }
        assert!(!markdown_to_terminal("a\x1b[2Jb", PLAIN).contains('\x1b'));
    }
}
