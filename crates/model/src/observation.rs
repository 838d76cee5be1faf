//! The kinds of observation. Each source of evidence declares which it needs.

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
