//! # dns-slow
//!
//! ## What happens
//!
//! A program looks up a name before it connects, and the name server does not
//! answer, or answers late. The resolver waits for its timeout, 5 s by default,
//! then asks again or asks the next server: every request that looks up a name
//! takes that much longer, while all connections are fast.
//!
//! ## Evidence
//!
//! In packets of port 53: queries of hosts (recursion desired) that were
//! retransmitted, to the same server or the next, or that had no answer for a
//! second at the end; and answers that took a second or more, or 300 ms to a
//! second, or 100 ms to questions that the server had answered in the 20 s before:
//! what a cache holds takes no longer than the way to it. The time that clients
//! waited for each server is summed; what one client looks up at the same time
//! counts once. An answer belongs to the query with its id, name and server; that
//! the port is unreachable (ICMP) is an answer, too. After ten seconds without
//! another query no client waits any more.
//!
//! ## Threshold
//!
//! A second lost or more, by at least two queries and a twentieth of those sent to
//! the server: a single lost packet is no finding. Or three answers that took 300
//! ms to a second, or 100 ms for what was answered before, at least half of all,
//! and a second lost. Where the capture itself lost packets, three times their
//! share: it may have lost the answers. And at least one packet of the other
//! direction must have been captured: a capture of one direction has no answers at
//! all.
//!
//! ## Looks like it, but is not
//!
//! - A server that answers that there is no such name: that is an answer. Several
//!   search domains look up several names.
//! - Servers that query each other: some never answer, and nobody waits for them.
//! - Queries to a multicast or broadcast address: nobody has to answer.
//! - DNS over TLS or HTTPS: it is not visible here.
//!
//! ## Check by hand
//!
//! ```sh
//! cat /etc/resolv.conf
//! dig @SERVER -q NAME +tries=1 +timeout=2
//! # queries without an answer, and the times of answers
//! tshark -r FILE -Y 'dns && !dns.response_in && !dns.flags.response'
//! tshark -r FILE -Y dns.time -T fields -e ip.src -e dns.qry.name -e dns.time
//! ```
//!
//! ## Fix
//!
//! Put a server that answers first in `/etc/resolv.conf`, or lower its `options
//! timeout` and `attempts`; or run a cache on the host (systemd-resolved, unbound,
//! nscd). Where the server works, its answers are lost: run `netwhy` there, and
//! look at the firewalls between.
//!
//! ## Expected gain
//!
//! The delay of the slowest lookup: what it waited for this server (model
//! «difference»), assuming another server answers within a few milliseconds.
//!
//! ## References
//!
//! - RFC 1035, section 7; resolv.conf(5): `timeout`, `attempts`, `rotate`

use model::{
    CapturedStream, Command, Evidence, Finding, GainFigure, Impact, ImpactUnit, Packets, Reach,
    Remedy, Resolver, Severity, Source, SubjectKind,
};
use text::{count, micros, number, percent, share};

