//! Evidence: everything seen in one observation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AppLog, Conntrack, Counters, Focus, KernelLog, Listener, Packets, Path, Probes, Process,
    SocketTable, Sockstat, SoftnetCpu, UnixListener,
};

/// Everything seen in one observation: saved on one machine, diagnosed on another.
///
/// A source that could not be read is `None` here and has a [`Gap`] that says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// [`Evidence::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The machine that was watched.
    pub host: Host,
    /// When and for how long it was watched.
    pub window: Window,
    /// What the user asked to look at; everything when empty.
    #[serde(default)]
    pub focus: Focus,
    /// What could not be seen, and what would close each gap.
    #[serde(default)]
    pub missing_evidence: Vec<MissingEvidence>,
    /// What watching cost.
    pub cost: Cost,

    /// `/proc/net/{snmp,snmp6,netstat}`.
    pub counters: Option<Counters>,
    /// `/proc/net/{sockstat,sockstat6}`.
    pub sockstat: Option<Sockstat>,
    /// `/proc/net/softnet_stat`, one entry a CPU.
    pub softnet: Option<Vec<SoftnetCpu>>,
    /// TCP sockets that are not listeners.
    pub sockets: Option<SocketTable>,
    /// TCP listeners, looked at many times in the window.
    pub listeners: Option<Vec<Listener>>,
    /// Stream listeners on Unix sockets that the processes below hold.
    pub unix_listeners: Option<Vec<UnixListener>>,
    /// Connection tracking; `None` with a gap when it could not be read, see
    /// [`Conntrack::loaded`] when the module is absent.
    pub conntrack: Option<Conntrack>,
    /// Sysctls by name (`net.core.somaxconn`), as text.
    pub sysctls: Option<BTreeMap<String, String>>,
    /// Lines of the kernel log written in the window.
    pub kernel_log: Option<KernelLog>,
    /// Processes that own sockets in this network namespace.
    pub processes: Option<Vec<Process>>,
    /// Logs of these processes: what was written in the window.
    pub logs: Option<Vec<AppLog>>,
    /// Packets: of capture files, or of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// Two captures of the same streams, held against each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// What probes measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
}

impl Evidence {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;

    /// A sysctl as text; `None` when it was not read.
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        self.sysctls.as_ref()?.get(name).map(String::as_str)
    }

    /// A sysctl that is one whole number.
    pub fn sysctl_number(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.trim().parse().ok()
    }

    /// Growth of a counter over the window, by the name that `nstat` uses
    /// (`TcpExtListenOverflows`).
    pub fn increase(&self, counter: &str) -> Option<u64> {
        self.counters.as_ref()?.increase(counter)
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.as_ref()?.iter().find(|p| p.pid == pid)
    }

    /// The first gap of this source, if it has one.
    pub fn missing(&self, source: Source) -> Option<&MissingEvidence> {
        self.missing_evidence.iter().find(|g| g.source == source)
    }
}

/// The machine that was watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// Bytes of one page: the unit of `tcp_mem` and of `/proc/net/sockstat`'s `mem`.
    pub page_bytes: u64,
    /// Name or process id of the network namespace that was asked for; `None`: netwhy's own.
    pub netns: Option<String>,
    /// Whether netwhy ran with an effective user id of 0.
    pub root: bool,
}

/// When and for how long a host was watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub start_unix_ms: u64,
    /// Length in milliseconds, by the monotonic clock.
    pub duration_ms: u64,
    /// Ended early by the user.
    pub interrupted: bool,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.duration_ms as f64 / 1000.0
    }
}

/// Where evidence comes from. The name is the one users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// TCP sockets by sock_diag.
    Sockets,
    /// Listening sockets by sock_diag.
    Listeners,
    /// Listening Unix sockets by sock_diag.
    UnixListeners,
    /// `/proc/net/{snmp,snmp6,netstat}`.
    Counters,
    /// `/proc/net/{sockstat,sockstat6}`.
    Sockstat,
    /// `/proc/net/softnet_stat`.
    Softnet,
    /// Size, statistics and table of connection tracking.
    Conntrack,
    /// `/proc/sys/net`.
    Sysctls,
    /// `/dev/kmsg`.
    KernelLog,
    /// `/proc/PID`.
    Processes,
    /// Logs and configuration of applications.
    Logs,
    /// Packets: of capture files, or of the window.
    Packets,
    /// Two captures of the same streams, one at each end.
    Path,
    /// What netwhy measured by sending something itself.
    Probes,
    /// Of that: pings while others download.
    UnderLoad,
    /// Of that: transfers.
    Transfer,
}

impl Source {
    /// The name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Source::Sockets => "sockets",
            Source::Listeners => "listeners",
            Source::UnixListeners => "Unix listeners",
            Source::Counters => "counters",
            Source::Sockstat => "sockstat",
            Source::Softnet => "softnet",
            Source::Conntrack => "conntrack",
            Source::Sysctls => "sysctls",
            Source::KernelLog => "kernel log",
            Source::Processes => "processes",
            Source::Logs => "logs",
            Source::Packets => "packets",
            Source::Path => "captures of both ends",
            Source::Probes => "probes",
            Source::UnderLoad => "pings under load",
            Source::Transfer => "a transfer of netwhy",
        }
    }
}

/// A part of the evidence that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingEvidence {
    /// Which source has the gap.
    pub source: Source,
    /// What was not seen: "the processes of other users".
    pub what: String,
    /// Why: "/proc/812/fd: permission denied".
    pub why: String,
    /// What would close it: "run as root"; `None` when nothing would on this machine.
    pub how_to_observe: Option<String>,
}

/// What watching cost, over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// CPU time of netwhy itself, user and system, in milliseconds.
    pub cpu_ms: f64,
    /// That CPU time as a percentage of one CPU over the window.
    pub cpu_percent_of_one: f64,
    /// Largest resident set of netwhy, in bytes.
    pub max_resident_bytes: u64,
    /// Looks at the listeners that were planned for the window.
    pub samples_planned: u32,
    /// Looks that were made.
    pub samples_taken: u32,
    /// Looks that began more than half an interval late.
    pub samples_late: u32,
}
