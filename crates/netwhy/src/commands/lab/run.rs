//! `netwhy lab`: scenarios run, shown and scored. What a lab is and does is in the crate `lab`;

use super::show;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::folder;
use lab::run::{Options, Outcome, Standing};
use lab::scenario::Source;
use lab::score::Score;
use lab::watcher::{Said, Watcher};

use super::options::{
    LabCommand, LabListOptions, LabOptions, LabRunOptions, LabScoreOptions, LabShellOptions,
};
use crate::failure::Failure;
use crate::output;
use sys::Stop;

/// `netwhy lab ...`
pub(crate) fn run(options: &LabOptions) -> anyhow::Result<u8> {
    match &options.command {
        LabCommand::List(options) => list(options),
        LabCommand::Run(options) => scenarios(options),
        LabCommand::Score(options) => score(options),
        LabCommand::Shell(options) => shell(options),
        LabCommand::Init => {
            lab::init()?;
            Ok(0)
        }
    }
}

/// `netwhy lab list`
fn list(options: &LabListOptions) -> anyhow::Result<u8> {
    let mut all = Vec::new();
    for name in Source::names() {
        all.push((name.clone(), find(&name)?.scenario(None).map_err(usage)?.0));
    }
    let text = if options.json { show::list_json(&all)? } else { show::list(&all) };
    output::print(&text, None, false)?;
    Ok(0)
}

/// `netwhy lab run NAME|FILE...`
fn scenarios(options: &LabRunOptions) -> anyhow::Result<u8> {
    let sources = sources(&options.scenarios)?;
    let lab = Lab::new(options.keep)?;
    let mut outcomes = Vec::new();
    for source in &sources {
        let more = More { mend: !options.no_mend, captures: options.captures.as_deref() };
        let outcome = lab.run(source, options.seed, more);
        if !options.json {
            output::print(&show::outcome(&outcome), None, false)?;
        }
        outcomes.push(outcome);
        if lab.stop.is_set() {
            break;
        }
    }
    if options.json {
        let text = serde_json::to_string_pretty(&outcomes)?;
        output::print(&format!("{text}\n"), None, false)?;
    }
    Ok(code(&outcomes))
}

/// `netwhy lab score`
fn score(options: &LabScoreOptions) -> anyhow::Result<u8> {
    let names =
        if options.scenarios.is_empty() { Source::names() } else { options.scenarios.clone() };
    let sources = sources(&names)?;
    let lab = Lab::new(false)?;
    let rounds = options.vary.unwrap_or(1);
    let seed = |round| options.vary.map(|_| options.seed.wrapping_add(round));
    let runs =
        (0..rounds).flat_map(|round| sources.iter().map(move |source| (source, seed(round))));
    let total = rounds as usize * sources.len();
    let mut outcomes = Vec::new();
    for (number, (source, seed)) in runs.enumerate() {
        lab.heading(&format!("{}/{total} ", number + 1));
        let outcome = lab.run(source, seed, More { mend: !options.no_mend, captures: None });
        // Each is shown as it comes: a score takes an hour.
        if !options.json {
            output::print(&show::line(&outcome), None, false)?;
        }
        outcomes.push(outcome);
        // After each round: who stops it has the score so far.
        if (number + 1).is_multiple_of(sources.len())
            && let Some(path) = &options.markdown
        {
            let text = show::score_page(&Score::of(&outcomes), &outcomes);
            let failed = || format!("cannot write the score to {}", path.display());
            std::fs::write(path, text).with_context(failed)?;
        }
        if lab.stop.is_set() {
            break;
        }
    }
    let score = Score::of(&outcomes);
    let text = if options.json {
        let all = serde_json::json!({ "score": score, "outcomes": outcomes });
        format!("{}\n", serde_json::to_string_pretty(&all)?)
    } else {
        show::score(&score)
    };
    output::print(&text, None, false)?;
    Ok(code(&outcomes))
}

