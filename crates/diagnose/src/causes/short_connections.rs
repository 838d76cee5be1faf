//! # short-connections
//!
//! ## What happens
//!
//! Each request opens a connection of its own: a round trip for the handshake, and
//! slow start from the first flight on. Over a long path most of the time goes
//! there, and a client that kept its connection would not pay it again.
//!
//! ## Evidence
//!
//! In packets: one client opens connection after connection to the same service,
//! each for one request; the time of their handshakes, and the round trips in
//! which what they send still grows, against the time in which somebody waited.
//!
//! ## Threshold
//!
//! Three connections of one client with one request each, one after another, 2 ms
//! and more each, and a quarter of the time in which somebody waited.
//!
//! ## Looks like it, but is not
//!
//! - Many clients with one request each: none of them could keep anything.
//! - A short path: handshakes cost next to nothing.
//! - Connections that are open at the same time: there is one for each at once.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpActiveOpens TcpPassiveOpens   # against requests
//! tshark -r FILE -q -z conv,tcp
//! ```
//!
//! ## Mend
//!
//! At the client: keep connections and use them again (HTTP keep-alive, a pool).
//! For a proxy to its upstream, nginx: `keepalive 32;` in `upstream`, with
//! `proxy_http_version 1.1` and `proxy_set_header Connection ""`.
//!
//! ## References
//!
//! - RFC 9112, section 9 (persistent connections); RFC 5681 (slow start)

use model::{Evidence, Finding, TimeCategory};
use text::{count, micros, number, percent, share};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, group_directions};
use crate::make::{WithFigures as _, advice};

/// Connections of one client.
const SEVERAL: usize = 3;
/// What each pays at least, microseconds.
const FELT_US: u64 = 2_000;
/// Share of the time in which somebody waited.
const TIME: f64 = 0.25;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::RuledOut("no packets".to_string());
    };
    let mut groups = group_directions(packets, paid);
    groups.retain(|group| follow(group) && felt(group));
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let (streams, turns) = packets
            .services
            .iter()
            .fold((0, 0), |(streams, turns), one| (streams + one.streams, turns + one.exchanges));
        format!("short connections ({} for {})", count(streams, "stream"), count(turns, "turn"))
    })
}

/// What a connection of one request pays for being new.
fn paid(direction: StreamDirection<'_>) -> Option<u64> {
    let stream = direction.stream;
    let handshake = stream.handshake_us?;
    let starts = direction.sent().slow_starts;
    let growth = starts.first_rounds.saturating_sub(1) * stream.round_trip_us().unwrap_or(0);
    let all = handshake + growth;
    let usual = stream.syn_retransmissions + stream.syn_ack_retransmissions == 0;
    // Uploads grow at the client, all else at the server.
    let grows = starts.first_rounds.cmp(&direction.reverse().slow_starts.first_rounds);
    let pays = grows.is_gt() || (grows.is_eq() && direction.server_sends);
    (pays && stream.exchanges == 1 && usual && all >= FELT_US).then_some(all)
}

/// Whether one client opened several, each after the one before was over.
fn follow(group: &Group<'_>) -> bool {
    let worst = group.worst().stream.client.ip();
    let mut times: Vec<(u64, u64)> = group
        .directions
        .iter()
        .filter(|direction| direction.stream.client.ip() == worst)
        .map(|direction| {
            (direction.stream.first_us, direction.stream.first_us + direction.stream.busy_us())
        })
        .collect();
    times.sort_unstable();
    let mut free = 0;
    let mut followed = 0;
    for (began, ended) in times {
        if began >= free {
            (followed, free) = (followed + 1, ended);
        }
    }
    followed >= SEVERAL
}

/// Share of the time of these streams.
fn part(group: &Group<'_>) -> f64 {
    let busy: u64 = group.directions.iter().map(|direction| direction.stream.busy_us()).sum();
    share(group.lost_us as f64, busy as f64).min(1.0)
}

fn felt(group: &Group<'_>) -> bool {
    // Most of what the service has is of this kind: a few health checks are none.
    part(group) >= TIME
        && group.directions.len() as u64 * 2 >= group.streams_of_service().min(2 * 1024)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let streams = group.directions.len() as u64;
    let each = group.lost_us / streams.max(1);
    let handshakes: u64 = group
        .directions
        .iter()
        .map(|direction| direction.stream.time_us(TimeCategory::Connect))
        .sum();
    let text = format!(
        "{} of one request each: {} for handshakes, {} while\nwhat they sent still grew, {} of \
         their time; stream {}: {} round trips",
        count(streams, "connection"),
        micros(handshakes),
        micros(group.lost_us.saturating_sub(handshakes)),
        percent(part(group)),
        direction.stream.number,
        number(direction.sent().slow_starts.first_rounds + 1),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "connections", streams as f64, "connections")
        .over_window(evidence, "handshakes", handshakes as f64 / 1e3, "ms");
    let clients = if direction.server_sends { group.receiver() } else { group.sender() };
    group.finding(
        evidence,
        "short-connections",
        format!("Each request opens a connection of its own: {} a time", micros(each)),
        &format!("{}, {} to open and to grow", count(streams, "connection"), micros(group.lost_us)),
        vec![proof],
        vec![advice(format!("at {clients}: keep connections open, or pool them"))],
    )
}

#[cfg(test)]
mod tests {
    use model::{SlowStarts, Source};

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    fn opened(streams: u64, apart_us: u64) -> Evidence {
        let mut evidence = healthy();
        for number in 0..streams {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
            stream.exchanges = 1;
            stream.first_us = number * apart_us;
            stream.handshake_us = Some(20_000);
            set_time(&mut stream.from_client, TimeCategory::Connect, 20_000);
            for direction in [&mut stream.from_client, &mut stream.from_server] {
                direction.time_breakdown.retain(|share| share.category == TimeCategory::Connect);
            }
            set_time(&mut stream.from_server, TimeCategory::Network, 60_000);
            stream.from_server.slow_starts =
                SlowStarts { first_rounds: 2, ..SlowStarts::default() };
        }
        evidence
    }

    #[test]
    fn fires_for_connections_that_follow_each_other() {
        let finding = &findings_of(rule(&opened(4, 100_000)))[0];
        assert!(finding.title.starts_with("Each request opens a connection"), "{finding:?}");
        assert!((finding.impact.amount - 4.0 * 0.04).abs() < 1e-3, "{finding:?}");
    }

    #[test]
    fn fires_for_uploads_at_the_client() {
        let mut evidence = opened(4, 100_000);
        for stream in &mut evidence.packets.as_mut().unwrap().worst {
            std::mem::swap(
                &mut stream.from_server.slow_starts,
                &mut stream.from_client.slow_starts,
            );
        }
        let finding = &findings_of(rule(&evidence))[0];
        assert!((finding.impact.amount - 4.0 * 0.04).abs() < 1e-3, "{finding:?}");
        let remedy = &finding.remedies[0].text;
        assert!(remedy.starts_with("at 198.18.0.1"), "{remedy}");
    }

    #[test]
    fn stays_quiet_for_few_for_kept_ones_and_for_those_at_the_same_time() {
        assert!(matches!(rule(&opened(2, 100_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&opened(9, 0)), Verdict::RuledOut(_)));
        let mut evidence = opened(4, 100_000);
        evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(|stream| stream.exchanges = 9);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("short-connections").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
