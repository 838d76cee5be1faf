//! The kinds of observation, and which of them each source of evidence needs.

use crate::Source;

/// What it takes to observe a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Observation {
    /// Watch the host.
    Host,
    /// Capture packets, on the host that is watched or anywhere else.
    Packets,
    /// Capture the same connections at both ends of their path.
    Path,
    /// Send something: a probe.
    Probe,
}

impl Source {
    /// What it takes to observe it.
    pub fn observation(self) -> Observation {
        match self {
            Source::Sockets
            | Source::Listeners
            | Source::UnixListeners
            | Source::Counters
            | Source::Sockstat
            | Source::Softnet
            | Source::Conntrack
            | Source::Sysctls
            | Source::KernelLog
            | Source::Processes
            | Source::Logs => Observation::Host,
            Source::Packets => Observation::Packets,
            Source::Path => Observation::Path,
            Source::Probes | Source::UnderLoad | Source::Transfer => Observation::Probe,
        }
    }
}
