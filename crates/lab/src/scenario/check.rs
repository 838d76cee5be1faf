//! What a scenario says, held against itself: names that are not there, figures that nothing
//! prints, expectations that contradict each other.

use std::collections::BTreeSet;

use super::Wrong;
use super::types::{By, Effects, Kind, Name, Process, Reads, Role, Scenario, Text};
use crate::names;
use crate::plan::Plan;

/// Longest that a workload may last: the lab is bounded.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(600);

type Checked = Result<(), Wrong>;

/// Everything that can be checked before a network is built.
pub(super) fn check(scenario: &Scenario) -> Checked {
    hosts(scenario)?;
    links(scenario)?;
    processes(scenario)?;
    workload(scenario)?;
    steps(scenario)?;
    texts(scenario)
}

fn hosts(scenario: &Scenario) -> Checked {
    for (name, host) in &scenario.hosts {
        if !plain(name) {
            let what = format!("the name {name} of a host needs letters, digits and - only");
            return Err(Wrong::anywhere(what));
        }
        if host.is == Role::Switch && !(host.sysctls.is_empty() && host.files.is_empty()) {
            return Err(Wrong::anywhere(format!("the switch {name} has no sysctls and no files")));
        }
    }
    Ok(())
}

/// Names become parts of paths and interface names.
fn plain(name: &str) -> bool {
    (1..=12).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn known(scenario: &Scenario, name: &Name) -> Checked {
    if scenario.hosts.contains_key(name.get_ref()) {
        return Ok(());
    }
    let all: Vec<&str> = scenario.hosts.keys().map(String::as_str).collect();
    let what = format!("there is no host {}; there are: {}", name.get_ref(), all.join(", "));
    Err(Wrong::at(name, what))
}

fn host(scenario: &Scenario, name: &Name) -> Checked {
    known(scenario, name)?;
    if scenario.hosts.get(name.get_ref()).is_some_and(|host| host.is == Role::Switch) {
        return Err(Wrong::at(name, format!("{} is a switch: nothing runs on it", name.get_ref())));
    }
    Ok(())
}

fn links(scenario: &Scenario) -> Checked {
    for link in &scenario.links {
        let [a, b] = &link.between;
        known(scenario, a)?;
        known(scenario, b)?;
        if a.get_ref() == b.get_ref() {
            return Err(Wrong::at(b, "a link joins two hosts, not one with itself"));
        }
        let all = [&link.both, &link.forth, &link.back].into_iter();
        let later = link.timeline.iter().flat_map(|c| [&c.both, &c.forth, &c.back]);
        for effects in all.chain(later) {
            sane(effects).map_err(|what| Wrong::at(a, what))?;
        }
        if !link.timeline.is_sorted_by_key(|change| change.at.0) {
            return Err(Wrong::at(a, "the timeline of this link is not in order of time"));
        }
    }
    Ok(())
}

fn sane(effects: &Effects) -> Result<(), &'static str> {
    if effects.loss.is_some() && effects.bursts.is_some() {
        return Err("a link has either loss or bursts, not both");
    }
    if effects.mtu.is_some_and(|mtu| mtu < 576) {
        return Err("an mtu below 576 is none that IPv4 can live with");
    }
    if effects.jitter.is_some() && effects.delay.is_none() {
        return Err("jitter needs a delay around which it is");
    }
    Ok(())
}

fn processes(scenario: &Scenario) -> Checked {
    let mut seen = BTreeSet::new();
    for process in &scenario.processes {
        host(scenario, &process.host)?;
        if !plain(process.name.get_ref()) {
            return Err(Wrong::at(&process.name, "a name needs letters, digits and - only"));
        }
        if !seen.insert(process.name.get_ref()) {
            return Err(Wrong::at(&process.name, "two processes have this name"));
        }
    }
    Ok(())
}

fn workload(scenario: &Scenario) -> Checked {
    let workload = &scenario.workload;
    host(scenario, &workload.host)?;
    if workload.lasts.0.is_zero() || workload.lasts.0 > LONGEST {
        return Err(Wrong::at(&workload.run, "a workload lasts from a moment to 10 minutes"));
    }
    match (workload.reads, &workload.pattern) {
        (Reads::Pattern, None) => {
            Err(Wrong::at(&workload.figure, "reads = \"pattern\" needs a pattern"))
        }
        (Reads::Pattern, Some(pattern)) => {
            let regex = regex::Regex::new(pattern.get_ref()).map_err(|error| {
                Wrong::at(pattern, format!("not a regular expression: {error}"))
            })?;
            let named = regex.capture_names().flatten().any(|n| n == workload.figure.get_ref());
            if named {
                return Ok(());
            }
            let what = format!("the pattern has no group named {}", workload.figure.get_ref());
            Err(Wrong::at(pattern, what))
        }
        (_, Some(pattern)) => {
            Err(Wrong::at(pattern, "a pattern is read only with reads = \"pattern\""))
        }
        (Reads::Lines, None) => Ok(()),
        (reads, None) => {
            let known = crate::figures::names(reads);
            if known.contains(&workload.figure.get_ref().as_str()) {
                return Ok(());
            }
            let what = format!(
                "no figure {} is read here; there are: {}",
                workload.figure.get_ref(),
                known.join(", ")
            );
            Err(Wrong::at(&workload.figure, what))
        }
    }
}

