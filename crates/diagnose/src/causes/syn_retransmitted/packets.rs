//! SYNs that are not answered, as packets show it.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, Finding, Packets, TimeCategory};
use text::{count, micros};

use crate::captured::{Group, Way, groups};
use crate::make::{With as _, advice};

/// `known` are servers of which sockets have told.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    known: &HashSet<SocketAddr>,
) -> Vec<Finding> {
    let fresh = |way: &Way<'_>| !known.contains(&way.stream.server);
    let groups = groups(packets, |way| Some(way).filter(fresh).and_then(hit));
    groups.iter().map(|group| finding(evidence, group)).collect()
}

fn hit(way: Way<'_>) -> Option<u64> {
    let repeated = way.stream.syn_retransmissions + way.stream.syn_ack_retransmissions;
    (!way.server_sends && repeated > 0).then(|| way.stream.time_us(TimeCategory::SynWait))
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let stream = group.worst().stream;
    let server = group.server;
    let sum = |of: fn(&model::CapturedStream) -> u32| -> u64 {
        group.ways.iter().map(|way| u64::from(of(way.stream))).sum()
    };
    let (syns, answers) = (sum(|s| s.syn_retransmissions), sum(|s| s.syn_ack_retransmissions));
    let never = group.ways.iter().filter(|way| !way.stream.syn_answered).count() as u64;
    let silent = never == group.ways.len() as u64;
    let opened = match stream.handshake_us {
        Some(handshake) => format!("open after {}", micros(handshake)),
        None => "never open, as far as was seen".to_string(),
    };
    let proof = group.proof(
        evidence,
        "proof",
        format!(
            "stream {}: SYN {} again, SYN-ACK {}; {opened}",
            stream.number,
            count(u64::from(stream.syn_retransmissions), "time"),
            count(u64::from(stream.syn_ack_retransmissions), "time"),
        ),
    );
    let proof = proof.over(evidence, "streams of the service", group.streams() as f64, "streams");
    let why = if silent {
        "no answer at all: gone, filtered, or its listener is full"
    } else if answers > syns {
        "the server answers, and its answers or the last ACK do not arrive,\nor its accept queue is full"
    } else {
        "some SYNs are answered: lost on the way, or the listener is full at times"
    };
    let why = group.proof(evidence, "why", why.to_string());
    let title = if silent {
        format!("{server} does not answer SYNs")
    } else {
        format!("Connections to {server} open late: SYNs are lost")
    };
    group.finding(
        evidence,
        "syn-retransmitted",
        if title.chars().count() <= 72 { title } else { "Connections open late".to_string() },
        &format!("{} waited for an answer", micros(group.us)),
        vec![proof, why],
        vec![
            advice(format!("run netwhy on {}: is its listener full?", server.ip())),
            advice("a capture at the other end tells on which side SYNs are lost"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use model::TimeCategory;

    use crate::Verdict;
    use crate::fixtures::{found, healthy, spent, stream};

    use super::super::rule;

    #[test]
    fn fires_for_a_repeated_syn() {
        let mut evidence = healthy();
        let stream = stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
        spent(&mut stream.from_client, TimeCategory::SynWait, 1_000_000);
        let finding = &found(rule(&evidence))[0];
        assert_eq!(finding.title, "Connections to 198.18.0.2:80 open late: SYNs are lost");
        assert_eq!(finding.impact.amount, 1.0);
    }

    #[test]
    fn what_sockets_tell_is_not_told_again() {
        let mut evidence = healthy();
        for server in ["198.18.0.2:80", "198.18.0.3:80"] {
            stream(&mut evidence, "198.18.0.1:4000", server).syn_retransmissions = 3;
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
        let findings = found(rule(&evidence));
        let names: Vec<&str> = findings.iter().map(|one| &one.subject.name[..]).collect();
        assert_eq!(names, ["[::ffff:198.18.0.2]:80", "198.18.0.1:4000 > 198.18.0.3:80"]);
    }

    #[test]
    fn stays_quiet_without_one() {
        let mut evidence = healthy();
        stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }
}
