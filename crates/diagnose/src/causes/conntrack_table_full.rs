//! # conntrack-table-full
//!
//! ## What happens
//!
//! Where a firewall or address translation tracks connections, each of them has an
//! entry in a table of limited size. When the table is full, packets that would
//! need a new entry are dropped, whatever they carry: connections open late or
//! never, DNS queries time out. Connections that are tracked already go on.
//!
//! ## Evidence
//!
//! - the number of entries reached `nf_conntrack_max` in a sample (several are
//!   taken each second); and
//! - `drop` or `early_drop` increased in the per-CPU statistics (`conntrack -S`),
//!   or the kernel logged `nf_conntrack: table full, dropping packet` in the
//!   window;
//! - the table, grouped by source and TCP state, shows who fills it.
//!
//! ## Threshold
//!
//! Full means 95 % of the limit in one sample: the kernel counts an entry before it
//! refuses it, so the number varies around the limit between two samples. A full
//! table alone is no proof: while it refuses nothing it harms nobody. `early_drop`
//! is an entry that the kernel evicted to make room: a warning. `drop` is a lost
//! packet: critical.
//!
//! ## Looks like it, but is not
//!
//! - A limit that was set below the number of entries: nothing is dropped until a
//!   new connection is opened.
//! - Drops with a table that is not full: entries of another namespace, invalid
//!   packets, lack of memory.
//! - syn-retransmitted and slow DNS are effects of this.
//!
//! ## Check by hand
//!
//! ```sh
//! sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max
//! conntrack -S
//! dmesg | grep 'table full'
//! ```
//!
//! ## Fix
//!
//! Raise `net.netfilter.nf_conntrack_max`: an entry takes about 320 bytes of
//! memory, a bucket of the hash table 8. Keep about as many buckets
//! (`nf_conntrack_buckets`) as entries. There is one limit for the whole machine,
//! and it can be written in the first network namespace only. When closed
//! connections fill the table, shorten `nf_conntrack_tcp_timeout_time_wait` (120
//! s). Traffic that needs no translation need not be tracked (`-t raw -j CT
//! --notrack`).
//!
//! ## Expected gain
//!
//! The delay of opening a connection, for the slowest in a hundred (model
//! «dropped SYNs»: packets dropped, of those and of the new entries). Not
//! predictable where connections were only evicted.
//!
//! ## References
//!
//! - <https://docs.kernel.org/networking/nf_conntrack-sysctl.html>
//! - Linux: `__nf_conntrack_alloc`, `early_drop`

use model::{
    Conntrack, Evidence, Finding, Impact, ImpactUnit, KernelLine, Proof, Reach, Remedy, Severity,
    Source, SubjectKind, Top,
};
use text::{count, number, percent, share};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, sysctl, sysctl_of_machine};
use crate::words::{line, subject};

