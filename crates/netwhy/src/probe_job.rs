//! A probe in a thread of its own, while the host is observed.

use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use model::Series;
use probe::Error;
use sys::Stop;

use crate::failure::Failure;
use crate::job::LiveJob;

/// A probe that runs.
pub(crate) struct ProbeJob<T> {
    thread: JoinHandle<Result<T, Error>>,
    stop: Stop,
    started: Instant,
    progress: Progress,
}

/// The progress of a probe.
pub(crate) struct Progress {
    /// What it has measured so far.
    pub(crate) series: Box<dyn Fn() -> Vec<Series>>,
    /// The same for the live line, after a time.
    pub(crate) line: fn(&[Series], Duration) -> String,
}

impl<T: Send + 'static> ProbeJob<T> {
    /// Starts it. Its thread is in the network namespace of the calling thread.
    pub(crate) fn start(
        name: &str,
        probe: impl FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
        progress: Progress,
    ) -> anyhow::Result<Self> {
        let stop = Stop::new();
        let until = stop.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || probe(&until))
            .with_context(|| format!("cannot start a thread for {name}"))?;
        Ok(ProbeJob { thread, stop, started: Instant::now(), progress })
    }

    /// What it measured, once the window is over.
    pub(crate) fn result(self) -> anyhow::Result<T> {
        self.stop.set();
        match self.thread.join() {
            Ok(result) => result.map_err(failure),
            Err(_) => anyhow::bail!("the probe's thread failed (a bug of netwhy)"),
        }
    }
}

impl<T> session::Job for ProbeJob<T> {
    fn has_ended(&mut self) -> bool {
        self.thread.is_finished()
    }

    fn interrupt(&mut self) {
        self.stop.set();
    }

    fn series(&self) -> Vec<Series> {
        (self.progress.series)()
    }
}

impl<T> LiveJob for ProbeJob<T> {
    fn line(&self) -> Option<String> {
        Some((self.progress.line)(&(self.progress.series)(), self.started.elapsed()))
    }
}

/// The value of a series by its name; 0 without it.
pub(crate) fn value(series: &[Series], name: &str) -> u64 {
    series.iter().find(|series| series.name == name).map_or(0, |series| series.value as u64)
}

/// Microseconds since 1970-01-01 UTC.
pub(crate) fn unix_us() -> i64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A probe's error with its exit code.
pub(crate) fn failure(error: Error) -> anyhow::Error {
    match error {
        Error::Usage(text) => Failure::Usage(text).into(),
        Error::Failed(text) => Failure::Observe(text).into(),
    }
}
