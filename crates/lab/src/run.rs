//! One run of one scenario: build it, load it, observe it, judge it; fix the fault and repeat.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use sys::Stop;

use crate::conntrack_max::ConntrackMax;
use crate::cpu_shortage::CpuMeter;
use crate::emulator::Counters;
use crate::error::{Error, Result};
use crate::figures::{self, Figures};
use crate::folder::Folder;
use crate::gain;
use crate::judge::{self, Observation};
use crate::network::Network;
use crate::observer::Observer;
use crate::outcome::{Conditions, Improvement, LinkUsage, Outcome, StepOutcome};
use crate::process::{self, ProcessGroup, Running};
use crate::scenario::types::{Fix, Process, Step};
use crate::scenario::{Kind, Scenario, Source};

mod capture;
mod capture_end;
mod observe;

/// How long a workload may run beyond its duration.
const WORKLOAD_GRACE: Duration = Duration::from_secs(30);
/// How much earlier than its duration a workload of a long run may end: `${seconds}` are whole.
const EARLY: Duration = Duration::from_secs(1);
/// How often the clock and the programs are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How scenarios are run.
pub struct Options<'a> {
    /// The command that runs [`crate::init`].
    pub init: Vec<OsString>,
    /// Observes hosts.
    pub observer: &'a dyn Observer,
    /// Set when the user asked to stop.
    pub stop: &'a Stop,
    /// Receives a description of what is being done.
    pub progress: &'a dyn Fn(&str),
    /// Where captures are kept.
    pub captures: Option<PathBuf>,
    /// Called while the lab is still there, before it is taken down.
    pub before_teardown: Option<&'a dyn Fn(&RunningLab<'_>)>,
    /// How much of the scenario is run.
    pub extent: Extent,
    /// Instead of the duration of a healthy scenario's workload.
    pub duration: Option<Duration>,
}

/// How much of a scenario is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// Only whether its causes are named: the workload of a broken network ends with the last
    /// observer and is not measured.
    Diagnose,
    /// The figures of the workload too.
    Measure,
    /// Every fix too, and the figures after it.
    #[default]
    Fix,
}

/// A lab that is up.
pub struct RunningLab<'a> {
    /// Name of the scenario.
    pub scenario: &'a str,
    /// Hosts, and process 1 of each.
    pub hosts: BTreeMap<String, u32>,
    /// Its directory.
    pub folder: PathBuf,
}

/// Runs a scenario; `seed` draws its parameters.
pub fn run(source: &Source, seed: Option<u64>, options: &Options<'_>) -> Outcome {
    let mut outcome = Outcome::new(&source.name, seed);
    let result = run_into(&mut outcome, source, seed, options);
    outcome.error = result.err().map(|error| error.to_string());
    outcome
}

fn run_into(
    outcome: &mut Outcome,
    source: &Source,
    seed: Option<u64>,
    options: &Options<'_>,
) -> Result<()> {
    let (mut scenario, values) = source.scenario(seed)?;
    if let Some(duration) = options.duration {
        scenario.stretch(duration).map_err(Error::new)?;
    }
    outcome.kind = scenario.kind.name();
    outcome.parameters = values;
    let clock = Instant::now();
    let lab = Lab::build(source, &scenario, seed, options);
    outcome.seconds.build = clock.elapsed().as_secs_f64();
    let mut lab = lab?;
    let clock = Instant::now();
    let result = lab.run_steps(outcome);
    outcome.seconds.steps = clock.elapsed().as_secs_f64();
    if let Some(before_teardown) = options.before_teardown {
        before_teardown(&lab.running_lab(&source.name));
    }
    let clock = Instant::now();
    drop(lab);
    outcome.seconds.teardown = clock.elapsed().as_secs_f64();
    result
}

/// Builds a scenario's network, starts its programs, and calls `visit` before taking it down.
///
/// # Errors
///
/// What could not be built.
pub fn build_and_visit(
    source: &Source,
    options: &Options<'_>,
    visit: &mut dyn FnMut(&RunningLab<'_>),
) -> Result<()> {
    let (scenario, _) = source.scenario(None)?;
    let lab = Lab::build(source, &scenario, None, options)?;
    visit(&lab.running_lab(&source.name));
    Ok(())
}

/// A network with its programs.
struct Lab<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    // In the order in which they end.
    running: BTreeMap<String, Running>,
    network: Network,
    conntrack_max: Option<ConntrackMax>,
    folder: Folder,
    name: String,
    /// The step that is running, from 0 on.
    step: usize,
}

