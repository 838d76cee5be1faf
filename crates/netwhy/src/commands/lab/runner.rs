//! Runs scenarios with a progress line, one by one or several at a time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use lab::folder;
use lab::outcome::Outcome;
use lab::run::{Extent, Options, RunningLab};
use lab::scenario::Source;
use sys::Stop;

use super::netwhy::Netwhy;
use crate::{output, progress};

/// How often the progress line is drawn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How often a kept lab checks for Ctrl-C.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What all runs of one command share.
pub(super) struct Runner {
    pub(super) stop: Stop,
    bar: ProgressBar,
    /// What each scenario in progress is doing now, by its name.
    in_progress: Mutex<BTreeMap<String, String>>,
    keep: bool,
    program: OsString,
}

/// One run: which scenario, and how.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) source: &'a Source,
    pub(super) seed: Option<u64>,
    pub(super) extent: Extent,
    pub(super) captures: Option<&'a Path>,
    /// Instead of the scenario's own.
    pub(super) duration: Option<Duration>,
}

impl Runner {
    /// Removes what killed labs have left behind, and catches signals.
    pub(super) fn new(keep: bool) -> anyhow::Result<Self> {
        folder::sweep();
        let bar = progress::bar("{spinner} {elapsed:>3} {wide_msg}", true);
        bar.enable_steady_tick(PROGRESS_INTERVAL);
        let program = std::env::current_exe().context("cannot find netwhy's own program")?;
        Ok(Runner {
            stop: Stop::on_signals()?,
            bar,
            in_progress: Mutex::default(),
            keep,
            program: program.into_os_string(),
        })
    }

    /// Runs one scenario.
    pub(super) fn run(&self, request: Request<'_>) -> Outcome {
        let Request { source, seed, extent, captures, duration } = request;
        self.with_options(&source.name, extent, captures, duration, |options| {
            lab::run::run(source, seed, options)
        })
    }

    /// Runs several scenarios, up to `jobs` at a time. `finished` is called with the index of each
    /// in the order in which they end; after Ctrl-C the rest is not run.
    pub(super) fn run_all(
        &self,
        requests: &[Request<'_>],
        jobs: usize,
        finished: &mut (dyn FnMut(usize, Outcome) + Send),
    ) {
        let waiting = Mutex::new(requests.iter().enumerate());
        let finished = Mutex::new(finished);
        let next = || lock(&waiting).next();
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, requests.len().max(1)) {
                scope.spawn(|| {
                    while let Some((index, request)) = next().filter(|_| !self.stop.is_set()) {
                        let outcome = self.run(*request);
                        lock(&finished)(index, outcome);
                    }
                });
            }
        });
    }

    /// Calls `job` with the options of a run of this scenario.
    pub(super) fn with_options<T>(
        &self,
        name: &str,
        extent: Extent,
        captures: Option<&Path>,
        duration: Option<Duration>,
        job: impl FnOnce(&Options<'_>) -> T,
    ) -> T {
        let observer = Netwhy(self.program.clone());
        let progress = |what: &str| self.show_progress(name, Some(what));
        let keep = |lab: &RunningLab<'_>| self.wait_for_user(lab);
        self.bar.reset_elapsed();
        let result = job(&Options {
            init: vec![self.program.clone(), "lab".into(), "init".into()],
            observer: &observer,
            stop: &self.stop,
            progress: &progress,
            captures: captures.map(Into::into),
            before_teardown: if self.keep { Some(&keep) } else { None },
            extent,
            duration,
        });
        self.show_progress(name, None);
        result
    }

    /// Shows what a scenario is doing now; `None`: it has ended.
    fn show_progress(&self, name: &str, what: Option<&str>) {
        let mut in_progress = lock(&self.in_progress);
        match what {
            Some(what) => in_progress.insert(name.to_string(), what.to_string()),
            None => in_progress.remove(name),
        };
        let all: Vec<String> =
            in_progress.iter().map(|(name, what)| format!("{name}: {what}")).collect();
        // A scenario may be a file of any name.
        self.bar.set_message(text::sanitize::line(&all.join("; ")).into_owned());
    }

    /// Removes the progress line.
    pub(super) fn clear_progress(&self) {
        self.bar.finish_and_clear();
    }

    /// Keeps a lab until Ctrl-C.
    fn wait_for_user(&self, lab: &RunningLab<'_>) {
        self.bar.suspend(|| {
            output::note(&format!("{} keeps running until Ctrl-C; to enter it:", lab.scenario));
            note_hosts(lab);
            output::note(&format!("  its files: {}", lab.folder.display()));
        });
        while !self.stop.is_set() {
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
    }
}

/// How to enter each host, and how to watch it from outside.
pub(super) fn note_hosts(lab: &RunningLab<'_>) {
    for (host, pid) in &lab.hosts {
        let name = lab.scenario;
        output::note(&format!("  netwhy lab shell {name} {host}    (netwhy --netns {pid})"));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
