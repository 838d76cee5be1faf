//! A job that describes its progress on the live line.

/// A job that describes its progress on the live line.
pub(crate) trait LiveJob: session::Job {
    /// What it has done so far; `None`: no line, because the job may write to the terminal itself.
    fn line(&self) -> Option<String>;
}