/// `netwhy lab shell NAME [HOST] [-- COMMAND]`
fn shell(options: &LabShellOptions) -> anyhow::Result<u8> {
    // A lab that runs is known by its name, also when its scenario is a file somewhere.
    let known = |card: &folder::Card| card.scenario == options.scenario;
    if let Some(card) = folder::running().into_iter().rev().find(known) {
        return enter(&card.hosts, options);
    }
    let source = find(&options.scenario)?;
    host(&source.scenario(None).map_err(usage)?.0.hosts, options.host.as_deref())?;
    let lab = Lab::new(false)?;
    let mut code = Ok(0);
    let mut visit = |standing: &Standing<'_>| {
        lab.bar.finish_and_clear();
        eprintln!("{} stands; it is taken down when this shell ends", standing.scenario);
        code = enter(&standing.hosts, options);
    };
    lab.with_options(&source.name, More::default(), |lab| {
        lab::run::stand(&source, lab, &mut visit)
    })
    .map_err(|error| Failure::Observe(error.to_string()))?;
    code
}

/// Runs a shell, or a command, on a host.
fn enter(hosts: &BTreeMap<String, u32>, options: &LabShellOptions) -> anyhow::Result<u8> {
    let pid = *host(hosts, options.host.as_deref())?;
    let words = if options.exec.is_empty() {
        vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())]
    } else {
        options.exec.clone()
    };
    // A thread: it cannot come back from where it goes.
    let entered = std::thread::spawn(move || -> anyhow::Result<u8> {
        sys::namespace::join(pid)?;
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(&program);
        let mut child = command
            .args(words)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let status = child.wait()?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    });
    entered.join().unwrap_or_else(|_| anyhow::bail!("the shell's thread panicked"))
}

/// The host that was asked for, or the first one.
fn host<'a, T>(hosts: &'a BTreeMap<String, T>, name: Option<&str>) -> anyhow::Result<&'a T> {
    let found = name.map_or_else(|| hosts.values().next(), |name| hosts.get(name));
    found.ok_or_else(|| {
        let all: Vec<&str> = hosts.keys().map(String::as_str).collect();
        let (name, all) = (name.unwrap_or_default(), all.join(", "));
        Failure::Usage(format!("there is no host {name}; there are: {all}")).into()
    })
}

fn find(name: &str) -> anyhow::Result<Source> {
    Source::find(name).map_err(usage)
}

fn sources(names: &[String]) -> anyhow::Result<Vec<Source>> {
    let sources: Vec<Source> = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    for source in &sources {
        // What is wrong with a file is told before the first one runs.
        source.scenario(None).map_err(usage)?;
    }
    Ok(sources)
}

fn usage(error: lab::Error) -> anyhow::Error {
    Failure::Usage(error.to_string()).into()
}

fn code(outcomes: &[Outcome]) -> u8 {
    if outcomes.iter().any(|outcome| outcome.error.is_some()) {
        Failure::OBSERVE
    } else {
        u8::from(!outcomes.iter().all(Outcome::is_good))
    }
}

/// What differs between commands.
#[derive(Clone, Copy, Default)]
struct More<'a> {
    mend: bool,
    captures: Option<&'a Path>,
}

/// What all runs share.
struct Lab {
    stop: Stop,
    bar: ProgressBar,
    heading: std::cell::RefCell<String>,
    keep: bool,
    program: OsString,
}

impl Lab {
    fn new(keep: bool) -> anyhow::Result<Self> {
        folder::sweep();
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        // A fixed template: it cannot fail.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>3} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        let program = std::env::current_exe().context("cannot find netwhy's own program")?;
        Ok(Lab {
            stop: Stop::on_signals()?,
            bar,
            heading: std::cell::RefCell::default(),
            keep,
            program: program.into_os_string(),
        })
    }

    fn heading(&self, text: &str) {
        *self.heading.borrow_mut() = text.to_string();
    }

