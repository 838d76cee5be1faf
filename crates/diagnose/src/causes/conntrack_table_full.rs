//! # conntrack-table-full
//!
//! ## What happens
//!
//! Where a firewall or address translation tracks connections, each one has an
//! entry in a table of fixed size. When it is full, packets that would need a new
//! entry are dropped, whatever they carry: connections open late or never,
//! lookups time out. What is tracked already goes on.
//!
//! ## Evidence
//!
//! - the number of entries reached `nf_conntrack_max`, looked at several times a
//!   second; and
//! - `drop` or `early_drop` grew in the per-CPU statistics (`conntrack -S`), or the
//!   kernel logged `nf_conntrack: table full, dropping packet` in the window;
//! - the table grouped by source and TCP state says who fills it.
//!
//! ## Threshold
//!
//! Full means 95 % of the limit at one look: the kernel counts an entry before it
//! refuses it, so the number swings around the limit between two looks. A full
//! table alone is no proof, one that refused nothing harms nobody. `early_drop` is
//! an entry that the kernel evicted to make room: a warning; `drop` is a lost
//! packet: critical.
//!
//! ## Looks like it, but is not
//!
//! - A limit lowered below the number of entries: nothing is dropped until
//!   somebody opens a connection.
//! - Drops with a table that is not full: entries of another namespace, invalid
//!   packets, memory.
//! - syn-retransmitted and slow lookups are the effects of this.
//!
//! ## Check by hand
//!
//! ```sh
//! sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max
//! conntrack -S
//! dmesg | grep 'table full'
//! ```
//!
//! ## Mend
//!
//! Raise `net.netfilter.nf_conntrack_max`: an entry takes about 320 bytes of
//! memory, a bucket of the hash 8. Keep about as many buckets
//! (`nf_conntrack_buckets`) as entries. The limit is one for the whole machine and
//! can be written in its first network namespace only. When closed connections
//! fill the table, shorten `nf_conntrack_tcp_timeout_time_wait` (120 s). Traffic
//! that needs no translation need not be tracked (`-t raw -j CT --notrack`).
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

use crate::Verdict;
use crate::make::{WithFigures as _, advice, proof, subject, sysctl};
use crate::words::command;

/// Share of the limit at which the table counts as full.
const FULL: f64 = 0.95;
/// Memory of one entry: `struct nf_conn` and its extensions, bytes.
const ENTRY_BYTES: u64 = 320;
/// Memory of one bucket, bytes.
const BUCKET_BYTES: u64 = 8;
/// Smallest limit that is proposed: the kernel's own on a machine with 1 GiB and more.
const LEAST: u64 = 262_144;
/// From this share of the entries on, closed connections fill the table.
const CLOSED: f64 = 0.3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(conntrack) = &evidence.conntrack else {
        // The kernel's own words suffice.
        return match line(evidence) {
            Some(_) => Verdict::Found(vec![finding(evidence, &Conntrack::default(), 0, 0)]),
            None => Verdict::RuledOut("connection tracking".to_string()),
        };
    };
    if !conntrack.loaded {
        return Verdict::RuledOut("connection tracking (not active)".to_string());
    }
    let grown = |statistic| conntrack.increase(statistic).unwrap_or(0);
    let (dropped, evicted) = (grown("drop"), grown("early_drop"));
    let full = conntrack.max > 0 && conntrack.count.max as f64 >= FULL * conntrack.max as f64;
    let size = format!("{} of {}", number(conntrack.count.max), number(conntrack.max));
    if full && (dropped > 0 || evicted > 0 || line(evidence).is_some()) {
        return Verdict::Found(vec![finding(evidence, conntrack, dropped, evicted)]);
    }
    if full && conntrack.statistics.is_none() {
        let gap = evidence.missing(Source::Conntrack);
        return Verdict::Undecided {
            needs: format!("the statistics of connection tracking, which is full ({size})"),
            closes_with: gap.and_then(|gap| gap.how_to_observe.clone()),
        };
    }
    Verdict::RuledOut(format!("connection tracking ({size})"))
}

/// The kernel's own line. It is written for the first network namespace; for others it names them.
fn line(evidence: &Evidence) -> Option<&KernelLine> {
    let lines = &evidence.kernel_log.as_ref()?.network;
    lines.iter().find(|line| {
        line.text.contains("nf_conntrack: table full")
            && (!line.text.contains("in netns") || evidence.host.netns.is_some())
    })
}

