//! The main job: watch, diagnose, report; and the same with the evidence kept in a file.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{Evidence, Focus, Report, Severity, Source};
use observe::watch::{Interrupted, Progress};
use sys::real::Real;

use crate::capture::Beside;
use crate::child::Watched;
use crate::cli::{DiagnoseOptions, NetnsOptions, PacketOptions};
use crate::cli::{RecordOptions, ReportOptions, WatchOptions};
use crate::failure::Failure;
use crate::{evidence_file, output};
use sys::Stop;

/// The window when none is asked for.
const WINDOW: Duration = Duration::from_secs(10);

/// `netwhy [-- COMMAND]`
pub(crate) fn run(options: &WatchOptions, exec: &[OsString]) -> anyhow::Result<u8> {
    enter(&options.netns)?;
    let what = What {
        time: options.time,
        focus: options.focus.focus(),
        packets: &options.packets,
        most_packets: None,
        netns: options.netns.netns.clone(),
    };
    let (evidence, code) = observe_command(&what, exec)?;
    let report = diagnose::diagnose(&evidence);
    // Standard output belongs to the command.
    print(&report, &options.report, code.is_some())?;
    Ok(match code {
        Some(code) if code != 0 => code,
        _ => severity_code(&report, &options.report),
    })
}

/// `netwhy record -o FILE [-- COMMAND]`
pub(crate) fn record(options: &RecordOptions) -> anyhow::Result<u8> {
    let file = evidence_file::create(&options.output, options.force)?;
    enter(&options.netns)?;
    let what = What {
        time: options.time,
        focus: options.focus.focus(),
        packets: &options.packets,
        most_packets: None,
        netns: options.netns.netns.clone(),
    };
    let (evidence, code) = observe_command(&what, &options.exec)?;
    let bytes = file.write(&evidence)?;
    if options.output != Path::new("-") {
        eprintln!(
            "saved {} of evidence; see it with: netwhy diagnose {}",
            text::bytes(bytes),
            options.output.display()
        );
    }
    Ok(code.unwrap_or(0))
}

/// `netwhy diagnose FILE`
pub(crate) fn diagnose(options: &DiagnoseOptions) -> anyhow::Result<u8> {
    let evidence = evidence_file::read(&options.file)?;
    let report = diagnose::diagnose(&evidence);
    print(&report, &options.report, false)?;
    Ok(severity_code(&report, &options.report))
}

fn print(report: &Report, options: &ReportOptions, to_stderr: bool) -> anyhow::Result<()> {
    let text = if options.json {
        report::json(report)
    } else {
        report::text(report, output::style(options, to_stderr))
    };
    output::print(&text, options.output.as_deref(), to_stderr)
}

pub(crate) fn severity_code(report: &Report, options: &ReportOptions) -> u8 {
    let worst: Option<Severity> = report.findings.iter().map(|f| f.severity).max();
    let limit = options.fail_on.map(crate::cli::FailOn::severity);
    u8::from(matches!((worst, limit), (Some(worst), Some(limit)) if worst >= limit))
}

/// What is to be watched.
pub(crate) struct What<'a> {
    /// For how long; without a job and a time, [`WINDOW`].
    pub(crate) time: Option<Duration>,
    pub(crate) focus: Focus,
    pub(crate) packets: &'a PacketOptions,
    /// Packets are captured no longer after so many.
    pub(crate) most_packets: Option<u64>,
    pub(crate) netns: Option<String>,
}

/// What runs while the host is watched: a command, a probe. The window ends with it.
pub(crate) trait Job {
    /// Whether it has ended.
    fn ended(&mut self) -> bool;

    /// Ctrl-C came; it may be told several times.
    fn interrupted(&mut self);

    /// What it says of itself, for the live line; without it there is no line.
    fn progress(&self) -> Option<String>;
}

/// What starts a job, once the window has begun.
pub(crate) type Start<'a, J> = &'a mut dyn FnMut() -> anyhow::Result<J>;

