//! A reader that does not read, as packets show it.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, Finding, Packets, TimeCategory};
use text::{bytes, count, micros, number};

use crate::captured::{Group, StreamDirection, group_directions, total, without_data};
use crate::cause::Verdict;
use crate::connections::owners_of_ends;
use crate::remedies::{advice, advice_about};
use crate::words::title;

/// A window that is closed for less than this, or less than a round trip, costs nothing: its update
/// is on its way.
const MIN_CLOSED_US: u64 = 1_000;
/// The same where the sender did not probe: the reader may wait until other tasks have had their time
/// slices, some milliseconds each.
const MIN_CLOSED_OFTEN_US: u64 = 20_000;
/// Up to here a reader may merely be late, on a busy CPU, unless its sender had to probe. Where the
/// host is watched too, its sockets show a reader that has stopped.
const MIN_CLOSED_WITHOUT_PROBE_US: u64 = 200_000;
/// Share of the active time from which on it is more than now and then.
const MIN_TIME_SHARE: f64 = 0.05;

/// `known` are the ends of streams, in both orders, that sockets have shown.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    known: &HashSet<(SocketAddr, SocketAddr)>,
) -> Vec<Finding> {
    let fresh = |direction: &StreamDirection<'_>| {
        !known.contains(&(direction.stream.client, direction.stream.server))
    };
    let watched = evidence.sockets.is_some();
    let groups = group_directions(packets, |direction| {
        Some(direction).filter(fresh).and_then(|direction| hit(direction, watched))
    });
    groups.iter().map(|group| finding(evidence, group)).collect()
}

/// What the packets show where no reader stalls.
pub(super) fn otherwise(packets: &Packets) -> Verdict {
    without_data(packets).unwrap_or_else(|| {
        Verdict::RuledOut(format!(
            "stalled readers ({} in {})",
            count(total(packets, |end| end.zero_windows), "closed window"),
            count(packets.worst.len() as u64, "stream")
        ))
    })
}

fn hit(direction: StreamDirection<'_>, watched: bool) -> Option<u64> {
    let closed = direction.sent().zero_window_stalls;
    let lost_us = direction.sent().time_us(TimeCategory::ReceiverStalled);
    let probed = direction.sent().window_probes > 0;
    // A small window alone is not closed: less than a segment is not worth sending.
    let is_closed = direction.reverse().zero_windows > 0 || probed;
    let often = lost_us as f64 >= MIN_TIME_SHARE * direction.stream.busy_us() as f64;
    let min_us = match (probed, often) {
        (true, _) if !watched => MIN_CLOSED_US,
        (false, true) if !watched => MIN_CLOSED_OFTEN_US,
        _ => MIN_CLOSED_WITHOUT_PROBE_US,
    };
    let longest = closed.longest_us.max(lost_us / closed.count.max(1));
    // A sender that probes has found the window closed, however far it is.
    let round_trip = direction.stream.round_trip_us().filter(|_| !probed).unwrap_or(0);
    (closed.count > 0 && is_closed && longest >= min_us.max(round_trip)).then_some(lost_us)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let closed = direction.sent().zero_window_stalls;
    let (receiver, host) = (group.receiver(), group.receiving_host());
    let times = group.sum(|sent| sent.zero_window_stalls.count);
    let ended = match closed.longest_ended_at {
        0 => "to the end of the stream".to_string(),
        packet => format!("to packet {}", number(packet)),
    };
    let proof = group.proof(
        evidence,
        "proof",
        format!(
            "stream {}: window closed {}, for up to {} ({ended}); \
             {} of it; largest window {}",
            direction.stream.number,
            count(closed.count, "time"),
            micros(closed.longest_us),
            count(direction.sent().window_probes, "probe"),
            bytes(u64::from(direction.reverse().max_window)),
        ),
    );
    let mut finding = group.finding(
        evidence,
        "receiver-stalled",
        title(format!("{receiver} stops reading"), "The reader stops reading"),
        &format!("the window was closed {}, for {}", count(times, "time"), group.lost_text()),
        vec![proof],
        vec![
            advice_about(
                &host,
                format!("run netwhy on {host}: which process does not read, and why"),
            ),
            advice("a larger receive buffer (tcp_rmem) only postpones it"),
        ],
    );
    // The reader may be on this host, and have a socket that says too little by itself.
    let ends = group.directions.iter().map(|one| (one.receiver(), one.sender()));
    finding.subject.processes = owners_of_ends(evidence, ends);
    finding.subject.name = format!("{receiver} (reader) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Evidence, Stalls, TimeCategory};

    use crate::fixtures::{add_process, add_socket, add_stream, findings_of, healthy, set_time};

    use super::super::rule;
    use crate::cause::Verdict;

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        closed(2_000_000)
    }

    fn closed(us: u64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        let sent = &mut stream.from_server;
        set_time(sent, TimeCategory::ReceiverStalled, us);
        let longest = Stalls { count: 1, total_us: us, longest_us: us, longest_ended_at: 9 };
        sent.zero_window_stalls = longest;
        stream.from_client.zero_windows = 1;
        evidence
    }

    #[test]
    fn fires_for_a_closed_window_and_names_the_reader() {
        let finding = &findings_of(rule(&closed(2_000_000)))[0];
        assert_eq!(finding.title, "198.18.0.1:4000 stops reading");
        assert!(finding.subject.name.starts_with("198.18.0.1:4000 (reader)"));
    }

    #[test]
    fn names_the_process_of_a_reader_on_this_host() {
        let mut evidence = closed(2_000_000);
        add_process(&mut evidence, 812, "reader");
        add_socket(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80", Some(812));
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.subject.processes.len(), 1);
        assert_eq!(finding.subject.processes[0].pid, 812);
    }

    #[test]
    fn stays_quiet_while_the_update_is_on_its_way() {
        assert!(matches!(rule(&closed(15_000)), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_while_other_tasks_have_their_time_slices() {
        // Within a host or a rack, the round trip allows less.
        for (us, is_found) in [(12_000, false), (30_000, true)] {
            let mut evidence = closed(us);
            evidence.sockets = None;
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.to_server_us, stream.to_client_us) = (Some(40), Some(5));
            let sent = &mut stream.from_server;
            sent.zero_window_stalls.count = 100;
            set_time(sent, TimeCategory::ReceiverStalled, 100 * 8_000);
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_found, "{us}");
        }
    }

    #[test]
    fn stays_quiet_on_a_watched_host_that_is_busy_for_a_moment() {
        let mut evidence = closed(100_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        evidence.sockets = None;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "a capture has nothing else to go by");
    }

    #[test]
    fn stays_quiet_for_a_reader_that_is_late_now_and_then() {
        let mut evidence = closed(50_000);
        evidence.sockets = None;
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        set_time(sent, TimeCategory::Network, 3_000_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.window_probes = 1;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "its sender had to probe");
    }

    #[test]
    fn stays_quiet_for_a_small_window_that_is_not_closed() {
        let mut evidence = closed(2_000_000);
        evidence.packets.as_mut().unwrap().worst[0].from_client.zero_windows = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }
}
