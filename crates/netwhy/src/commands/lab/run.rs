//! The commands of `netwhy lab`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use lab::folder;
use lab::outcome::Outcome;
use lab::run::{Extent, RunningLab};
use lab::scenario::{Scenario, Source};
use lab::score::Score;

use super::options::{
    LabCommand, LabListOptions, LabOptions, LabRunOptions, LabScoreOptions, LabShellOptions,
};
use super::runner::{Request, Runner, note_hosts};
use super::show;
use crate::failure::{Failure, did_you_mean};
use crate::output;
use crate::saved_file::SavedFile;

/// `netwhy lab ...`
pub(crate) fn run(options: &LabOptions) -> anyhow::Result<u8> {
    match &options.command {
        LabCommand::List(options) => list(options),
        LabCommand::Run(options) => run_scenarios(options),
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
        let (scenario, _) = find(&name)?.scenario(None).map_err(usage)?;
        all.push((name, scenario));
    }
    let text = if options.json { show::list_json(&all)? } else { show::list(&all) };
    output::print(&text, false)?;
    Ok(0)
}

/// `netwhy lab run NAME|FILE...`
fn run_scenarios(options: &LabRunOptions) -> anyhow::Result<u8> {
    let mut sources = read_all(&options.scenarios)?;
    for (source, scenario) in &mut sources {
        let stretched = options.duration.map_or(Ok(()), |duration| scenario.stretch(duration));
        stretched.map_err(|why| Failure::Usage(format!("--for: {}: {why}", source.name)))?;
    }
    let runner = Runner::new(options.keep)?;
    let mut outcomes = Vec::new();
    for (source, _) in &sources {
        let outcome = runner.run(Request {
            source,
            seed: options.seed,
            extent: if options.no_fix { Extent::Measure } else { Extent::Fix },
            captures: options.captures.as_deref(),
            duration: options.duration,
        });
        if !options.json {
            output::print(&show::outcome(&outcome), false)?;
        }
        outcomes.push(outcome);
        if runner.stop.is_set() {
            break;
        }
    }
    if options.json {
        output::print(&output::json(&outcomes)?, false)?;
    }
    Ok(exit_code(&outcomes))
}

/// `netwhy lab score`
fn score(options: &LabScoreOptions) -> anyhow::Result<u8> {
    let names =
        if options.scenarios.is_empty() { Source::names() } else { options.scenarios.clone() };
    let sources = read_all(&names)?;
    let runner = Runner::new(false)?;
    let extent = if options.no_fix { Extent::Diagnose } else { Extent::Fix };
    let mut outcomes = Vec::new();
    for round in 0..options.vary.unwrap_or(1) {
        let seed = options.vary.map(|_| options.seed.wrapping_add(round));
        outcomes.extend(run_round(&runner, &sources, seed, extent, options)?);
        // After each round, so that an interrupted score has what it measured.
        if let Some(path) = &options.markdown {
            let text = show::score_page(&Score::of(&outcomes), &outcomes);
            let mut file = SavedFile::create(path, true)?;
            file.write_all(text.as_bytes())?;
            file.keep()?;
        }
        if runner.stop.is_set() {
            break;
        }
    }
    let score = Score::of(&outcomes);
    let text = if options.json {
        let all = serde_json::json!({ "score": score, "outcomes": outcomes });
        output::json(&all)?
    } else {
        show::score(&score)
    };
    output::print(&text, false)?;
    Ok(exit_code(&outcomes))
}

