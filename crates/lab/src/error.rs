//! Errors of the lab: what failed, on what, why, and what to do.

/// Result of the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// Something that stops a scenario.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// An error with this message.
    pub fn new(words: impl Into<String>) -> Self {
        Error(words.into())
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Error(error.to_string())
    }
}
