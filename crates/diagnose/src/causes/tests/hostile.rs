//! Whatever strings an evidence holds, findings made from it do no harm: each printed command is for a
//! shell exactly the argument list that it was made of, no word of the evidence is an option, no text
//! begins a line that netwhy did not write, and no line of configuration holds more than one setting.

use std::borrow::Cow;
use std::process::Command as Shell;
use std::sync::LazyLock;

use model::{Command, Evidence, Finding, RemedyChange};
use serde_json::Value;
use text::{sanitize, shell};

use super::super::TABLE;
use crate::cause::{Cause, Verdict};
use crate::words::MAX_TITLE_COLUMNS;

/// What strings of the evidence are replaced by, or end with. `EVIL` marks words that come from them,
/// `INJECTED` lines.
const HOSTILE: [&str; 9] = [
    "; rm -rf EVIL",
    "$(EVIL)",
    "`EVIL`",
    "x\nINJECTED",
    "x\r\nINJECTED\t\u{1b}[2J\u{9b}\u{202e}",
    "--help=EVIL",
    "-EVIL",
    "EVIL'\"\\ ~ * ? [a] {b} | & < > ! # %",
    "EVIL/../../x",
];

#[test]
fn commands_are_parsed_by_a_shell_into_their_arguments() {
    let mut commands: Vec<&Command> = Vec::new();
    for (_, _, finding) in HOSTILE_FINDINGS.iter() {
        for command in commands_of(finding) {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    assert!(commands.iter().any(|command| format!("{command:?}").contains("EVIL")));
    let programs: Vec<&Vec<String>> = commands.iter().flat_map(|command| &command.argv).collect();
    // All of them in one run of a shell: the words of each, and an empty word after them.
    let script: String = programs
        .iter()
        .map(|words| format!("printf '%s\\0' {}; printf '\\0'\n", shell::pipeline(&[&words[..]])))
        .collect();
    let output = Shell::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let parsed = String::from_utf8(output.stdout).unwrap();
    let mut parsed = parsed.split('\0');
    for words in programs {
        let found: Vec<&str> = parsed.by_ref().take(words.len()).collect();
        assert_eq!(&found, words);
        assert_eq!(parsed.next(), Some(""));
    }
    assert_eq!((parsed.next(), parsed.next()), (Some(""), None));
}

#[test]
fn words_of_the_evidence_are_no_options_and_act_on_no_terminal() {
    for (id, hostile, finding) in HOSTILE_FINDINGS.iter() {
        for command in commands_of(finding) {
            for words in &command.argv {
                // What follows an option that takes a value, or --, is taken as it is.
                let mut expects_value = false;
                for word in words {
                    let option = word.starts_with('-') && word.contains("EVIL");
                    assert!(!option || expects_value, "{id}: {hostile:?} in {words:?}");
                    expects_value |= ["-q", "--"].contains(&word.as_str());
                    let shown = matches!(sanitize::line(word), Cow::Borrowed(_));
                    assert!(shown, "{id}: {hostile:?} in {words:?}");
                }
                let first = words.first().map(String::as_str).unwrap_or_default();
                assert!(first.bytes().all(|b| b.is_ascii_lowercase()), "{id}: runs {first}");
            }
        }
    }
}

#[test]
fn texts_have_no_lines_of_the_evidence() {
    for (id, hostile, finding) in HOSTILE_FINDINGS.iter() {
        let remedies = finding.remedies.iter();
        let of_remedies = remedies.flat_map(|r| [Some(&r.text), r.note.as_ref()]).flatten();
        let texts = [&finding.title, &finding.subject.name, &finding.impact.text]
            .into_iter()
            .chain(finding.evidence.iter().map(|proof| &proof.text))
            .chain(finding.evidence.iter().map(|proof| &proof.label))
            .chain(finding.also_causes.iter().map(|effect| &effect.text))
            .chain(of_remedies);
        for text in texts {
            let injected = text.lines().any(|line| line.trim_start().starts_with("INJECTED"));
            assert!(!injected, "{id}: {hostile:?} in {text:?}");
            let shown = matches!(sanitize::lines(text), Cow::Borrowed(_));
            assert!(shown, "{id}: {hostile:?} in {text:?}");
        }
        assert!(text::columns(&finding.title) <= MAX_TITLE_COLUMNS, "{id}: {}", finding.title);
        assert!(!finding.title.contains('\n'), "{id}: {}", finding.title);
    }
}

#[test]
fn a_line_of_configuration_is_one_setting() {
    let mut lines = 0;
    for (id, hostile, finding) in HOSTILE_FINDINGS.iter() {
        for remedy in &finding.remedies {
            let RemedyChange::ConfigLine { line, .. } = &remedy.change else { continue };
            lines += 1;
            let statement = line.strip_suffix(';').unwrap_or(line);
            let odd = statement.chars().find(|c| c.is_control() || ";#{}$`'\"\\".contains(*c));
            assert_eq!(odd, None, "{id}: {hostile:?} in {line:?}");
        }
    }
    assert!(lines > 0, "no line of configuration was proposed");
}

/// All commands of a finding.
fn commands_of(finding: &Finding) -> impl Iterator<Item = &Command> {
    let remedies = finding.remedies.iter();
    let of_remedies = remedies.flat_map(|remedy| [&remedy.command, &remedy.undo]).flatten();
    finding.checks.iter().chain(of_remedies)
}

/// The examples, each as it is and with packets of an interface in another network namespace.
fn examples() -> impl Iterator<Item = (&'static Cause, Evidence)> {
    TABLE.iter().flat_map(|cause| {
        (cause.examples)().into_iter().flat_map(move |example| {
            let mut live = example.clone();
            live.host.netns = Some("web".to_string());
            if let Some(packets) = &mut live.packets {
                packets.sources = vec!["interface eth0".to_string()];
            }
            [(cause, example), (cause, live)]
        })
    })
}

fn findings(cause: &Cause, evidence: &Evidence) -> Vec<Finding> {
    match (cause.rule)(evidence) {
        Verdict::Found(findings) => findings,
        _ => Vec::new(),
    }
}

/// The findings on evidence of which one string is hostile: cause, that string, finding.
static HOSTILE_FINDINGS: LazyLock<Vec<(&str, String, Finding)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (cause, example) in examples() {
        let usual = findings(cause, &example);
        let plain = serde_json::to_value(&example).unwrap();
        let mut places = Vec::new();
        strings(&plain, &mut Vec::new(), &mut places);
        for place in places {
            // Where only some strings are allowed, others are rejected when the evidence is read.
            let with = |text: String| {
                let mut changed = plain.clone();
                *slot(&mut changed, &place) = Value::String(text);
                let evidence = serde_json::from_value::<Evidence>(changed).ok()?;
                Some(findings(cause, &evidence))
            };
            let value = string_at(&plain, &place);
            let matters = |text: String| with(text).is_some_and(|findings| findings != usual);
            if !matters("EVIL".to_string()) && !matters(format!("{value}EVIL")) {
                continue;
            }
            for hostile in HOSTILE {
                for text in [hostile.to_string(), format!("{value}{hostile}")] {
                    let findings = with(text.clone()).unwrap_or_default();
                    all.extend(findings.into_iter().map(|found| (cause.id, text.clone(), found)));
                }
            }
        }
    }
    all
});

/// Where strings are in a JSON value: keys and indices from the outside in.
fn strings(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::String(_) => found.push(path.clone()),
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                path.push(at.to_string());
                strings(value, path, found);
                path.pop();
            }
        }
        Value::Object(values) => {
            for (key, value) in values {
                path.push(key.clone());
                strings(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn string_at<'a>(value: &'a Value, path: &[String]) -> &'a str {
    let place = path.iter().fold(value, |value, key| match value {
        Value::Array(values) => &values[key.parse::<usize>().unwrap()],
        _ => &value[key],
    });
    place.as_str().unwrap()
}

fn slot<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, key| match value {
        Value::Array(values) => &mut values[key.parse::<usize>().unwrap()],
        _ => &mut value[key],
    })
}