/// Runs every scenario once; returns the outcomes in the order of the scenarios.
fn run_round(
    runner: &Runner,
    sources: &[(Source, Scenario)],
    seed: Option<u64>,
    extent: Extent,
    options: &LabScoreOptions,
) -> anyhow::Result<Vec<Outcome>> {
    let folder = |(source, _): &(Source, Scenario)| {
        let name = match seed {
            Some(seed) => format!("{}-{seed}", source.name),
            None => source.name.clone(),
        };
        options.captures.as_ref().map(|folder| folder.join(name))
    };
    let folders: Vec<Option<PathBuf>> = sources.iter().map(folder).collect();
    let jobs = usize::from(options.jobs);
    let in_parallel = |scenario: &Scenario| jobs > 1 && scenario.low_cpu;
    let mut outcomes = BTreeMap::new();
    let mut printed = Ok(());
    for (parallel, jobs) in [(true, jobs), (false, 1)] {
        let all = sources.iter().zip(&folders).enumerate();
        let (places, requests): (Vec<usize>, Vec<Request<'_>>) = all
            .filter(|(_, ((_, scenario), _))| in_parallel(scenario) == parallel)
            .map(|(place, ((source, _), folder))| {
                let captures = folder.as_deref();
                (place, Request { source, seed, extent, captures, duration: None })
            })
            .unzip();
        runner.run_all(&requests, jobs, &mut |index, outcome| {
            // As soon as it ends: a score takes an hour.
            if !options.json && printed.is_ok() {
                printed = output::print(&show::line(&outcome), false);
            }
            let captures = requests.get(index).and_then(|request| request.captures);
            if let Some(folder) = captures.filter(|_| outcome.is_as_expected()) {
                remove_captures(folder);
            }
            outcomes.insert(places.get(index).copied(), outcome);
        });
    }
    printed?;
    Ok(outcomes.into_values().collect())
}

/// Removes the captures of a run, and their folder if nothing else is in it.
fn remove_captures(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "pcap") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::remove_dir(folder);
}

/// `netwhy lab shell NAME [HOST] [-- COMMAND]`
fn shell(options: &LabShellOptions) -> anyhow::Result<u8> {
    // By name, even if the scenario of the running lab is a file somewhere.
    let same_name = |lab: &folder::LabInfo| lab.scenario == options.scenario;
    if let Some(lab) = folder::running().into_iter().rev().find(same_name) {
        return enter(&lab.hosts, options);
    }
    let source = find(&options.scenario)?;
    find_host(&source.scenario(None).map_err(usage)?.0.hosts, options.host.as_deref())?;
    let runner = Runner::new(false)?;
    let mut code = Ok(0);
    let mut visit = |lab: &RunningLab<'_>| {
        runner.clear_progress();
        output::note(&format!("{} is up; it is taken down when this shell ends", lab.scenario));
        output::note("meanwhile, from another terminal:");
        note_hosts(lab);
        code = enter(&lab.hosts, options);
    };
    runner
        .with_options(&source.name, Extent::default(), None, None, |lab| {
            lab::run::build_and_visit(&source, lab, &mut visit)
        })
        .map_err(|error| Failure::Observe(error.to_string()))?;
    code
}

/// Runs a shell, or a command, on a host.
fn enter(hosts: &BTreeMap<String, u32>, options: &LabShellOptions) -> anyhow::Result<u8> {
    let pid = *find_host(hosts, options.host.as_deref())?;
    let words = if options.exec.is_empty() {
        vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())]
    } else {
        options.exec.clone()
    };
    // In a thread, because it cannot return to the namespaces it came from.
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

/// The host of this name, or the first one.
fn find_host<'a, T>(hosts: &'a BTreeMap<String, T>, name: Option<&str>) -> anyhow::Result<&'a T> {
    let found = name.map_or_else(|| hosts.values().next(), |name| hosts.get(name));
    found.ok_or_else(|| {
        let all: Vec<&str> = hosts.keys().map(String::as_str).collect();
        let (name, all) = (name.unwrap_or_default(), all.join(", "));
        let nearest = did_you_mean(name, hosts.keys().map(String::as_str));
        Failure::Usage(format!("there is no host {name}{nearest}; there are: {all}")).into()
    })
}

fn find(name: &str) -> anyhow::Result<Source> {
    Source::find(name).map_err(usage)
}

/// Reads and checks all scenarios before the first one runs.
fn read_all(names: &[String]) -> anyhow::Result<Vec<(Source, Scenario)>> {
    let read = |name: &String| {
        let source = find(name)?;
        let (scenario, _) = source.scenario(None).map_err(usage)?;
        Ok((source, scenario))
    };
    names.iter().map(read).collect()
}

fn usage(error: lab::Error) -> anyhow::Error {
    Failure::Usage(error.to_string()).into()
}

fn exit_code(outcomes: &[Outcome]) -> u8 {
    if outcomes.iter().any(|outcome| outcome.error.is_some()) {
        Failure::OBSERVE
    } else {
        u8::from(!outcomes.iter().all(Outcome::is_as_expected))
    }
}

#[cfg(test)]
mod tests;
