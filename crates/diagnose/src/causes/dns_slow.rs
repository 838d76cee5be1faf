//! # dns-slow
//!
//! ## What happens
//!
//! A program asks for a name before it connects, and the name server does not
//! answer, or late. The resolver waits for its timeout, 5 s by default, then asks
//! again or asks the next server: every request that looks up a name takes so much
//! longer, while all connections are fast.
//!
//! ## Evidence
//!
//! In packets of port 53: queries of hosts (recursion desired) that were repeated,
//! at the same server or the next, or that stood unanswered for a second at the
//! end; and answers that came after a second and more. The time that each server
//! let its clients wait is added up; queries for several kinds of address of one
//! name count once.
//!
//! ## Threshold
//!
//! A second lost and more, by two queries or more, a twentieth of those that the
//! server was sent: a single lost packet is none. Where the capture itself lost
//! packets, three times their share: it may have lost the answers. And somebody
//! must be heard: a capture of one direction has no answers at all.
//!
//! ## Looks like it, but is not
//!
//! - A server that answers that there is no such name: that is an answer. Several
//!   search domains ask for several names.
//! - Servers that ask each other: some never answer, and nobody waits for them.
//! - Names over TLS or HTTPS: they are not seen here.
//!
//! ## Check by hand
//!
//! ```sh
//! cat /etc/resolv.conf
//! dig @SERVER NAME +tries=1 +timeout=2
//! # queries without an answer, and the times of answers
//! tshark -r FILE -Y 'dns && !dns.response_in && !dns.flags.response'
//! tshark -r FILE -Y dns.time -T fields -e ip.src -e dns.qry.name -e dns.time
//! ```
//!
//! ## Mend
//!
//! Put a server that answers first in `/etc/resolv.conf`, or lower its `options
//! timeout` and `attempts`; a cache on the host (systemd-resolved, unbound, nscd).
//! Where the server is in order, its answers are lost: see `netwhy` there, and the
//! firewalls between.
//!
//! ## References
//!
//! - RFC 1035, section 7; resolv.conf(5): `timeout`, `attempts`, `rotate`

use model::{
    CapturedStream, Evidence, Finding, Impact, ImpactUnit, Packets, Reach, Resolver, Severity,
    Source, SubjectKind,
};
use text::{micros, number, percent, share};

use crate::Verdict;
use crate::captured::{pasted, quoted};
use crate::make::{WithFigures as _, advice, proof, subject, there};
use crate::words::command;

/// Time lost, microseconds.
const LOST_US: u64 = 1_000_000;
/// Queries that lost it.
const QUERIES: u64 = 2;
/// Share of all that the server was sent.
const SHARE: f64 = 0.05;
/// So many times the share of packets that the capture lost.
const MISSED: f64 = 3.0;
/// Findings of it.
const FINDINGS: usize = 3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::RuledOut("no packets".to_string());
    };
    let missed = share(packets.dropped_by_capture as f64, packets.packets as f64);
    let least = SHARE.max(MISSED * missed);
    let all = packets.resolvers.iter().filter(|_| is_heard(packets));
    let findings =
        all.filter(|one| is_slow(one, least)).take(FINDINGS).map(|one| finding(evidence, one));
    Verdict::from_findings(findings.collect(), || {
        if !packets.resolvers.is_empty() && !is_heard(packets) {
            return "names (no answer of anybody was captured)".to_string();
        }
        let asked: u64 = packets.resolvers.iter().map(|one| one.queries).sum();
        let bad: u64 = packets.resolvers.iter().map(waits).sum();
        format!("names ({} of {} queries waited for)", number(bad), number(asked))
    })
}

/// Queries that somebody waited for.
fn waits(one: &Resolver) -> u64 {
    one.unanswered + one.slow
}

/// Whether packets of both directions were captured.
fn is_heard(packets: &Packets) -> bool {
    let both = |stream: &CapturedStream| stream.directions().iter().all(|one| one.packets > 0);
    packets.resolvers.iter().any(|one| one.answers > 0) || packets.worst.iter().any(both)
}

fn is_slow(one: &Resolver, least: f64) -> bool {
    let often = share(waits(one) as f64, one.queries as f64) >= least;
    one.lost_us >= LOST_US && waits(one) >= QUERIES && often
}

