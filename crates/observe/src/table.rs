//! The observers, in the order in which they are asked.
//!
//! Processes come first: who holds which socket is asked of them by those that follow.

use model::Source;

use crate::{
    Observe, applications, conntrack, counters, kernel_log, processes, sockets, softnet, sysctls,
};

/// One observer.
pub struct Entry {
    /// The source it reads; a folder may serve several, this is its first.
    pub source: Source,
    /// Its folder in this crate.
    pub name: &'static str,
    /// What it reads, from where, at what cost.
    pub about: &'static str,
    /// Makes one for a window.
    pub make: fn() -> Box<dyn Observe>,
}

/// All observers.
pub const OBSERVERS: &[Entry] = &[
    Entry {
        source: Source::Processes,
        name: "processes",
        about: "/proc/PID of the processes in this network namespace that hold sockets: CPU, run \
                delay, states, open files against their limit",
        make: processes::observer,
    },
    Entry {
        source: Source::Sockets,
        name: "sockets",
        about: "TCP sockets and listeners by sock_diag, Unix listeners by unix_diag; listeners at \
                every look, the whole table as often as it is cheap",
        make: sockets::observer,
    },
    Entry {
        source: Source::Logs,
        name: "applications",
        about: "configuration and logs of the applications among these processes, the window's \
                lines only",
        make: applications::observer,
    },
    Entry {
        source: Source::Counters,
        name: "counters",
        about: "/proc/net/{snmp,snmp6,netstat,sockstat,sockstat6} at both ends of the window",
        make: counters::observer,
    },
    Entry {
        source: Source::Softnet,
        name: "softnet",
        about: "/proc/net/softnet_stat at both ends of the window",
        make: softnet::observer,
    },
    Entry {
        source: Source::Sysctls,
        name: "sysctls",
        about: "the sysctls under /proc/sys that rule what the causes speak of",
        make: sysctls::observer,
    },
    Entry {
        source: Source::Conntrack,
        name: "conntrack",
        about: "connection tracking: size, limit, per-CPU statistics, the table grouped while it \
                is read",
        make: conntrack::observer,
    },
    Entry {
        source: Source::KernelLog,
        name: "kernel_log",
        about: "/dev/kmsg: lines of the window about the network, memory or files",
        make: kernel_log::observer,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::OBSERVERS;

    #[test]
    fn names_are_folders_and_unique() {
        let mut seen = BTreeSet::new();
        for entry in OBSERVERS {
            assert!(seen.insert(entry.name), "{} stands twice", entry.name);
            let folder = format!("{}/src/{}", env!("CARGO_MANIFEST_DIR"), entry.name);
            assert!(std::path::Path::new(&folder).is_dir(), "no folder {folder}");
            assert!(entry.about.len() > 20, "{} says too little of itself", entry.name);
        }
    }
}
