//! SYNs that are not answered, as a load of `netwhy http` measured them.

use std::net::SocketAddr;

use model::{
    Evidence, Finding, GainFigure, HttpLoad, Impact, ImpactUnit, Severity, Source, SubjectKind,
    SynRetransmissions,
};
use text::{count, micros, number, percent, share};

use super::thresholds::{MIN_RETRANSMITTING, MIN_SHARE};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::advice_about;
use crate::words::{subject, title};

/// Share of the connections, or of the time, from which on it is critical.
const MIN_SHARE_CRITICAL: f64 = 0.1;

pub(super) fn findings(evidence: &Evidence, load: &HttpLoad) -> Vec<(SocketAddr, Finding)> {
    let server = |one: &SynRetransmissions| {
        SocketAddr::from((one.server.ip().to_canonical(), one.server.port()))
    };
    let hit = load.syn_retransmissions.iter().filter(|one| counts(load, one));
    hit.map(|one| (server(one), finding(evidence, load, one))).collect()
}

/// Connections that retransmitted their SYN.
fn retransmitting(one: &SynRetransmissions) -> u64 {
    one.opened
        .iter()
        .chain([&one.timed_out, &one.still_connecting])
        .fold(0, |sum, n| sum.saturating_add(*n))
}

/// Share of its connections, and of the time that the load waited for anything.
fn shares(load: &HttpLoad, one: &SynRetransmissions) -> (f64, f64) {
    let waited_s = load.client.in_flight * load.duration_s;
    (
        share(retransmitting(one) as f64, one.attempted.max(retransmitting(one)) as f64),
        share(one.waited_us as f64 / 1e6, waited_s).min(1.0),
    )
}

fn counts(load: &HttpLoad, one: &SynRetransmissions) -> bool {
    let (of_all, of_time) = shares(load, one);
    let again = one.opened.len() > 1 || one.timed_out > 0 || one.still_connecting > 0;
    retransmitting(one) > 0
        && (retransmitting(one) >= MIN_RETRANSMITTING || again)
        && (of_all >= MIN_SHARE || of_time >= MIN_SHARE)
}

fn finding(evidence: &Evidence, load: &HttpLoad, one: &SynRetransmissions) -> Finding {
    let (of_all, of_time) = shares(load, one);
    let (server, retransmitting) = (one.server, retransmitting(one));
    let silent = load.connections_opened == 0;
    let host = server.ip().to_canonical().to_string();
    let mean_us = one.waited_us / retransmitting.max(1);
    let why = if silent {
        format!(
            "{server} does not answer: it is gone, filtered on the path, or its listener is full"
        )
    } else {
        "most open at once: SYNs are lost on the path, or its listener is full at times".to_string()
    };
    let times: Vec<String> = one
        .opened
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0)
        .map(|(at, n)| format!("{} after {}", number(*n), count(at as u64 + 1, "retransmission")))
        .collect();
    let counted = proof(
        Source::Probes,
        "proof",
        format!(
            "opened: {}; given up: {}; not open at the end: {} \
             (tcpi_total_retrans of each that took 0.5 s or more)",
            if times.is_empty() { "none".to_string() } else { times.join(", ") },
            number(one.timed_out),
            number(one.still_connecting),
        ),
    )
    .over_window(
        evidence,
        "connections that retransmitted their SYN",
        retransmitting as f64,
        "connections",
    )
    .over_window(evidence, "connections tried", one.attempted as f64, "connections");
    Finding {
        cause: "syn-retransmitted".to_string(),
        title: if silent {
            format!("{server} does not answer SYNs")
        } else {
            title(
                format!("Connections to {server} open late: SYNs are retransmitted"),
                "Connections open late",
            )
        },
        severity: if silent || of_all.max(of_time) >= MIN_SHARE_CRITICAL {
            Severity::Critical
        } else {
            Severity::Warning
        },
        subject: subject(
            SubjectKind::Destination,
            server.to_string(),
            None,
            Some(server),
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} of {} to {server} waited {} on average, \
                 {} of the time of this load",
                number(retransmitting),
                count(one.attempted.max(retransmitting), "connection"),
                micros(mean_us),
                percent(of_time),
            ),
            unit: ImpactUnit::ConnectionsDelayed,
            amount: retransmitting as f64,
            share: Some(of_all.max(of_time)),
        },
        evidence: vec![counted, proof(Source::Probes, "why", why)],
        checks: commands([CommandLine::new("nstat -az TcpExtTCPSynRetrans").in_netns(evidence)]),
        remedies: vec![advice_about(
            &host,
            format!("run netwhy on {host}: is its listener full (accept-queue-overflow)?"),
        )],
        gain: if silent {
            let all = one.attempted.max(retransmitting) as f64;
            gain::of_failures(GainFigure::FailedConnections, retransmitting as f64, all)
        } else {
            gain::of_delay(GainFigure::OpeningDelay, mean_us as f64 / 1e3)
        },
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::{HttpClient, Probes};

    use super::super::rule;
    use super::*;
    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, findings_of, healthy};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        loaded(&[500, 40], 0, 620_000_000)
    }

    fn loaded(opened: &[u64], given_up: u64, waited_us: u64) -> Evidence {
        let mut evidence = healthy();
        let one = SynRetransmissions {
            server: "198.18.0.2:80".parse().unwrap(),
            attempted: 100_000,
            opened: opened.to_vec(),
            timed_out: given_up,
            still_connecting: 0,
            waited_us,
        };
        let load = HttpLoad {
            duration_s: 10.0,
            connections_opened: 99_000,
            syn_retransmissions: vec![one],
            client: HttpClient { in_flight: 100.0, ..HttpClient::default() },
            ..HttpLoad::default()
        };
        evidence.probes = Some(Probes { http: Some(load), ..Probes::default() });
        evidence
    }

    #[test]
    fn fires_for_few_connections_that_waited_most_of_the_time() {
        let evidence = loaded(&[500, 40], 0, 620_000_000);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "Connections to 198.18.0.2:80 open late: SYNs are retransmitted");
        assert!(finding.impact.text.ends_with("62 % of the time of this load"), "{finding:?}");
    }

    #[test]
    fn stays_quiet_for_an_accident() {
        assert!(!matches!(rule(&loaded(&[1], 0, 1_000_000)), Verdict::Found(_)));
        assert!(!matches!(rule(&loaded(&[5], 0, 5_000_000)), Verdict::Found(_)));
    }

    #[test]
    fn packets_of_the_same_server_are_not_reported_again() {
        let mut evidence = loaded(&[500], 0, 500_000_000);
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").syn_retransmissions = 1;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn fires_for_a_server_that_never_answers() {
        let mut evidence = loaded(&[], 20, 200_000_000);
        evidence.probes.as_mut().unwrap().http.as_mut().unwrap().connections_opened = 0;
        assert_eq!(findings_of(rule(&evidence))[0].title, "198.18.0.2:80 does not answer SYNs");
    }
}
