//! Code, emphasis and links inside a line.

use std::fmt::Write as _;

use text::{Paint, Style, paint};

/// A space in code, at which no line breaks: commands are copied.
pub(super) const KEPT_SPACE: &str = "\u{a0}";

/// Renders the code, emphasis and links of a text. Each word is painted separately, because lines
/// break between words.
pub(super) fn inline(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        if let Some((span, after)) = span(rest, out.chars().next_back()) {
            match span {
                Span::Code(code) => {
                    let code = code.replace(' ', KEPT_SPACE);
                    if style.colour {
                        out.push_str(&paint_words(&code, Paint::Code, style));
                    } else {
                        // Writing to a String does not fail.
                        let _ = write!(out, "`{code}`");
                    }
                }
                Span::Painted(text, colour) => out.push_str(&paint_words(text, colour, style)),
                Span::Link { label, target } => {
                    out.push_str(&inline(label, style));
                    if target.starts_with("http") && target != label {
                        let _ = write!(out, " ({target})");
                    }
                }
            }
            rest = after;
            continue;
        }
        let mut characters = rest.chars();
        let Some(character) = characters.next() else { return out };
        rest = characters.as_str();
        let escaped = characters.next().filter(|next| next.is_ascii_punctuation());
        match escaped {
            Some(next) if character == '\\' => {
                out.push(next);
                rest = characters.as_str();
            }
            _ => out.push(character),
        }
    }
}

enum Span<'a> {
    Code(&'a str),
    Painted(&'a str, Paint),
    Link { label: &'a str, target: &'a str },
}

/// The span at the beginning of a text, and the text after it. `before` is the character before the
/// text.
fn span(text: &str, before: Option<char>) -> Option<(Span<'_>, &str)> {
    if text.starts_with('`') {
        let inside = text.trim_start_matches('`');
        let mark = text.strip_suffix(inside)?;
        let (code, after) = inside.split_once(mark)?;
        return Some((Span::Code(code.trim()), after));
    }
    if let Some(emphasis) = emphasis(text, before) {
        return Some(emphasis);
    }
    if let Some(inside) = text.strip_prefix('<') {
        let (target, after) = inside.split_once('>')?;
        return target.starts_with("http").then_some((Span::Link { label: target, target }, after));
    }
    let (label, after) = text.strip_prefix('[')?.split_once(']')?;
    if let Some(inside) = after.strip_prefix('(') {
        let (target, after) = inside.split_once(')')?;
        return Some((Span::Link { label, target }, after));
    }
    // A name of the source: [`Evidence`].
    let name = label.strip_prefix('`')?.strip_suffix('`')?;
    Some((Span::Code(name), after))
}

fn emphasis(text: &str, before: Option<char>) -> Option<(Span<'_>, &str)> {
    const MARKS: [(&str, Paint); 4] = [
        ("**", Paint::Strong),
        ("__", Paint::Strong),
        ("*", Paint::Emphasis),
        ("_", Paint::Emphasis),
    ];
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    MARKS.into_iter().find_map(|(mark, colour)| {
        let inside = text.strip_prefix(mark)?;
        let (body, after) = inside.split_once(mark)?;
        let next = after.chars().next();
        let is_emphasis = !inside.starts_with([' ', '*', '_'])
            && !body.is_empty()
            && !body.ends_with(' ')
            && next.is_none_or(|next| !next.is_alphanumeric() && next != '*');
        is_emphasis.then_some((Span::Painted(body, colour), after))
    })
}

fn paint_words(text: &str, colour: Paint, style: Style) -> String {
    text.split(' ').map(|word| paint(word, colour, style)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::inline;
    use text::Style;

    const PLAIN: Style = Style { colour: false, width: 60 };
    const COLOUR: Style = Style { colour: true, width: 60 };

    #[test]
    fn code_emphasis_links_and_escapes() {
        assert_eq!(inline("a `b *c* d` e", PLAIN), "a `b\u{a0}*c*\u{a0}d` e");
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
}
