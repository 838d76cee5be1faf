//! Checks of a scenario against itself, before anything is built: names that do not exist, figures
//! that no program prints, expectations that contradict each other.

use std::collections::BTreeSet;
use std::time::Duration;

use super::problem::Problem;
use super::types::{
    Expect, Fix, Impairments, Kind, Method, Name, Observe, OutputFormat, Role, Scenario, Step, Text,
};
use crate::names;
use crate::plan::Plan;

/// Maximum duration of a workload.
const MAX_WORKLOAD_DURATION: Duration = Duration::from_secs(600);
/// Smallest MTU of a link: IPv4 hosts must accept packets of this size (RFC 791).
const MIN_MTU: u16 = 576;
/// Maximum length of the name of a host or process.
const MAX_NAME_LENGTH: usize = 12;

type Checked = Result<(), Problem>;

/// Everything that can be checked before a network is built.
pub(super) fn check(scenario: &Scenario) -> Checked {
    hosts(scenario)?;
    links(scenario)?;
    processes(scenario)?;
    workload(scenario)?;
    scenario.observe.iter().try_for_each(|observe| observer(scenario, observe))?;
    steps(scenario)?;
    texts(scenario)
}

fn hosts(scenario: &Scenario) -> Checked {
    for (name, host) in &scenario.hosts {
        if !is_valid_name(name) {
            let what = format!("the name of the host {name} may have a-z, 0-9 and - only");
            return Err(Problem::anywhere(what));
        }
        if host.role == Role::Switch && !(host.sysctls.is_empty() && host.files.is_empty()) {
            let what = format!("{name} is a switch: it cannot have sysctls or files");
            return Err(Problem::anywhere(what));
        }
    }
    Ok(())
}

/// Names become parts of paths and interface names.
fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn host_exists(scenario: &Scenario, name: &Name) -> Checked {
    if scenario.hosts.contains_key(name.get_ref()) {
        return Ok(());
    }
    let all: Vec<&str> = scenario.hosts.keys().map(String::as_str).collect();
    let what = format!("there is no host {}; there are: {}", name.get_ref(), all.join(", "));
    Err(Problem::at(name, what))
}

/// The host exists and can run programs.
fn host_runs_programs(scenario: &Scenario, name: &Name) -> Checked {
    host_exists(scenario, name)?;
    if scenario.hosts.get(name.get_ref()).is_some_and(|host| host.role == Role::Switch) {
        let what = format!("{} is a switch: it cannot run programs", name.get_ref());
        return Err(Problem::at(name, what));
    }
    Ok(())
}

fn links(scenario: &Scenario) -> Checked {
    for link in &scenario.links {
        let [a, b] = &link.between;
        host_exists(scenario, a)?;
        host_exists(scenario, b)?;
        if a.get_ref() == b.get_ref() {
            return Err(Problem::at(b, "a link joins two different hosts"));
        }
        let first = [&link.both, &link.forward, &link.reverse].into_iter();
        let later = link.timeline.iter().flat_map(|c| [&c.both, &c.forward, &c.reverse]);
        for one in first.chain(later) {
            impairments(one).map_err(|what| Problem::at(a, what))?;
        }
        if !link.timeline.is_sorted_by_key(|change| change.at.0) {
            return Err(Problem::at(a, "the timeline of this link is not in order of time"));
        }
    }
    Ok(())
}

fn impairments(one: &Impairments) -> Result<(), String> {
    if one.loss.is_some() && one.burst_loss.is_some() {
        return Err("a link has either loss or burst_loss, not both".to_string());
    }
    if one.mtu.is_some_and(|mtu| mtu < MIN_MTU) {
        return Err(format!("an mtu is at least {MIN_MTU}"));
    }
    if one.jitter.is_some() && one.delay.is_none() {
        return Err("jitter needs a delay in the same table".to_string());
    }
    Ok(())
}

fn processes(scenario: &Scenario) -> Checked {
    let mut names = BTreeSet::new();
    for process in &scenario.processes {
        host_runs_programs(scenario, &process.host)?;
        if !is_valid_name(process.name.get_ref()) {
            return Err(Problem::at(&process.name, "a name may have a-z, 0-9 and - only"));
        }
        if !names.insert(process.name.get_ref()) {
            return Err(Problem::at(&process.name, "two processes have this name"));
        }
    }
    Ok(())
}

