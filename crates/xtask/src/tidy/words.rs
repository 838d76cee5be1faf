//! Names and texts are in the field's words: those of ss(8), Wireshark, RFCs and kernel commits.
//!
//! The project once had a dialect of its own. [`WORDS`] has what must not come back, with the word to
//! use; [`EXCEPTIONS`] has the files that may use one, and why.

use super::problem::Problem;
use crate::rust_source::{code_only, line_of};
use crate::tree::Tree;

/// Where a word must not stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// In names of Rust code, as a part between underscores or capitals.
    Names,
    /// In comments, strings and documents.
    Texts,
    /// In both.
    Everywhere,
}

/// A word, or several in a row, that must not stand in a scope.
struct Word {
    words: &'static [&'static str],
    scope: Scope,
    instead: &'static str,
    /// What may stand before it: then it means something else.
    unless_after: &'static [&'static str],
    /// What may follow it.
    unless_before: &'static [&'static str],
}

const fn word(words: &'static [&'static str], scope: Scope, instead: &'static str) -> Word {
    Word { words, scope, instead, unless_after: &[], unless_before: &[] }
}

const WORDS: &[Word] = &[
    word(&["told"], Scope::Everywhere, "reported, logged, known, given"),
    word(&["said"], Scope::Everywhere, "reported, says, printed"),
    word(&["mend"], Scope::Everywhere, "fix"),
    word(&["mends"], Scope::Everywhere, "fixes"),
    word(&["mended"], Scope::Everywhere, "fixed"),
    word(&["turn"], Scope::Names, "exchange"),
    word(&["turns"], Scope::Names, "exchanges"),
    Word {
        unless_after: &["in", "to", "can", "not", "and", "by"],
        unless_before: &["on", "off", "out", "into", "up", "it"],
        ..word(&["turn"], Scope::Texts, "exchange")
    },
    Word {
        unless_before: &["on", "off", "out", "into", "up", "it"],
        ..word(&["turns"], Scope::Texts, "exchanges")
    },
    word(&["looks", "made"], Scope::Texts, "samples taken"),
    word(&["look", "late"], Scope::Texts, "late sample"),
    word(&["looks", "late"], Scope::Texts, "late samples"),
    word(&["every", "look"], Scope::Texts, "every sample"),
    word(&["each", "look"], Scope::Texts, "each sample"),
    word(&["last", "look"], Scope::Texts, "last sample"),
    word(&["first", "look"], Scope::Texts, "first sample"),
    word(&["between", "looks"], Scope::Texts, "between samples"),
    word(&["looks"], Scope::Names, "samples"),
    word(&["gap"], Scope::Names, "missing evidence; hole (in sequence numbers)"),
    word(&["gaps"], Scope::Names, "missing evidence; holes (in sequence numbers)"),
    word(&["budget"], Scope::Names, "time breakdown"),
    word(&["glimpse"], Scope::Everywhere, "packet fingerprint"),
    word(&["survey"], Scope::Everywhere, "capture summary"),
    word(&["beside"], Scope::Names, "background"),
    word(&["pump"], Scope::Everywhere, "capture loop"),
    word(&["spoken"], Scope::Everywhere, "application protocol"),
    word(&["lookups"], Scope::Names, "DNS"),
    word(&["needless"], Scope::Everywhere, "spurious"),
    word(&["thought"], Scope::Everywhere, "think time"),
    word(&["thinks"], Scope::Everywhere, "takes … to answer"),
    word(&["captured", "twice"], Scope::Everywhere, "duplicate packets of the capture"),
    word(&["repeated", "fast"], Scope::Everywhere, "fast retransmission"),
    word(&["repeated", "timeout"], Scope::Everywhere, "RTO retransmission"),
    word(&["sent", "again"], Scope::Everywhere, "retransmitted"),
    word(&["seen", "to"], Scope::Texts, "observed"),
    word(&["no", "otherwise"], Scope::Texts, "no other way"),
    word(&["and", "not", "otherwise"], Scope::Texts, "and why"),
    word(&["for", "want", "of"], Scope::Texts, "without"),
    word(&["in", "vain"], Scope::Texts, "without success"),
];

