//! What the lab needs from netwhy: it observes hosts, reads captures, probes, and returns causes.

use std::path::Path;
use std::time::Duration;

use model::{Finding, Undecided};
use serde::{Deserialize, Serialize};
use sys::Stop;

/// What netwhy concludes about a host, about captures, or after a probe.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Diagnosis {
    /// Causes it names, worst first; `netwhy ping` omits them when there are none.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Causes it could not decide; `netwhy ping` lists none.
    #[serde(default)]
    pub undecided: Vec<Undecided>,
    /// The memory of netwhy while it watched; empty where that is not measured.
    #[serde(skip)]
    pub memory: Vec<MemorySample>,
}

/// The memory of a program at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MemorySample {
    /// Since its start, seconds.
    pub seconds: f64,
    /// Resident set, bytes.
    pub resident: u64,
}

/// Observes and diagnoses: the lab itself knows no rule.
pub trait Observer: Sync {
    /// Observes the host to which this process belongs, for this long.
    ///
    /// # Errors
    ///
    /// It could not be observed.
    fn observe_host(&self, pid: u32, duration: Duration) -> Result<Diagnosis, String>;

    /// Observes this host and captures its packets for this long, or until the user stops it.
    ///
    /// # Errors
    ///
    /// It could not be observed.
    fn watch_host(&self, pid: u32, duration: Duration, stop: &Stop) -> Result<Diagnosis, String>;

    /// Diagnoses a capture file.
    ///
    /// # Errors
    ///
    /// It could not be read.
    fn diagnose_capture(&self, capture: &Path) -> Result<Diagnosis, String>;

    /// Diagnoses the captures of both ends of a path: the client's and the server's.
    ///
    /// # Errors
    ///
    /// They could not be read or compared.
    fn compare_captures(&self, client: &Path, server: &Path) -> Result<Diagnosis, String>;

    /// Probes from the host to which this process belongs, with these arguments of `netwhy`.
    ///
    /// # Errors
    ///
    /// It could not probe.
    fn probe(&self, pid: u32, arguments: &str) -> Result<Diagnosis, String>;
}
