//! Evidence: everything observed in one window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AppLog, Conntrack, Counters, Focus, KernelLog, Listener, Observation, Packets, Path, Probes,
    Process, SocketTable, Sockstat, SoftnetCpu, UnixListener,
};

/// Everything observed in one window: saved on one machine, diagnosed on another.
///
/// A source that could not be read is `None` here, and has a [`MissingEvidence`] with the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// [`Evidence::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The machine that was observed.
    pub host: Host,
    /// When it was observed, and for how long.
    pub window: Window,
    /// What the user restricted the window to; everything when empty.
    #[serde(default)]
    pub focus: Focus,
    /// What could not be observed, why, and how to observe it.
    #[serde(default)]
    pub missing_evidence: Vec<MissingEvidence>,
    /// What observing cost.
    pub cost: Cost,

    /// `/proc/net/{snmp,snmp6,netstat}`.
    pub counters: Option<Counters>,
    /// `/proc/net/{sockstat,sockstat6}`.
    pub sockstat: Option<Sockstat>,
    /// `/proc/net/softnet_stat`, one entry for each CPU.
    pub softnet: Option<Vec<SoftnetCpu>>,
    /// TCP sockets that are not listeners.
    pub sockets: Option<SocketTable>,
    /// TCP listeners, sampled many times in the window.
    pub listeners: Option<Vec<Listener>>,
    /// Stream listeners on Unix sockets of the processes below.
    pub unix_listeners: Option<Vec<UnixListener>>,
    /// Connection tracking; `None` when it could not be read. [`Conntrack::loaded`] is `false` where
    /// it is not in use.
    pub conntrack: Option<Conntrack>,
    /// Sysctls by name (`net.core.somaxconn`), as text.
    pub sysctls: Option<BTreeMap<String, String>>,
    /// Lines of the kernel log from the window.
    pub kernel_log: Option<KernelLog>,
    /// Processes that own sockets in this network namespace.
    pub processes: Option<Vec<Process>>,
    /// Logs of these processes: what they wrote in the window.
    pub logs: Option<Vec<AppLog>>,
    /// Packets of capture files, or of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// Two captures of the same streams, compared.
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

    /// Increase of a counter over the window, by the name that `nstat` prints
    /// (`TcpExtListenOverflows`).
    pub fn increase(&self, counter: &str) -> Option<u64> {
        self.counters.as_ref()?.increase(counter)
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.as_ref()?.iter().find(|p| p.pid == pid)
    }

    /// The first part of a source that could not be observed, if there is one.
    pub fn missing(&self, source: Source) -> Option<&MissingEvidence> {
        self.missing_evidence.iter().find(|missing| missing.source == source)
    }

    /// Whether a source could be read: available when it is here, otherwise as its missing evidence has
    /// it; `None` when nothing tried to read it.
    pub fn capability(&self, source: Source) -> Option<Capability> {
        if self.has(source) {
            return Some(Capability::Available);
        }
        self.missing(source).map(|missing| missing.capability)
    }
}

/// The machine that was observed.
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
    /// Name or process id of the network namespace that was observed; `None`: netwhy's own.
    pub netns: Option<String>,
    /// Whether netwhy ran with an effective user id of 0.
    pub root: bool,
}

/// When a host was observed, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub start_unix_ms: u64,
    /// Length in milliseconds, by the monotonic clock.
    pub duration_ms: u64,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.duration_ms as f64 / 1000.0
    }
}

/// Declares the sources of evidence, each once: what one has to do to observe it, its name, what is
/// read, and the field of [`Evidence`] that holds it.
macro_rules! sources {
    ($($(#[$doc:meta])* $source:ident: $observation:ident, $name:literal, $reads:literal,
        $field:ident $(. $part:ident)?;)*) => {
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

            /// What one has to do to observe it.
            pub fn observation(self) -> Observation {
                match self { $(Source::$source => Observation::$observation,)* }
            }

            /// What is read, and where.
            pub fn reads(self) -> &'static str {
                match self { $(Source::$source => $reads,)* }
            }
        }

        impl Evidence {
            /// Whether it has anything of a source.
            pub fn has(&self, source: Source) -> bool {
                match source {
                    $(Source::$source => {
                        self.$field.as_ref()$(.and_then(|whole| whole.$part.as_ref()))?.is_some()
                    })*
                }
            }

            /// Removes what it has of a source, with all that is part of the same field.
            pub fn remove(&mut self, source: Source) {
                match source { $(Source::$source => self.$field = None,)* }
            }
        }
    };
}

