//! Headings, paragraphs, lists, quotes, tables and code blocks.

use text::sanitize;
use text::{Column, Paint, Style, Table, columns, paint, wrap};

use super::inline::{KEPT_SPACE, inline};

/// Indent of code blocks and nested texts.
const INDENT: &str = "    ";
/// Deepest indent of a nested list that is kept.
const MAX_LIST_INDENT: usize = 12;

/// A page of Markdown as text of at most [`Style::width`] columns: headings bold (underlined
/// without colours), code blocks indented and never broken, all else wrapped.
pub fn markdown_to_terminal(page: &str, style: Style) -> String {
    let style = style.within_bounds();
    let page = sanitize::lines(page);
    let lines: Vec<&str> = page.lines().collect();
    let mut rest = lines.as_slice();
    let mut out: Vec<String> = Vec::new();
    while let [line, after @ ..] = rest {
        rest = block(line, after, style, &mut out);
    }
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    out.join("\n").replace(KEPT_SPACE, " ") + "\n"
}

/// Renders the block that begins with `line`; returns the lines after it.
fn block<'a>(
    line: &str,
    after: &'a [&'a str],
    style: Style,
    out: &mut Vec<String>,
) -> &'a [&'a str] {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        separate(out);
        return after;
    }
    if let Some(fence) = fence(line) {
        return code(after, fence, style, out);
    }
    if line.starts_with(INDENT) && out.last().is_none_or(String::is_empty) {
        out.push(paint(line.trim_end(), Paint::Code, style));
        return after;
    }
    if let Some((level, title)) = heading(trimmed) {
        put_heading(level, title, style, out);
        return after;
    }
    if trimmed.starts_with('|') {
        let (rows, after) = split_where(after, |line| !line.trim().starts_with('|'));
        table(line, rows, style, out);
        return after;
    }
    let (continuation, after) = split_where(after, |line| !continues(line));
    paragraph(line, continuation, style, out);
    after
}

/// A paragraph, an item of a list or a quote.
fn paragraph(line: &str, continuation: &[&str], style: Style, out: &mut Vec<String>) {
    let unquoted = |line: &str| line.trim().trim_start_matches("> ").to_string();
    let (marker, first) =
        item(line).map_or((String::new(), line), |(marker, text)| (format!("{marker} "), text));
    let words: Vec<String> =
        [first].iter().chain(continuation).map(|line| unquoted(line)).collect();
    let quote = if line.trim().starts_with("> ") { "  " } else { "" };
    let depth = line.len() - line.trim_start().len();
    let depth = if marker.is_empty() { 0 } else { depth.min(MAX_LIST_INDENT) };
    let indent = format!("{}{quote}", " ".repeat(depth));
    let hang = format!("{indent}{}", " ".repeat(columns(&marker)));
    let text = inline(&words.join(" "), style);
    out.extend(wrap(&text, &format!("{indent}{marker}"), &hang, style.width));
}

fn put_heading(level: usize, title: &str, style: Style, out: &mut Vec<String>) {
    separate(out);
    for line in wrap(&inline(title, style), "", "", style.width) {
        out.push(paint(&line, Paint::Strong, style));
    }
    if !style.colour && level <= 2 {
        let underline = if level == 1 { "=" } else { "-" };
        let length = out.last().map_or(0, |last| columns(last));
        out.push(underline.repeat(length));
    }
    separate(out);
}

fn separate(out: &mut Vec<String>) {
    if out.last().is_some_and(|line| !line.is_empty()) {
        out.push(String::new());
    }
}

/// The lines before the first one for which this holds, and the rest.
fn split_where<'a>(
    lines: &'a [&'a str],
    ends: impl Fn(&str) -> bool,
) -> (&'a [&'a str], &'a [&'a str]) {
    let end = lines.iter().position(|line| ends(line)).unwrap_or(lines.len());
    lines.split_at_checked(end).unwrap_or((lines, &[]))
}

/// Whether a line continues the paragraph or item before it.
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

/// The level of a heading and its title.
fn heading(line: &str) -> Option<(usize, &str)> {
    let after = line.trim_start_matches('#');
    let level = line.len() - after.len();
    let title = after.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title.trim()))
}

/// The marker of a list item (`-`, `3.`) and its text.
fn item(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (marker, text) = line.split_once(' ')?;
    let digits = marker.strip_suffix('.').unwrap_or("");
    let is_numbered = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (is_numbered || matches!(marker, "-" | "*" | "+")).then_some((marker, text))
}

/// A code block, whose opening fence was read; returns the lines after the closing fence.
fn code<'a>(
    lines: &'a [&'a str],
    fence: &str,
    style: Style,
    out: &mut Vec<String>,
) -> &'a [&'a str] {
    let (code, after) = split_where(lines, |line| line.trim().starts_with(fence));
    // A block inside of a list item is indented with it.
    let common = code
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    for line in code {
        let line = line.get(common..).unwrap_or("").trim_end();
        let shown = if line.is_empty() { String::new() } else { format!("{INDENT}{line}") };
        out.push(paint(&shown, Paint::Code, style));
    }
    after.split_first().map_or(after, |(_closing_fence, after)| after)
}

fn table(first: &str, others: &[&str], style: Style, out: &mut Vec<String>) {
    let rows = [first].into_iter().chain(others.iter().copied()).map(|line| {
        let cells = line.trim().trim_start_matches('|').trim_end_matches('|').split('|');
        cells.map(str::trim).collect::<Vec<_>>()
    });
    let is_rule =
        |cells: &[&str]| cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')));
    let rows: Vec<_> = rows.filter(|cells| !is_rule(cells)).collect();
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut table = Table::new((0..width).map(|_| Column::left("")));
    for cells in rows {
        table.painted_row(cells.iter().map(|cell| inline(cell, style)));
    }
    out.extend(table.lines("", style.width));
}

#[cfg(test)]
mod tests {
    use super::markdown_to_terminal;
    use text::Style;

    const PLAIN: Style = Style { colour: false, width: 60 };
    const COLOUR: Style = Style { colour: true, width: 60 };

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
    fn hostile_pages_are_rendered() {
        for page in
            ["", "\n\n", "```", "```\n", "|", "||\n|-|", "#", "- ", "[", "[]()", "\\", "**", "> "]
        {
            let text = markdown_to_terminal(page, COLOUR);
            assert!(text.ends_with('\n'), "{page:?} gave {text:?}");
        }
        assert!(!markdown_to_terminal("a\x1b[2Jb", PLAIN).contains('\x1b'));
    }
}