fn finding(evidence: &Evidence, conntrack: &Conntrack, dropped: u64, evicted: u64) -> Finding {
    let opened = conntrack.increase("insert").unwrap_or(0);
    let only_evicted = dropped == 0 && line(evidence).is_none();
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
                    "{} of {} entries at most, {} in the mean",
                    number(conntrack.count.max),
                    number(conntrack.max),
                    number(conntrack.count.mean.round() as u64)
                ),
            )
            .over_window(
                evidence,
                "nf_conntrack_count, most",
                conntrack.count.max as f64,
                "entries",
            )
            .at_moment("nf_conntrack_max", conntrack.max as f64, "entries"),
        );
    }
    proofs.extend(who(conntrack));
    let mut said = Vec::new();
    if conntrack.statistics.is_some() {
        said.push(format!("drop +{}, early_drop +{}", number(dropped), number(evicted)));
    }
    if let Some(line) = line(evidence) {
        said.push(format!("kernel log: {}", line.text));
    }
    let mut counted = proof(Source::Conntrack, "proof", said.join("\n"));
    for statistic in ["drop", "early_drop", "insert_failed"] {
        if let Some(growth) = conntrack.increase(statistic) {
            counted = counted.over_window(evidence, statistic, growth as f64, "packets");
        }
    }
    proofs.push(counted);
    let lost = if dropped > 0 { dropped } else { evicted };
    Finding {
        cause: "conntrack-table-full".to_string(),
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
        checks: [
            "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
            "conntrack -S",
        ]
        .map(|check| command(evidence, check))
        .to_vec(),
        remedies: remedies(evidence, conntrack),
        also_causes: Vec::new(),
    }
}

/// Who fills the table, and with what.
fn who(conntrack: &Conntrack) -> Vec<Proof> {
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
        tops.iter().map(|top| (top.key.clone(), top.count)).collect()
    };
    let mut states: Vec<(String, u64)> =
        table.by_state.iter().map(|(state, n)| (state.clone(), *n)).collect();
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
    let wanted = conntrack.max.saturating_mul(4).max(LEAST);
    let buckets = wanted;
    let memory =
        wanted.saturating_mul(ENTRY_BYTES).saturating_add(buckets.saturating_mul(BUCKET_BYTES));
    let mut max = sysctl(
        evidence,
        "net.netfilter.nf_conntrack_max",
        &wanted.to_string(),
        Reach::NewConnections,
    );
    // One for the whole machine, writable in the first namespace only.
    max.command = Some(format!("sysctl -w net.netfilter.nf_conntrack_max={wanted}"));
    max.note = Some(format!(
        "about {} MiB when full; for the whole machine: set it in the first namespace",
        number(memory >> 20)
    ));
    let mut all = vec![max];
    if conntrack.buckets < buckets / 4 {
        let mut hash = sysctl(
            evidence,
            "net.netfilter.nf_conntrack_buckets",
            &buckets.to_string(),
            Reach::Everything,
        );
        hash.command = Some(format!("sysctl -w net.netfilter.nf_conntrack_buckets={buckets}"));
        all.push(hash);
    }
    if let Some(table) = &conntrack.table {
        let closed = table.by_state.get("TIME_WAIT").copied().unwrap_or(0);
        if share(closed as f64, table.entries as f64) >= CLOSED {
            let mut shorter = sysctl(
                evidence,
                "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
                "30",
                Reach::NewConnections,
            );
            let part = percent(share(closed as f64, table.entries as f64));
            shorter.note = Some(format!("{part} of the entries are in TIME_WAIT"));
            all.push(shorter);
        }
    }
    all.push(advice("do not track what needs no translation: -t raw -j CT --notrack"));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{Change, ConntrackTable};

    use super::*;
    use crate::fixtures::{findings_of, gauge, healthy, remove_source};

    fn tracking(count: u64, statistics: &[(&str, u64)]) -> Evidence {
        let mut evidence = healthy();
        let grew = |(name, by): &(&str, u64)| (name.to_string(), Change::new(7, 7 + by));
        evidence.conntrack = Some(Conntrack {
            loaded: true,
            count: gauge(count, count),
            max: 1_000,
            buckets: 262_144,
            statistics: Some(statistics.iter().map(grew).collect()),
            table: Some(ConntrackTable {
                entries: count,
                by_state: BTreeMap::from([("TIME_WAIT".into(), 900), ("SYN_SENT".into(), 90)]),
                top_sources: vec![Top { key: "198.18.0.2".into(), count: 980, error: 0 }],
                ..ConntrackTable::default()
            }),
        });
        evidence
    }

    fn logged(evidence: &mut Evidence) {
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
        assert!(finding.remedies.iter().any(|r| r.text.contains("time_wait=30")));
    }

    #[test]
    fn fires_by_the_kernels_line_alone() {
        let mut evidence = tracking(1_000, &[]);
        logged(&mut evidence);
        assert_eq!(findings_of(rule(&evidence))[0].severity, Severity::Critical);
        remove_source(&mut evidence, Source::Conntrack);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn fires_mildly_for_evictions() {
        let finding = &findings_of(rule(&tracking(990, &[("early_drop", 4)])))[0];
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn stays_quiet_when_full_and_nothing_was_refused_or_refused_and_not_full() {
        for evidence in [tracking(1_000, &[("drop", 0)]), tracking(10, &[("drop", 9)])] {
            assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        }
        assert!(matches!(rule(&healthy()), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_when_full_and_without_statistics() {
        let mut evidence = tracking(1_000, &[]);
        evidence.conntrack.as_mut().unwrap().statistics = None;
        assert!(matches!(rule(&evidence), Verdict::Undecided { .. }));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = tracking(u64::MAX, &[("drop", u64::MAX - 7)]);
        evidence.conntrack.as_mut().unwrap().max = u64::MAX;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        evidence.conntrack.as_mut().unwrap().max = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }
}
