//! Kernel counters of this network namespace, at both ends of the window:
//! `/proc/net/{snmp,snmp6,netstat}` and `/proc/net/{sockstat,sockstat6}`.
//!
//! A kernel without IPv6 has no files of that version: that is no gap.

use std::collections::BTreeMap;
use std::path::Path;

use model::{Change, Counters, Evidence, Sockstat, Source};
use wire::proc_net;

use crate::{Context, Observe};

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<Both>::default()
}

#[derive(Default)]
struct Both {
    counters: Option<BTreeMap<String, u64>>,
    sockstat: Option<[String; 2]>,
}

impl Observe for Both {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.counters = counters(context);
        self.sockstat = sockstat(context);
    }

    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        if let (Some(before), Some(after)) = (self.counters.take(), counters(context)) {
            let change = |(name, after): (String, u64)| {
                // A protocol that was loaded meanwhile began at zero.
                let before = before.get(&name).copied().unwrap_or(0);
                (name, Change { before, after })
            };
            evidence.counters = Some(Counters(after.into_iter().map(change).collect()));
        }
        if let (Some(before), Some(after)) = (self.sockstat.take(), sockstat(context)) {
            evidence.sockstat = Some(changes(&before, &after));
        }
    }
}

fn counters(context: &mut Context<'_>) -> Option<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for path in ["/proc/net/netstat", "/proc/net/snmp"] {
        let text = context.text(Source::Counters, "kernel counters", path)?;
        proc_net::counters(text, |protocol, name, value| {
            all.insert(format!("{protocol}{name}"), value);
        });
    }
    if let Some(text) = optional(context, "/proc/net/snmp6") {
        proc_net::counters6(&text, |name, value| {
            all.insert(name.to_string(), value);
        });
    }
    Some(all)
}

/// `sockstat` and `sockstat6`.
fn sockstat(context: &mut Context<'_>) -> Option<[String; 2]> {
    let v4 =
        context.text(Source::Sockstat, "numbers of sockets", "/proc/net/sockstat")?.to_string();
    Some([v4, optional(context, "/proc/net/sockstat6").unwrap_or_default()])
}

/// Text of a file that need not be there.
fn optional(context: &mut Context<'_>, path: &str) -> Option<String> {
    context.machine.read(Path::new(path), &mut context.buffer).ok()?;
    String::from_utf8(context.buffer.clone()).ok()
}

fn changes(before: &[String; 2], after: &[String; 2]) -> Sockstat {
    let change = |version: usize, protocol: &str, field: &str| {
        Some(Change {
            before: proc_net::sockstat(&before[version], protocol, field)?,
            after: proc_net::sockstat(&after[version], protocol, field)?,
        })
    };
    let known = |protocol: &str, field: &str| change(0, protocol, field).unwrap_or_default();
    Sockstat {
        sockets_used: known("sockets", "used"),
        tcp_inuse: known("TCP", "inuse"),
        tcp6_inuse: change(1, "TCP6", "inuse"),
        tcp_orphan: known("TCP", "orphan"),
        tcp_time_wait: known("TCP", "tw"),
        tcp_alloc: known("TCP", "alloc"),
        tcp_mem_pages: known("TCP", "mem"),
        udp_inuse: known("UDP", "inuse"),
        udp_mem_pages: known("UDP", "mem"),
    }
}
