//! What scenarios expect, checked against the rules that netwhy has.

use lab::scenario::Method;
use lab::scenario::types::{Excuse, Expect, Observe};
use model::Source as Evidence;

use super::*;

/// The sources of an observer.
fn sources(observe: &Observe) -> Vec<Evidence> {
    let on_host = |source: &Evidence| source.observation() == model::Observation::Host;
    match observe.by {
        Method::Live => Evidence::ALL.iter().copied().filter(on_host).collect(),
        Method::LiveCapture => {
            Evidence::ALL.iter().copied().filter(on_host).chain([Evidence::Packets]).collect()
        }
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
    }
}

/// Whether an observer on the host that the expectation names has what the cause needs.
fn is_decidable(cause: &diagnose::Cause, expect: &Expect, observers: &[Observe]) -> bool {
    let on_host = |observe: &&Observe| {
        let host = expect.host.as_ref();
        host.is_none_or(|host| host.get_ref() == observe.host.get_ref())
    };
    observers.iter().filter(on_host).any(|observe| cause.is_decided_by(&sources(observe)))
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
