//! # syn-retransmitted
//!
//! ## What happens
//!
//! This host opens a connection, its SYN or the SYN-ACK is lost, and the kernel
//! retransmits it: after 1 s, then (Linux 6.5 and later) four more times every
//! second, then after 2 s, 4 s and so on; older kernels double from the start, 1 s,
//! 3 s, 7 s. The connection opens that much later, or never.
//!
//! ## Evidence
//!
//! - sockets in SYN_SENT whose retransmission counter is above 0, by destination,
//!   sampled several times a second, with the processes that wait;
//! - `TcpExtTCPSynRetrans` supports it, but proves nothing alone: it also counts
//!   retransmitted SYN-ACKs of this host's listeners;
//! - in packets: a SYN that the client repeats with the same number, 200 ms and
//!   more after the last and before any answer; or a SYN-ACK that comes again and
//!   that the client then answers, or while the client waits for what it has sent;
//! - `netwhy http`: its own connections that opened late and, by the kernel's count
//!   (`tcpi_total_retrans`), retransmitted their SYN;
//! - what this host itself could have done to them comes first: a full listener or
//!   connection tracking here makes this an effect of that.
//!
//! ## Threshold
//!
//! Two connections to one destination that retransmit, or one that retransmits for
//! the second time: one lost SYN is normal on the Internet. At least 1 in 100 of
//! the connections to it that were being opened or are established. In packets:
//! any that a client waited for; the time that it cost says how bad it is. Many
//! addresses that do not answer one client (eight within a minute, or one of
//! sixteen that it tries within two seconds) are one remark. In a load of `netwhy
//! http`: two connections, or one that retransmits for the second time, and 1 in
//! 100 of those opened or 1 % of the time that the load waited.
//!
//! ## Looks like it, but is not
//!
//! - A refused connection: a reset arrives at once, nothing is retransmitted.
//! - accept-queue-overflow or conntrack-table-full on this host: this is their
//!   effect.
//! - A handshake over a long path: SYN_SENT, but nothing is retransmitted.
//! - SYN-ACKs that a client never answers: a half-open probe, or a client that has
//!   gone. SYN-ACKs that come again after the last ACK, while the client has sent
//!   nothing: a server that waits for data (`TCP_DEFER_ACCEPT`).
//! - A connection that was opened and closed without data: nobody waited for it.
//! - A SYN that comes again within milliseconds: a copy of a proxy or a NAT.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -tnop state syn-sent        # timer:(on,...,N): N retransmissions so far
//! nstat -az TcpExtTCPSynRetrans
//! ```
//!
//! ## Fix
//!
//! The fault is on the path or at the peer: a firewall that drops, a host that is
//! gone, a listener whose queue is full (run netwhy there). Here, only the patience
//! can be changed: the application's connect timeout, `net.ipv4.tcp_syn_retries`.
//!
//! ## Expected gain
//!
//! The delay of opening a connection, for the slowest in a hundred: as packets
//! show it; from sockets, by the timeouts of the SYNs (model «dropped SYNs»); of
//! a load, the mean of the connections that were hit. Where the server never
//! answers: the share of the connections that fail (model «failures»).
//!
//! ## References
//!
//! - RFC 6298 (initial timeout of 1 s)
//! - <https://docs.kernel.org/networking/ip-sysctl.html> (tcp_syn_linear_timeouts)
//! - Linux: `tcp_retransmit_timer`, `tcp_connect`

mod packets;
mod probes;
mod thresholds;

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{
    Evidence, Finding, GainFigure, Impact, ImpactUnit, Reach, Remedy, Severity, Source,
    SubjectKind, SynSent,
};
use text::{count, number, percent, share};

