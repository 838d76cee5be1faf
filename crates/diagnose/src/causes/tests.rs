//! The table of causes tests itself: names, pages, needs, scenarios; and that no string of an evidence
//! makes a finding harmful to its reader.

mod hostile;
mod verdicts;

use std::collections::BTreeSet;
use std::path::Path;

use model::{Evidence, ExpectedGain, Observation};

use super::TABLE;
use crate::cause::{Cause, Verdict};
use crate::fixtures::{healthy, remove_source};
use crate::page;

/// The sections of a page, in this order.
const SECTIONS: [&str; 8] = [
    "## What happens",
    "## Evidence",
    "## Threshold",
    "## Looks like it, but is not",
    "## Check by hand",
    "## Fix",
    "## Expected gain",
    "## References",
];

#[test]
fn every_page_has_its_sections() {
    for cause in TABLE {
        let page = page(cause.id).unwrap();
        assert!(page.starts_with(&format!("# {}\n", cause.id)), "{}: its title", cause.id);
        let mut rest = page.as_str();
        for section in SECTIONS {
            let at = rest.find(&format!("\n{section}\n"));
            let at = at.unwrap_or_else(|| panic!("{}: no {section}, or not here", cause.id));
            rest = &rest[at + 1..];
            let body = rest[section.len()..].split("\n## ").next().unwrap_or_default();
            assert!(body.trim().len() > 40, "{}: {section} says too little", cause.id);
            if section == "## Check by hand" {
                assert!(body.contains("```"), "{}: no command to paste", cause.id);
            }
        }
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{}: wider than 80: {line}", cause.id);
        }
    }
}

#[test]
fn names_are_unique_and_those_of_the_files() {
    for (index, cause) in TABLE.iter().enumerate() {
        let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(cause.id.chars().all(kebab), "{}", cause.id);
        assert!(TABLE[..index].iter().all(|other| other.id != cause.id), "{} twice", cause.id);
        let file =
            format!("{}/src/causes/{}.rs", env!("CARGO_MANIFEST_DIR"), cause.id.replace('-', "_"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), cause.source, "{}", cause.id);
        assert!(cause.title.chars().count() <= 60, "{}: title too long", cause.id);
    }
}

#[test]
fn needs_are_sets_of_sources_none_within_another() {
    for cause in TABLE {
        assert!(!cause.needs.is_empty(), "{} needs nothing", cause.id);
        let sets: Vec<BTreeSet<_>> =
            cause.needs.iter().map(|set| set.iter().copied().collect()).collect();
        for (at, set) in sets.iter().enumerate() {
            assert!(!set.is_empty(), "{}: an empty set", cause.id);
            assert_eq!(set.len(), cause.needs[at].len(), "{}: a source twice", cause.id);
            let others = sets.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others {
                assert!(!set.is_subset(other), "{}: {set:?} in {other:?}", cause.id);
            }
        }
    }
}

#[test]
fn every_cause_has_its_three_tests() {
    for cause in TABLE {
        for test in ["fn fires", "fn stays_quiet", "fn undecided"] {
            assert!(cause.source.contains(test), "{}: no test {test}…", cause.id);
        }
    }
}

#[test]
fn every_cause_is_found_on_its_examples() {
    for cause in TABLE {
        let examples = (cause.examples)();
        assert!(!examples.is_empty(), "{} has no examples", cause.id);
        for example in examples {
            let Verdict::Found(findings) = cause.judge(&example) else {
                panic!("{} is not found on its example", cause.id);
            };
            assert!(findings.iter().all(|finding| finding.cause == cause.id), "{}", cause.id);
        }
    }
}

#[test]
fn every_finding_has_an_expected_gain() {
    for cause in TABLE {
        for example in (cause.examples)() {
            let Verdict::Found(findings) = cause.judge(&example) else { continue };
            for finding in findings {
                let ExpectedGain::NotPredictable { why } = &finding.gain else { continue };
                assert_ne!(finding.gain, ExpectedGain::default(), "{}", cause.id);
                assert!(why.len() > 10 && !why.ends_with('.'), "{}: {why}", cause.id);
                let page = page(cause.id).unwrap();
                assert!(page.contains("ot predictable"), "{}: the page has no such case", cause.id);
            }
        }
    }
}

/// A scenario makes the fault in a network of its own; `netwhy lab` runs it.
#[test]
fn every_cause_has_a_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/scenarios");
    let texts: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for cause in TABLE {
        let expected = format!("cause = \"{}\"", cause.id);
        let named = texts.iter().any(|text| text.contains(&expected));
        assert!(named, "{}: no scenario expects it", cause.id);
    }
}

/// Whether watching a host, with or without a capture, decides the cause.
fn is_of_one_place(cause: &&Cause) -> bool {
    let of_one_place = |source: &model::Source| {
        matches!(source.observation(), Observation::Host | Observation::Packets)
    };
    cause.needs.iter().any(|set| set.iter().all(of_one_place))
}

#[test]
fn empty_evidence_decides_nothing_and_does_not_panic() {
    let report = crate::diagnose(&Evidence::default());
    assert_eq!(report.findings, []);
    assert_eq!(report.undecided.len(), TABLE.iter().filter(is_of_one_place).count());
    assert!(report.undecided.iter().all(|one| !one.sources.is_empty()));
}

#[test]
fn without_what_it_needs_a_cause_is_not_ruled_out() {
    for cause in TABLE {
        // Of each set one source is missing, the first or the last.
        for last in [false, true] {
            let mut evidence = healthy();
            let mut missing = BTreeSet::new();
            for set in cause.needs {
                let source = if last { set.last() } else { set.first() };
                let source = *source.unwrap();
                remove_source(&mut evidence, source);
                missing.insert(source);
            }
            let verdict = cause.judge(&evidence);
            let Verdict::Undecided { needs, sources, how_to_observe } = verdict else {
                panic!("{}: {verdict:?} without {missing:?}", cause.id);
            };
            assert!(!needs.is_empty() && how_to_observe.is_some(), "{}", cause.id);
            assert!(sources.iter().all(|one| missing.contains(one)), "{}", cause.id);
            assert!(!sources.is_empty(), "{}", cause.id);
        }
    }
}
