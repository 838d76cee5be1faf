//! The main job: watch, diagnose, report; and the same with the evidence kept in a file.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{Evidence, Report, Severity, Source};
use observe::watch::{Interrupted, Progress};
use sys::real::Real;

use crate::child::Watched;
use crate::cli::ReportOptions;
use crate::cli::{DiagnoseOptions, FocusOptions, NetnsOptions, RecordOptions, WatchOptions};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{evidence_file, output};

/// The window when none is asked for.
const WINDOW: Duration = Duration::from_secs(10);

/// `netwhy [-- COMMAND]`
pub(crate) fn run(options: &WatchOptions, exec: &[OsString]) -> anyhow::Result<u8> {
    let (evidence, code) = observe(options.time, &options.focus, &options.netns, exec)?;
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
    let (evidence, code) = observe(options.time, &options.focus, &options.netns, &options.exec)?;
    let bytes = file.write(&evidence)?;
    if options.output != Path::new("-") {
        eprintln!(
            "saved {} of evidence; see it with: netwhy diagnose {}",
            report::bytes(bytes),
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

fn severity_code(report: &Report, options: &ReportOptions) -> u8 {
    let worst: Option<Severity> = report.findings.iter().map(|f| f.severity).max();
    let limit = options.fail_on.map(crate::cli::FailOn::severity);
    u8::from(matches!((worst, limit), (Some(worst), Some(limit)) if worst >= limit))
}

/// Watches for a time, or while a command runs; the command's exit code if there was one.
fn observe(
    time: Option<Duration>,
    focus: &FocusOptions,
    netns: &NetnsOptions,
    exec: &[OsString],
) -> anyhow::Result<(Evidence, Option<u8>)> {
    enter(netns)?;
    let machine = Real::new();
    let interrupt = Interrupt::listen()?;
    let time = time.or_else(|| exec.is_empty().then_some(WINDOW));
    // A command may write to the terminal: no line that moves beside it.
    let line = Line::new(time, exec.is_empty());
    let mut child = None;
    let mut failed = None;
    let evidence = observe::watch::watch(
        &machine,
        &focus.focus(),
        netns.netns.clone(),
        &mut |progress: Progress<'_>| {
            // Started at the first look: the window begins before the command does.
            if child.is_none() && !exec.is_empty() {
                match Watched::start(exec) {
                    Ok(started) => child = Some(started),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(Interrupted::Yes);
                    }
                }
            }
            line.show(&progress.elapsed, progress.seen);
            let over = time.is_some_and(|time| progress.elapsed >= time);
            let ended = child.as_mut().is_some_and(Watched::ended);
            // The terminal sends Ctrl-C to the command too: its end is awaited.
            if child.is_none() && interrupt.came() {
                ControlFlow::Break(Interrupted::Yes)
            } else if ended || over {
                ControlFlow::Break(Interrupted::No)
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    line.clear();
    if let Some(error) = failed {
        return Err(error);
    }
    let code = child.as_mut().map(Watched::code);
    if evidence.sockets.is_none() && evidence.counters.is_none() {
        let why: Vec<String> = [Source::Sockets, Source::Counters]
            .iter()
            .filter_map(|source| evidence.gap(*source))
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
    fn new(time: Option<Duration>, wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // A fixed template: it cannot fail.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Line { bar, time }
    }

    fn show(&self, elapsed: &Duration, seen: &mut dyn FnMut() -> Vec<String>) {
        if self.bar.is_hidden() {
            return;
        }
        let seen = output::harmless(&seen().join("; "));
        let left = self.time.map(|time| time.saturating_sub(*elapsed));
        self.bar.set_message(match left {
            Some(left) => format!("watching, {:.1} s left: {seen}", left.as_secs_f64()),
            None => format!("watching for {:.1} s: {seen}", elapsed.as_secs_f64()),
        });
        self.bar.tick();
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
