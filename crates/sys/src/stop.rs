//! The one token that ends work early: on Ctrl-C, at the end of a window, when a reader is gone.
//!
//! Long work gets a [`Stop`], checks it at every step, and ends with what it has so far. Work that may
//! end on its own gets a [child](Stop::child): a signal ends both, the end of the child leaves the
//! parent running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Result};

/// Ends work early. Clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    own: Arc<AtomicBool>,
    parent: Option<Arc<Stop>>,
}

impl Stop {
    /// A token that only [`Stop::set`] sets.
    pub fn new() -> Self {
        Stop::default()
    }

    /// A token that SIGINT, SIGTERM and SIGHUP set from now on. A second signal ends the process with
    /// exit code 128 and its number, as it would have without this.
    ///
    /// # Errors
    ///
    /// The handlers cannot be installed.
    pub fn on_signals() -> Result<Self> {
        let stop = Stop::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let failed = |error: std::io::Error| Error::from_io("handle", "signals", &error);
            // Registered first, so that it sees the flag that the signal before has set.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&stop.own),
            )
            .map_err(failed)?;
            signal_hook::flag::register(signal, Arc::clone(&stop.own)).map_err(failed)?;
        }
        Ok(stop)
    }

    /// A token that is set with this one, or on its own.
    pub fn child(&self) -> Self {
        Stop { own: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Asks the work to end.
    pub fn set(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// Whether the work should end.
    pub fn is_set(&self) -> bool {
        self.own.load(Ordering::Relaxed)
            || self.parent.as_ref().is_some_and(|parent| parent.is_set())
    }
}

#[cfg(test)]
mod tests {
    use super::Stop;

    #[test]
    fn a_child_ends_with_its_parent_or_alone() {
        let parent = Stop::new();
        let (ends_alone, ends_with) = (parent.child(), parent.child());
        ends_alone.clone().set();
        assert!(ends_alone.is_set() && !parent.is_set() && !ends_with.is_set());
        parent.set();
        assert!(ends_with.is_set() && ends_with.child().is_set());
    }
}
