//! Kernel counters of this network namespace, at both ends of the window:
//! `/proc/net/{snmp,snmp6,netstat}` and `/proc/net/{sockstat,sockstat6}`.
//!
//! A kernel without IPv6 has no files of that version: nothing is missing then.

use std::collections::BTreeMap;

use model::{Change, Counters, Evidence, Sockstat, Source};
use wire::proc_net;

use crate::context::Context;
use crate::observer::Observe;

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<CountersObserver>::default()
}

/// The counters at the beginning of the window.
#[derive(Default)]
struct CountersObserver {
    counters: Option<BTreeMap<String, u64>>,
    sockstat: Option<SockstatText>,
}

/// `sockstat`, and `sockstat6` or nothing.
struct SockstatText {
    v4: String,
    v6: String,
}

impl Observe for CountersObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.counters = read_counters(context);
        self.sockstat = read_sockstat(context);
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        if let (Some(before), Some(after)) = (&self.counters, read_counters(context)) {
            let change = |(name, after): (String, u64)| {
                // The counters of a protocol that was loaded meanwhile began at zero.
                let before = before.get(&name).copied().unwrap_or(0);
                (name, Change { before, after })
            };
            evidence.counters = Some(Counters(after.into_iter().map(change).collect()));
        }
        if let (Some(before), Some(after)) = (&self.sockstat, read_sockstat(context)) {
            evidence.sockstat = Some(sockstat_changes(before, &after));
        }
    }
}

fn read_counters(context: &mut Context<'_>) -> Option<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for path in ["/proc/net/netstat", "/proc/net/snmp"] {
        let text = context.text(Source::Counters, "kernel counters", path)?;
        proc_net::counters(text, |protocol, name, value| {
            all.insert(format!("{protocol}{name}"), value);
        });
    }
    if let Some(text) = context.optional_text("/proc/net/snmp6") {
        proc_net::counters6(text, |name, value| {
            all.insert(name.to_string(), value);
        });
    }
    Some(all)
}

fn read_sockstat(context: &mut Context<'_>) -> Option<SockstatText> {
    let v4 =
        context.text(Source::Sockstat, "numbers of sockets", "/proc/net/sockstat")?.to_string();
    let v6 = context.optional_text("/proc/net/sockstat6").unwrap_or_default().to_string();
    Some(SockstatText { v4, v6 })
}

fn sockstat_changes(before: &SockstatText, after: &SockstatText) -> Sockstat {
    let change = |before: &str, after: &str, protocol: &str, field: &str| {
        Some(Change {
            before: proc_net::sockstat(before, protocol, field)?,
            after: proc_net::sockstat(after, protocol, field)?,
        })
    };
    let v4 = |protocol: &str, field: &str| {
        change(&before.v4, &after.v4, protocol, field).unwrap_or_default()
    };
    Sockstat {
        sockets_used: v4("sockets", "used"),
        tcp_inuse: v4("TCP", "inuse"),
        tcp6_inuse: change(&before.v6, &after.v6, "TCP6", "inuse"),
        tcp_orphan: v4("TCP", "orphan"),
        tcp_time_wait: v4("TCP", "tw"),
        tcp_alloc: v4("TCP", "alloc"),
        tcp_mem_pages: v4("TCP", "mem"),
        udp_inuse: v4("UDP", "inuse"),
        udp_mem_pages: v4("UDP", "mem"),
    }
}
