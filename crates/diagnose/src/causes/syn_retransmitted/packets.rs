//! SYNs that are not answered, as packets show them.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, Finding, Packets, TimeCategory};
use text::{count, micros};

use crate::captured::{Group, StreamDirection, group_directions};
use crate::proofs::WithFigures as _;
use crate::remedies::{advice, advice_about};
use crate::words::title;

/// `known` are servers that sockets or a load have reported.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    known: &HashSet<SocketAddr>,
) -> Vec<Finding> {
    let fresh = |direction: &StreamDirection<'_>| !known.contains(&direction.stream.server);
    let groups = group_directions(packets, |direction| Some(direction).filter(fresh).and_then(hit));
    groups.iter().map(|group| finding(evidence, group)).collect()
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let stream = direction.stream;
    let retransmitted = stream.syn_retransmissions > 0 || stream.syn_ack_retransmissions > 0;
    (!direction.server_sends && retransmitted)
        .then(|| direction.stream.time_us(TimeCategory::SynWait))
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
    group.finding(
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
    )
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Evidence, TimeCategory};

    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, findings_of, healthy, set_time};

    use super::super::rule;

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
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
            add_stream(&mut evidence, "198.18.0.1:4000", server).syn_retransmissions = 3;
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
    fn stays_quiet_without_one() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }
}