fn workload(scenario: &Scenario) -> Checked {
    let workload = &scenario.workload;
    host_runs_programs(scenario, &workload.host)?;
    if workload.duration.0.is_zero() || workload.duration.0 > MAX_WORKLOAD_DURATION {
        let what = "the duration of a workload is above zero and at most 10 minutes";
        return Err(Problem::at(&workload.run, what));
    }
    let figure = &workload.figure;
    match (workload.output, &workload.pattern) {
        (OutputFormat::Pattern, None) => {
            Err(Problem::at(figure, "output = \"pattern\" needs a pattern"))
        }
        (OutputFormat::Pattern, Some(pattern)) => {
            let regex = regex::Regex::new(pattern.get_ref()).map_err(|error| {
                Problem::at(pattern, format!("not a regular expression: {error}"))
            })?;
            if regex.capture_names().flatten().any(|name| name == figure.get_ref()) {
                return Ok(());
            }
            let what = format!("the pattern has no group named {}", figure.get_ref());
            Err(Problem::at(pattern, what))
        }
        (_, Some(pattern)) => Err(Problem::at(pattern, "a pattern needs output = \"pattern\"")),
        (OutputFormat::Lines, None) => Ok(()),
        (output, None) => {
            let known = crate::figures::names(output);
            if known.contains(&figure.get_ref().as_str()) {
                return Ok(());
            }
            let what = format!(
                "this output has no figure {}; it has: {}",
                figure.get_ref(),
                known.join(", ")
            );
            Err(Problem::at(figure, what))
        }
    }
}

fn observer(scenario: &Scenario, observe: &Observe) -> Checked {
    host_runs_programs(scenario, &observe.host)?;
    match (observe.by, &observe.run) {
        (Method::Probe, Some(_)) => {}
        (Method::Probe, None) => {
            let what = "a probe needs its arguments: run = \"ping --under-load ...\"";
            return Err(Problem::at(&observe.host, what));
        }
        (_, Some(run)) => return Err(Problem::at(run, "run is only for by = \"probe\"")),
        (_, None) => {}
    }
    let ends = match (observe.by, &observe.server) {
        (Method::Path, Some(server)) => vec![&observe.host, server],
        (Method::Path, None) => {
            return Err(Problem::at(&observe.host, "a path has two ends: server = \"HOST\""));
        }
        (_, Some(server)) => {
            return Err(Problem::at(server, "server is only for by = \"path\""));
        }
        (_, None) => Vec::new(),
    };
    for end in ends {
        host_runs_programs(scenario, end)?;
        let mut all = scenario.observe.iter();
        if !all.any(|one| one.by == Method::Capture && one.host.get_ref() == end.get_ref()) {
            let end_name = end.get_ref();
            let what = format!("{end_name} is not captured: add by = \"capture\" on {end_name}");
            return Err(Problem::at(end, what));
        }
    }
    Ok(())
}

fn steps(scenario: &Scenario) -> Checked {
    if scenario.observe.is_empty() {
        return Err(Problem::anywhere("no observer: observe = [...] is empty"));
    }
    let expects = scenario.steps.iter().any(|step| !step.expect.is_empty());
    match scenario.kind {
        Kind::Healthy if expects => {
            return Err(Problem::anywhere("a healthy scenario must not expect a cause"));
        }
        Kind::Fault | Kind::Compound if !expects => {
            return Err(Problem::anywhere("a fault must expect a cause"));
        }
        Kind::Compound if scenario.steps.iter().all(|step| step.expect.len() < 2) => {
            return Err(Problem::anywhere("a compound must expect two causes in one step"));
        }
        _ => {}
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        let number = index + 1;
        step.expect.iter().try_for_each(|expect| expectation(scenario, step, expect))?;
        if step.min_improvement.is_some() && step.fix.is_empty() {
            let what = format!("step {number} has min_improvement but no fix");
            return Err(Problem::anywhere(what));
        }
        if number < scenario.steps.len() && step.fix.is_empty() {
            let what = format!("step {number} needs a fix: another step follows");
            return Err(Problem::anywhere(what));
        }
        step.fix.iter().try_for_each(|one| fix(scenario, one))?;
    }
    Ok(())
}