impl<'a> Lab<'a> {
    fn build(
        source: &Source,
        scenario: &'a Scenario,
        seed: Option<u64>,
        options: &'a Options<'a>,
    ) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new(
                "a lab makes network namespaces, which needs root: sudo netwhy lab ...",
            ));
        }
        (options.progress)("building the network");
        let folder = Folder::new()?;
        let network = Network::build(scenario, &folder.0, &options.init, seed.unwrap_or(1))?;
        let hosts = network.hosts.iter().map(|(name, host)| (name.clone(), host.pid)).collect();
        folder.publish(&source.name, hosts)?;
        let mut lab = Lab {
            scenario,
            options,
            running: BTreeMap::new(),
            network,
            conntrack_max: None,
            folder,
            name: source.name.clone(),
            step: 0,
        };
        for process in scenario.processes.iter().filter(|process| !process.with_workload) {
            (options.progress)(&format!("starting {}", process.name.get_ref()));
            lab.start(process)?;
        }
        if let Some(value) = &scenario.machine.nf_conntrack_max {
            (options.progress)("waiting for other labs that change nf_conntrack_max");
            let value = lab.substitute(value.get_ref())?;
            lab.conntrack_max = Some(ConntrackMax::set(&value, options.stop)?);
        }
        Ok(lab)
    }

    fn running_lab(&self, scenario: &'a str) -> RunningLab<'a> {
        let hosts = &self.network.hosts;
        RunningLab {
            scenario,
            hosts: hosts.iter().map(|(name, host)| (name.clone(), host.pid)).collect(),
            folder: self.folder.0.clone(),
        }
    }

    fn substitute(&self, text: &str) -> Result<String> {
        self.network.substitute(self.scenario, text)
    }

    fn start(&mut self, process: &Process) -> Result<()> {
        let host = self.network.host(process.host.get_ref())?;
        let line = self.substitute(process.run.get_ref())?;
        let mut running = Running::start(host, process, &line)?;
        running.wait_until_ready(
            host,
            process,
            &|text| self.substitute(text),
            self.options.stop,
        )?;
        self.running.insert(process.name.get_ref().clone(), running);
        Ok(())
    }

    /// Runs every step, and one more after the last fix.
    fn run_steps(&mut self, outcome: &mut Outcome) -> Result<()> {
        let scenario = self.scenario;
        let steps = steps_to_run(scenario, self.options.extent);
        let mut fixed: Option<&Step> = None;
        for (index, step) in steps.iter().enumerate() {
            let progress = match steps.len() {
                1 => String::new(),
                total => format!(" ({} of {total})", index + 1),
            };
            self.step = index;
            let before = self.network.counters();
            let cpu = CpuMeter::start();
            let measured = self.measure(&progress);
            let conditions =
                Conditions { links: self.link_usage(&before), cpu_shortage: cpu.read() };
            let (figures, observations) = measured.inspect_err(|_| {
                outcome.failed_step = Some(conditions.clone());
            })?;
            let figure = scenario.workload.figure.get_ref().clone();
            let verdict = judge::judge(step, &observations, &|text| self.substitute(text))?;
            let required = fixed.and_then(|step| step.min_improvement);
            let improvement = required.zip(outcome.steps.last()).map(|(required, before)| {
                let pair = before.figures.get(&figure).zip(figures.get(&figure));
                let measured = pair.map(|(b, a)| figures::improvement(&figure, *b, *a));
                let gains = gain::of_fix(
                    &before.verdict.named,
                    &before.observations,
                    &before.figure,
                    (&before.figures, &figures),
                );
                Improvement { required, measured, gains }
            });
            outcome.steps.push(StepOutcome {
                expected: step.expect.iter().map(|e| e.cause.get_ref().clone()).collect(),
                figures,
                figure,
                observations,
                verdict,
                conditions,
                improvement,
            });
            if index + 1 < steps.len() {
                (self.options.progress)("fixing");
                step.fix.iter().try_for_each(|fix| self.apply_fix(fix))?;
                fixed = Some(step);
            }
        }
        Ok(())
    }

    /// What the links did since these counters were read.
    fn link_usage(&self, before: &[(String, Counters)]) -> Vec<LinkUsage> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = self.network.counters().into_iter().zip(before);
        now.map(|((name, now), (_, before))| {
            let lateness = now.lateness.since(&before.lateness);
            LinkUsage {
                name,
                packets: now.packets_in - before.packets_in,
                dropped: now.dropped() - before.dropped(),
                late_p99_us: micros(lateness.quantile(0.99).unwrap_or_default()),
                late_max_us: micros(lateness.max()),
            }
        })
        .collect()
    }

    fn apply_fix(&mut self, fix: &Fix) -> Result<()> {
        if let (Some(host), Some(line)) = (&fix.host, &fix.run) {
            let line = self.substitute(line.get_ref())?;
            self.network.host(host.get_ref())?.run(&line)?;
        }
        if let Some(value) = &fix.nf_conntrack_max {
            let value = self.substitute(value.get_ref())?;
            match &self.conntrack_max {
                Some(limit) => limit.change(&value)?,
                None => self.conntrack_max = Some(ConntrackMax::set(&value, self.options.stop)?),
            }
        }
        for name in &fix.restart {
            drop(self.running.remove(name.get_ref()));
            let mut all = self.scenario.processes.iter();
            if let Some(process) = all.find(|process| process.name.get_ref() == name.get_ref()) {
                self.start(process)?;
            }
        }
        Ok(())
    }

    /// Runs the workload while every observer observes it.
    fn measure(&mut self, progress: &str) -> Result<(Figures, Vec<Observation>)> {
        let scenario = self.scenario;
        for process in scenario.processes.iter().filter(|process| process.with_workload) {
            drop(self.running.remove(process.name.get_ref()));
            self.start(process)?;
        }
        let workload = &scenario.workload;
        let host = self.network.host(workload.host.get_ref())?;
        let line = self.substitute(workload.run.get_ref())?;
        let out = self.folder.0.join("workload.out");
        let err = self.folder.0.join("workload.err");
        let create = |path: &PathBuf| {
            std::fs::File::create(path)
                .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
        };
        (self.options.progress)(&format!("running the workload, observing{progress}"));
        self.network.reset_timelines(scenario);
        let captures = self.start_captures()?;
        let mut workload_group =
            ProcessGroup(host.start_line(&line, create(&out)?, create(&err)?)?);
        let begin = Instant::now();
        let observations = self.observe(&mut workload_group, begin, captures)?;
        let measured = scenario.kind == Kind::Healthy || self.options.extent != Extent::Diagnose;
        let status = if measured { Some(self.wait(&mut workload_group, begin)?) } else { None };
        drop(workload_group);
        if self.options.duration.is_some() {
            self.check_long_run(begin.elapsed())?;
        }
        for process in scenario.processes.iter().filter(|process| process.with_workload) {
            drop(self.running.remove(process.name.get_ref()));
        }
        let Some(status) = status else { return Ok((Figures::new(), observations)) };
        let text = std::fs::read(&out).unwrap_or_default();
        let pattern = workload.pattern.as_ref().map(|pattern| pattern.get_ref().as_str());
        let figures = figures::read(workload.output, pattern, &String::from_utf8_lossy(&text));
        // A broken network may leave a workload without a figure; a healthy one must produce it.
        if scenario.kind == Kind::Healthy && !figures.contains_key(workload.figure.get_ref()) {
            return Err(Error::new(format!(
                "the workload «{line}» printed no {} ({status})\n{}{}",
                workload.figure.get_ref(),
                process::tail(&err),
                process::tail(&out)
            )));
        }
        Ok((figures, observations))
    }

    /// Whether everything ran until the end: silence about programs that have ended proves nothing.
    fn check_long_run(&mut self, lasted: Duration) -> Result<()> {
        self.running.values_mut().try_for_each(Running::check_running)?;
        let duration = self.scenario.workload.duration.0;
        if lasted + EARLY < duration {
            let (lasted, duration) = (lasted.as_secs(), duration.as_secs());
            return Err(Error::new(format!(
                "the workload ended after {lasted} s, it should last {duration} s"
            )));
        }
        Ok(())
    }

    /// Waits until the workload ends by itself.
    fn wait(&self, workload: &mut ProcessGroup, begin: Instant) -> Result<ExitStatus> {
        let limit = self.scenario.workload.duration.0 + WORKLOAD_GRACE;
        loop {
            self.network.apply_timelines(self.scenario, begin.elapsed());
            match workload.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if self.options.stop.is_set() => return Err(Error::new("interrupted")),
                Ok(None) if begin.elapsed() < limit => std::thread::sleep(POLL_INTERVAL),
                Ok(None) => {
                    let limit = limit.as_secs();
                    return Err(Error::new(format!("the workload did not end within {limit} s")));
                }
                Err(error) => {
                    return Err(Error::new(format!("cannot wait for the workload: {error}")));
                }
            }
        }
    }
}

/// The steps of the file; after the last fix comes one that expects no cause.
fn steps_to_run(scenario: &Scenario, extent: Extent) -> Vec<Step> {
    let mut steps = scenario.steps.clone();
    match steps.last() {
        None => steps.push(Step::default()),
        Some(last) if !last.fix.is_empty() => {
            steps.push(Step { allow: last.allow.clone(), ..Step::default() });
        }
        Some(_) => {}
    }
    if extent != Extent::Fix {
        steps.truncate(1);
    }
    steps
}
