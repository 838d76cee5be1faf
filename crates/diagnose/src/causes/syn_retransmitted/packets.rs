//! SYNs that are not answered, as packets show them.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use model::{
    CapturedStream, Evidence, Finding, GainFigure, Impact, ImpactUnit, Packets, Severity, Source,
    SubjectKind, TimeCategory,
};
use text::{count, micros, share};

use crate::captured::{
    Clients, Group, StreamDirection, carried_nothing, group_directions, stream_checks,
};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{advice, advice_about};
use crate::words::{subject, title};

/// Connections that show which share of them loses another SYN: one of them is a tenth.
const MIN_CONNECTIONS_FOR_SHARE: usize = 10;

/// `known` are servers that sockets or a load have reported.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    known: &HashSet<SocketAddr>,
) -> Vec<Finding> {
    let clients = Clients::of(packets);
    let fresh = |direction: &StreamDirection<'_>| {
        let stream = direction.stream;
        !known.contains(&stream.server) && !clients.is_one_of_many(stream)
    };
    let groups = group_directions(packets, |direction| Some(direction).filter(fresh).and_then(hit));
    let mut findings: Vec<Finding> = groups.iter().map(|group| finding(evidence, group)).collect();
    findings.extend(peers(evidence, packets, &clients));
    findings
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let stream = direction.stream;
    let retransmitted = stream.syn_retransmissions > 0 || stream.syn_ack_retransmissions > 0;
    let waited_us = stream.time_us(TimeCategory::SynWait);
    let is_felt = retransmitted && waited_us > 0 && !carried_nothing(stream);
    (!direction.server_sends && is_felt).then_some(waited_us)
}

/// One remark for the client that gets no answer from most addresses of the many that it tries.
fn peers(evidence: &Evidence, packets: &Packets, clients: &Clients<'_>) -> Option<Finding> {
    let is_silent = |stream: &&CapturedStream| {
        !stream.syn_answered && stream.syn_retransmissions > 0 && clients.is_one_of_many(stream)
    };
    let mut silent: BTreeMap<IpAddr, (HashSet<SocketAddr>, &CapturedStream, u64)> = BTreeMap::new();
    for stream in packets.worst.iter().filter(is_silent) {
        let waited_us = stream.time_us(TimeCategory::SynWait);
        let (servers, _, sum_us) =
            silent.entry(stream.client.ip()).or_insert((HashSet::new(), stream, 0));
        servers.insert(stream.server);
        *sum_us = sum_us.saturating_add(waited_us);
    }
    let (client, (servers, worst, waited_us)) =
        silent.into_iter().max_by_key(|(_, (servers, ..))| servers.len())?;
    let addresses = servers.len() as u64;
    let text = format!(
        "{client} retransmits SYNs to {}; stream {}, to {}, {}",
        count(addresses, "address"),
        worst.number,
        worst.server,
        count(u64::from(worst.syn_retransmissions), "time"),
    );
    let proof = proof(Source::Packets, "proof", text)
        .over_window(evidence, "addresses", addresses as f64, "addresses")
        .over_window(evidence, "time lost", waited_us as f64 / 1e3, "ms");
    let opened_none = clients.opened_none(client);
    let what = if opened_none {
        "no connection of it opens: something drops all its SYNs, or it scans"
    } else {
        "it tries many at once, as peer-to-peer programs and scans do, and uses those that answer"
    };
    Some(Finding {
        cause: "syn-retransmitted".to_string(),
        title: title(
            format!("{} do not answer {client}", count(addresses, "address")),
            "Many addresses do not answer",
        ),
        severity: if opened_none { Severity::Warning } else { Severity::Info },
        subject: subject(SubjectKind::Host, client.to_string(), None, None, Vec::new()),
        impact: Impact {
            text: format!("{client} gets no answer from {}: {what}", count(addresses, "address")),
            unit: ImpactUnit::ConnectionsLost,
            amount: addresses as f64,
            share: None,
        },
        evidence: vec![proof],
        checks: stream_checks(evidence, worst),
        remedies: vec![advice_about(
            &client.to_string(),
            format!("on {client}: which program connects to them? A firewall may drop its SYNs"),
        )],
        gain: gain::not_predictable("a client that tries many addresses needs few of them"),
        also_causes: Vec::new(),
    })
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let stream = group.worst().stream;
    let server = group.server;
    let sum = |of: fn(&model::CapturedStream) -> u32| -> u64 {
        group.directions.iter().map(|direction| u64::from(of(direction.stream))).sum()
    };
    let (syns, answers) = (sum(|s| s.syn_retransmissions), sum(|s| s.syn_ack_retransmissions));
    let never =
        group.directions.iter().filter(|direction| !direction.stream.syn_answered).count() as u64;
    let silent = never == group.directions.len() as u64;
    let opened = match stream.handshake_us {
        Some(handshake) => format!("open after {}", micros(handshake)),
        None => "never open in this capture".to_string(),
    };
    let proof = group.proof(
        evidence,
        "proof",
        format!(
            "stream {}: SYN retransmitted {}, SYN-ACK {}; {opened}",
            stream.number,
            count(u64::from(stream.syn_retransmissions), "time"),
            count(u64::from(stream.syn_ack_retransmissions), "time"),
        ),
    );
    let proof = proof.over_window(
        evidence,
        "streams of the service",
        group.streams_of_service() as f64,
        "streams",
    );
    let why = if silent {
        "no answer at all: the server is gone, filtered on the path, or its listener is full"
    } else if answers > syns {
        "the server answers, but its SYN-ACKs or the last ACK are lost, or its accept queue is full"
    } else {
        "some SYNs are answered: others are lost on the path, or the listener is full at times"
    };
    let why = group.proof(evidence, "why", why.to_string());
    let title = if silent {
        format!("{server} does not answer SYNs")
    } else {
        title(
            format!("Connections to {server} open late: SYNs are retransmitted"),
            "Connections open late",
        )
    };
    let host = server.ip().to_string();
    let mut finding = group.finding(
        evidence,
        "syn-retransmitted",
        title,
        &match group.lost_us {
            0 => "waited for an answer".to_string(),
            _ => format!("waited for an answer for {}", group.lost_text()),
        },
        vec![proof, why],
        vec![
            advice_about(&host, format!("run netwhy on {host}: is its listener full?")),
            advice("a capture at the other end shows on which side SYNs are lost"),
        ],
    );
    let streams = group.directions.len() as f64;
    finding.gain = if silent {
        gain::of_failures(GainFigure::FailedConnections, streams, group.streams_of_service() as f64)
    } else {
        let waited_ms = slowest_us(group) as f64 / 1e3;
        gain::of_repeated_drops(hit_share(group), again_share(group), waited_ms)
    };
    finding
}

