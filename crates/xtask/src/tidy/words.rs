//! Names and texts are in the field's words: those of ss(8), Wireshark, RFCs and kernel commits.
//!
//! The project once had a dialect of its own. [`WORDS`] has what must not come back, with the word to
//! use; [`EXCEPTIONS`] has where one may be used, and why.

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
    word(&["looks", "made"], Scope::Everywhere, "samples taken"),
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
    word(&["whoever"], Scope::Texts, "the program, the user, those that"),
    word(&["looked", "at"], Scope::Texts, "examined, verified, sampled, counted"),
    word(&["held", "against"], Scope::Texts, "compared with"),
    word(&["captures", "of", "others"], Scope::Texts, "the shared captures"),
    word(&["copies", "left", "out"], Scope::Texts, "without duplicate packets"),
    word(&["place", "of", "capture"], Scope::Texts, "capture point"),
    word(&["on", "the", "way"], Scope::Texts, "on the path"),
    word(&["both", "ways"], Scope::Texts, "both directions"),
    word(&["each", "way"], Scope::Texts, "each direction"),
    word(&["asked", "for", "nothing"], Scope::Texts, "sent no request"),
    word(&["trouble"], Scope::Everywhere, "loss recovery, problem"),
    word(&["silence"], Scope::Names, "idle period"),
    word(&["holders"], Scope::Names, "socket owners"),
    word(&["glance"], Scope::Everywhere, "sample"),
    word(&["and", "not", "otherwise"], Scope::Texts, "and why"),
    word(&["for", "want", "of"], Scope::Texts, "without"),
    word(&["in", "vain"], Scope::Texts, "without success"),
];

/// What may use words of the list, and why.
struct Exception {
    /// Beginning of the path.
    path: &'static str,
    /// The first words of the entries that may be used; none: all of them.
    words: &'static [&'static str],
    /// Why: for readers of this table.
    #[expect(dead_code, reason = "documents the exception where it is made")]
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception { path: "crates/xtask/src/tidy/words.rs", words: &[], why: "has the list" },
    Exception { path: "docs/decisions/0", words: &[], why: "a decision is never rewritten" },
    Exception { path: "LICENSE", words: &[], why: "the words of others" },
    Exception { path: "fuzz/fixtures/", words: &[], why: "inputs, not texts" },
    Exception { path: "crates/observe/fixtures/", words: &[], why: "a recorded machine" },
    Exception {
        path: "crates/streams/",
        words: &["gap", "gaps"],
        why: "holes in sequence numbers",
    },
    Exception {
        path: "crates/netwhy/src/commands/pcap/",
        words: &["gap", "gaps"],
        why: "SegmentKind::AfterGap: after a hole in sequence numbers",
    },
];

/// The words of the list that must not stand in a file.
fn words_for(path: &str) -> Vec<&'static Word> {
    let excepted = |word: &Word| {
        let here = EXCEPTIONS.iter().filter(|exception| path.starts_with(exception.path));
        here.into_iter().any(|exception| {
            exception.words.is_empty()
                || word.words.first().is_some_and(|first| exception.words.contains(first))
        })
    };
    WORDS.iter().filter(|word| !excepted(word)).collect()
}

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (path, text) in tree.files() {
        let words = words_for(path);
        if words.is_empty() {
            continue;
        }
        if path.ends_with(".rs") {
            let code = code_only(text);
            names(path, &code, &words, &mut problems);
            // What the code is not: comments and literals.
            let rest: String = text
                .chars()
                .zip(code_by_char(text, &code))
                .map(|(c, is_code)| if is_code && c != '\n' { ' ' } else { c })
                .collect();
            texts(path, &rest, &words, &mut problems);
        } else if is_prose(path) {
            texts(path, text, &words, &mut problems);
        }
    }
    Ok(problems)
}

/// Documents that people read.
fn is_prose(path: &str) -> bool {
    [".md", ".toml", ".snap", "Makefile"].iter().any(|end| path.ends_with(end))
        || (path.starts_with("tools/") && !path.ends_with(".json"))
}

/// For each character of a text whether it is code, by the text whose comments and literals are blank.
fn code_by_char<'a>(text: &'a str, code: &'a str) -> impl Iterator<Item = bool> + 'a {
    let bytes = code.as_bytes();
    text.char_indices().map(move |(at, _)| bytes.get(at).is_some_and(|b| !b.is_ascii_whitespace()))
}

fn names(path: &str, code: &str, words: &[&Word], problems: &mut Vec<Problem>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut start = None;
    for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
        match (start, is_name(c)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                start = None;
                let Some(name) = code.get(from..at) else { continue };
                let parts = parts(name);
                for word in words.iter().filter(|word| word.scope != Scope::Texts) {
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

/// Words of a text in a row, over the ends of lines too: several words may stand on two lines.
fn texts(path: &str, text: &str, list: &[&Word], problems: &mut Vec<Problem>) {
    let mut row = Vec::new();
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '\'');
        for word in words.filter(|word| !word.is_empty()) {
            row.push(word.to_lowercase());
            lines.push(number + 1);
        }
    }
    for word in list.iter().filter(|word| word.scope != Scope::Names) {
        for at in places(word, &row) {
            let text = format!("«{}»: {}", word.words.join(" "), word.instead);
            problems.push(Problem::new(path, lines.get(at).copied(), text));
        }
    }
}

/// Whether a word stands in a row of words, and means what it must not mean.
fn stands(word: &Word, row: &[String]) -> bool {
    places(word, row).next().is_some()
}

/// Where a word stands in a row of words and means what it must not mean.
fn places(word: &Word, row: &[String]) -> impl Iterator<Item = usize> {
    let length = word.words.len();
    (0..row.len()).filter(move |at| {
        let here = row.iter().skip(*at).take(length);
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
            ("docs/b.md", "fine\n`budget` was sent\nagain\n"),
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
