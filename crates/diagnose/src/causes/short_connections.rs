//! # short-connections
//!
//! ## What happens
//!
//! Each request opens a connection of its own: a round trip for the handshake, and
//! slow start from the initial window on. Over a long path most of the time goes
//! there, and a client that kept its connection would not pay it again.
//!
//! ## Evidence
//!
//! In packets: one client opens connection after connection to the same service,
//! each for one request; the time of their handshakes, and the round trips during
//! which slow start still grows, against the active time.
//!
//! ## Threshold
//!
//! Three connections of one client with one request each, one after another, that
//! close after the answer, each within 5 s of the one before: servers keep idle
//! connections for at least that long. 2 ms or more each, a quarter of their active
//! time (all but idle periods), and 1 % of the service's.
//!
//! ## Looks like it, but is not
//!
//! - Many clients with one request each: none of them could keep a connection.
//! - A short path: handshakes cost next to nothing.
//! - Connections that stay open, or that are further apart: kept ones may have been
//!   closed meanwhile.
//! - TLS handshakes that fail: there was no request.
//! - Connections that are open at the same time: requests in parallel need several.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpActiveOpens TcpPassiveOpens   # compare with requests
//! tshark -r FILE -q -z conv,tcp
//! ```
//!
//! ## Fix
//!
//! At the client: keep connections open and reuse them (HTTP keep-alive, a pool).
//! For a proxy to its upstream, nginx: `keepalive 32;` in `upstream`, with
//! `proxy_http_version 1.1` and `proxy_set_header Connection ""`.
//!
//! ## Expected gain
//!
//! The mean time of an exchange without handshake and slow start (model
//! «difference»; rounds as in Cardwell, Savage and Anderson: Modeling TCP
//! latency, INFOCOM 2000).
//!
//! ## References
//!
//! - RFC 9112, section 9 (persistent connections); RFC 5681 (slow start)

use model::{CapturedStream, Evidence, Finding, SlowStarts, Source, StreamEnd, TimeCategory};
use text::{count, micros, percent, share};

use crate::captured::{
    Group, NO_EXCHANGE, NO_PACKETS, StreamDirection, group_directions, without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::proofs::WithFigures as _;
use crate::remedies::advice_about;

pub(super) const CAUSE: Cause = Cause {
    id: "short-connections",
    title: "each request opens a connection of its own",
    slows: Slows::Requests,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("short_connections.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Connections of one client, one after another.
const MIN_CONNECTIONS: usize = 3;
/// From the answer of one to the next, microseconds: Apache's KeepAliveTimeout is 5 s, of others longer.
const MAX_APART_US: u64 = 5_000_000;
/// What each of them pays for being new, microseconds.
const MIN_COST_US: u64 = 2_000;
/// Share of the active time, of these streams and of the whole service.
const MIN_TIME_SHARE: f64 = 0.25;
const MIN_SERVICE_TIME_SHARE: f64 = 0.01;
/// Streams of a service of which the evidence knows each one; half of them must be of this kind.
const MAX_STREAMS_COMPARED: u64 = 2 * 1024;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let mut groups = group_directions(packets, cost_us);
    groups.retain(|group| is_sequential(group) && is_felt(group));
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let (streams, exchanges) =
            packets.worst.iter().fold((0_u64, 0_u64), |(streams, exchanges), one| {
                (streams.saturating_add(1), exchanges.saturating_add(one.exchanges))
            });
        match (exchanges, streams) {
            (0, _) => without_data(packets).unwrap_or_else(|| Verdict::not_checked(NO_EXCHANGE)),
            (_, streams) if streams < MIN_CONNECTIONS as u64 => {
                Verdict::not_checked("fewer than 3 connections")
            }
            _ => Verdict::RuledOut(format!(
                "short connections ({} in {})",
                count(exchanges, "exchange"),
                count(streams, "stream")
            )),
        }
    })
}

/// What a connection of one request pays for being new, microseconds. Of its directions, that of the server
/// stands for both, so that uploads and downloads of one service are one group.
fn cost_us(direction: StreamDirection<'_>) -> Option<u64> {
    let stream = direction.stream;
    let handshake = stream.handshake_us?;
    let growth = growing(stream).first_growing.saturating_mul(stream.round_trip_us().unwrap_or(0));
    let all = handshake.saturating_add(growth);
    let closes = stream.end != StreamEnd::Open;
    // The first exchange of TLS is its handshake.
    let asks = stream.exchanges == 1 && stream.tls.is_none();
    let usual = stream.syn_retransmissions == 0 && stream.syn_ack_retransmissions == 0;
    (direction.server_sends && asks && closes && usual && all >= MIN_COST_US).then_some(all)
}

/// The slow start that the exchange waits for: uploads grow from the client, everything else from the server.
fn growing(stream: &CapturedStream) -> SlowStarts {
    let (client, server) = (stream.from_client.slow_starts, stream.from_server.slow_starts);
    if client.first_rounds > server.first_rounds { client } else { server }
}

