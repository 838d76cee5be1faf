//! The connection-tracking table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Change, Gauge};

/// Connection tracking over one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conntrack {
    /// Whether connection tracking is in use here; if not, all else is empty.
    pub loaded: bool,
    /// Entries in this namespace's table (`nf_conntrack_count`).
    pub count: Gauge,
    /// Largest number of entries (`nf_conntrack_max`).
    pub max: u64,
    /// Hash buckets (`nf_conntrack_buckets`).
    pub buckets: u64,
    /// Statistics summed over CPUs, by the names of `/proc/net/stat/nf_conntrack`
    /// (`insert_failed`, `drop`, `early_drop`, …); `None` when they could not be read.
    pub statistics: Option<BTreeMap<String, Change>>,
    /// The table, grouped; `None` when it was not read (usually because it was not needed).
    pub table: Option<ConntrackTable>,
}

impl Conntrack {
    /// Increase of a statistic over the window.
    pub fn increase(&self, statistic: &str) -> Option<u64> {
        self.statistics.as_ref()?.get(statistic).map(|c| c.increase())
    }
}

/// The table, grouped while it was read: the entries themselves are never kept.
///
/// Of a large table only a part is read; all numbers here are then estimates for the whole table, see
/// [`ConntrackTable::read`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConntrackTable {
    /// Entries of the table, or those of them that were selected.
    pub entries: u64,
    /// Entries that were read, when that is not all of them. The kernel lists entries in the order of a
    /// keyed hash, so that they are a random sample: a share of them differs from that of the whole by
    /// less than `0.98 / sqrt(read)` in 19 of 20 cases (0.3 % for 100,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// Entries by protocol (`tcp`, `udp`, `icmp`, or the number).
    pub by_protocol: BTreeMap<String, u64>,
    /// TCP entries by state (`ESTABLISHED`, `TIME_WAIT`, …).
    pub by_state: BTreeMap<String, u64>,
    /// Entries without a packet in the reply direction (`UNREPLIED`).
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
    /// How often it occurs; may be too high by `error`.
    pub count: u64,
    /// By how much `count` may be too high, as memory is bounded; 0: it is exact.
    pub error: u64,
}