use self::thresholds::{MIN_RETRANSMITTING, MIN_SHARE};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::reach::peer_belongs_to_others;
use crate::remedies::{advice, advice_about};
use crate::words::{process_name, processes, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "syn-retransmitted",
    title: "connections open late or never: SYNs are not answered",
    slows: Slows::Connections,
    needs: &[&[Source::Sockets], &[Source::Packets]],
    rule,
    source: include_str!("syn_retransmitted.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.sockets.as_ref().map(|s| &s.syn_sent[..]).unwrap_or_default();
    // The first to report a server is not contradicted: a load knows each of its connections,
    // sockets are sampled, and packets may be a part.
    let mut known: HashSet<SocketAddr> = HashSet::new();
    let mut findings: Vec<Finding> = Vec::new();
    if let Some(load) = evidence.probes.as_ref().and_then(|probes| probes.http.as_ref()) {
        for (server, finding) in probes::findings(evidence, load) {
            known.insert(server);
            findings.push(finding);
        }
    }
    for syn in all.iter().filter(|syn| counts(syn)) {
        let server = (syn.remote.ip().to_canonical(), syn.remote.port()).into();
        // Connections of the load have no process here: netwhy leaves itself out.
        if !(known.contains(&server) && syn.pids.is_empty()) {
            findings.push(finding(evidence, syn));
        }
        known.insert(server);
    }
    if let Some(packets) = &evidence.packets {
        findings.extend(packets::findings(evidence, packets, &known));
    }
    Verdict::from_findings(findings, || {
        let most = all.iter().map(|syn| syn.retransmitting).max().unwrap_or(0);
        if most > 0 {
            return Verdict::RuledOut(format!(
                "retransmitted SYNs (up to {} to one destination)",
                number(most)
            ));
        }
        let captured = evidence.packets.as_ref().map(|packets| packets.worst.iter());
        let syns = captured.map_or(0, |streams| streams.filter(|one| one.roles_known).count());
        let load = evidence.probes.as_ref().and_then(|probes| probes.http.as_ref());
        let of_load = load.map_or(0, |load| load.connections_opened);
        let opened = evidence.increase("TcpActiveOpens").unwrap_or(0).max(syns as u64).max(of_load);
        match opened {
            0 => Verdict::not_checked("no connection was opened"),
            _ => Verdict::RuledOut(format!(
                "retransmitted SYNs (0 of {})",
                count(opened, "connection")
            )),
        }
    })
}

/// Share of the connections to a destination that retransmit their SYN.
fn retransmitting_share(syn: &SynSent) -> f64 {
    share(
        syn.retransmitting as f64,
        (syn.connections as f64).max(syn.retransmitting as f64) + syn.established as f64,
    )
}

fn counts(syn: &SynSent) -> bool {
    let several = syn.retransmitting >= MIN_RETRANSMITTING
        || u64::from(syn.max_retransmissions) >= MIN_RETRANSMITTING;
    syn.retransmitting > 0 && several && retransmitting_share(syn) >= MIN_SHARE
}

/// Seconds from the first SYN to its `tries`th retransmission.
fn waited_s(tries: u8, linear: u64) -> u64 {
    (1..=u64::from(tries)).fold(0u64, |sum, i| {
        let power = i.saturating_sub(linear + 1).min(10) as u32;
        sum.saturating_add(1 << power)
    })
}

fn finding(evidence: &Evidence, syn: &SynSent) -> Finding {
    let owners = processes(evidence, &syn.pids);
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let remote = syn.remote;
    let linear = evidence.sysctl_number("net.ipv4.tcp_syn_linear_timeouts").unwrap_or(0);
    let seconds = waited_s(syn.max_retransmissions.max(1), linear);
    let silent = syn.completed == 0 && syn.established == 0;
    let why = if silent {
        format!(
            "{remote} does not answer: it is gone, filtered on the path, or its listener is full"
        )
    } else {
        format!(
            "some to {remote} open ({} established): packets are lost on \
             the path, or its listener is full at times",
            number(syn.established)
        )
    };
    let mut counted = proof(
        Source::Sockets,
        "proof",
        format!(
            "{} of {} in SYN_SENT retransmitted their SYN, up to {}; \
             TcpExtTCPSynRetrans +{}",
            number(syn.retransmitting),
            count(syn.connections.max(syn.retransmitting), "connection"),
            count(u64::from(syn.max_retransmissions), "time"),
            number(evidence.increase("TcpExtTCPSynRetrans").unwrap_or(0)),
        ),
    )
    .over_window(
        evidence,
        "connections that retransmit their SYN",
        syn.retransmitting as f64,
        "connections",
    )
    .over_window(evidence, "connections in SYN_SENT", syn.connections as f64, "connections")
    .over_window(evidence, "most retransmissions", f64::from(syn.max_retransmissions), "SYNs");
    if let Some(increase) = evidence.increase("TcpExtTCPSynRetrans") {
        counted = counted.over_window(evidence, "TcpExtTCPSynRetrans", increase as f64, "packets");
    }
    let host = remote.ip().to_canonical().to_string();
    let patience = Remedy {
        reaches: Reach::NewConnections,
        ..advice(format!(
            "until then, give {process} a connect timeout below {} s, or another peer",
            seconds.max(1)
        ))
    };
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!(
                "{process} {} {remote}: SYNs are retransmitted",
                if silent { "gets no answer from" } else { "waits to connect to" }
            ),
            "Connections open late: SYNs are retransmitted",
        ),
        severity: if silent || retransmitting_share(syn) >= 0.1 {
            Severity::Critical
        } else {
            Severity::Warning
        },
        subject: subject(SubjectKind::Destination, remote.to_string(), None, Some(remote), owners),
        impact: Impact {
            text: format!(
                "{} to {remote} waited {seconds} s or more ({} of those being opened)",
                count(syn.retransmitting, "connection"),
                percent(retransmitting_share(syn)),
            ),
            unit: ImpactUnit::ConnectionsDelayed,
            amount: syn.retransmitting as f64,
            share: Some(retransmitting_share(syn)),
        },
        evidence: vec![counted, proof(Source::Sockets, "why", why)],
        checks: commands([
            CommandLine::new("ss -tnop state syn-sent dst").arg(remote).in_netns(evidence),
            CommandLine::new("nstat -az TcpExtTCPSynRetrans").in_netns(evidence),
        ]),
        remedies: if peer_belongs_to_others(evidence, remote.ip()) {
            vec![patience]
        } else {
            vec![
                advice_about(&host, format!("run netwhy on {host}: is its listener full?")),
                patience,
            ]
        },
        gain: if silent {
            let failed = syn.retransmitting as f64;
            let all = (syn.connections.max(syn.retransmitting)) as f64;
            gain::of_failures(GainFigure::FailedConnections, failed, all)
        } else {
            let all = syn.connections.max(syn.retransmitting).saturating_add(syn.established);
            let opened = all.saturating_sub(syn.retransmitting);
            gain::of_dropped_syns(syn.retransmitting as f64, opened as f64)
        },
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{
        add_process, address, findings_of, healthy, increase_counter, remove_source, set_sysctl,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![retrying(12, 12, 0, 3), packets::tests::example(), probes::tests::example()]
    }

    fn retrying(retrying: u64, seen: u64, established: u64, most_tries: u8) -> Evidence {
        let mut evidence = healthy();
        add_process(&mut evidence, 7, "curl");
        increase_counter(&mut evidence, "TcpExtTCPSynRetrans", 30);
        evidence.sockets.as_mut().unwrap().syn_sent.push(SynSent {
            remote: address("198.18.0.9:80"),
            pids: vec![7],
            retransmitting: retrying,
            connections: seen,
            completed: 0,
            max_retransmissions: most_tries,
            established,
        });
        evidence
    }

    #[test]
    fn fires_with_process_destination_and_wait() {
        let finding = &findings_of(rule(&retrying(12, 12, 0, 3)))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "curl gets no answer from 198.18.0.9:80: SYNs are retransmitted");
        let text = "12 connections to 198.18.0.9:80 waited 3 s or more (100 % of";
        assert!(finding.impact.text.starts_with(text), "{finding:?}");
        let mut evidence = retrying(12, 12, 0, 3);
        set_sysctl(&mut evidence, "net.ipv4.tcp_syn_linear_timeouts", "0");
        assert!(findings_of(rule(&evidence))[0].impact.text.contains("waited 7 s or more"));
    }

    #[test]
    fn fires_for_a_second_retransmission() {
        assert_eq!(findings_of(rule(&retrying(1, 1, 0, 2))).len(), 1);
    }

    #[test]
    fn stays_quiet_for_one_lost_syn_and_for_few_of_many() {
        assert!(matches!(rule(&retrying(1, 20, 0, 1)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&retrying(3, 20, 5_000, 1)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_for_the_counter_alone() {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtTCPSynRetrans", 3_000);
        assert!(matches!(rule(&evidence), Verdict::NotChecked(_)));
        increase_counter(&mut evidence, "TcpActiveOpens", 9_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = retrying(12, 12, 0, 3);
        remove_source(&mut evidence, Source::Sockets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let evidence = retrying(u64::MAX, 0, u64::MAX, u8::MAX);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        assert_eq!(waited_s(0, 4), 0);
        assert!(waited_s(255, 0) > 1000);
    }
}
