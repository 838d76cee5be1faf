//! A command that runs while netwhy observes: its input, output and exit code are its own.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

use crate::failure::Failure;
use crate::job::LiveJob;

/// A command that was started.
pub(crate) struct CommandJob(Child);

impl CommandJob {
    /// Starts a command.
    pub(crate) fn start(command: &[OsString]) -> anyhow::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            anyhow::bail!(Failure::Usage("no command after --".to_string()));
        };
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(CommandJob(child)),
            Err(error) => {
                // As in shells: 127 not found, 126 found but cannot be run.
                let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
                let name = program.to_string_lossy();
                Err(Failure::Command { code, text: format!("cannot run {name}: {error}") }.into())
            }
        }
    }

    /// Waits for its end; its exit code, or 128 plus the number of the signal that ended it.
    pub(crate) fn code(&mut self) -> u8 {
        self.0.wait().map_or(Failure::OBSERVE, code)
    }
}

impl session::Job for CommandJob {
    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// The terminal sends Ctrl-C to the command too: it ends by itself.
    fn interrupt(&mut self) {}
}

impl LiveJob for CommandJob {
    fn line(&self) -> Option<String> {
        None
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Failure::OBSERVE)
}
