//! Where the syntax error of a filter is: libpcap reports only "syntax error".

/// Longest filter that is searched, words.
const MAX_WORDS: usize = 200;
/// What may follow the beginning of a valid filter. Each is tried with the open brackets closed
/// after it.
const ENDINGS: [&str; 14] = [
    "",
    " 1",
    " 1.2.3.4",
    " 1.2.3.4/32",
    " host 1.2.3.4",
    " port 1",
    " 1-2",
    " tcp",
    " ip",
    "1]=0",
    "]=0",
    "=0",
    " 1=0",
    " 0:0:0:0:0:0",
];

/// The first word that cannot stand where it stands; `None` when the filter only lacks its end, or the
/// position cannot be found. `compiles` decides whether a text is a filter.
pub(super) fn first_impossible_word(text: &str, compiles: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = words(text);
    // Each word costs some compilations.
    if words.len() > MAX_WORDS {
        return None;
    }
    let mut before = String::new();
    for word in words {
        let with = format!("{before}{word}");
        let can_go_on = ENDINGS.iter().any(|ending| {
            let open =
                |text: &str| text.matches('(').count().saturating_sub(text.matches(')').count());
            let closing = ")".repeat(open(&with));
            compiles(&format!("{with}{ending}{closing}"))
        });
        if !can_go_on && !word.trim().is_empty() {
            return Some(word.to_string());
        }
        before = with;
    }
    None
}

/// The words, signs and spaces of a text.
fn words(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_whitespace() => 0,
        c if c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/' | '\\') => 1,
        '(' | ')' => 3,
        _ => 2,
    };
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match kind(first) {
            3 => first.len_utf8(),
            first => rest.find(|c| kind(c) != first).unwrap_or(rest.len()),
        };
        let (word, more) = rest.split_at(end);
        words.push(word);
        rest = more;
    }
    words
}
