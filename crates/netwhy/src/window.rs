//! A session of this host as commands have it: Ctrl-C ends it, and a live line shows its progress.

use std::ffi::OsString;
use std::time::Duration;

use model::{Evidence, Source};
use session::Plan;
use sys::Stop;
use sys::real::RealMachine;

use crate::command_job::CommandJob;
use crate::failure::{Failure, refused};
use crate::job::LiveJob;
use crate::json_lines::JsonLines;
use crate::options::NetnsOptions;
use crate::progress::Line;

/// Duration of a window without a job, if none is given.
const DEFAULT_WINDOW: Duration = Duration::from_secs(10);

/// Observes this host while a job runs.
pub(crate) fn observe_job<J: LiveJob>(
    plan: &Plan,
    start: impl FnOnce() -> anyhow::Result<J>,
) -> anyhow::Result<(Evidence, J)> {
    observe_job_in_lines(plan, start, None)
}

/// The same; what is known meanwhile is printed as `lines`.
fn observe_job_in_lines<J: LiveJob>(
    plan: &Plan,
    start: impl FnOnce() -> anyhow::Result<J>,
    mut lines: Option<&mut JsonLines>,
) -> anyhow::Result<(Evidence, J)> {
    let stop = Stop::on_signals()?;
    let line = Line::new(plan.duration);
    let observed =
        session::observe_job(&RealMachine::new(), plan, &stop, start, &mut |session, job: &J| {
            if let Some(lines) = &mut lines {
                lines.step(session, &stop);
            }
            if let Some(text) = job.line() {
                line.show(text);
            }
        });
    line.clear();
    observed.map_err(failure)
}

/// Observes this host for a time.
fn observe(plan: &Plan, mut lines: Option<&mut JsonLines>) -> anyhow::Result<Evidence> {
    let stop = Stop::on_signals()?;
    let plan = Plan { duration: plan.duration.or(Some(DEFAULT_WINDOW)), ..plan.clone() };
    let line = Line::new(plan.duration);
    let observed =
        session::observe(&RealMachine::new(), &plan, &stop, &mut |session| match &mut lines {
            Some(lines) => lines.step(session, &stop),
            None => line.watching(session.elapsed(), || session.series()),
        });
    line.clear();
    observed.map_err(|error| failure(error.into()))
}

/// What a session refuses is an error of usage.
fn failure(error: anyhow::Error) -> anyhow::Error {
    use session::Error;
    let text = match error.downcast_ref::<Error>() {
        None => return error,
        Some(Error::PacketsOfProcesses) => "packets do not show their process: with --capture use \
                                            --port or --peer instead of --pid"
            .to_string(),
        Some(Error::InterfaceTwice(name)) => format!("--interface {name} is given twice"),
        Some(Error::NoInterface(error)) => return no_interface(error).into(),
    };
    Failure::Usage(text).into()
}

/// An interface on which packets cannot be captured.
pub(crate) fn no_interface(error: &sys::Error) -> Failure {
    refused(error, &sys::packet_ring::interfaces())
}

/// Observes this host for a time, or while a command runs; the command's exit code if there was one.
/// What is known meanwhile is printed as `lines`.
pub(crate) fn observe_command(
    plan: &Plan,
    command: &[OsString],
    lines: Option<&mut JsonLines>,
) -> anyhow::Result<(Evidence, Option<u8>)> {
    let (evidence, code) = if command.is_empty() {
        (observe(plan, lines)?, None)
    } else {
        let (evidence, mut job) = observe_job_in_lines(plan, || CommandJob::start(command), lines)?;
        (evidence, Some(job.code()))
    };
    if evidence.sockets.is_none() && evidence.counters.is_none() {
        let why: Vec<String> = [Source::Sockets, Source::Counters]
            .iter()
            .filter_map(|source| evidence.missing(*source))
            .map(|missing| missing.why.clone())
            .collect();
        anyhow::bail!(Failure::Observe(format!("could not observe this host: {}", why.join("; "))));
    }
    Ok((evidence, code))
}

/// Enters the network namespace that was asked for. Before any thread is started.
pub(crate) fn enter(options: &NetnsOptions) -> anyhow::Result<()> {
    if let Some(netns) = &options.netns {
        sys::namespace::enter(netns).map_err(|error| refused(&error, &sys::namespace::names()))?;
    }
    Ok(())
}