    /// Calls `job` with the options of a run of this scenario.
    fn with_options<T>(
        &self,
        name: &str,
        more: More<'_>,
        job: impl FnOnce(&Options<'_>) -> T,
    ) -> T {
        let watcher = Own(self.program.clone());
        let progress = |what: &str| {
            self.bar.set_message(format!("{}{name}: {what}", self.heading.borrow()));
        };
        let keep = |standing: &Standing<'_>| self.wait(standing);
        self.bar.reset_elapsed();
        let result = job(&Options {
            init: vec![self.program.clone(), "lab".into(), "init".into()],
            watcher: &watcher,
            stop: &self.stop,
            progress: &progress,
            captures: more.captures.map(Into::into),
            keep: if self.keep { Some(&keep) } else { None },
            mend: more.mend,
        });
        self.bar.set_message("");
        result
    }

    fn run(&self, source: &Source, seed: Option<u64>, more: More<'_>) -> Outcome {
        self.with_options(&source.name, more, |options| lab::run::run(source, seed, options))
    }

    /// Waits with a network that stands until the user has seen enough.
    fn wait(&self, standing: &Standing<'_>) {
        self.bar.suspend(|| {
            eprintln!("{} is left standing until Ctrl-C; look around with", standing.scenario);
            for (host, pid) in &standing.hosts {
                eprintln!(
                    "  netwhy lab shell {} {host}    (netwhy --netns {pid})",
                    standing.scenario
                );
            }
            eprintln!("  its files: {}", standing.folder.display());
        });
        while !self.stop.is_set() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// This program, watching a host.
struct Own(OsString);

impl Watcher for Own {
    fn watch(&self, pid: u32, time: Duration) -> Result<Said, String> {
        let mut command = Command::new(&self.0);
        command
            .args(["--json", "--for", &format!("{}ms", time.as_millis())])
            .args(["--netns", &pid.to_string()])
            .stdin(Stdio::null())
            // Ctrl-C ends the lab, which ends this.
            .process_group(0);
        report_of(command)
    }

    fn read(&self, capture: &Path) -> Result<Said, String> {
        let mut command = Command::new(&self.0);
        command.args(["pcap", "--json"]).arg(capture).stdin(Stdio::null()).process_group(0);
        report_of(command)
    }

    fn compare(&self, client: &Path, server: &Path) -> Result<Said, String> {
        let mut command = Command::new(&self.0);
        command.args(["pcap", "--json", "--client"]).arg(client).arg("--server").arg(server);
        command.stdin(Stdio::null()).process_group(0);
        report_of(command)
    }

    fn probe(&self, pid: u32, words: &str) -> Result<Said, String> {
        let mut command = Command::new(&self.0);
        command.args(words.split_whitespace()).args(["--json", "--netns", &pid.to_string()]);
        command.stdin(Stdio::null()).process_group(0);
        report_of(command)
    }
}

/// What a netwhy prints.
fn report_of(mut command: Command) -> Result<Said, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let why = match output.status.code() {
        // 1: it looked, and what it found is no good news.
        Some(0 | 1) => match serde_json::from_slice(&output.stdout) {
            Ok(said) => return Ok(said),
            Err(error) => format!("its report cannot be read: {error}"),
        },
        _ => output.status.to_string(),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    Err(output::harmless(format!("{why}\n{}", said.trim()).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cause is pending for as long as it has no rule for what is looked at, and not longer.
    #[test]
    fn what_is_pending_has_no_rule() {
        for name in Source::names() {
            let scenario = find(&name).unwrap().scenario(None).unwrap().0;
            for expect in scenario.steps.iter().flat_map(|step| &step.expect) {
                let cause = expect.cause.get_ref();
                let captured = scenario.observe.iter().any(|observe| {
                    let here = expect
                        .on
                        .as_ref()
                        .is_none_or(|on| *on.get_ref() == *observe.host.get_ref());
                    here && observe.by != lab::scenario::By::Live
                });
                // Who only watches a host has neither packets nor what probes measure.
                let of_host =
                    |source: &model::Source| source.observation() == model::Observation::Host;
                let live =
                    |cause: &diagnose::Cause| cause.needs.iter().any(|set| set.iter().all(of_host));
                let has_rule = diagnose::cause(cause).is_some_and(|cause| captured || live(cause));
                assert!(
                    has_rule != expect.pending.is_some(),
                    "{name}: {cause} {}",
                    if has_rule {
                        "has a rule: take `pending` off"
                    } else {
                        "has no rule: `pending`"
                    }
                );
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
}