/// Files that may use words of the list: beginning of the path, why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/xtask/src/tidy/words.rs", "has the list"),
    ("docs/decisions/", "a decision is never rewritten"),
    ("LICENSE", "the words of others"),
    ("fuzz/fixtures/", "inputs, not texts"),
    ("crates/observe/fixtures/", "a recorded machine"),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (path, text) in tree.files() {
        if EXCEPTIONS.iter().any(|(excepted, _)| path.starts_with(excepted)) {
            continue;
        }
        if path.ends_with(".rs") {
            let code = code_only(text);
            names(path, &code, &mut problems);
            // What the code is not: comments and literals.
            let rest: String = text
                .chars()
                .zip(code_by_char(text, &code))
                .map(|(c, is_code)| if is_code && c != '\n' { ' ' } else { c })
                .collect();
            texts(path, &rest, &mut problems);
        } else if is_prose(path) {
            texts(path, text, &mut problems);
        }
    }
    Ok(problems)
}

/// Documents that people read.
fn is_prose(path: &str) -> bool {
    [".md", ".toml", "Makefile"].iter().any(|end| path.ends_with(end))
        || (path.starts_with("tools/") && !path.ends_with(".json"))
}

/// For each character of a text whether it is code, by the text whose comments and literals are blank.
fn code_by_char<'a>(text: &'a str, code: &'a str) -> impl Iterator<Item = bool> + 'a {
    let bytes = code.as_bytes();
    text.char_indices().map(move |(at, _)| bytes.get(at).is_some_and(|b| !b.is_ascii_whitespace()))
}

fn names(path: &str, code: &str, problems: &mut Vec<Problem>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut start = None;
    for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
        match (start, is_name(c)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                start = None;
                let Some(name) = code.get(from..at) else { continue };
                let parts = parts(name);
                for word in WORDS.iter().filter(|word| word.scope != Scope::Texts) {
                    if stands(word, &parts) {
                        let line = Some(line_of(code, from));
                        let text = format!(
                            "the name {name} has «{}»: {}",
                            word.words.join(" "),
                            word.instead
                        );
                        problems.push(Problem::new(path, line, text));
                    }
                }
            }
            _ => {}
        }
    }
}

/// `RepeatedFast`, `repeated_fast` and `REPEATED_FAST` are `repeated`, `fast`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before_is_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before_is_lower) {
            parts.push(String::new());
        }
        before_is_lower = c.is_lowercase() || c.is_numeric();
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(c.to_lowercase());
        }
    }
    parts
}

fn texts(path: &str, text: &str, problems: &mut Vec<Problem>) {
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '\'');
        let words: Vec<String> =
            words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        for word in WORDS.iter().filter(|word| word.scope != Scope::Names) {
            if stands(word, &words) {
                let text = format!("«{}»: {}", word.words.join(" "), word.instead);
                problems.push(Problem::new(path, Some(number + 1), text));
            }
        }
    }
}

/// Whether a word stands in a row of words, and means what it must not mean.
fn stands(word: &Word, row: &[String]) -> bool {
    let length = word.words.len();
    (0..row.len()).any(|at| {
        let here = row.iter().skip(at).take(length);
        let before = at.checked_sub(1).and_then(|at| row.get(at));
        let after = row.get(at + length);
        here.map(String::as_str).eq(word.words.iter().copied())
            && !before.is_some_and(|before| word.unless_after.contains(&before.as_str()))
            && !after.is_some_and(|after| word.unless_before.contains(&after.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_names_and_texts_of_their_scope() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "//! The load that is told.\nfn slowest_turns(x: RepeatedFast) { return_value(); }\n\
                 // Turns on Nagle; mends nothing, returns.\nconst A: &str = \"3 turns\";\n",
            ),
            ("docs/b.md", "fine\n`budget` was sent again\n"),
            ("docs/decisions/0001.md", "It was told.\n"),
            ("x.bin", "told\n"),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|p| (p.path, p.line)).collect();
        let lib = |line| ("crates/a/src/lib.rs".to_string(), Some(line));
        assert_eq!(
            found,
            [lib(2), lib(2), lib(1), lib(3), lib(4), ("docs/b.md".to_string(), Some(2))]
        );
    }

    #[test]
    fn names_have_parts() {
        assert_eq!(parts("slowest_turns"), ["slowest", "turns"]);
        assert_eq!(parts("RepeatedFast2"), ["repeated", "fast2"]);
        assert_eq!(parts("MAX_HTTP"), ["max", "http"]);
    }
}