fn steps(scenario: &Scenario) -> Checked {
    if scenario.observe.is_empty() {
        return Err(Wrong::anywhere("nobody looks: observe = [...] is empty"));
    }
    let captured = |name: &Name| {
        let mut all = scenario.observe.iter();
        all.any(|one| one.by == By::Capture && one.host.get_ref() == name.get_ref())
    };
    for observe in &scenario.observe {
        host(scenario, &observe.host)?;
        match (observe.by, &observe.run) {
            (By::Probe, Some(_)) => {}
            (By::Probe, None) => {
                let what = "what is probed? run = \"ping --under-load ...\"";
                return Err(Wrong::at(&observe.host, what));
            }
            (_, Some(run)) => return Err(Wrong::at(run, "only a probe is run: by = \"probe\"")),
            (_, None) => {}
        }
        let ends = match (observe.by, &observe.server) {
            (By::Path, Some(server)) => vec![&observe.host, server],
            (By::Path, None) => {
                return Err(Wrong::at(&observe.host, "a path has two ends: server = \"HOST\""));
            }
            (_, Some(server)) => {
                return Err(Wrong::at(server, "only a path has another end: by = \"path\""));
            }
            (_, None) => Vec::new(),
        };
        for end in ends {
            host(scenario, end)?;
            if !captured(end) {
                let what = format!("{} is not captured: add by = \"capture\" there", end.get_ref());
                return Err(Wrong::at(end, &what));
            }
        }
    }
    let expected = scenario.steps.iter().any(|step| !step.expect.is_empty());
    match scenario.kind {
        Kind::Healthy if expected => {
            return Err(Wrong::anywhere("a healthy scenario expects no cause"));
        }
        Kind::Fault | Kind::Compound if !expected => {
            return Err(Wrong::anywhere("a fault without a cause that is expected"));
        }
        Kind::Compound if scenario.steps.iter().all(|step| step.expect.len() < 2) => {
            return Err(Wrong::anywhere("a compound of fewer than two causes in one step"));
        }
        _ => {}
    }
    for (number, step) in scenario.steps.iter().enumerate() {
        for expect in &step.expect {
            if let Some(on) = &expect.on {
                known(scenario, on)?;
                if !scenario.observe.iter().any(|o| o.host.get_ref() == on.get_ref()) {
                    return Err(Wrong::at(on, format!("nobody looks on {}", on.get_ref())));
                }
            }
            let cause = expect.cause.get_ref();
            if step.never.iter().any(|never| never.get_ref() == cause) {
                return Err(Wrong::at(&expect.cause, "expected, and never to be named"));
            }
        }
        if step.improves.is_some() && step.mend.is_empty() {
            return Err(Wrong::anywhere(format!("step {} improves without a mend", number + 1)));
        }
        if number + 1 < scenario.steps.len() && step.mend.is_empty() {
            let what = format!("step {} mends nothing, and is not the last", number + 1);
            return Err(Wrong::anywhere(what));
        }
        for mend in &step.mend {
            mend.on.iter().try_for_each(|on| host(scenario, on))?;
            for name in &mend.restart {
                if !scenario.processes.iter().any(|p: &Process| p.name.get_ref() == name.get_ref())
                {
                    let what = format!("there is no process {}", name.get_ref());
                    return Err(Wrong::at(name, what));
                }
            }
            if let (Some(run), None) = (&mend.run, &mend.on) {
                return Err(Wrong::at(run, "on which host is this run? on = \"...\""));
            }
        }
    }
    Ok(())
}

/// Every `${NAME}` must be something.
fn texts(scenario: &Scenario) -> Checked {
    let hosts = scenario.hosts.values();
    let host_texts =
        hosts.flat_map(|host| host.sysctls.values().chain(&host.setup).chain(host.files.values()));
    let process_texts = scenario.processes.iter().flat_map(|process| {
        let ready = &process.ready;
        std::iter::once(&process.run).chain(&ready.file).chain(&ready.command)
    });
    let step_texts = scenario.steps.iter().flat_map(|step| {
        let mends = step.mend.iter().flat_map(|m| m.run.iter().chain(&m.nf_conntrack_max));
        step.expect.iter().flat_map(|expect| &expect.subject).chain(mends)
    });
    let all = host_texts
        .chain(process_texts)
        .chain(step_texts)
        .chain(&scenario.machine.nf_conntrack_max)
        .chain(std::iter::once(&scenario.workload.run));
    let plan = Plan::of(scenario).map_err(|error| Wrong::anywhere(error.to_string()))?;
    all.into_iter().try_for_each(|text| one(scenario, &plan, text, false))?;
    let mut probes = scenario.observe.iter().flat_map(|observe| &observe.run);
    probes.try_for_each(|text| one(scenario, &plan, text, true))
}

/// `pids`: processes may be named; on hosts their numbers are others.
fn one(scenario: &Scenario, plan: &Plan, text: &Text, pids: bool) -> Checked {
    let pid = |host: &str| (pids && scenario.hosts.contains_key(host)).then_some(1);
    names::fill(text.get_ref(), &|name| names::lookup(plan, scenario, name, "/lab", &pid))
        .map(|_| ())
        .map_err(|name| {
            // The place within the text: what stands above it are whole lines.
            let at = text.get_ref().find(&format!("${{{name}}}")).unwrap_or_default();
            let lines = text.get_ref()[..at].matches('\n').count();
            let line =
                if lines > 0 { format!(" ({lines} lines into this text)") } else { "".into() };
            Wrong::at(
                text,
                format!(
                    "nothing is called ${{{name}}}{line}: there are parameters, seconds, php_fpm, \
                     HOST, HOST.6, HOST.PEER and HOST.dir, and HOST.pid for probes"
                ),
            )
        })
}