fn expectation(scenario: &Scenario, step: &Step, expect: &Expect) -> Checked {
    if let Some(host) = &expect.host {
        host_exists(scenario, host)?;
        if !scenario.observe.iter().any(|observe| observe.host.get_ref() == host.get_ref()) {
            let what = format!("there is no observer on {}", host.get_ref());
            return Err(Problem::at(host, what));
        }
    }
    let cause = expect.cause.get_ref();
    if step.never.iter().any(|never| never.get_ref() == cause) {
        return Err(Problem::at(&expect.cause, "this cause is in expect and in never"));
    }
    if expect.no_rule.is_some() && expect.undecidable.is_some() {
        let what = "a cause has either no_rule or undecidable, not both";
        return Err(Problem::at(&expect.cause, what));
    }
    Ok(())
}

fn fix(scenario: &Scenario, fix: &Fix) -> Checked {
    fix.host.iter().try_for_each(|host| host_runs_programs(scenario, host))?;
    for name in &fix.restart {
        if !scenario.processes.iter().any(|process| process.name.get_ref() == name.get_ref()) {
            let what = format!("there is no process {}", name.get_ref());
            return Err(Problem::at(name, what));
        }
    }
    match (&fix.run, &fix.host) {
        (Some(run), None) => Err(Problem::at(run, "run needs a host: host = \"...\"")),
        _ => Ok(()),
    }
}

/// Every `${NAME}` stands for something.
fn texts(scenario: &Scenario) -> Checked {
    let hosts = scenario.hosts.values();
    let host_texts =
        hosts.flat_map(|host| host.sysctls.values().chain(&host.setup).chain(host.files.values()));
    let process_texts = scenario.processes.iter().flat_map(|process| {
        let ready = &process.ready;
        std::iter::once(&process.run).chain(&ready.file).chain(&ready.command)
    });
    let step_texts = scenario.steps.iter().flat_map(|step| {
        let fixes = step.fix.iter().flat_map(|fix| fix.run.iter().chain(&fix.nf_conntrack_max));
        step.expect.iter().flat_map(|expect| &expect.subject).chain(fixes)
    });
    let mut all = host_texts
        .chain(process_texts)
        .chain(step_texts)
        .chain(&scenario.machine.nf_conntrack_max)
        .chain(std::iter::once(&scenario.workload.run));
    let plan = Plan::of(scenario).map_err(|error| Problem::anywhere(error.to_string()))?;
    all.try_for_each(|text| names_in(scenario, &plan, text, Pids::Unknown))?;
    let mut probes = scenario.observe.iter().flat_map(|observe| &observe.run);
    probes.try_for_each(|text| names_in(scenario, &plan, text, Pids::Known))
}

/// Whether `${HOST.pid}` may be used: a host numbers its processes differently from the machine.
#[derive(Clone, Copy, PartialEq)]
enum Pids {
    Known,
    Unknown,
}

fn names_in(scenario: &Scenario, plan: &Plan, text: &Text, pids: Pids) -> Checked {
    let pid = |host: &str| (pids == Pids::Known && scenario.hosts.contains_key(host)).then_some(1);
    let lookup = |name: &str| names::lookup(plan, scenario, name, "/lab", &pid);
    names::substitute(text.get_ref(), &lookup).map(|_| ()).map_err(|name| {
        // The error points to the first line of a text of several lines.
        let before = text.get_ref().split(&format!("${{{name}}}")).next().unwrap_or_default();
        let lines = before.matches('\n').count();
        let line = if lines > 0 { format!(" ({lines} lines below)") } else { String::new() };
        let what = format!(
            "unknown name ${{{name}}}{line}: there are parameters, seconds, php_fpm, HOST, HOST.6, \
             HOST.PEER and HOST.dir, and HOST.pid for probes"
        );
        Problem::at(text, what)
    })
}
