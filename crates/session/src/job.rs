//! What runs while a host is observed.

use model::Series;

/// What runs while a host is observed: a command, a probe. The window ends with it.
pub trait Job {
    /// Whether it has ended.
    fn has_ended(&mut self) -> bool;

    /// Asks it to end early. May be called several times.
    fn interrupt(&mut self);

    /// What it has measured so far.
    fn series(&self) -> Vec<Series> {
        Vec::new()
    }
}
