//! Watching a host: one folder per source of evidence.
//!
//! - [`table`]: the observers, in the order in which they are asked
//! - [`watch`]: the window: begins, looks, ends; counts its own cost
//! - [`context`]: what observers share: the machine, gaps, who holds which socket
//! - [`holders`]: finding who holds a socket
//!
//! An observer reads through `sys` and parses with `wire`. It never fails the run: what it cannot
//! have becomes a gap.

pub mod context;
mod holders;
pub mod table;
pub mod watch;

pub mod applications;
pub mod conntrack;
pub mod counters;
pub mod kernel_log;
pub mod processes;
pub mod sockets;
pub mod softnet;
pub mod sysctls;

pub use context::Context;

use model::Evidence;

/// One source of evidence while a window lasts.
pub trait Observe {
    /// The window begins.
    fn begin(&mut self, context: &mut Context<'_>);

    /// A look in the window: called every 100 ms, must stay cheap.
    fn look(&mut self, _context: &mut Context<'_>) {}

    /// The window has ended: the last look, and the evidence.
    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence);

    /// A few words for the live line while the window lasts: what is already seen.
    fn seen(&self) -> Option<String> {
        None
    }
}
