//! One scenario, once: built, loaded, looked at, judged; mended where it can be, and looked at again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use sys::Stop;

use serde::Serialize;

use crate::emulator::Counters;
use crate::error::{Error, Result};
use crate::figures::{self, Figures};
use crate::folder::Folder;
use crate::judge::{self, Seen, Verdict};
use crate::limit::ConntrackMax;
use crate::network::Network;
use crate::process::{self, Running};
use crate::scenario::types::{By, Mend, Process, Step};
use crate::scenario::vary::Values;
use crate::scenario::{Kind, Scenario, Source};
use crate::watcher::Watcher;

mod capture;

/// How long netwhy looks when the scenario does not say.
const WINDOW: Duration = Duration::from_secs(3);
/// How long after the start of the workload.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long a workload may last beyond what it says.
const GRACE: Duration = Duration::from_secs(30);
/// How often the clock is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// How scenarios are run.
pub struct Options<'a> {
    /// The command that runs [`crate::init`].
    pub init: Vec<OsString>,
    /// Looks at hosts.
    pub watcher: &'a dyn Watcher,
    /// Whether the user asked to stop.
    pub stop: &'a Stop,
    /// Told what is done now.
    pub progress: &'a dyn Fn(&str),
    /// Where captures are copied.
    pub captures: Option<PathBuf>,
    /// Called with the lab still standing, before it is taken down.
    pub keep: Option<&'a dyn Fn(&Standing<'_>)>,
    /// Whether faults are mended and measured again.
    pub mend: bool,
}

/// A lab that stands.
pub struct Standing<'a> {
    /// Name of the scenario.
    pub scenario: &'a str,
    /// Hosts, and process 1 of each.
    pub hosts: BTreeMap<String, u32>,
    /// Its folder.
    pub folder: PathBuf,
}

/// What came of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub scenario: String,
    /// Whether something is broken in it.
    pub kind: &'static str,
    /// Seed of its parameters and of its links; `None`: as they stand.
    pub seed: Option<u64>,
    /// Parameters.
    pub parameters: Values,
    /// What was seen before and after each remedy.
    pub steps: Vec<Measured>,
    /// What stopped it.
    pub error: Option<String>,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Causes that had to be named.
    pub expected: Vec<String>,
    /// All figures of the workload.
    pub figures: Figures,
    /// Name of the one that counts.
    pub figure: String,
    /// What each observer found.
    pub seen: Vec<Seen>,
    /// The judgement.
    pub verdict: Verdict,
    /// What emulated links did.
    pub links: Vec<LinkUse>,
    /// Improvement of the figure by the remedy of the step before.
    pub improved: Option<Improved>,
}

/// What one direction of an emulated link did in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkUse {
    /// From which host to which: `client-server`.
    pub name: String,
    /// Packets that came to it.
    pub packets: u64,
    /// Packets that it dropped on purpose.
    pub dropped: u64,
    /// How late 99 % of all packets of this run left at most, against what was intended,
    /// microseconds: large when the emulator itself had no CPU.
    pub late_p99_us: u64,
}

/// What a remedy did to the figure.
#[derive(Debug, Clone, Serialize)]
pub struct Improved {
    /// How many times better it had to be.
    pub wanted: f64,
    /// How many times better it was; `None`: the workload gave no figure.
    pub got: Option<f64>,
}

impl Outcome {
    /// As it should be: what can be named was named, nothing else was, remedies worked.
    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.steps.iter().all(Measured::is_good)
    }
}

impl Measured {
    /// As it should be.
    pub fn is_good(&self) -> bool {
        let improved = self.improved.as_ref();
        self.verdict.is_good() && improved.is_none_or(|i| i.got.is_some_and(|got| got >= i.wanted))
    }
}

/// Runs a scenario; `seed` draws its parameters.
pub fn run(source: &Source, seed: Option<u64>, options: &Options<'_>) -> Outcome {
    let mut outcome = Outcome {
        scenario: source.name.clone(),
        kind: Kind::Fault.name(),
        seed,
        parameters: Values::default(),
        steps: Vec::new(),
        error: None,
    };
    let all = source.scenario(seed).and_then(|(scenario, values)| {
        outcome.kind = scenario.kind.name();
        outcome.parameters = values;
        let mut lab = Lab::build(source, &scenario, seed, options)?;
        let measured = lab.steps(&mut outcome.steps);
        if let Some(keep) = options.keep {
            keep(&lab.standing(&source.name));
        }
        measured
    });
    outcome.error = all.err().map(|error| error.to_string());
    outcome
}