/// Watches for a time, or while a job runs, which is given back. The namespace is entered already.
pub(crate) fn observe<J: Job>(
    what: &What<'_>,
    mut start: Option<Start<'_, J>>,
) -> anyhow::Result<(Evidence, Option<J>)> {
    let machine = Real::new();
    let stop = Stop::on_signals()?;
    let packets = Beside::start(what.packets, &what.focus, what.most_packets)?;
    let time = what.time.or_else(|| start.is_none().then_some(WINDOW));
    let line = Line::new(time);
    let mut job: Option<J> = None;
    let mut failed = None;
    let mut evidence = observe::watch::watch(
        &machine,
        &what.focus,
        what.netns.clone(),
        &mut |progress: Progress<'_>| {
            // Started at the first look: the window begins before the job does.
            if let Some(start) = start.take() {
                match start() {
                    Ok(started) => job = Some(started),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(Interrupted::Yes);
                    }
                }
            }
            let over = time.is_some_and(|time| progress.elapsed >= time);
            let goes_on = match &mut job {
                None => {
                    line.watching(&progress.elapsed, progress.seen);
                    match (stop.is_set(), over) {
                        (true, _) => ControlFlow::Break(Interrupted::Yes),
                        (false, true) => ControlFlow::Break(Interrupted::No),
                        (false, false) => ControlFlow::Continue(()),
                    }
                }
                Some(job) => {
                    if let Some(words) = job.progress() {
                        line.show(words);
                    }
                    if stop.is_set() {
                        job.interrupted();
                    }
                    let ended = over || job.ended();
                    if ended {
                        ControlFlow::Break(Interrupted::No)
                    } else {
                        ControlFlow::Continue(())
                    }
                }
            };
            if let Some(packets) = packets.as_ref().filter(|_| goes_on.is_break()) {
                packets.stop();
            }
            goes_on
        },
    );
    if let Some(packets) = packets {
        packets.finish(&mut evidence);
    }
    line.clear();
    if let Some(error) = failed {
        return Err(error);
    }
    Ok((evidence, job))
}

/// Watches for a time, or while a command runs; the command's exit code if there was one.
fn observe_command(what: &What<'_>, exec: &[OsString]) -> anyhow::Result<(Evidence, Option<u8>)> {
    let mut start = || Watched::start(exec);
    let start: Option<Start<'_, Watched>> = if exec.is_empty() { None } else { Some(&mut start) };
    let (evidence, mut job) = observe(what, start)?;
    let code = job.as_mut().map(Watched::code);
    if evidence.sockets.is_none() && evidence.counters.is_none() {
        let why: Vec<String> = [Source::Sockets, Source::Counters]
            .iter()
            .filter_map(|source| evidence.missing(*source))
            .map(|gap| gap.why.clone())
            .collect();
        anyhow::bail!(Failure::Observe(format!("could not observe this host: {}", why.join("; "))));
    }
    Ok((evidence, code))
}

/// Enters the network namespace that was asked for. Before any thread is started.
pub(crate) fn enter(options: &NetnsOptions) -> anyhow::Result<()> {
    if let Some(netns) = &options.netns {
        sys::namespace::enter(netns).map_err(|error| Failure::Observe(error.to_string()))?;
    }
    Ok(())
}

/// The live line on standard error: the countdown and what is already seen.
struct Line {
    bar: ProgressBar,
    time: Option<Duration>,
}

impl Line {
    fn new(time: Option<Duration>) -> Self {
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // A fixed template: it cannot fail.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Line { bar, time }
    }

    fn watching(&self, elapsed: &Duration, seen: &mut dyn FnMut() -> Vec<String>) {
        if self.bar.is_hidden() {
            return;
        }
        let seen = output::harmless(&seen().join("; "));
        let left = self.time.map(|time| time.saturating_sub(*elapsed));
        self.show(match left {
            Some(left) => format!("watching, {:.1} s left: {seen}", left.as_secs_f64()),
            None => format!("watching for {:.1} s: {seen}", elapsed.as_secs_f64()),
        });
    }

    fn show(&self, words: String) {
        self.bar.set_message(words);
        self.bar.tick();
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