use crate::captured::{NO_PACKETS, ONE_DIRECTION, capture_file};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::reach::belongs_to_others;
use crate::remedies::{advice, advice_about};
use crate::words::{shortened, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "dns-slow",
    title: "a name server does not answer, or answers late",
    slows: Slows::Requests,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("dns_slow.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Time lost, microseconds.
const MIN_LOST_US: u64 = 1_000_000;
/// Queries that lost it.
const MIN_QUERIES: u64 = 2;
/// Share of the queries sent to the server.
const MIN_QUERY_SHARE: f64 = 0.05;
/// The same as a multiple of the share of packets that the capture lost.
const MIN_TO_CAPTURE_LOSS: f64 = 3.0;
/// Answers that took 300 ms to a second, or 100 ms for what the server had answered before, and their share
/// of all answers: the server is late each time.
const MIN_LATE_ANSWERS: u64 = 3;
const MIN_LATE_SHARE: f64 = 0.5;
/// Share of the queries from which on it is critical.
const MIN_QUERY_SHARE_CRITICAL: f64 = 0.5;
/// Name servers that are reported.
const MAX_FINDINGS: usize = 3;
/// Characters of a name that are shown.
const MAX_NAME_CHARACTERS: usize = 40;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let capture_loss = share(packets.dropped_by_capture as f64, packets.packets as f64);
    let min_share = MIN_QUERY_SHARE.max(MIN_TO_CAPTURE_LOSS * capture_loss);
    let all = packets.resolvers.iter().filter(|_| has_both_directions(packets));
    let findings = all
        .filter(|one| is_slow(one, min_share) || is_always_late(one))
        .take(MAX_FINDINGS)
        .map(|one| finding(evidence, one));
    Verdict::from_findings(findings.collect(), || {
        if packets.resolvers.is_empty() {
            return Verdict::not_checked("no DNS query");
        }
        if !has_both_directions(packets) {
            return Verdict::not_checked(ONE_DIRECTION);
        }
        let queries: u64 =
            packets.resolvers.iter().map(|one| one.queries).fold(0, u64::saturating_add);
        let slow: u64 = packets.resolvers.iter().map(slow_queries).fold(0, u64::saturating_add);
        Verdict::RuledOut(format!(
            "DNS ({} of {} slow or unanswered)",
            number(slow),
            count(queries, "query")
        ))
    })
}

/// Queries that were answered late or not at all.
fn slow_queries(one: &Resolver) -> u64 {
    one.unanswered.saturating_add(one.slow)
}

/// Whether packets of both directions were captured.
fn has_both_directions(packets: &Packets) -> bool {
    let both = |stream: &CapturedStream| stream.directions().iter().all(|one| one.packets > 0);
    packets.resolvers.iter().any(|one| one.answers > 0) || packets.worst.iter().any(both)
}

fn is_slow(one: &Resolver, min_share: f64) -> bool {
    let often = share(slow_queries(one) as f64, one.queries as f64) >= min_share;
    one.lost_us >= MIN_LOST_US && slow_queries(one) >= MIN_QUERIES && often
}

/// Queries that were answered late, or after a second, or not at all.
fn late_queries(one: &Resolver) -> u64 {
    slow_queries(one).saturating_add(late_answers(one))
}

/// Answers that were late, but not very late.
fn late_answers(one: &Resolver) -> u64 {
    one.late.saturating_add(one.late_again)
}

fn is_always_late(one: &Resolver) -> bool {
    let often = share(late_answers(one) as f64, one.answers as f64) >= MIN_LATE_SHARE;
    late_answers(one) >= MIN_LATE_ANSWERS && often && lost_us(one) >= MIN_LOST_US
}

/// Time that clients waited; for late answers, if most of them are.
fn lost_us(one: &Resolver) -> u64 {
    one.lost_us.saturating_add(one.lost_late_us)
}

fn finding(evidence: &Evidence, one: &Resolver) -> Finding {
    let server = one.server.ip();
    let silent = one.answers == 0;
    let is_late = is_always_late(one);
    let slow_queries = if is_late { late_queries(one) } else { slow_queries(one) };
    let lost_us = if is_late { lost_us(one) } else { one.lost_us };
    let mut late = String::new();
    if is_late && one.late > 0 {
        late.push_str(&format!(", {} after 300 ms to a second", number(one.late)));
    }
    if is_late && one.late_again > 0 {
        let again = number(one.late_again);
        late.push_str(&format!(
            ", {again} after 100 to 300 ms though it had answered the same before"
        ));
    }
    let mut text = format!(
        "{} of {} not answered, {} after a second or more{late}",
        number(one.unanswered),
        count(one.queries, "query"),
        number(one.slow)
    );
    if let (Some(p50), Some(p99)) = (one.answer_p50_us, one.answer_p99_us) {
        text.push_str(&format!("; the others took {} (p50), {} (p99)", micros(p50), micros(p99)));
    }
    if let Some(worst) = &one.worst {
        text.push_str(&format!("; {} waited {}", worst.client, micros(worst.waited_us)));
        text.push_str(&format!(" for {}", shortened(&worst.name, MAX_NAME_CHARACTERS)));
    }
    let slow = share(slow_queries as f64, one.queries as f64);
    let proof = proof(Source::Packets, "proof", text)
        .over_window(evidence, "queries", one.queries as f64, "queries")
        .over_window(evidence, "queries not answered", one.unanswered as f64, "queries")
        .over_window(evidence, "slow answers", one.slow as f64, "queries")
        .over_window(evidence, "late answers", late_answers(one) as f64, "queries")
        .over_window(evidence, "time lost", lost_us as f64 / 1e3, "ms");
    let each = one.worst.as_ref().map_or(0, |worst| worst.waited_us);
    Finding {
        cause: CAUSE.id.to_string(),
        title: if silent {
            title(format!("The name server {server} does not answer"), "A name server is silent")
        } else {
            title(format!("The name server {server} answers late"), "A name server answers late")
        },
        severity: if slow >= MIN_QUERY_SHARE_CRITICAL {
            Severity::Critical
        } else {
            Severity::Warning
        },
        subject: subject(
            SubjectKind::Destination,
            format!("name server {server}"),
            None,
            Some(one.server),
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} of the queries to it are slow or unanswered, {} lost; a request that looks up a name waits up to {}",
                percent(slow),
                micros(lost_us),
                micros(each)
            ),
            unit: ImpactUnit::SecondsLost,
            amount: lost_us as f64 / 1e6,
            share: Some(slow),
        },
        evidence: vec![proof],
        checks: checks(evidence, one),
        remedies: remedies(one),
        gain: gain::of_delay(GainFigure::LookupDelay, each as f64 / 1e3),
        also_causes: Vec::new(),
    }
}

