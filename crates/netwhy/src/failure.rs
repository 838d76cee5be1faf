//! Failures with an exit code of their own.

/// A failure whose exit code is documented.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user asked for something that is not possible.
    Usage(String),
    /// Nothing could be observed, or saved evidence could not be read.
    Observe(String),
    /// The command could not be started.
    Command {
        /// Exit code: 126 or 127, as shells have it.
        code: u8,
        /// What happened.
        text: String,
    },
}

impl Failure {
    /// Exit code of a failure without a code of its own.
    pub(crate) const OBSERVE: u8 = 3;

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Observe(_) => Failure::OBSERVE,
            Failure::Command { code, .. } => *code,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Observe(text) => f.write_str(text),
            Failure::Command { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}