/// Share of the connections of which a SYN or its answer was lost.
fn hit_share(group: &Group<'_>) -> f64 {
    share(group.directions.len() as f64, group.streams_of_service() as f64)
}

/// Share of these that lost another one; 0 where they are too few to show it. A capture that is shorter than the
/// timeouts has few that waited for both.
fn again_share(group: &Group<'_>) -> f64 {
    if group.directions.len() < MIN_CONNECTIONS_FOR_SHARE {
        return 0.0;
    }
    let retransmissions = |one: &&StreamDirection<'_>| {
        one.stream.syn_retransmissions.max(one.stream.syn_ack_retransmissions)
    };
    let again = group.directions.iter().filter(|one| retransmissions(one) > 1).count();
    share(again as f64, group.directions.len() as f64)
}

/// What the slowest in a hundred connections waited, or, where fewer were hit, those on average,
/// microseconds.
fn slowest_us(group: &Group<'_>) -> u64 {
    let waits = group.directions.iter().map(|one| one.stream.time_us(TimeCategory::SynWait));
    let mut waits: Vec<u64> = waits.collect();
    waits.sort_unstable_by(|a, b| b.cmp(a));
    let slower = usize::try_from(group.streams_of_service() / 100).unwrap_or(usize::MAX);
    let mean_us = group.lost_us / (waits.len() as u64).max(1);
    waits.get(slower).copied().unwrap_or(mean_us)
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Evidence, Severity, StreamEnd, TimeCategory};

    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, findings_of, healthy, set_time};

    use super::super::rule;

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
        set_time(&mut stream.from_client, TimeCategory::SynWait, 1_000_000);
        evidence
    }

    #[test]
    fn fires_for_a_retransmitted_syn() {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
        set_time(&mut stream.from_client, TimeCategory::SynWait, 1_000_000);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.title, "Connections to 198.18.0.2:80 open late: SYNs are retransmitted");
        assert_eq!(finding.impact.amount, 1.0);
    }

    #[test]
    fn servers_that_sockets_report_are_not_reported_again() {
        let mut evidence = healthy();
        for server in ["198.18.0.2:80", "198.18.0.3:80"] {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", server);
            stream.syn_retransmissions = 3;
            set_time(&mut stream.from_client, TimeCategory::SynWait, 7_000_000);
        }
        let syn = model::SynSent {
            remote: "[::ffff:198.18.0.2]:80".parse().unwrap(),
            pids: Vec::new(),
            retransmitting: 9,
            connections: 9,
            completed: 0,
            max_retransmissions: 3,
            established: 0,
        };
        evidence.sockets.as_mut().unwrap().syn_sent.push(syn);
        let findings = findings_of(rule(&evidence));
        let names: Vec<&str> = findings.iter().map(|one| &one.subject.name[..]).collect();
        assert_eq!(names, ["[::ffff:198.18.0.2]:80", "198.18.0.1:4000 > 198.18.0.3:80"]);
    }

    #[test]
    fn stays_quiet_without_one_and_where_nobody_waits() {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        // The last ACK had passed, the client had sent nothing.
        stream.syn_ack_retransmissions = 2;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
        set_time(&mut stream.from_client, TimeCategory::SynWait, 1_000_000);
        stream.end = StreamEnd::Closed;
        (stream.from_client.new_bytes, stream.from_server.new_bytes) = (0, 0);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "opened and closed, no data");
    }

    #[test]
    fn dozens_of_peers_that_do_not_answer_are_one_remark() {
        let mut evidence = healthy();
        for peer in 0..40 {
            let server = format!("198.18.1.{peer}:3{peer:03}");
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", &server);
            stream.first_us = peer * 1_000_000;
            if peer % 2 == 0 {
                (stream.syn_retransmissions, stream.syn_answered) = (2, false);
                (stream.end, stream.handshake_us) = (StreamEnd::Open, None);
                (stream.from_client.new_bytes, stream.from_server.new_bytes) = (0, 0);
                set_time(&mut stream.from_client, TimeCategory::SynWait, 9_000_000);
            }
        }
        let findings = findings_of(rule(&evidence));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].title, "20 addresses do not answer 198.18.0.1");
        assert_eq!(findings[0].severity, Severity::Info);
    }
}
