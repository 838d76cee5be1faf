//! What an observer does while a window runs.

use model::{Evidence, Series};

use crate::context::Context;

/// An observer: reads one or several sources of evidence while a window runs.
pub trait Observe: Send {
    /// The window begins.
    fn begin(&mut self, context: &mut Context<'_>);

    /// Takes a sample: called every 100 ms, must stay cheap.
    fn sample(&mut self, _context: &mut Context<'_>) {}

    /// Adds what is known by now as numbers: totals, and the worst of a kind, never one for each socket.
    fn series(&self, _into: &mut Vec<Series>) {}

    /// Adds what is known by now to the evidence, after a last sample where one is needed. Called at the
    /// end of the window, and maybe before: it must not consume what later samples and calls need.
    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence);
}
