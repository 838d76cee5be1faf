//! # syn-retransmitted
//!
//! ## What happens
//!
//! This host opens a connection, its SYN or the answer to it is lost, and the
//! kernel repeats it: after 1 s, then (Linux 6.5 and later) every second four
//! times more, then after 2 s, 4 s and so on; older kernels double from the start,
//! 1 s, 3 s, 7 s. The connection opens that much later, or never.
//!
//! ## Evidence
//!
//! - sockets in SYN_SENT whose retransmission counter is above 0, by destination,
//!   looked at several times a second, with the processes that wait;
//! - `TcpExtTCPSynRetrans` supports it, but proves nothing alone: it counts
//!   repeated SYN/ACKs of this host's listeners too;
//! - in packets: a SYN, or its answer, that is sent again;
//! - `netwhy http`: its own connections that opened late, and by the kernel's count
//!   (`tcpi_total_retrans`) repeated their SYN;
//! - what this host itself could have done to them is looked at first: a full
//!   listener or connection tracking here makes this an effect of that.
//!
//! ## Threshold
//!
//! Two connections to one destination that repeat, or one that repeats for the
//! second time: one lost SYN is normal on the Internet. At least 1 in 100 of the
//! connections that were seen being opened to it or are established. In packets:
//! any; the time that it cost says how bad it is. In a load of `netwhy http`: two
//! connections, or one that repeats for the second time, and 1 in 100 of those
//! that were opened or 1 % of the time in which the load waited.
//!
//! ## Looks like it, but is not
//!
//! - A refused connection: a reset comes at once, nothing is repeated.
//! - accept-queue-overflow or conntrack-table-full on this host: their effect.
//! - A handshake over a long path: SYN_SENT, but nothing repeated.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -tnop state syn-sent        # timer:(on,…,N): N repetitions so far
//! nstat -az TcpExtTCPSynRetrans
//! ```
//!
//! ## Mend
//!
//! The fault is on the path or at the peer: a firewall that drops, a host that is
//! gone, a listener there whose queue is full (run netwhy there). Here only the
//! patience can be changed: the application's connect timeout,
//! `net.ipv4.tcp_syn_retries`.
//!
//! ## References
//!
//! - RFC 6298 (initial timeout of 1 s)
//! - <https://docs.kernel.org/networking/ip-sysctl.html> (tcp_syn_linear_timeouts)
//! - Linux: `tcp_retransmit_timer`, `tcp_connect`

mod packets;
mod probes;

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, Finding, Impact, ImpactUnit, Reach, Severity, Source, SubjectKind, SynSent};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::make::{With as _, advice, proof, subject};
use crate::words::{command, name, processes};

/// Connections that repeat, or repetitions of one, that are no accident.
const SEVERAL: u64 = 2;
/// Share of the connections to a destination that repeat.
const LEAST: f64 = 0.01;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.sockets.as_ref().map(|s| &s.syn_sent[..]).unwrap_or_default();
    // Who has told of a server is not contradicted: a load knows each of its connections, sockets
    // are seen at some looks, packets may be a sample.
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
        // Those of the load have no process here: netwhy leaves itself out.
        if !(known.contains(&server) && syn.pids.is_empty()) {
            findings.push(finding(evidence, syn));
        }
        known.insert(server);
    }
    if let Some(packets) = &evidence.packets {
        findings.extend(packets::findings(evidence, packets, &known));
    }
    Verdict::of(findings, || {
        let most = all.iter().map(|syn| syn.retransmitting).max().unwrap_or(0);
        format!("SYNs repeated (at most {} to one destination)", number(most))
    })
}

fn of_all(syn: &SynSent) -> f64 {
    share(
        syn.retransmitting as f64,
        (syn.connections as f64).max(syn.retransmitting as f64) + syn.established as f64,
    )
}

fn counts(syn: &SynSent) -> bool {
    let several = syn.retransmitting >= SEVERAL || u64::from(syn.max_retransmissions) >= SEVERAL;
    syn.retransmitting > 0 && several && of_all(syn) >= LEAST
}

/// Seconds from the first SYN to its `tries`th repetition.
fn waited(tries: u8, linear: u64) -> u64 {
    (1..=u64::from(tries)).fold(0u64, |sum, i| {
        let power = i.saturating_sub(linear + 1).min(10) as u32;
        sum.saturating_add(1 << power)
    })
}