/// Builds a scenario's network, starts its programs, and leaves it to somebody to look around.
///
/// # Errors
///
/// What could not be built.
pub fn stand(
    source: &Source,
    options: &Options<'_>,
    visit: &mut dyn FnMut(&Standing<'_>),
) -> Result<()> {
    let (scenario, _) = source.scenario(None)?;
    let lab = Lab::build(source, &scenario, None, options)?;
    visit(&lab.standing(&source.name));
    Ok(())
}

/// A network with its programs.
struct Lab<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    // In the order in which they end.
    running: BTreeMap<String, Running>,
    network: Network,
    limit: Option<ConntrackMax>,
    folder: Folder,
    name: String,
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
        folder.tell(&source.name, hosts)?;
        let mut lab = Lab {
            scenario,
            options,
            running: BTreeMap::new(),
            network,
            limit: None,
            folder,
            name: source.name.clone(),
        };
        for process in scenario.processes.iter().filter(|process| !process.late) {
            (options.progress)(&format!("starting {}", process.name.get_ref()));
            lab.start(process)?;
        }
        if let Some(value) = &scenario.machine.nf_conntrack_max {
            (options.progress)("waiting for other labs that change nf_conntrack_max");
            let value = lab.fill(value.get_ref())?;
            lab.limit = Some(ConntrackMax::set(&value, options.stop)?);
        }
        Ok(lab)
    }

    fn standing(&self, scenario: &'a str) -> Standing<'a> {
        let hosts = &self.network.hosts;
        Standing {
            scenario,
            hosts: hosts.iter().map(|(name, host)| (name.clone(), host.pid)).collect(),
            folder: self.folder.0.clone(),
        }
    }

    fn fill(&self, text: &str) -> Result<String> {
        self.network.fill(self.scenario, text)
    }

    fn start(&mut self, process: &Process) -> Result<()> {
        let host = self.network.host(process.host.get_ref())?;
        let line = self.fill(process.run.get_ref())?;
        let mut running = Running::start(host, process, &line)?;
        running.wait_until_ready(host, process, &|text| self.fill(text), self.options.stop)?;
        self.running.insert(process.name.get_ref().clone(), running);
        Ok(())
    }

    /// Every step, and what is left when all is mended.
    fn steps(&mut self, done: &mut Vec<Measured>) -> Result<()> {
        let none = Step::default();
        let scenario = self.scenario;
        let mut steps: Vec<&Step> = scenario.steps.iter().collect();
        // When the last is mended, the network must be healthy.
        let mended = Step {
            may: steps.last().map(|step| step.may.clone()).unwrap_or_default(),
            ..Step::default()
        };
        match steps.last() {
            None => steps.push(&none),
            Some(last) if !last.mend.is_empty() => steps.push(&mended),
            Some(_) => {}
        }
        if !self.options.mend {
            steps.truncate(1);
        }
        for (number, step) in steps.iter().enumerate() {
            let of = if steps.len() > 1 {
                format!(" ({} of {})", number + 1, steps.len())
            } else {
                String::new()
            };
            let before = self.network.counters();
            let (figures, seen) = self.measure(&of)?;
            let links = self.links(&before);
            let figure = scenario.workload.figure.get_ref().clone();
            let verdict = judge::judge(step, &seen, &|text| self.fill(text))?;
            let before = number.checked_sub(1).and_then(|before| Some((before, done.get(before)?)));
            let improved = before.and_then(|(before, measured)| {
                let wanted = steps[before].improves?;
                let pair = measured.figures.get(&figure).zip(figures.get(&figure));
                let got = pair.map(|(b, a)| figures::improvement(&figure, *b, *a));
                Some(Improved { wanted, got })
            });
            let expected = step.expect.iter().map(|e| e.cause.get_ref().clone()).collect();
            done.push(Measured { expected, figures, figure, seen, verdict, links, improved });
            if number + 1 < steps.len() {
                (self.options.progress)("mending");
                for mend in &step.mend {
                    self.mend(mend)?;
                }
            }
        }
        Ok(())
    }

    /// What the links did since these counters were read.
    fn links(&self, before: &[(String, Counters)]) -> Vec<LinkUse> {
        let now = self.network.counters().into_iter().zip(before);
        now.map(|((name, now), (_, before))| LinkUse {
            name,
            packets: now.packets_in - before.packets_in,
            dropped: now.dropped() - before.dropped(),
            late_p99_us: now.lateness.quantile(0.99).unwrap_or_default().as_micros() as u64,
        })
        .collect()
    }

    fn mend(&mut self, mend: &Mend) -> Result<()> {
        if let (Some(on), Some(line)) = (&mend.on, &mend.run) {
            let line = self.fill(line.get_ref())?;
            self.network.host(on.get_ref())?.run(&line)?;
        }
        if let Some(value) = &mend.nf_conntrack_max {
            let value = self.fill(value.get_ref())?;
            match &self.limit {
                Some(limit) => limit.change(&value)?,
                None => self.limit = Some(ConntrackMax::set(&value, self.options.stop)?),
            }
        }
        for name in &mend.restart {
            drop(self.running.remove(name.get_ref()));
            let mut all = self.scenario.processes.iter();
            if let Some(process) = all.find(|process| process.name.get_ref() == name.get_ref()) {
                self.start(process)?;
            }
        }
        Ok(())
    }

    /// Runs the workload, and lets every observer look meanwhile.
    fn measure(&mut self, of: &str) -> Result<(Figures, Vec<Seen>)> {
        let scenario = self.scenario;
        for process in scenario.processes.iter().filter(|process| process.late) {
            drop(self.running.remove(process.name.get_ref()));
            self.start(process)?;
        }
        let workload = &scenario.workload;
        let host = self.network.host(workload.host.get_ref())?;
        let line = self.fill(workload.run.get_ref())?;
        let out = self.folder.0.join("workload.out");
        let err = self.folder.0.join("workload.err");
        let create = |path: &PathBuf| {
            std::fs::File::create(path)
                .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
        };
        (self.options.progress)(&format!("the workload runs, netwhy looks{of}"));
        self.network.begin(scenario);
        let captures = self.captures()?;
        let mut child = Ended(host.start_line(&line, create(&out)?, create(&err)?)?);
        let begin = Instant::now();
        let seen = self.look(&mut child, begin, captures)?;
        let status = self.wait(&mut child, begin)?;
        if scenario.processes.iter().any(|process| process.late) {
            self.running.retain(|name, _| {
                !scenario.processes.iter().any(|p| p.late && p.name.get_ref() == name)
            });
        }
        let text = std::fs::read(&out).unwrap_or_default();
        let pattern = workload.pattern.as_ref().map(|pattern| pattern.get_ref().as_str());
        let figures = figures::read(workload.reads, pattern, &String::from_utf8_lossy(&text));
        // A broken network may leave a workload without a figure; a healthy one must give it.
        if scenario.kind == Kind::Healthy && !figures.contains_key(workload.figure.get_ref()) {
            return Err(Error::new(format!(
                "the workload «{line}» gave no {} ({status})\n{}{}",
                workload.figure.get_ref(),
                process::tail(&err),
                process::tail(&out)
            )));
        }
        Ok((figures, seen))
    }

    /// All observers, each at its time.
    fn look(
        &self,
        child: &mut Ended,
        begin: Instant,
        captures: Vec<(Child, PathBuf)>,
    ) -> Result<Vec<Seen>> {
        let stop = self.options.stop;
        let watcher = self.options.watcher;
        std::thread::scope(|scope| {
            let mut looks = Vec::new();
            let mut captures = captures.into_iter();
            let alone = self.scenario.observe.iter().filter(|observe| observe.by != By::Path);
            for observe in alone {
                let host = self.network.host(observe.host.get_ref())?;
                let (name, pid) = (host.name.clone(), host.pid);
                let after = observe.after.map_or(WARM_UP, |after| after.0);
                let time = observe.time.map_or(WINDOW, |time| time.0);
                if observe.by == By::Capture {
                    let capture = captures.next();
                    looks.push(scope.spawn(move || {
                        // It ends by itself; 126 and 127 are the shell's own.
                        let (mut tcpdump, file) =
                            capture.ok_or_else(|| Error::new("a capture was not started"))?;
                        let code = tcpdump.wait().ok().and_then(|status| status.code());
                        if matches!(code, Some(126 | 127)) {
                            let what =
                                "cannot run timeout or tcpdump (tools/setup test installs it)";
                            return Err(Error::new(format!("no capture on {name}: {what}")));
                        }
                        let report = watcher.read(&file).map_err(|what| {
                            Error::new(format!("netwhy could not read what {name} saw: {what}"))
                        })?;
                        Ok(Seen::of(&name, time.as_secs_f64(), &report))
                    }));
                    continue;
                }
                let probe = observe.run.as_ref().map(|run| self.fill(run.get_ref())).transpose()?;
                looks.push(scope.spawn(move || {
                    while begin.elapsed() < after {
                        std::thread::sleep(GLANCE);
                    }
                    let start = Instant::now();
                    let report = match &probe {
                        None => watcher.watch(pid, time),
                        Some(words) => watcher.probe(pid, words),
                    };
                    let report = report.map_err(|what| {
                        Error::new(format!("netwhy could not look at {name}: {what}"))
                    })?;
                    Ok(Seen::of(&name, start.elapsed().as_secs_f64(), &report))
                }));
            }
            while looks.iter().any(|look| !look.is_finished()) && !stop.is_set() {
                self.network.change(self.scenario, begin.elapsed());
                // Its zombie would be counted among the processes of the host.
                let _ = child.0.try_wait();
                std::thread::sleep(GLANCE);
            }
            let broken = |_| Error::new("an observer panicked: this is a bug of netwhy");
            let seen = looks.into_iter().map(|look| look.join().map_err(broken)?).collect();
            if stop.is_set() { Err(Error::new("interrupted")) } else { seen }
        })
        .and_then(|seen: Vec<Seen>| self.paths(seen))
    }

    fn wait(&self, child: &mut Ended, begin: Instant) -> Result<std::process::ExitStatus> {
        let most = self.scenario.workload.lasts.0 + GRACE;
        loop {
            self.network.change(self.scenario, begin.elapsed());
            match child.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if self.options.stop.is_set() => return Err(Error::new("interrupted")),
                Ok(None) if begin.elapsed() < most => std::thread::sleep(GLANCE),
                Ok(None) => {
                    let most = most.as_secs();
                    return Err(Error::new(format!("the workload did not end within {most} s")));
                }
                Err(error) => return Err(Error::new(format!("the workload is lost: {error}"))),
            }
        }
    }
}

/// A program that is ended with the step.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}
