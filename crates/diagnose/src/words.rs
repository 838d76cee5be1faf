//! How findings are worded: titles that fit, names of processes, words of the evidence that stay
//! within their line.

use model::{Evidence, ProcessName, Subject, SubjectKind};
use std::net::SocketAddr;
use text::sanitize;

/// Most columns of a title, so that the severity fits beside it.
pub(crate) const MAX_TITLE_COLUMNS: usize = 72;
/// Most characters of one word of the evidence in a text: names of interfaces, pools and processes
/// are shorter, and of a longer log line its beginning says what it is.
const MAX_WORD_CHARACTERS: usize = 300;

/// A word or a line of the evidence for use in a text: it cannot begin a line of its own.
pub(crate) fn line(text: &str) -> String {
    let shown = sanitize::line(text);
    match shown.char_indices().nth(MAX_WORD_CHARACTERS) {
        Some((cut, _)) => format!("{}...", shown.split_at(cut).0),
        None => shown.into_owned(),
    }
}

/// A word with its middle left out where it is longer than `max` characters: beginning and end show
/// most of what it is.
pub(crate) fn shortened(word: &str, max: usize) -> String {
    let word = line(word);
    let letters = word.chars().count();
    if letters <= max {
        return word;
    }
    let kept = max.saturating_sub(3);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let beginning: String = word.chars().take(head).collect();
    let end: String = word.chars().skip(letters - tail).collect();
    format!("{beginning}...{end}")
}

/// The title, or a shorter one where it is too wide.
pub(crate) fn title(full: String, short: &str) -> String {
    let full = line(&full);
    if text::columns(&full) <= MAX_TITLE_COLUMNS { full } else { short.to_string() }
}

/// The processes with these ids, by name; unknown ones are left out.
pub(crate) fn processes(evidence: &Evidence, pids: &[u32]) -> Vec<ProcessName> {
    pids.iter()
        .filter_map(|pid| evidence.process(*pid))
        .map(|process| ProcessName { name: process.name.clone(), pid: process.pid })
        .collect()
}

/// One name for several processes: that of the first.
pub(crate) fn process_name(processes: &[ProcessName]) -> Option<String> {
    processes.first().map(|process| line(&process.name))
}

/// `a, b and c`.
pub(crate) fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A subject.
pub(crate) fn subject(
    kind: SubjectKind,
    name: impl Into<String>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    processes: Vec<ProcessName>,
) -> Subject {
    Subject { kind, name: name.into(), local, remote, processes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_evidence_stay_within_their_line() {
        assert_eq!(line("nginx\nfix  rm -rf /\x1b[2J"), "nginx\\nfix  rm -rf /\\x1b[2J");
        assert_eq!(line(&"x".repeat(1_000)).len(), MAX_WORD_CHARACTERS + 3);
    }

    #[test]
    fn long_words_keep_their_ends() {
        assert_eq!(shortened("GET /report", 44), "GET /report");
        let long = shortened(&format!("GET /{}/end", "é".repeat(80)), 44);
        assert_eq!(long.chars().count(), 44);
        assert!(long.starts_with("GET /é") && long.ends_with("é/end"), "{long}");
        assert_eq!(shortened("abcdef", 2), "...");
    }

    #[test]
    fn titles_fit() {
        assert_eq!(title("short".to_string(), "other"), "short");
        assert_eq!(title("x".repeat(80), "other"), "other");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