pub(super) const CAUSE: Cause = Cause {
    id: "conntrack-table-full",
    title: "the connection-tracking table is full, packets are dropped",
    slows: Slows::Connections,
    needs: &[&[Source::Conntrack]],
    rule,
    source: include_str!("conntrack_table_full.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the limit from which on the table counts as full.
const MIN_FILL: f64 = 0.95;
/// Memory of one entry: `struct nf_conn` and its extensions, bytes.
const ENTRY_BYTES: u64 = 320;
/// Memory of one bucket, bytes.
const BUCKET_BYTES: u64 = 8;
/// Smallest limit that is proposed: the kernel's default on a machine with 1 GiB or more.
const MIN_PROPOSED: u64 = 262_144;
/// Share of the entries from which on closed connections fill the table.
const MIN_CLOSED_SHARE: f64 = 0.3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(conntrack) = &evidence.conntrack else {
        // The kernel's own words suffice.
        return match log_line(evidence) {
            Some(_) => Verdict::Found(vec![finding(evidence, &Conntrack::default(), 0, 0)]),
            None => Verdict::not_checked("connection tracking was not read"),
        };
    };
    if !conntrack.loaded {
        return Verdict::not_checked("connection tracking is not in use");
    }
    let increase = |statistic| conntrack.increase(statistic).unwrap_or(0);
    let (dropped, evicted) = (increase("drop"), increase("early_drop"));
    let full = conntrack.max > 0 && conntrack.count.max as f64 >= MIN_FILL * conntrack.max as f64;
    let size = format!("{} of {}", number(conntrack.count.max), number(conntrack.max));
    if full && (dropped > 0 || evicted > 0 || log_line(evidence).is_some()) {
        return Verdict::Found(vec![finding(evidence, conntrack, dropped, evicted)]);
    }
    if full && conntrack.statistics.is_none() {
        let missing = evidence.missing(Source::Conntrack);
        return Verdict::Undecided {
            needs: format!("the statistics of connection tracking, whose table is full ({size})"),
            sources: vec![Source::Conntrack],
            how_to_observe: missing.and_then(|missing| missing.how_to_observe.clone()),
        };
    }
    Verdict::RuledOut(format!("connection tracking ({size})"))
}

/// The kernel's line about a full table. It is for the first network namespace; for others it names
/// them.
fn log_line(evidence: &Evidence) -> Option<&KernelLine> {
    let lines = &evidence.kernel_log.as_ref()?.network;
    lines.iter().find(|line| {
        line.text.contains("nf_conntrack: table full")
            && (!line.text.contains("in netns") || evidence.host.netns.is_some())
    })
}

fn finding(evidence: &Evidence, conntrack: &Conntrack, dropped: u64, evicted: u64) -> Finding {
    let opened = conntrack.increase("insert").unwrap_or(0);
    let only_evicted = dropped == 0 && log_line(evidence).is_none();
    let impact = if dropped > 0 {
        format!("{} dropped: connections open late or never", count(dropped, "packet"))
    } else if only_evicted {
        format!("{} evicted to make room for new ones", count(evicted, "unanswered connection"))
    } else {
        "packets were dropped: connections open late or never".to_string()
    };
    let mut proofs = Vec::new();
    if conntrack.max > 0 {
        proofs.push(
            proof(
                Source::Conntrack,
                "table",
                format!(
                    "up to {} of {} entries, {} on average",
                    number(conntrack.count.max),
                    number(conntrack.max),
                    number(conntrack.count.mean.round() as u64)
                ),
            )
            .over_window(
                evidence,
                "nf_conntrack_count, maximum",
                conntrack.count.max as f64,
                "entries",
            )
            .at_moment("nf_conntrack_max", conntrack.max as f64, "entries"),
        );
    }
    proofs.extend(entries_by_group(conntrack));
    let mut observed = Vec::new();
    if conntrack.statistics.is_some() {
        observed.push(format!("drop +{}, early_drop +{}", number(dropped), number(evicted)));
    }
    if let Some(logged) = log_line(evidence) {
        observed.push(format!("kernel log: {}", line(&logged.text)));
    }
    let mut counted = proof(Source::Conntrack, "proof", observed.join("\n"));
    for statistic in ["drop", "early_drop", "insert_failed"] {
        if let Some(increase) = conntrack.increase(statistic) {
            counted = counted.over_window(evidence, statistic, increase as f64, "packets");
        }
    }
    proofs.push(counted);
    let lost = if dropped > 0 { dropped } else { evicted };
    Finding {
        cause: CAUSE.id.to_string(),
        title: "The connection-tracking table is full: new connections are dropped".to_string(),
        severity: if only_evicted { Severity::Warning } else { Severity::Critical },
        subject: subject(
            SubjectKind::Host,
            "this host's connection-tracking table",
            None,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::PacketsDropped,
            amount: lost as f64,
            share: (opened > 0).then(|| share(lost as f64, lost as f64 + opened as f64)),
        },
        evidence: proofs,
        checks: commands([
            CommandLine::new("sysctl")
                .args("net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max")
                .in_netns(evidence),
            CommandLine::new("conntrack -S").in_netns(evidence),
        ]),
        remedies: remedies(evidence, conntrack),
        gain: match dropped {
            0 => gain::not_predictable("how many connections open late is not known"),
            _ => gain::of_dropped_syns(dropped as f64, opened as f64),
        },
        also_causes: Vec::new(),
    }
}

/// Who fills the table, and with what.
fn entries_by_group(conntrack: &Conntrack) -> Vec<Proof> {
    let Some(table) = &conntrack.table else {
        return Vec::new();
    };
    let all = table.entries as f64;
    let about = if table.read.is_some() { "about " } else { "" };
    let listed = |label: &str, tops: Vec<(String, u64)>| {
        if tops.is_empty() {
            return None;
        }
        let words: Vec<String> = tops
            .iter()
            .take(3)
            .map(|(key, n)| {
                format!("{key} {about}{} ({})", number(*n), percent(share(*n as f64, all)))
            })
            .collect();
        let mut proof = proof(Source::Conntrack, label, words.join("\n"));
        for (key, n) in tops.iter().take(10) {
            proof = proof.at_moment(&format!("entries: {key}"), *n as f64, "entries");
        }
        Some(proof)
    };
    let top = |tops: &'_ [Top]| -> Vec<(String, u64)> {
        tops.iter().map(|top| (line(&top.key), top.count)).collect()
    };
    let mut states: Vec<(String, u64)> =
        table.by_state.iter().map(|(state, n)| (line(state), *n)).collect();
    states.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    [
        listed("from", top(&table.top_sources)),
        listed("to port", top(&table.top_ports)),
        listed("states", states),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn remedies(evidence: &Evidence, conntrack: &Conntrack) -> Vec<Remedy> {
    let wanted = conntrack.max.saturating_mul(4).max(MIN_PROPOSED);
    let buckets = wanted;
    let memory =
        wanted.saturating_mul(ENTRY_BYTES).saturating_add(buckets.saturating_mul(BUCKET_BYTES));
    let max = "net.netfilter.nf_conntrack_max";
    let max = sysctl_of_machine(evidence, max, wanted, Reach::NewConnections).noted(format!(
        "takes up to about {}; one limit for the whole machine, set it in the first network \
         namespace",
        text::bytes(memory)
    ));
    let mut all = vec![max];
    if conntrack.buckets < buckets / 4 {
        let name = "net.netfilter.nf_conntrack_buckets";
        all.push(sysctl_of_machine(evidence, name, buckets, Reach::Everything));
    }
    if let Some(table) = &conntrack.table {
        let closed = table.by_state.get("TIME_WAIT").copied().unwrap_or(0);
        let closed = share(closed as f64, table.entries as f64);
        if closed >= MIN_CLOSED_SHARE {
            let name = "net.netfilter.nf_conntrack_tcp_timeout_time_wait";
            let note = format!("{} of the entries are in TIME_WAIT", percent(closed));
            all.push(sysctl(evidence, name, 30, Reach::NewConnections).noted(note));
        }
    }
    all.push(advice("do not track traffic that needs no translation: -t raw -j CT --notrack"));
    all
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use model::{Change, ConntrackTable};

    use super::*;
    use crate::fixtures::{findings_of, gauge, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut evidence = tracking(1_000, &[("drop", 420), ("insert", 580)]);
        add_log_line(&mut evidence);
        vec![evidence]
    }

    fn tracking(count: u64, statistics: &[(&str, u64)]) -> Evidence {
        let mut evidence = healthy();
        let change = |(name, by): &(&str, u64)| (name.to_string(), Change::new(7, 7 + by));
        evidence.conntrack = Some(Conntrack {
            loaded: true,
            count: gauge(count, count),
            max: 1_000,
            buckets: 262_144,
            statistics: Some(statistics.iter().map(change).collect()),
            table: Some(ConntrackTable {
                entries: count,
                by_state: BTreeMap::from([("TIME_WAIT".into(), 900), ("SYN_SENT".into(), 90)]),
                top_sources: vec![Top { key: "198.18.0.2".into(), count: 980, error: 0 }],
                ..ConntrackTable::default()
            }),
        });
        evidence
    }

    fn add_log_line(evidence: &mut Evidence) {
        let text = "nf_conntrack: nf_conntrack: table full, dropping packet".to_string();
        let log = evidence.kernel_log.get_or_insert_default();
        log.network.push(KernelLine { at_ms: 5, priority: 4, text });
    }

    #[test]
    fn fires_with_source_states_and_memory() {
        let finding = &findings_of(rule(&tracking(1_000, &[("drop", 420), ("insert", 580)])))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!((finding.impact.amount, finding.impact.share), (420.0, Some(0.42)));
        let text: Vec<&str> = finding.evidence.iter().map(|p| p.text.as_str()).collect();
        assert!(text.iter().any(|t| t.contains("198.18.0.2 980 (98 %)")), "{text:?}");
        assert!(text.iter().any(|t| t.contains("TIME_WAIT 900 (90 %)")), "{text:?}");
        assert!(finding.remedies[0].note.as_deref().unwrap().contains("82 MiB"));
        assert!(finding.remedies.iter().any(|r| r.text.contains("time_wait to 30")));
    }

    #[test]
    fn fires_by_the_kernels_line_alone() {
        let mut evidence = tracking(1_000, &[]);
        add_log_line(&mut evidence);
        assert_eq!(findings_of(rule(&evidence))[0].severity, Severity::Critical);
        remove_source(&mut evidence, Source::Conntrack);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn fires_as_a_warning_for_evictions() {
        let finding = &findings_of(rule(&tracking(990, &[("early_drop", 4)])))[0];
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn stays_quiet_when_full_and_nothing_was_refused_or_refused_and_not_full() {
        for evidence in [tracking(1_000, &[("drop", 0)]), tracking(10, &[("drop", 9)])] {
            assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        }
        assert!(matches!(rule(&healthy()), Verdict::NotChecked(_)));
    }

    #[test]
    fn undecided_when_full_and_without_statistics() {
        let mut evidence = tracking(1_000, &[]);
        evidence.conntrack.as_mut().unwrap().statistics = None;
        assert!(matches!(rule(&evidence), Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = tracking(u64::MAX, &[("drop", u64::MAX - 7)]);
        evidence.conntrack.as_mut().unwrap().max = u64::MAX;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        evidence.conntrack.as_mut().unwrap().max = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }
}
