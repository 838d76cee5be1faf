//! Names on captures that nobody made for netwhy: each was judged by hand from the packets. The verdicts
//! are in `audit/labels.tsv`; a name that is not there, or no longer given, fails the test: a
//! change of a rule includes verdicts on what it changes. The captures are not part of the project;
//! without them the test is skipped.
//!
//! A line of the labels: the file; the cause; the server (`subject.local` of the finding, or `-`); the end
//! whose data was lost or held, or `-`; the severity before the rules were corrected by these
//! captures, and now (`none`: no such finding); the verdict; its reason. Verdicts:
//!
//! - `true`: it is so, and somebody waited or failed for it
//! - `trivial`: it is so, and cost next to nothing
//! - `wrong`: it is not so, or the packets cannot show it
//! - `missed`: it is so, somebody waited, and it was not named before

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use test_support::captures;

const FOLDERS: [&str; 2] = ["wild", "robustness"];
/// Captures are read by so many threads.
const THREADS: usize = 2;
/// Share of the names at `warning` and above that must be true.
const MIN_TRUE: f64 = 0.95;

#[derive(Debug, Clone)]
struct Label {
    file: String,
    cause: String,
    server: String,
    sender: String,
    before: String,
    now: String,
    verdict: String,
}

impl Label {
    fn parse(line: &str) -> Label {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, cause, server, sender, before, now, verdict, reason] = fields[..] else {
            panic!("not eight fields: {line}");
        };
        assert!(["true", "trivial", "wrong", "missed"].contains(&verdict), "{line}");
        for severity in [before, now] {
            let known = ["critical", "warning", "info", "none"];
            assert!(known.contains(&severity), "{line}");
        }
        assert!(!reason.is_empty(), "no reason: {line}");
        let [file, cause, server, sender, before, now, verdict] =
            [file, cause, server, sender, before, now, verdict].map(str::to_string);
        Label { file, cause, server, sender, before, now, verdict }
    }

    fn is_named_now(&self) -> bool {
        self.now != "none"
    }

    fn is_about(&self, name: &Name) -> bool {
        self.cause == name.cause
            && self.server == name.server
            && (self.sender == "-" || name.text.contains(&self.sender))
    }
}

/// What netwhy says of a capture.
#[derive(Debug)]
struct Name {
    cause: String,
    server: String,
    severity: String,
    /// Subject and impact: the sending end is among their words.
    text: String,
}

fn names(file: &Path) -> Vec<Name> {
    let output = Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(["pcap", "--json"])
        .arg(file)
        .output()
        .expect("netwhy");
    // Files that hold no capture, or a part of one, are among them.
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let findings = report["findings"].as_array().into_iter().flatten();
    findings
        .map(|finding| Name {
            cause: text(&finding["cause"]),
            server: text(&finding["subject"]["local"]),
            severity: text(&finding["severity"]),
            text: format!("{} {}", finding["subject"]["name"], finding["impact"]["text"]),
        })
        .collect()
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

/// What differs between the labels of one file and the names that it gets.
fn differences(file: &str, labels: &[Label], names: &[Name]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut found = vec![false; labels.len()];
    for name in names {
        let about = || labels.iter().enumerate().filter(|(_, label)| label.is_about(name));
        // One finding for each direction: take the label that is not taken yet.
        let label = about()
            .find(|(place, label)| label.is_named_now() && !found[*place])
            .or_else(|| about().find(|(_, label)| !label.is_named_now()));
        let Name { cause, severity, server, text } = name;
        match label {
            None => wrong.push(format!("{file}: not judged: {cause} {severity} {server}: {text}")),
            Some((_, Label { now, verdict, .. })) if now == "none" => {
                wrong.push(format!("{file}: named again ({verdict}): {cause} {server}: {text}"));
            }
            Some((place, Label { now, .. })) => {
                found[place] = true;
                if now != severity {
                    wrong.push(format!("{file}: {severity}, not {now}: {cause} {server}: {text}"));
                }
            }
        }
    }
    for (label, _) in
        labels.iter().zip(&found).filter(|(one, found)| one.is_named_now() && !**found)
    {
        let Label { cause, server, sender, now, .. } = label;
        wrong.push(format!("{file}: no longer named: {cause} {now} {server} {sender}"));
    }
    wrong
}

fn count<'a>(labels: impl Iterator<Item = &'a Label>) -> BTreeMap<&'a str, usize> {
    labels.fold(BTreeMap::new(), |mut counts, label| {
        *counts.entry(label.verdict.as_str()).or_default() += 1;
        counts
    })
}

#[test]
fn names_on_captures_of_others_are_those_that_were_judged() {
    let folders: Vec<PathBuf> = FOLDERS.into_iter().filter_map(captures).collect();
    if folders.len() < FOLDERS.len() {
        return;
    }
    let labels: Vec<Label> =
        include_str!("audit/labels.tsv").lines().skip(1).map(Label::parse).collect();
    let mut by_file: BTreeMap<&str, Vec<Label>> = BTreeMap::new();
    for label in &labels {
        by_file.entry(&label.file).or_default().push(label.clone());
    }
    let mut all = Vec::new();
    folders.iter().for_each(|folder| files(folder, &mut all));
    let root = folders[0].parent().expect("a folder");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(path) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let file = path.strip_prefix(root).expect("below it").to_string_lossy();
                    let of_file = by_file.get(&*file).map_or(&[][..], Vec::as_slice);
                    let differences = differences(&file, of_file, &names(path));
                    wrong.lock().expect("the list").extend(differences);
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().expect("the list");
    wrong.sort();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    println!("{} captures", all.len());
    println!("before: {:?}", count(labels.iter().filter(|label| label.before != "none")));
    println!("now: {:?}", count(labels.iter().filter(|label| label.is_named_now())));
    let missing = labels.iter().filter(|label| label.verdict == "missed" && !label.is_named_now());
    println!("known to be missed: {}", missing.count());
}

#[test]
fn what_is_named_now_is_true_or_trivial() {
    let labels: Vec<Label> =
        include_str!("audit/labels.tsv").lines().skip(1).map(Label::parse).collect();
    let (mut severe, mut severe_and_true) = (0, 0);
    for label in labels.iter().filter(|label| label.is_named_now()) {
        assert_ne!(label.verdict, "wrong", "{label:?}");
        assert!(label.verdict != "trivial" || label.now == "info", "{label:?}");
        if label.now != "info" {
            severe += 1;
            severe_and_true += u32::from(["true", "missed"].contains(&label.verdict.as_str()));
        }
    }
    assert!(f64::from(severe_and_true) >= MIN_TRUE * f64::from(severe));
}