/// Whether one client opened several, each soon after the one before had ended.
fn is_sequential(group: &Group<'_>) -> bool {
    let worst = group.worst().stream.client.ip();
    let mut times: Vec<(u64, u64)> = group
        .directions
        .iter()
        .filter(|direction| direction.stream.client.ip() == worst)
        .map(|direction| {
            (
                direction.stream.first_us,
                direction.stream.first_us.saturating_add(direction.stream.busy_us()),
            )
        })
        .collect();
    times.sort_unstable();
    let (mut free, mut sequential, mut most) = (0, 0, 0);
    for (began, ended) in times {
        let Some(apart) = began.checked_sub(free) else { continue };
        sequential = if apart <= MAX_APART_US { sequential + 1 } else { 1 };
        most = most.max(sequential);
        free = ended;
    }
    most >= MIN_CONNECTIONS
}

/// Share of the active time of these streams.
fn cost_share(group: &Group<'_>) -> f64 {
    let busy: u64 = group
        .directions
        .iter()
        .map(|direction| direction.stream.busy_us())
        .fold(0, u64::saturating_add);
    share(group.lost_us as f64, busy as f64).min(1.0)
}

fn is_felt(group: &Group<'_>) -> bool {
    // Half of what the service has is of this kind: a few health checks are not.
    cost_share(group) >= MIN_TIME_SHARE
        && group.time_share() >= MIN_SERVICE_TIME_SHARE
        && group.directions.len() as u64 * 2 >= group.streams_of_service().min(MAX_STREAMS_COMPARED)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let streams = group.directions.len() as u64;
    let each = group.lost_us / streams.max(1);
    let handshakes: u64 = group
        .directions
        .iter()
        .map(|direction| direction.stream.time_us(TimeCategory::Connect))
        .fold(0, u64::saturating_add);
    let slow_start = match group.lost_us.saturating_sub(handshakes) {
        0 => String::new(),
        us => format!(", {} in slow start", micros(us)),
    };
    let text = format!(
        "{} of one request each: {} for handshakes{slow_start}, {} of their active time; stream \
         {}: {}",
        count(streams, "connection"),
        micros(handshakes),
        percent(cost_share(group)),
        direction.stream.number,
        count(growing(direction.stream).first_rounds.saturating_add(1), "round trip"),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "connections", streams as f64, "connections")
        .over_window(evidence, "handshakes", handshakes as f64 / 1e3, "ms");
    let clients = group.receiving_host();
    group.finding(
        evidence,
        CAUSE.id,
        format!("Each request opens a connection of its own: {} each time", micros(each)),
        &format!("handshakes and slow start cost {}", group.lost_text()),
        vec![proof],
        vec![advice_about(
            &clients,
            format!("on {clients}: keep connections open and reuse them, or pool them"),
        )],
    )
}

#[cfg(test)]
pub(super) mod tests {
    use model::CapturedTls;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![opened(4, 100_000)]
    }

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
                SlowStarts { first_rounds: 2, first_growing: 1, ..SlowStarts::default() };
        }
        evidence
    }

    #[test]
    fn fires_for_connections_one_after_another() {
        let finding = &findings_of(rule(&opened(4, 100_000)))[0];
        assert!(finding.title.starts_with("Each request opens a connection"), "{finding:?}");
        assert!((finding.impact.amount - 4.0 * 0.04).abs() < 1e-3, "{finding:?}");
    }

    #[test]
    fn fires_for_uploads_of_the_client() {
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
        assert!(remedy.starts_with("on 198.18.0.1: keep"), "{remedy}");
    }

    #[test]
    fn uploads_and_downloads_of_a_service_are_one_finding() {
        let mut evidence = opened(4, 100_000);
        for stream in evidence.packets.as_mut().unwrap().worst.iter_mut().step_by(2) {
            std::mem::swap(
                &mut stream.from_server.slow_starts,
                &mut stream.from_client.slow_starts,
            );
        }
        let findings = findings_of(rule(&evidence));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!((findings[0].impact.amount - 4.0 * 0.04).abs() < 1e-3, "{findings:?}");
    }

    #[test]
    fn stays_quiet_for_few_for_kept_ones_and_for_parallel_ones() {
        assert!(matches!(rule(&opened(2, 100_000)), Verdict::NotChecked(_)));
        assert!(matches!(rule(&opened(9, 0)), Verdict::RuledOut(_)));
        let mut evidence = opened(4, 100_000);
        evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(|stream| stream.exchanges = 9);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_where_connections_are_far_apart_or_stay_open_or_ask_nothing() {
        assert!(matches!(rule(&opened(4, 60_000_000)), Verdict::RuledOut(_)), "a minute apart");
        let each = |change: fn(&mut CapturedStream)| {
            let mut evidence = opened(4, 100_000);
            evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(change);
            rule(&evidence)
        };
        assert!(matches!(each(|_| {}), Verdict::Found(_)));
        assert!(matches!(each(|stream| stream.end = StreamEnd::Open), Verdict::RuledOut(_)));
        let tls = |stream: &mut CapturedStream| {
            stream.tls = Some(CapturedTls { server_name: None, handshake_us: None, alert: None });
        };
        assert!(matches!(each(tls), Verdict::RuledOut(_)), "the handshake failed");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
