//! Kernel counters before and after the window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A counter, or a gauge, at both ends of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Value when the window began.
    pub before: u64,
    /// Value when it ended.
    pub after: u64,
}

impl Change {
    /// A counter that went from `before` to `after`.
    pub fn new(before: u64, after: u64) -> Self {
        Change { before, after }
    }

    /// Increase in the window; 0 when the counter decreased (it was reset).
    pub fn increase(self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Counters of `/proc/net/{snmp,snmp6,netstat}`, by the names that `nstat` prints:
/// protocol and field without a space (`TcpExtListenOverflows`, `TcpPassiveOpens`,
/// `Ip6InReceives`). Gauges such as `TcpCurrEstab` are here too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Counters(pub BTreeMap<String, Change>);

impl Counters {
    /// Increase over the window; `None` when this kernel has no such counter.
    pub fn increase(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|c| c.increase())
    }
}

/// A gauge that was sampled several times in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gauge {
    /// Samples.
    pub samples: u32,
    /// First value.
    pub first: u64,
    /// Last value.
    pub last: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Mean value.
    pub mean: f64,
}

impl Gauge {
    /// Adds one sample.
    pub fn sample(&mut self, value: u64) {
        if self.samples == 0 {
            *self =
                Gauge { samples: 0, first: value, last: value, min: value, max: value, mean: 0.0 };
        }
        self.samples += 1;
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.mean += (value as f64 - self.mean) / f64::from(self.samples);
    }
}

/// `/proc/net/{sockstat,sockstat6}`: numbers of sockets and TCP memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sockstat {
    /// Sockets of every kind, this namespace.
    pub sockets_used: Change,
    /// TCP over IPv4 sockets in use.
    pub tcp_inuse: Change,
    /// TCP over IPv6 sockets in use.
    pub tcp6_inuse: Option<Change>,
    /// TCP sockets that no process owns (whole machine on some kernels).
    pub tcp_orphan: Change,
    /// TIME_WAIT sockets, this namespace.
    pub tcp_time_wait: Change,
    /// TCP sockets allocated, whole machine.
    pub tcp_alloc: Change,
    /// TCP buffer memory in pages, whole machine.
    pub tcp_mem_pages: Change,
    /// UDP over IPv4 sockets in use.
    pub udp_inuse: Change,
    /// UDP buffer memory in pages, whole machine.
    pub udp_mem_pages: Change,
}

/// One CPU's line of `/proc/net/softnet_stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SoftnetCpu {
    /// CPU number.
    pub cpu: u32,
    /// Packets taken from the backlog or a driver.
    pub processed: Change,
    /// Packets dropped because `net.core.netdev_max_backlog` was reached.
    pub dropped: Change,
    /// Times the softirq stopped with work left (`netdev_budget` or `netdev_budget_usecs` used up).
    pub time_squeeze: Change,
    /// Wake-ups received from other CPUs by RPS.
    pub received_rps: Change,
    /// Packets dropped by the flow limit.
    pub flow_limit: Change,
    /// Packets in the backlog at the end of the window, where the kernel reports them.
    pub backlog: Option<u64>,
}
