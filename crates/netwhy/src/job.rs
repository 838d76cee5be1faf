//! What runs while a host is watched: a command, a probe. The window ends with it.

/// What runs while the host is watched: a command, a probe. The window ends with it.
pub(crate) trait Job {
    /// Whether it has ended.
    fn ended(&mut self) -> bool;

    /// Ctrl-C came; it may be told several times.
    fn interrupted(&mut self);

    /// What it says of itself, for the live line; without it there is no line.
    fn progress(&self) -> Option<String>;
}

/// What starts a job, once the window has begun.
pub(crate) type Start<'a, J> = &'a mut dyn FnMut() -> anyhow::Result<J>;
