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
    /// Exit code of wrong usage.
    pub(crate) const USAGE: u8 = 2;

    /// Exit code of a failure without a code of its own.
    pub(crate) const OBSERVE: u8 = 3;

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => Failure::USAGE,
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

/// `; did you mean eth0?`, or nothing if no name is near.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    text::nearest(word, names).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// What the machine refused: a name that does not exist is an error of usage, with the name that was
/// meant if one is near.
pub(crate) fn refused(error: &sys::Error, names: &[String]) -> Failure {
    if error.kind != sys::ErrorKind::NotFound {
        return Failure::Observe(error.to_string());
    }
    let nearest = did_you_mean(&error.object, names.iter().map(String::as_str));
    Failure::Usage(format!("{error}{nearest}"))
}
