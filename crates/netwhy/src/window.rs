//! A window on this host: observers, packets, and a job that it lasts as long as.

use std::ffi::OsString;
use std::time::Duration;

use model::{Evidence, Focus, Source};
use observe::Window;
use sys::Stop;
use sys::real::RealMachine;

use crate::child::Watched;
use crate::failure::Failure;
use crate::job::{Job, Start};
use crate::options::{NetnsOptions, PacketOptions};
use crate::packets::Background;
use crate::progress::Line;

/// The window when none is asked for.
const WINDOW: Duration = Duration::from_secs(10);

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

/// Watches for a time, or while a job runs, which is given back. The namespace is entered already.
pub(crate) fn observe<J: Job>(
    what: &What<'_>,
    mut start: Option<Start<'_, J>>,
) -> anyhow::Result<(Evidence, Option<J>)> {
    let machine = RealMachine::new();
    let stop = Stop::on_signals()?;
    let packets = Background::start(what.packets, &what.focus, what.most_packets)?;
    let time = what.time.or_else(|| start.is_none().then_some(WINDOW));
    let line = Line::new(time);
    let mut job: Option<J> = None;
    let mut failed = None;
    let mut window = Window::begin(&machine, &what.focus, what.netns.clone());
    let interrupted = loop {
        // The window begins before the job does.
        if let Some(start) = start.take() {
            match start() {
                Ok(started) => job = Some(started),
                Err(error) => {
                    failed = Some(error);
                    break true;
                }
            }
        }
        let elapsed = window.elapsed();
        let over = time.is_some_and(|time| elapsed >= time);
        match &mut job {
            None => {
                line.watching(elapsed, || window.series());
                if stop.is_set() || over {
                    break stop.is_set();
                }
            }
            Some(job) => {
                if let Some(words) = job.progress() {
                    line.show(words);
                }
                if stop.is_set() {
                    job.interrupted();
                }
                if over || job.ended() {
                    break false;
                }
            }
        }
        window.step();
    };
    if let Some(packets) = &packets {
        packets.stop();
    }
    let mut evidence = window.end(interrupted);
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
pub(crate) fn observe_command(
    what: &What<'_>,
    exec: &[OsString],
) -> anyhow::Result<(Evidence, Option<u8>)> {
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
