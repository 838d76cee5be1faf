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

    /// The first part of this source that could not be observed, if there is one.
    pub fn missing(&self, source: Source) -> Option<&MissingEvidence> {
        self.missing_evidence.iter().find(|missing| missing.source == source)
    }

    /// Whether a source could be read: available when it is here, else what was noted; `None` when
    /// nobody tried.
    pub fn capability(&self, source: Source) -> Option<Capability> {
        if self.has(source) {
            return Some(Capability::Available);
        }
        self.missing(source).map(|missing| missing.capability)
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

/// Declares the sources of evidence: each once, with its name, what is read, and how one sees that an
/// evidence has it.
macro_rules! sources {
    ($($(#[$doc:meta])* $source:ident: $name:literal, $reads:literal, $has:expr;)*) => {
        /// Where evidence comes from.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum Source {
            $($(#[$doc])* $source,)*
        }

        impl Source {
            /// All of them.
            pub const ALL: &[Source] = &[$(Source::$source,)*];

            /// The name in the output.
            pub fn name(self) -> &'static str {
                match self { $(Source::$source => $name,)* }
            }

            /// What is read, and where.
            pub fn reads(self) -> &'static str {
                match self { $(Source::$source => $reads,)* }
            }
        }

        impl Evidence {
            /// Whether anything of this source is here.
            pub fn has(&self, source: Source) -> bool {
                match source {
                    $(Source::$source => {
                        let has: fn(&Evidence) -> bool = $has;
                        has(self)
                    })*
                }
            }
        }
    };
}

sources! {
    /// TCP sockets by sock_diag.
    Sockets: "sockets", "TCP sockets that are not listeners, by sock_diag",
        |e| e.sockets.is_some();
    /// Listening sockets by sock_diag.
    Listeners: "listeners", "TCP listeners with their queues, by sock_diag",
        |e| e.listeners.is_some();
    /// Listening Unix sockets by unix_diag.
    UnixListeners: "Unix listeners", "stream listeners on Unix sockets, by unix_diag",
        |e| e.unix_listeners.is_some();
    /// `/proc/net/{snmp,snmp6,netstat}`.
    Counters: "counters", "/proc/net/{snmp,snmp6,netstat}",
        |e| e.counters.is_some();
    /// `/proc/net/{sockstat,sockstat6}`.
    Sockstat: "sockstat", "/proc/net/{sockstat,sockstat6}",
        |e| e.sockstat.is_some();
    /// `/proc/net/softnet_stat`.
    Softnet: "softnet", "/proc/net/softnet_stat",
        |e| e.softnet.is_some();
    /// Size, statistics and table of connection tracking.
    Conntrack: "conntrack", "size, limit, statistics and table of connection tracking",
        |e| e.conntrack.is_some();
    /// `/proc/sys/net`.
    Sysctls: "sysctls", "sysctls under /proc/sys",
        |e| e.sysctls.is_some();
    /// `/dev/kmsg`.
    KernelLog: "kernel log", "/dev/kmsg",
        |e| e.kernel_log.is_some();
    /// `/proc/PID`.
    Processes: "processes", "/proc/PID of the processes that hold sockets",
        |e| e.processes.is_some();
    /// Logs and configuration of applications.
    Logs: "logs", "logs and configuration of applications",
        |e| e.logs.is_some();
    /// Packets: of capture files, or of the window.
    Packets: "packets", "packets of capture files, or of the window",
        |e| e.packets.is_some();
    /// Two captures of the same streams, one at each end.
    Path: "captures of both ends", "two captures of the same streams, one at each end of a path",
        |e| e.path.is_some();
    /// What netwhy measured by sending something itself.
    Probes: "probes", "what netwhy measured by sending something itself",
        |e| e.probes.is_some();
    /// Of that: pings while others download.
    UnderLoad: "pings under load", "round trips while downloads run, by netwhy ping --under-load",
        |e| e.probes.as_ref().is_some_and(|probes| probes.under_load.is_some());
    /// Of that: transfers.
    Transfer: "a transfer of netwhy", "transfers beside theory, by netwhy transfer",
        |e| e.probes.as_ref().is_some_and(|probes| probes.transfer.is_some());
}

/// Whether a source can be read on this machine, and if not, what kind of no it is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// It can; what is missing was left out to stay within bounds, or came too fast.
    #[default]
    Available,
    /// It needs rights that netwhy does not have.
    NotPermitted,
    /// This kernel cannot.
    Unsupported,
    /// It should work, and an error came back.
    Broken,
    /// There is nothing to read here: the program or protocol is not in use.
    NotApplicable,
}

/// A part of the evidence that could not be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingEvidence {
    /// Which source it belongs to.
    pub source: Source,
    /// Whether that source can be read at all, and if not, what kind of no it is.
    #[serde(default)]
    pub capability: Capability,
    /// What was not observed: "the processes of other users".
    pub what: String,
    /// Why: "/proc/812/fd: permission denied".
    pub why: String,
    /// What to do to observe it: "run as root"; `None` when nothing helps on this machine.
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
