//! Commands for people, as argument lists: no word of the evidence becomes another word, an option
//! or a control character.
//!
//! Words that are known here are `&'static str`, separated by spaces; each word of the evidence is
//! an argument of its own. A command with a word that a terminal cannot show as it is, or that the
//! program could take for an option, is left out.

use std::borrow::Cow;

use model::{Command, Evidence};
use text::sanitize;

/// Longest argument that is shown, in bytes: file names end there (PATH_MAX of Linux).
const MAX_ARGUMENT_BYTES: usize = 4_096;

/// A command that is being put together.
pub(crate) struct CommandLine {
    argv: Vec<Vec<String>>,
    /// Whether every word is harmless so far.
    safe: bool,
}

impl CommandLine {
    /// A program and its first arguments.
    pub(crate) fn new(words: &'static str) -> Self {
        CommandLine { argv: vec![split(words)], safe: true }
    }

    /// More arguments that are known here.
    pub(crate) fn args(mut self, words: &'static str) -> Self {
        for word in split(words) {
            self.push(word);
        }
        self
    }

    /// One argument that the program takes as it is: the value of an option, part of a filter.
    pub(crate) fn arg(mut self, word: impl ToString) -> Self {
        self.push(word.to_string());
        self
    }

    /// The name of an interface, a host, a namespace: none begins with a hyphen.
    pub(crate) fn name(mut self, word: &str) -> Self {
        self.safe &= !word.is_empty() && !word.starts_with('-');
        self.push(word.to_string());
        self
    }

    /// The name of a file, which may begin with a hyphen.
    pub(crate) fn file(self, name: &str) -> Self {
        if name.starts_with('-') { self.arg(format!("./{name}")) } else { self.arg(name) }
    }

    /// Feeds the output to another program.
    pub(crate) fn pipe(mut self, words: &'static str) -> Self {
        self.argv.push(split(words));
        self
    }

    /// To be run in the network namespace that was watched.
    pub(crate) fn in_netns(mut self, evidence: &Evidence) -> Option<Command> {
        if let Some(netns) = evidence.host.netns.as_deref() {
            let is_pid = netns.bytes().all(|byte| byte.is_ascii_digit());
            let enter = if is_pid {
                CommandLine::new("nsenter -t").name(netns).args("-n")
            } else {
                // A name is a file of /run/netns.
                let mut enter = CommandLine::new("ip netns exec").name(netns);
                enter.safe &= !netns.contains('/');
                enter
            };
            self.safe &= enter.safe;
            let mut words: Vec<String> = enter.argv.into_iter().flatten().collect();
            if let Some(first) = self.argv.first_mut() {
                words.append(first);
                *first = words;
            }
        }
        self.finish(None)
    }

    /// To be run where netwhy ran.
    pub(crate) fn here(self) -> Option<Command> {
        self.finish(None)
    }

    /// To be run on another host.
    pub(crate) fn on(self, host: &str) -> Option<Command> {
        self.finish(Some(host.to_string()))
    }

    fn push(&mut self, word: String) {
        if let Some(last) = self.argv.last_mut() {
            last.push(word);
        }
    }

    fn finish(self, host: Option<String>) -> Option<Command> {
        let shown = |word: &String| {
            word.len() <= MAX_ARGUMENT_BYTES && matches!(sanitize::line(word), Cow::Borrowed(_))
        };
        let safe = self.safe && self.argv.iter().flatten().chain(&host).all(shown);
        safe.then_some(Command { argv: self.argv, host })
    }
}

/// The commands that could be made.
pub(crate) fn commands<const N: usize>(commands: [Option<Command>; N]) -> Vec<Command> {
    commands.into_iter().flatten().collect()
}

fn split(words: &'static str) -> Vec<String> {
    words.split_ascii_whitespace().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_netns(name: &str) -> Option<Vec<Vec<String>>> {
        let mut evidence = Evidence::default();
        evidence.host.netns = Some(name.to_string());
        CommandLine::new("ss -Htn").pipe("wc -l").in_netns(&evidence).map(|command| command.argv)
    }

    #[test]
    fn the_first_program_of_a_pipe_enters_the_namespace() {
        let argv = in_netns("web").unwrap();
        assert_eq!(argv[0].join(" "), "ip netns exec web ss -Htn");
        assert_eq!(argv[1].join(" "), "wc -l");
        assert_eq!(in_netns("812").unwrap()[0].join(" "), "nsenter -t 812 -n ss -Htn");
        for hostile in ["", "-all", "../../proc/1/ns/net", "a\nb", "\u{202e}"] {
            assert_eq!(in_netns(hostile), None, "{hostile:?}");
        }
    }

    #[test]
    fn words_of_the_evidence_stay_single_harmless_arguments() {
        let shell = CommandLine::new("tshark -r").file("$(x); rm -rf / `y`").here().unwrap();
        assert_eq!(shell.argv, [["tshark", "-r", "$(x); rm -rf / `y`"]]);
        let option = CommandLine::new("netwhy pcap").file("--help").here().unwrap();
        assert_eq!(option.argv, [["netwhy", "pcap", "./--help"]]);
        assert_eq!(CommandLine::new("ethtool -S").name("-h").here(), None);
        for unshown in ["a\nb", "a\u{1b}[2J", "a\tb", &"x".repeat(5_000)] {
            assert_eq!(CommandLine::new("tshark -r").file(unshown).here(), None);
            assert_eq!(CommandLine::new("ss -ltn").on(unshown), None);
        }
    }
}
