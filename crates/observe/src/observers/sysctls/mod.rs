//! The sysctls that the causes depend on, at the end of the window. One that this kernel does not have
//! is left out: nothing is missing then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::{Capability, Evidence, Source};
use sys::ErrorKind;

use crate::context::Context;
use crate::observer::Observe;

/// Their names.
const NAMES: &[&str] = &[
    "fs.file-max",
    "fs.file-nr",
    "fs.nr_open",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_tw_reuse_delay",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.netfilter.nf_conntrack_acct",
    "net.netfilter.nf_conntrack_buckets",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_generic_timeout",
    "net.netfilter.nf_conntrack_icmp_timeout",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_be_liberal",
    "net.netfilter.nf_conntrack_tcp_loose",
    "net.netfilter.nf_conntrack_tcp_timeout_close",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_last_ack",
    "net.netfilter.nf_conntrack_tcp_timeout_syn_recv",
    "net.netfilter.nf_conntrack_tcp_timeout_syn_sent",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_unacknowledged",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
];

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::new(SysctlsObserver)
}

struct SysctlsObserver;

impl Observe for SysctlsObserver {
    fn begin(&mut self, _context: &mut Context<'_>) {}

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        let mut all = BTreeMap::new();
        for name in NAMES {
            match context.machine.files().read(&path(name), &mut context.buffer) {
                Ok(()) => {
                    let text = String::from_utf8_lossy(&context.buffer).trim_end().to_string();
                    all.insert((*name).to_string(), text);
                }
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => context.missing(Source::Sysctls, *name, &error),
            }
        }
        if all.is_empty() {
            let why = "none could be read: is /proc/sys mounted?";
            context.missing_because(Source::Sysctls, Capability::Broken, "sysctls", why, None);
        } else {
            evidence.sysctls = Some(all);
        }
    }
}

/// The file of a sysctl.
fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}
