//! The connection-tracking table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Change, Gauge};

/// Connection tracking as seen in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conntrack {
    /// Whether the kernel has connection tracking active here; all else is empty if not.
    pub loaded: bool,
    /// Entries in this namespace's table (`nf_conntrack_count`).
    pub count: Gauge,
    /// Most entries allowed (`nf_conntrack_max`).
    pub max: u64,
    /// Hash buckets (`nf_conntrack_buckets`).
    pub buckets: u64,
    /// Statistics summed over CPUs, by the names of `/proc/net/stat/nf_conntrack`
    /// (`insert_failed`, `drop`, `early_drop`, …); `None` when they could not be read.
    pub statistics: Option<BTreeMap<String, Change>>,
    /// The table grouped; `None` when it was not read (see gaps).
    pub table: Option<ConntrackTable>,
}

impl Conntrack {
    /// Growth of one statistic over the window.
    pub fn growth(&self, statistic: &str) -> Option<u64> {
        self.statistics.as_ref()?.get(statistic).map(|c| c.growth())
    }
}

/// The table grouped while it was read: the entries themselves are never held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConntrackTable {
    /// Entries read.
    pub entries: u64,
    /// Entries by protocol (`tcp`, `udp`, `icmp`, or the number).
    pub by_protocol: BTreeMap<String, u64>,
    /// TCP entries by state (`ESTABLISHED`, `TIME_WAIT`, …).
    pub by_state: BTreeMap<String, u64>,
    /// Entries that saw no answer (`UNREPLIED`).
    pub unreplied: u64,
    /// Entries that early drop may not evict (`ASSURED`).
    pub assured: u64,
    /// Most frequent sources of the original direction.
    pub top_sources: Vec<Top>,
    /// Most frequent destinations of the original direction.
    pub top_destinations: Vec<Top>,
    /// Most frequent destination ports (`tcp/80`).
    pub top_ports: Vec<Top>,
}

/// One of the most frequent values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Top {
    /// The value.
    pub key: String,
    /// How often it was seen, at most this often too much: see `error`.
    pub count: u64,
    /// By how much `count` may be too high (bounded counting; 0: exact).
    pub error: u64,
}
