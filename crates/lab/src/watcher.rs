//! Who looks at hosts and probes from them: netwhy, of which the lab knows no more than this.

use std::path::Path;
use std::time::Duration;

use model::{Finding, Undecided};
use serde::Deserialize;

/// What netwhy says of a host, of captures, or after a probe.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Said {
    /// Causes found, worst first; left out by pings when there are none.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Causes that could not be decided; pings tell none.
    #[serde(default)]
    pub undecided: Vec<Undecided>,
}

/// Looks at a host and diagnoses it: the lab knows no rule.
pub trait Watcher: Sync {
    /// Watches the host of which this is a process, for some time.
    ///
    /// # Errors
    ///
    /// It could not be watched.
    fn watch(&self, pid: u32, time: Duration) -> Result<Said, String>;

    /// Diagnoses a capture file.
    ///
    /// # Errors
    ///
    /// It could not be read.
    fn read(&self, capture: &Path) -> Result<Said, String>;

    /// Diagnoses the captures of both ends of a path: the client's and the server's.
    ///
    /// # Errors
    ///
    /// They could not be read or compared.
    fn compare(&self, client: &Path, server: &Path) -> Result<Said, String>;

    /// Probes from the host of which this is a process, with these words behind `netwhy`.
    ///
    /// # Errors
    ///
    /// It could not probe.
    fn probe(&self, pid: u32, words: &str) -> Result<Said, String>;
}
