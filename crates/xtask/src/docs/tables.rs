//! Rows of documents that people write: the causes and commands of README.md, the observers of
//! ARCHITECTURE.md. The rest of these documents stays as it is.

use std::collections::BTreeSet;

use anyhow::Context as _;
use diagnose::{Cause, Slows};

use crate::tree::Tree;

pub(crate) const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const COMMANDS: &str = "crates/netwhy/src/commands/mod.rs";

/// The heads of the tables.
const HEAD_OF_COMMANDS: &str = "| command | does |";
const HEAD_OF_OBSERVERS: &str = "| observer | reads |";

/// A command of netwhy, as its line in the table of commands has it.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    name: String,
    about: String,
}

/// These documents with their rows as the source has them.
pub(super) fn documents(tree: &Tree) -> anyhow::Result<Vec<(String, String)>> {
    let read = |path| tree.text(path).with_context(|| format!("there is no {path}"));
    let readme = with_causes(read(README)?, diagnose::causes::TABLE)?;
    let readme = with_commands(&readme, &parse_commands(read(COMMANDS)?))?;
    let observers = observe::observers::OBSERVERS.iter();
    let observers = observers.map(|entry| format!("| `{}` | {} |", entry.name, entry.reads()));
    let architecture = with_rows(read(ARCHITECTURE)?, observers.collect())
        .with_context(|| format!("{ARCHITECTURE} has no table {HEAD_OF_OBSERVERS}"))?;
    Ok(vec![(README.to_string(), readme), (ARCHITECTURE.to_string(), architecture)])
}

/// README with a row for each complaint, which links the pages of its causes.
fn with_causes(readme: &str, causes: &[Cause]) -> anyhow::Result<String> {
    let mut lines: Vec<String> = readme.lines().map(str::to_string).collect();
    for slows in Slows::ALL {
        let head = format!("| {} |", slows.complaint());
        let row = lines.iter_mut().find(|line| line.starts_with(&head)).with_context(|| {
            format!("{README} has no row {head} … in its table of causes: write one, it is filled")
        })?;
        let causes = causes.iter().filter(|cause| cause.slows == slows);
        let links: Vec<String> =
            causes.map(|cause| format!("[{0}](docs/causes/{0}.md)", cause.id)).collect();
        *row = format!("{head} {} |", links.join(", "));
    }
    Ok(lines.join("\n") + "\n")
}

/// README with a row for each command; rows that are there already stay.
fn with_commands(readme: &str, commands: &[Command]) -> anyhow::Result<String> {
    let listed = listed_commands(readme);
    let missing = commands.iter().filter(|command| !listed.contains(&command.name));
    let missing: Vec<String> = missing
        .map(|one| format!("| `netwhy {}` | {} |", one.name, lower_case(&one.about)))
        .collect();
    if missing.is_empty() {
        return Ok(readme.to_string());
    }
    let lines: Vec<&str> = readme.lines().collect();
    let (start, end) = rows(&lines, HEAD_OF_COMMANDS)
        .with_context(|| format!("{README} has no table {HEAD_OF_COMMANDS}"))?;
    let (before, after) = lines.split_at(start.max(end));
    let missing = missing.iter().map(String::as_str);
    let lines: Vec<&str> =
        before.iter().copied().chain(missing).chain(after.iter().copied()).collect();
    Ok(lines.join("\n") + "\n")
}

/// A document with these rows in its table of observers; `None`: it has none.
fn with_rows(document: &str, new: Vec<String>) -> Option<String> {
    let lines: Vec<&str> = document.lines().collect();
    let (start, end) = rows(&lines, HEAD_OF_OBSERVERS)?;
    let before = lines.iter().take(start).copied();
    let after = lines.iter().skip(end).copied();
    let lines: Vec<&str> = before.chain(new.iter().map(String::as_str)).chain(after).collect();
    Some(lines.join("\n") + "\n")
}

/// Where the rows of the table with this head begin and end.
fn rows(lines: &[&str], head: &str) -> Option<(usize, usize)> {
    // The head, and the line below it.
    let start = lines.iter().position(|line| *line == head)? + 2;
    let rows = lines.iter().skip(start).take_while(|line| line.starts_with('|'));
    Some((start, start + rows.count()))
}

/// The commands, by name.
pub(crate) fn command_names(tree: &Tree) -> BTreeSet<String> {
    let commands = parse_commands(tree.text(COMMANDS).unwrap_or_default());
    commands.into_iter().map(|command| command.name).collect()
}

/// The table of commands: what each does, then `    Name => folder,`.
fn parse_commands(source: &str) -> Vec<Command> {
    let table = source.rsplit("commands! {").next().unwrap_or_default();
    let mut commands = Vec::new();
    let mut about: Vec<&str> = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            about.push(text.trim());
        } else if let Some((_, folder)) = line.split_once(" => ") {
            let name = folder.trim_end_matches(',').to_string();
            commands.push(Command { name, about: about.join(" ") });
            about.clear();
        }
    }
    commands
}

/// Rows of README's table of commands: ``| `netwhy NAME …` | … |``.
pub(crate) fn listed_commands(readme: &str) -> BTreeSet<String> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `netwhy "));
    let words = rows.filter_map(|row| row.split([' ', '`']).next());
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    words.filter(is_name).map(str::to_string).collect()
}

/// The same sentence inside a row.
fn lower_case(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_readme_are_filled_and_its_own_stay() {
        let readme = "# x\n\n| when | causes |\n|---|---|\n\
            | connections are refused, dropped or slow to open | old |\n\
            | requests are slow | |\n| transfers are slow | |\n\n\
            | command | does |\n|---|---|\n| `netwhy` | it |\n| `netwhy ping HOST` | own words |\n\nend\n";
        let filled = with_causes(readme, diagnose::causes::TABLE).unwrap();
        for cause in diagnose::causes::TABLE {
            assert!(
                filled.contains(&format!("[{0}](docs/causes/{0}.md)", cause.id)),
                "{}",
                cause.id
            );
        }
        assert!(!filled.contains("| old |"));
        assert!(with_causes("# x\n", diagnose::causes::TABLE).is_err());

        let source = "commands! {\n    /// Measure\n    Ping => ping,\n    /// Look up a\n    /// name\n    Lookup => lookup,\n}\n";
        let commands = parse_commands(source);
        let with = with_commands(readme, &commands).unwrap();
        assert!(
            with.contains("own words |\n| `netwhy lookup` | look up a name |\n\nend"),
            "{with}"
        );
        assert_eq!(with_commands(&with, &commands).unwrap(), with);
    }

    #[test]
    fn rows_of_observers_are_replaced() {
        let document = "a\n| observer | reads |\n|---|---|\n| `gone` | x |\n\nb\n";
        let new = with_rows(document, vec!["| `new` | y |".to_string()]).unwrap();
        assert_eq!(new, "a\n| observer | reads |\n|---|---|\n| `new` | y |\n\nb\n");
        assert_eq!(with_rows("a\n", Vec::new()), None);
    }
}