fn finding(evidence: &Evidence, syn: &SynSent) -> Finding {
    let who = processes(evidence, &syn.pids);
    let process = name(&who).unwrap_or("a process").to_string();
    let remote = syn.remote;
    let linear = evidence.sysctl_number("net.ipv4.tcp_syn_linear_timeouts").unwrap_or(0);
    let seconds = waited(syn.max_retransmissions.max(1), linear);
    let silent = syn.completed == 0 && syn.established == 0;
    let why = if silent {
        format!("{remote} answers nothing: gone, filtered on the way, or its\nlistener is full")
    } else {
        format!(
            "some to {remote} open ({} established): packets are lost on\n\
             the way, or its listener is full at times",
            number(syn.established)
        )
    };
    let mut counted = proof(
        Source::Sockets,
        "proof",
        format!(
            "{} of {} seen in SYN_SENT repeated their SYN, {} at most;\n\
             TcpExtTCPSynRetrans +{}",
            number(syn.retransmitting),
            number(syn.connections),
            count(u64::from(syn.max_retransmissions), "time"),
            number(evidence.increase("TcpExtTCPSynRetrans").unwrap_or(0)),
        ),
    )
    .over(evidence, "connections that repeat their SYN", syn.retransmitting as f64, "connections")
    .over(evidence, "connections seen in SYN_SENT", syn.connections as f64, "connections")
    .over(evidence, "most repetitions", f64::from(syn.max_retransmissions), "SYNs");
    if let Some(growth) = evidence.increase("TcpExtTCPSynRetrans") {
        counted = counted.over(evidence, "TcpExtTCPSynRetrans", growth as f64, "packets");
    }
    let patience = {
        let mut patience = advice(format!(
            "meanwhile: a connect timeout of {process} below {} s, and another peer",
            seconds.max(1)
        ));
        patience.reaches = Reach::NewConnections;
        patience
    };
    Finding {
        cause: "syn-retransmitted".to_string(),
        title: title(&process, remote, silent),
        severity: if silent || of_all(syn) >= 0.1 { Severity::Critical } else { Severity::Warning },
        subject: subject(SubjectKind::Destination, remote.to_string(), None, Some(remote), who),
        impact: Impact {
            text: format!(
                "{} to {remote} waited {seconds} s and more ({} of those seen)",
                count(syn.retransmitting, "connection"),
                percent(of_all(syn)),
            ),
            unit: ImpactUnit::ConnectionsDelayed,
            amount: syn.retransmitting as f64,
            share: Some(of_all(syn)),
        },
        evidence: vec![counted, proof(Source::Sockets, "why", why)],
        checks: vec![
            command(evidence, &format!("ss -tnop state syn-sent dst {remote}")),
            command(evidence, "nstat -az TcpExtTCPSynRetrans"),
        ],
        remedies: vec![
            advice(format!("the path to {remote} or the peer itself: run netwhy there")),
            patience,
        ],
        also_causes: Vec::new(),
    }
}

fn title(process: &str, remote: std::net::SocketAddr, silent: bool) -> String {
    let harm = if silent { "is not answered by" } else { "waits to connect to" };
    let title = format!("{process} {harm} {remote}: its SYNs are lost");
    if title.chars().count() <= 72 { title } else { "Connections open late: SYNs are lost".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{end, found, grew, healthy, lose, process, set};

    fn retrying(retrying: u64, seen: u64, established: u64, most_tries: u8) -> Evidence {
        let mut evidence = healthy();
        process(&mut evidence, 7, "curl");
        grew(&mut evidence, "TcpExtTCPSynRetrans", 30);
        evidence.sockets.as_mut().unwrap().syn_sent.push(SynSent {
            remote: end("198.18.0.9:80"),
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
        let finding = &found(rule(&retrying(12, 12, 0, 3)))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "curl is not answered by 198.18.0.9:80: its SYNs are lost");
        let text = "12 connections to 198.18.0.9:80 waited 3 s and more (100 % of those seen)";
        assert_eq!(finding.impact.text, text);
        let mut evidence = retrying(12, 12, 0, 3);
        set(&mut evidence, "net.ipv4.tcp_syn_linear_timeouts", "0");
        assert!(found(rule(&evidence))[0].impact.text.contains("waited 7 s and more"));
    }

    #[test]
    fn fires_for_one_that_repeats_again() {
        assert_eq!(found(rule(&retrying(1, 1, 0, 2))).len(), 1);
    }

    #[test]
    fn stays_quiet_for_one_lost_syn_and_for_few_of_many() {
        assert!(matches!(rule(&retrying(1, 20, 0, 1)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&retrying(3, 20, 5_000, 1)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_for_the_counter_alone() {
        let mut evidence = healthy();
        grew(&mut evidence, "TcpExtTCPSynRetrans", 3_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = retrying(12, 12, 0, 3);
        lose(&mut evidence, Source::Sockets);
        let verdict = crate::cause("syn-retransmitted").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let evidence = retrying(u64::MAX, 0, u64::MAX, u8::MAX);
        assert_eq!(found(rule(&evidence)).len(), 1);
        assert_eq!(waited(0, 4), 0);
        assert!(waited(255, 0) > 1000);
    }
}
