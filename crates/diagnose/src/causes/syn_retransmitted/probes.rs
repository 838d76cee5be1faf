//! SYNs that are not answered, as a load of `netwhy http` saw them.

use std::net::SocketAddr;
use std::time::Duration;

use model::{
    Evidence, Finding, HttpLoad, Impact, ImpactUnit, Severity, Source, SubjectKind,
    SynRetransmissions,
};
use text::{count, number, percent, share};

use super::{LEAST, SEVERAL};
use crate::make::{WithFigures as _, advice, proof, subject};
use crate::words::command;

/// From here it is critical: share of the connections, or of the time.
const CRITICAL: f64 = 0.1;

pub(super) fn findings(evidence: &Evidence, load: &HttpLoad) -> Vec<(SocketAddr, Finding)> {
    let server = |one: &SynRetransmissions| {
        SocketAddr::from((one.server.ip().to_canonical(), one.server.port()))
    };
    let hit = load.syn_retransmissions.iter().filter(|one| counts(load, one));
    hit.map(|one| (server(one), finding(evidence, load, one))).collect()
}

fn repeated(one: &SynRetransmissions) -> u64 {
    one.opened.iter().chain([&one.given_up, &one.unopened]).fold(0, |sum, n| sum.saturating_add(*n))
}

/// Share of its connections, and of the time in which the load waited for anything.
fn shares(load: &HttpLoad, one: &SynRetransmissions) -> (f64, f64) {
    let waited_s = load.client.in_flight * load.duration_s;
    (
        share(repeated(one) as f64, one.attempted.max(repeated(one)) as f64),
        share(one.waited_us as f64 / 1e6, waited_s).min(1.0),
    )
}

fn counts(load: &HttpLoad, one: &SynRetransmissions) -> bool {
    let (of_all, of_time) = shares(load, one);
    let again = one.opened.len() > 1 || one.given_up + one.unopened > 0;
    repeated(one) > 0
        && (repeated(one) >= SEVERAL || again)
        && (of_all >= LEAST || of_time >= LEAST)
}

fn finding(evidence: &Evidence, load: &HttpLoad, one: &SynRetransmissions) -> Finding {
    let (of_all, of_time) = shares(load, one);
    let (server, repeated) = (one.server, repeated(one));
    let silent = load.opened == 0;
    let mean = Duration::from_micros(one.waited_us / repeated.max(1));
    let why = if silent {
        format!("{server} answers nothing: gone, filtered on the way, or its\nlistener is full")
    } else {
        "most open at once: lost on the way, or its listener is full at times".to_string()
    };
    let times: Vec<String> = one
        .opened
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0)
        .map(|(at, n)| format!("{} after {}", number(*n), count(at as u64 + 1, "repetition")))
        .collect();
    let counted = proof(
        Source::Probes,
        "proof",
        format!(
            "opened: {}; given up: {}; not open at the end: {}\n\
             (tcpi_total_retrans of each that took 0.5 s and more)",
            if times.is_empty() { "none".to_string() } else { times.join(", ") },
            number(one.given_up),
            number(one.unopened),
        ),
    )
    .over_window(evidence, "connections that repeated their SYN", repeated as f64, "connections")
    .over_window(evidence, "connections tried", one.attempted as f64, "connections");
    Finding {
        cause: "syn-retransmitted".to_string(),
        title: title(server, silent),
        severity: if silent || of_all.max(of_time) >= CRITICAL {
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
                "{} of {} connections to {server} waited {:.1} s on average,\n\
                 {} of the time of this load",
                number(repeated),
                number(one.attempted),
                mean.as_secs_f64(),
                percent(of_time),
            ),
            unit: ImpactUnit::ConnectionsDelayed,
            amount: repeated as f64,
            share: Some(of_all.max(of_time)),
        },
        evidence: vec![counted, proof(Source::Probes, "why", why)],
        checks: vec![command(evidence, "nstat -az TcpExtTCPSynRetrans")],
        remedies: vec![advice(format!(
            "run netwhy on {}: is its listener full (accept-queue-overflow)?",
            server.ip()
        ))],
        also_causes: Vec::new(),
    }
}

fn title(server: SocketAddr, silent: bool) -> String {
    let title = match silent {
        true => format!("{server} does not answer SYNs"),
        false => format!("Connections to {server} open late: SYNs are lost"),
    };
    if title.chars().count() <= 72 { title } else { "Connections open late".to_string() }
}

#[cfg(test)]
mod tests {
    use model::{HttpClient, Probes};

    use super::*;
    use crate::Verdict;
    use crate::causes::syn_retransmitted::rule;
    use crate::fixtures::{add_stream, findings_of, healthy};

    fn loaded(opened: &[u64], given_up: u64, waited_us: u64) -> Evidence {
        let mut evidence = healthy();
        let one = SynRetransmissions {
            server: "198.18.0.2:80".parse().unwrap(),
            attempted: 100_000,
            opened: opened.to_vec(),
            given_up,
            unopened: 0,
            waited_us,
        };
        let load = HttpLoad {
            duration_s: 10.0,
            opened: 99_000,
            syn_retransmissions: vec![one],
            client: HttpClient { in_flight: 100.0, ..HttpClient::default() },
            ..HttpLoad::default()
        };
        evidence.probes = Some(Probes { http: Some(load), ..Probes::default() });
        evidence
    }

    #[test]
    fn fires_for_few_connections_that_took_most_of_the_time() {
        let evidence = loaded(&[500, 40], 0, 620_000_000);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "Connections to 198.18.0.2:80 open late: SYNs are lost");
        assert!(finding.impact.text.ends_with("62 % of the time of this load"), "{finding:?}");
    }

    #[test]
    fn stays_quiet_for_an_accident() {
        assert!(matches!(rule(&loaded(&[1], 0, 1_000_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&loaded(&[5], 0, 5_000_000)), Verdict::RuledOut(_)));
    }

    #[test]
    fn packets_of_the_same_server_are_not_told_again() {
        let mut evidence = loaded(&[500], 0, 500_000_000);
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").syn_retransmissions = 1;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn a_server_that_never_answers_is_told_as_that() {
        let mut evidence = loaded(&[], 20, 200_000_000);
        evidence.probes.as_mut().unwrap().http.as_mut().unwrap().opened = 0;
        assert_eq!(findings_of(rule(&evidence))[0].title, "198.18.0.2:80 does not answer SYNs");
    }
}
