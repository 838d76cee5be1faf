//! Servers that speak first, and are late.

use model::{CapturedStream, Evidence, Finding, Packets};
use text::{count, micros};

use crate::captured::{Group, StreamDirection, group_directions};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::advice_about;

/// How long a connection waits for a late greeting, microseconds, as for a warning: a wait that interrupts
/// people (`severity`).
const MIN_WAIT_US: u64 = 1_000_000;

/// The same in round trips to the server: a greeting that is lost before the capture point comes after the
/// first timeout, three of them (RFC 6298).
const MIN_WAIT_ROUND_TRIPS: u64 = 4;

/// Servers that greet at least half of their clients late, but for those that answer late anyway.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    others: &[Group<'_>],
) -> Vec<Finding> {
    let groups = group_directions(packets, |direction: StreamDirection<'_>| {
        late_greeting(direction.stream).filter(|_| direction.server_sends)
    });
    let is_other = |group: &&Group<'_>| others.iter().all(|one| one.server != group.server);
    groups.iter().filter(is_other).filter_map(|group| finding(evidence, packets, group)).collect()
}

/// How long the client waited for the greeting, where the server is what it waited for: one that repeats its
/// SYN-ACK has not got the connection yet (the last acknowledgement was lost, or the accept queue is full),
/// and without a packet of the client nobody knows when it got it.
fn late_greeting(stream: &CapturedStream) -> Option<u64> {
    let of_path = stream.to_server_us.unwrap_or(0).saturating_mul(MIN_WAIT_ROUND_TRIPS);
    let is_late = |wait: &u64| *wait >= MIN_WAIT_US && *wait > of_path;
    let is_open = stream.handshake_us.is_some() && stream.syn_ack_retransmissions == 0;
    stream.greeting_us.filter(|_| is_open).filter(is_late)
}

fn finding(evidence: &Evidence, packets: &Packets, group: &Group<'_>) -> Option<Finding> {
    let server = group.server;
    let greeted = packets
        .worst
        .iter()
        .filter(|stream| stream.server == server && stream.greeting_us.is_some())
        .count();
    let late = group.directions.len();
    if late.saturating_mul(2) < greeted {
        return None;
    }
    let (worst, each_us) = (group.worst(), group.lost_us / late.max(1) as u64);
    let text = format!(
        "stream {}: {} from the handshake to the first data, which is the server's; the round trip to \
         it takes {}",
        worst.stream.number,
        micros(worst.stream.greeting_us.unwrap_or(0)),
        worst.stream.to_server_us.map_or_else(|| "an unknown time".to_string(), micros),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "late greetings", late as f64, "connections")
        .over_window(evidence, "time of these", group.lost_us as f64 / 1e3, "ms");
    let host = server.ip().to_string();
    let connections = count(greeted as u64, "connection");
    let mut finding = group.finding(
        evidence,
        "server-think-time",
        format!("{server} takes {} to greet", micros(each_us)),
        &format!("{late} of {connections} wait {} in all", micros(group.lost_us)),
        vec![proof],
        vec![advice_about(
            &host,
            format!(
                "run netwhy on {host}: does it look up the names of its clients first, or is no worker \
                 free?"
            ),
        )],
    );
    finding.gain = gain::not_predictable("what the server does in this time is not in the packets");
    Some(finding)
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::super::rule;
    use super::*;
    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, add_up_services, findings_of, healthy, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        greeted_after(&[5_000_000, 5_200_000, 40_000])
    }

    /// A mail server that greets after these times, and answers quickly then.
    fn greeted_after(waits: &[u64]) -> Evidence {
        let mut evidence = healthy();
        for (wait, port) in waits.iter().zip(4_000..) {
            let client = format!("198.18.0.1:{port}");
            let stream = add_stream(&mut evidence, &client, "198.18.0.2:25");
            (stream.greeting_us, stream.span_us) = (Some(*wait), wait + 400_000);
            set_time(&mut stream.from_server, TimeCategory::ServerThink, *wait);
        }
        add_up_services(&mut evidence, 30_000);
        evidence
    }

    #[test]
    fn fires_for_greetings_that_come_seconds_late() {
        let finding = &findings_of(rule(&example()))[0];
        assert_eq!(finding.title, "198.18.0.2:25 takes 5.1 s to greet");
        let text = &finding.impact.text;
        assert!(text.contains("2 of 3 connections wait 10.2 s"), "{text}");
    }

    #[test]
    fn stays_quiet_for_prompt_greetings_and_a_single_late_one() {
        for waits in [&[900_000, 900_000][..], &[5_000_000, 1_000, 1_000], &[]] {
            assert!(!matches!(rule(&greeted_after(waits)), Verdict::Found(_)), "{waits:?}");
        }
    }

    #[test]
    fn stays_quiet_where_the_path_may_have_lost_what_comes_late() {
        let changes: [fn(&mut CapturedStream); 3] = [
            |stream| stream.handshake_us = None,
            |stream| stream.syn_ack_retransmissions = 2,
            |stream| stream.to_server_us = Some(1_400_000),
        ];
        for change in changes {
            let mut evidence = example();
            evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(change);
            assert!(!matches!(rule(&evidence), Verdict::Found(_)));
        }
    }
}
