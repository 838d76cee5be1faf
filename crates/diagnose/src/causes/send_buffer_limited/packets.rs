//! A full send buffer, as packets captured near the sender show it.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Evidence, Finding, FlightPlateau, NetworkPart, Packets, Source};
use text::{bytes, count, micros, percent, share};

use crate::captured::{Group, StreamDirection, group_directions, window_limit, without_data};
use crate::cause::Verdict;
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::advice_about;
use crate::words::title;

/// How long flights did not grow, microseconds, and its share of the sending time: at first they do.
const MIN_PLATEAU_US: u64 = 1_000_000;
const MIN_PLATEAU_SHARE: f64 = 0.25;
/// Share of the sending time that nothing explains.
const MIN_UNEXPLAINED_SHARE: f64 = 0.5;
/// Bytes of a transfer that can show it.
const MIN_BYTES: u64 = 1_000_000;

/// `known` are the ends of the connections, sender first, that sockets have shown.
pub(super) fn findings(
    evidence: &Evidence,
    packets: &Packets,
    known: &HashSet<(SocketAddr, SocketAddr)>,
) -> Vec<Finding> {
    let groups = group_directions(packets, |direction| {
        let is_known = known.contains(&(direction.sender(), direction.receiver()));
        hit(direction).filter(|_| !is_known)
    });
    groups.iter().map(|group| finding(evidence, group)).collect()
}

/// How long the sender waited, microseconds.
fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let plateau = direction.sent().flight_plateau?;
    let part = share(plateau.duration_us as f64, direction.sending_us() as f64);
    let lasts = plateau.duration_us >= MIN_PLATEAU_US && part >= MIN_PLATEAU_SHARE;
    (lasts && !direction.is_within_one_host()).then_some(plateau.waited_us)
}

/// What packets show where no flight stays level: it is not excluded where nothing else explains the time
/// of a transfer.
pub(super) fn otherwise(packets: &Packets) -> Verdict {
    let all = packets.worst.iter().flat_map(StreamDirection::both);
    let transfers = all.filter(|one| one.sent().new_bytes >= MIN_BYTES);
    let unexplained = |one: StreamDirection<'_>| {
        let parts = one.sent().network_breakdown.iter();
        let time_us = parts.filter(|share| share.part == NetworkPart::Unexplained);
        let time_us = time_us.map(|share| share.time_us).fold(0, u64::saturating_add);
        (time_us, share(time_us as f64, one.sending_us() as f64))
    };
    let found: Vec<(u64, f64)> = transfers.map(unexplained).collect();
    if found.is_empty() {
        let none = || Verdict::not_checked("no transfer of 1 MB");
        return without_data(packets).unwrap_or_else(none);
    }
    if found.iter().any(|(us, share)| *us >= MIN_PLATEAU_US && *share >= MIN_UNEXPLAINED_SHARE) {
        return Verdict::Undecided {
            needs: "the sender's sockets".to_string(),
            sources: vec![Source::Sockets],
            how_to_observe: Some("netwhy on the sender".to_string()),
        };
    }
    let most = found.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    Verdict::RuledOut(format!(
        "send buffers (at most {} of the sending unexplained, {})",
        percent(most),
        count(found.len() as u64, "transfer")
    ))
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let FlightPlateau { flight_bytes, round_trips, duration_us, waited_us } =
        direction.sent().flight_plateau.unwrap_or_default();
    let text = format!(
        "stream {}: in {}, {} in flight on average; nothing was lost, the window has room for {}. The sender \
         waits for {} of {} and goes on with an acknowledgement: a congestion window would have grown",
        direction.stream.number,
        count(round_trips, "round trip"),
        bytes(flight_bytes),
        bytes(u64::from(direction.reverse().max_window)),
        micros(waited_us),
        micros(duration_us),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "in flight", flight_bytes as f64, "bytes")
        .over_window(evidence, "round trips", round_trips as f64, "round trips");
    let (sender, host) = (group.sender(), group.sending_host());
    let text = format!("on {host}: raise the third number of net.ipv4.tcp_wmem; set no SO_SNDBUF");
    let mut finding = group.finding(
        evidence,
        "send-buffer-limited",
        title(
            format!("The send buffer of {sender} is too small: {} in flight", bytes(flight_bytes)),
            "A send buffer is too small for the path",
        ),
        &format!("the sender waited for {}", group.lost_text()),
        vec![proof],
        vec![advice_about(&host, text)],
    );
    finding.gain = group.gain_of_transfers(window_limit).unwrap_or_else(gain::path_is_not_known);
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::{NetworkShare, TimeCategory};

    use super::super::rule;
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        level(5_000_000)
    }

    /// A flight that stays level for so long, microseconds.
    fn level(duration_us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.flight_plateau = Some(FlightPlateau {
            flight_bytes: 65_536,
            round_trips: 50,
            duration_us,
            waited_us: duration_us / 10 * 8,
        });
        set_time(sent, TimeCategory::Network, 6_000_000);
        evidence
    }

    #[test]
    fn fires_for_a_flight_that_stays_level() {
        let finding = &findings_of(rule(&example()))[0];
        assert_eq!(
            finding.title,
            "The send buffer of 198.18.0.2:80 is too small: 64 KiB in flight"
        );
        assert_eq!(finding.impact.amount, 4.0);
        assert!(finding.subject.name.starts_with("198.18.0.2:80 (sender)"), "{finding:?}");
        let text = &finding.evidence[0].text;
        assert!(text.contains("in 50 round trips, 64 KiB in flight on average"), "{text}");
    }

    #[test]
    fn stays_quiet_for_a_short_time_and_within_one_host() {
        let found = |evidence: &Evidence| matches!(rule(evidence), Verdict::Found(_));
        assert!(!found(&level(900_000)));
        assert!(!found(&level(1_400_000)), "less than a quarter of the sending time");
        let mut evidence = example();
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.client.set_ip(stream.server.ip());
        assert!(!found(&evidence));
    }

    #[test]
    fn packets_rule_it_out_where_something_else_explains_the_time() {
        let mut evidence = healthy();
        evidence.sockets = None;
        let mut verdict_of = |bytes, unexplained_us| {
            let packets = evidence.packets.get_or_insert_default();
            packets.worst.clear();
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            stream.from_client.new_bytes = 500;
            let sent = &mut stream.from_server;
            sent.new_bytes = bytes;
            set_time(sent, TimeCategory::Network, 4_000_000);
            let part = NetworkPart::Unexplained;
            sent.network_breakdown = vec![NetworkShare { part, time_us: unexplained_us }];
            rule(&evidence)
        };
        assert!(matches!(verdict_of(10_000, 0), Verdict::NotChecked(_)));
        assert!(matches!(verdict_of(2_000_000, 2_000_000), Verdict::Undecided { .. }));
        assert!(matches!(verdict_of(2_000_000, 1_900_000), Verdict::RuledOut(_)));
    }
}