fn remedies(one: &Resolver) -> Vec<Remedy> {
    let server = one.server.ip();
    let other = Remedy {
        reaches: Reach::NewConnections,
        ..advice("put a server that answers at the top of /etc/resolv.conf")
    };
    let there = advice_about(
        &server.to_string(),
        format!("run netwhy on {server}, and on the firewalls before it"),
    );
    match &one.worst {
        Some(worst) if belongs_to_others(server, worst.client) => vec![other],
        _ => vec![other, there],
    }
}

fn checks(evidence: &Evidence, one: &Resolver) -> Vec<Command> {
    let server = one.server.ip();
    let name = one.worst.as_ref().map_or("example.org", |worst| &worst.name);
    // What follows -q is a name, whatever it begins with.
    let dig = CommandLine::new("dig").arg(format!("@{server}")).args("-q").arg(name);
    let answers = capture_file(evidence).and_then(|file| {
        let filter =
            format!("dns && {}.addr == {server}", if server.is_ipv4() { "ip" } else { "ipv6" });
        CommandLine::new("tshark -r").file(file).args("-Y").arg(filter).here()
    });
    commands([dig.args("+tries=1 +timeout=2").in_netns(evidence), answers])
}

#[cfg(test)]
pub(super) mod tests {
    use model::SlowLookup;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![asked(4, 4, 0, 10_000_000), asked(40, 0, 8, 12_000_000)]
    }

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
            late: 0,
            late_again: 0,
            lost_us,
            lost_late_us: 0,
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
        assert_eq!(finding.title, "The name server 198.18.0.53 answers late");
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn fires_for_a_server_that_is_late_each_time() {
        let mut evidence = asked(10, 0, 0, 0);
        let one = &mut evidence.packets.as_mut().unwrap().resolvers[0];
        (one.late, one.lost_late_us) = (9, 4_000_000);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.title, "The name server 198.18.0.53 answers late");
        assert_eq!(finding.impact.amount, 4.0);
        let one = &mut evidence.packets.as_mut().unwrap().resolvers[0];
        (one.late, one.lost_late_us) = (3, 1_200_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "it had to ask others");
    }

    #[test]
    fn fires_for_a_server_that_is_late_for_what_it_answered_before() {
        for (again, answers, is_found) in [(9, 10, true), (2, 3, false), (9, 20, false)] {
            let mut evidence = asked(answers, 0, 0, 0);
            let one = &mut evidence.packets.as_mut().unwrap().resolvers[0];
            (one.late_again, one.lost_late_us) = (again, 1_800_000);
            let verdict = rule(&evidence);
            assert_eq!(matches!(verdict, Verdict::Found(_)), is_found, "{again} of {answers}");
        }
        let mut evidence = asked(10, 0, 0, 0);
        let one = &mut evidence.packets.as_mut().unwrap().resolvers[0];
        (one.late, one.late_again, one.lost_late_us) = (1, 8, 1_900_000);
        let text = &findings_of(rule(&evidence))[0].evidence[0].text;
        let late =
            "1 after 300 ms to a second, 8 after 100 to 300 ms though it had answered the same";
        assert!(text.contains(late), "{text}");
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
        assert!(matches!(rule(&evidence), Verdict::NotChecked(_)), "one direction");
    }

    #[test]
    fn long_names_are_shortened() {
        let mut evidence = asked(4, 4, 0, 10_000_000);
        let resolver = &mut evidence.packets.as_mut().unwrap().resolvers[0];
        resolver.worst.as_mut().unwrap().name = "é".repeat(60);
        let text = &findings_of(rule(&evidence))[0].evidence[0].text;
        assert!(text.contains("éé...éé") && text.chars().count() < 130, "{text}");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
