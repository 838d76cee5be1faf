//! What scenarios expect, checked against the rules that netwhy has.

use std::collections::BTreeSet;

use lab::scenario::Method;
use lab::scenario::types::{Excuse, Expect, Observe};
use model::Source as Evidence;

use super::*;

/// Sources that watching a host alone does not have.
const NOT_LIVE: &[Evidence] =
    &[Evidence::Packets, Evidence::Path, Evidence::UnderLoad, Evidence::Transfer];

/// The sets of sources any of which decides a cause.
fn deciding_sets(cause: &diagnose::Cause) -> Vec<Vec<Evidence>> {
    let mut sets = vec![cause.needs.to_vec()];
    if cause.or_packets {
        sets.push(vec![Evidence::Packets]);
    }
    sets
}

/// The sources of an observer.
fn sources(observe: &Observe) -> BTreeSet<&'static str> {
    let live = || Evidence::ALL.iter().copied().filter(|source| !NOT_LIVE.contains(source));
    let all: Vec<Evidence> = match observe.by {
        Method::Live => live().collect(),
        Method::Capture => vec![Evidence::Packets],
        Method::Path => vec![Evidence::Packets, Evidence::Path],
        Method::Probe => {
            let run = observe.run.as_ref().map_or("", |run| run.get_ref().as_str());
            match run.split_whitespace().next() {
                Some("ping") if run.contains("--under-load") => vec![Evidence::UnderLoad],
                Some("transfer") => vec![Evidence::Transfer],
                _ => vec![],
            }
        }
    };
    all.into_iter().map(Evidence::name).collect()
}

/// Whether an observer on the host that the expectation names has what the cause needs.
fn is_decidable(cause: &diagnose::Cause, expect: &Expect, observers: &[Observe]) -> bool {
    let on_host = |observe: &&Observe| {
        let host = expect.host.as_ref();
        host.is_none_or(|host| host.get_ref() == observe.host.get_ref())
    };
    observers.iter().filter(on_host).map(sources).any(|sources| {
        let mut sets = deciding_sets(cause).into_iter();
        sets.any(|set| set.iter().all(|source| sources.contains(source.name())))
    })
}

/// A cause has `no_rule` exactly when there is none, and `undecidable` exactly when there is one
/// whose sources the scenario does not observe.
#[test]
fn excuses_match_the_rules() {
    for name in Source::names() {
        let scenario = find(&name).unwrap().scenario(None).unwrap().0;
        for expect in scenario.steps.iter().flat_map(|step| &step.expect) {
            let cause = expect.cause.get_ref();
            let rule = diagnose::cause(cause);
            let decidable = rule.is_some_and(|rule| is_decidable(rule, expect, &scenario.observe));
            let wanted = match (rule, decidable) {
                (None, _) => "there is no rule: it needs no_rule",
                (Some(_), false) => {
                    "there is a rule, but its sources are not observed: it needs undecidable"
                }
                (Some(_), true) => {
                    "there is a rule and its sources are observed: remove no_rule or undecidable"
                }
            };
            let matches = match expect.excuse() {
                Some(Excuse::NoRule(_)) => rule.is_none(),
                Some(Excuse::Undecidable(_)) => rule.is_some() && !decidable,
                None => decidable,
            };
            assert!(matches, "{name}: {cause}: {wanted}");
        }
    }
}

/// Every cause that can be named has a scenario that expects it.
#[test]
fn every_cause_has_a_scenario() {
    let mut expected = Vec::new();
    for name in Source::names() {
        let scenario = find(&name).unwrap().scenario(None).unwrap().0;
        let expects = scenario.steps.iter().flat_map(|step| &step.expect);
        expected.extend(expects.map(|expect| expect.cause.get_ref().clone()));
    }
    for cause in diagnose::causes::TABLE {
        assert!(expected.iter().any(|e| e == cause.id), "{} has no scenario", cause.id);
    }
}
