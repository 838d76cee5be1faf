//! A command that runs while netwhy watches: its input, output and exit code are its own.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

use crate::failure::Failure;
use crate::job::Job;

/// A command that was started.
pub(crate) struct Watched(Child);

impl Watched {
    /// Starts a command.
    pub(crate) fn start(words: &[OsString]) -> anyhow::Result<Self> {
        let Some((program, arguments)) = words.split_first() else {
            anyhow::bail!(Failure::Usage("no command after --".to_string()));
        };
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(Watched(child)),
            Err(error) => {
                // As shells have it: 127 not found, 126 found but cannot be run.
                let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
                let name = program.to_string_lossy();
                Err(Failure::Command { code, words: format!("cannot run {name}: {error}") }.into())
            }
        }
    }

    /// Waits for its end; its exit code, or 128 and the signal that ended it.
    pub(crate) fn code(&mut self) -> u8 {
        self.0.wait().map_or(Failure::OBSERVE, code)
    }
}

impl Job for Watched {
    fn ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// The terminal sends Ctrl-C to the command too: its end is awaited.
    fn interrupted(&mut self) {}

    /// A command may write to the terminal: no line that moves beside it.
    fn progress(&self) -> Option<String> {
        None
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Failure::OBSERVE)
}