sources! {
    /// TCP sockets by sock_diag.
    Sockets: Host, "sockets",
        "TCP sockets that are not listeners, by sock_diag: those with SYN_SENT or CLOSE_WAIT often, \
         the whole table as often as it is cheap",
        sockets;
    /// Listening sockets by sock_diag.
    Listeners: Host, "listeners",
        "TCP listeners with their queues and drops, by sock_diag, at every sample",
        listeners;
    /// Listening Unix sockets by unix_diag.
    UnixListeners: Host, "Unix listeners",
        "stream listeners on Unix sockets with their queues, by unix_diag",
        unix_listeners;
    /// `/proc/net/{snmp,snmp6,netstat}`.
    Counters: Host, "counters",
        "`/proc/net/{snmp,snmp6,netstat}` at both ends of the window",
        counters;
    /// `/proc/net/{sockstat,sockstat6}`.
    Sockstat: Host, "sockstat",
        "`/proc/net/{sockstat,sockstat6}` at both ends of the window",
        sockstat;
    /// `/proc/net/softnet_stat`.
    Softnet: Host, "softnet",
        "`/proc/net/softnet_stat` at both ends of the window",
        softnet;
    /// Size, statistics and table of connection tracking.
    Conntrack: Host, "conntrack",
        "connection tracking: size, limit, buckets, per-CPU statistics, the table grouped while it is \
         read",
        conntrack;
    /// `/proc/sys`.
    Sysctls: Host, "sysctls",
        "the sysctls under `/proc/sys` that the causes depend on, at the end of the window",
        sysctls;
    /// `/dev/kmsg`.
    KernelLog: Host, "kernel log",
        "`/dev/kmsg`: lines of the window about the network, memory or files",
        kernel_log;
    /// `/proc/PID`.
    Processes: Host, "processes",
        "`/proc/PID` of the processes that own sockets in this network namespace: CPU, run delay, \
         states, open files against their limit",
        processes;
    /// Logs and configuration of applications.
    Logs: Host, "logs",
        "configuration and logs of the applications among these processes (nginx, php-fpm), only lines \
         of the window",
        logs;
    /// Packets of capture files, or of the window.
    Packets: Packets, "packets", "packets of capture files, or of the window",
        packets;
    /// Two captures of the same streams, one at each end.
    Path: Path, "captures of both ends",
        "two captures of the same streams, one at each end of a path",
        path;
    /// Measurements of packets that netwhy sent itself.
    Probes: Probe, "probes", "measurements of packets that netwhy sent itself",
        probes;
    /// Among them: pings while downloads run.
    UnderLoad: Probe, "pings under load",
        "round-trip times while downloads run, by netwhy ping --under-load",
        probes.under_load;
    /// Among them: transfers.
    Transfer: Probe, "a transfer of netwhy",
        "transfers compared with theory, by netwhy transfer",
        probes.transfer;
}

/// Whether a source can be read on this machine, and if not, why.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// It can be read; the missing part exceeded a limit, or came too fast.
    #[default]
    Available,
    /// Reading it needs rights that netwhy does not have.
    NotPermitted,
    /// This kernel does not have it.
    Unsupported,
    /// Reading it should work, but failed.
    Broken,
    /// There is nothing to read: the program or protocol is not in use.
    NotApplicable,
}

/// A part of the evidence that could not be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingEvidence {
    /// The source that it is a part of.
    pub source: Source,
    /// Whether that source can be read, and if not, why.
    #[serde(default)]
    pub capability: Capability,
    /// What was not observed: "the processes of other users".
    pub what: String,
    /// Why: "/proc/812/fd: permission denied".
    pub why: String,
    /// What to do to observe it: "run as root"; `None` when nothing helps on this machine.
    pub how_to_observe: Option<String>,
}

/// What observing cost, over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// CPU time of netwhy itself, user and system, in milliseconds.
    pub cpu_ms: f64,
    /// That CPU time as a percentage of one CPU over the window.
    pub cpu_percent_of_one: f64,
    /// Largest resident set of netwhy, in bytes.
    pub max_resident_bytes: u64,
    /// Samples that were due in the window.
    pub samples_planned: u32,
    /// Samples taken.
    pub samples_taken: u32,
    /// Samples that began more than half an interval late.
    pub samples_late: u32,
}
