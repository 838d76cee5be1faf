//! A probe in a thread of its own, while the host is watched.

use std::thread::JoinHandle;

use anyhow::Context as _;
use probe::Error;
use sys::Stop;

use crate::failure::Failure;
use crate::job::Job;

/// A probe that runs.
pub(crate) struct Probing<T> {
    thread: JoinHandle<Result<T, Error>>,
    stop: Stop,
    says: Box<dyn Fn() -> String>,
}

impl<T: Send + 'static> Probing<T> {
    /// Starts it. The thread is of this network namespace; `says` is for the live line.
    pub(crate) fn start(
        name: &str,
        probe: impl FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
        says: impl Fn() -> String + 'static,
    ) -> anyhow::Result<Self> {
        let stop = Stop::new();
        let until = stop.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || probe(&until))
            .with_context(|| format!("cannot start a thread for {name}"))?;
        Ok(Probing { thread, stop, says: Box::new(says) })
    }

    /// What it measured, once the window is over.
    pub(crate) fn result(self) -> anyhow::Result<T> {
        self.stop.set();
        match self.thread.join() {
            Ok(result) => result.map_err(failure),
            Err(_) => anyhow::bail!("a fault of netwhy while it probed"),
        }
    }
}

impl<T> Job for Probing<T> {
    fn ended(&mut self) -> bool {
        self.thread.is_finished()
    }

    fn interrupted(&mut self) {
        self.stop.set();
    }

    fn progress(&self) -> Option<String> {
        Some((self.says)())
    }
}

/// A probe's error with its exit code.
pub(crate) fn failure(error: Error) -> anyhow::Error {
    match error {
        Error::Usage(words) => Failure::Usage(words).into(),
        Error::Failed(words) => Failure::Observe(words).into(),
    }
}