fn finding(evidence: &Evidence, one: &Resolver) -> Finding {
    let server = one.server.ip();
    let silent = one.answers == 0;
    let mut text = format!(
        "{} of {} not answered, {} after a second and more",
        number(one.unanswered),
        number(one.queries),
        number(one.slow)
    );
    if let (Some(p50), Some(p99)) = (one.answer_p50_us, one.answer_p99_us) {
        text.push_str(&format!(
            ";\nthe others take {} (p50) and {} (p99)",
            micros(p50),
            micros(p99)
        ));
    }
    if let Some(worst) = &one.worst {
        text.push_str(&format!(";\n{} waited {}", worst.client, micros(worst.waited_us)));
        text.push_str(&format!(" for {}", shortened(&worst.name)));
    }
    let bad = share(waits(one) as f64, one.queries as f64);
    let proof = proof(Source::Packets, "proof", text)
        .over_window(evidence, "queries", one.queries as f64, "queries")
        .over_window(evidence, "queries not answered", one.unanswered as f64, "queries")
        .over_window(evidence, "slow answers", one.slow as f64, "queries")
        .over_window(evidence, "time lost", one.lost_us as f64 / 1e3, "ms");
    let each = one.worst.as_ref().map_or(0, |worst| worst.waited_us);
    Finding {
        cause: "dns-slow".to_string(),
        title: if silent {
            format!("The name server {server} does not answer")
        } else {
            format!("The name server {server} lets its clients wait")
        },
        severity: if bad >= 0.5 { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Destination,
            format!("name server {server}"),
            None,
            Some(one.server),
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} of the queries that it is sent are waited for, {} in all;\nrequests that look up a name wait up to {}",
                percent(bad),
                micros(one.lost_us),
                micros(each)
            ),
            unit: ImpactUnit::SecondsLost,
            amount: one.lost_us as f64 / 1e6,
            share: Some(bad),
        },
        evidence: vec![proof],
        checks: checks(evidence, one),
        remedies: vec![
            there("a server that answers first in resolv.conf", Reach::NewConnections),
            advice(format!("run netwhy on {server}, and on the firewalls before it")),
        ],
        also_causes: Vec::new(),
    }
}

fn checks(evidence: &Evidence, one: &Resolver) -> Vec<String> {
    let server = one.server.ip();
    let name = one.worst.as_ref().map_or("example.org", |worst| &worst.name);
    let dig = format!("dig @{server} {} +tries=1 +timeout=2", quoted(name));
    let mut checks = vec![command(evidence, &dig)];
    if let Some(file) = pasted(evidence) {
        checks.push(format!("tshark -r {file} -Y 'dns && ip.addr == {server}'"));
    }
    checks
}

/// A name that fits into a line.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let skip = letters.len().saturating_sub(37);
    if letters.len() <= 40 {
        return name.to_string();
    }
    format!("...{}", letters[skip..].iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use model::SlowLookup;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    fn asked(queries: u64, unanswered: u64, slow: u64, lost_us: u64) -> Evidence {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        evidence.packets.as_mut().unwrap().resolvers = vec![Resolver {
            server: "198.18.0.53:53".parse().unwrap(),
            queries,
            answers: queries - unanswered,
            failures: 0,
            unanswered,
            slow,
            answer_p50_us: (queries > unanswered).then_some(2_000),
            answer_p99_us: (queries > unanswered).then_some(3_000),
            lost_us,
            worst: Some(SlowLookup {
                name: "www.example.org".to_string(),
                client: "198.18.0.1".parse().unwrap(),
                waited_us: 5_000_000,
            }),
        }];
        evidence
    }

    #[test]
    fn fires_for_a_server_that_is_silent() {
        let finding = &findings_of(rule(&asked(4, 4, 0, 10_000_000)))[0];
        assert_eq!(finding.title, "The name server 198.18.0.53 does not answer");
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.evidence[0].text.ends_with("198.18.0.1 waited 5.0 s for www.example.org"));
    }

    #[test]
    fn fires_for_slow_answers() {
        let finding = &findings_of(rule(&asked(40, 0, 8, 12_000_000)))[0];
        assert_eq!(finding.title, "The name server 198.18.0.53 lets its clients wait");
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn stays_quiet_for_a_lost_packet_and_a_small_share() {
        assert!(matches!(rule(&asked(10, 1, 0, 5_000_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&asked(1000, 20, 10, 90_000_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&asked(4, 2, 0, 300_000)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_where_answers_may_not_have_been_captured() {
        let mut evidence = asked(100, 20, 0, 40_000_000);
        let packets = evidence.packets.as_mut().unwrap();
        (packets.packets, packets.dropped_by_capture) = (10_000, 1_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "20 % of 10 % lost");
        evidence.packets.as_mut().unwrap().dropped_by_capture = 100;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        let mut evidence = asked(4, 4, 0, 10_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.packets = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "one direction");
    }

    #[test]
    fn long_names_are_cut_where_letters_begin() {
        assert_eq!(shortened(&"ab.".repeat(20)).len(), 40);
        let mut evidence = asked(4, 4, 0, 10_000_000);
        let resolver = &mut evidence.packets.as_mut().unwrap().resolvers[0];
        resolver.worst.as_mut().unwrap().name = "é".repeat(60);
        findings_of(rule(&evidence));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("dns-slow").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
