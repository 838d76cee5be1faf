//! # initial-window-small
//!
//! ## What happens
//!
//! Before its first acknowledgement, a new connection may send its initial window:
//! ten segments on Linux, fewer on old systems and where a route or a middlebox
//! says so. Short responses over a long path take a round trip for each doubling
//! from there.
//!
//! ## Evidence
//!
//! In packets, from any place on the path: the first flight of a connection, in
//! segments; how it grows from round trip to round trip, without a loss or a full
//! window; and how many round trips ten segments would have saved.
//!
//! ## Threshold
//!
//! Fewer than nine segments, at least one round trip lost, 1 % of the active time
//! (all but idle periods), and several connections of the service, or one that lost
//! two round trips.
//!
//! ## Looks like it, but is not
//!
//! - A response that fits into the first flight: nothing is lost.
//! - An application that writes little at first: its flights do not double with
//!   each round trip.
//! - Small messages, as in a chat: what waits for a window leaves in full
//!   segments.
//! - A lost SYN: Linux then rightly starts with one segment.
//! - Data that was lost before the first flight, or in it: the sender then rightly
//!   sends less.
//! - short-connections: the window is the usual one, and each request pays for it.
//!
//! ## Check by hand
//!
//! ```sh
//! ip route get ADDRESS   # initcwnd, at the sender
//! ss -ti dst ADDRESS     # cwnd of new connections
//! ```
//!
//! ## Fix
//!
//! At the sender: `ip route change ... initcwnd 10`, or more for good paths; send
//! fewer bytes; keep connections open.
//!
//! ## Expected gain
//!
//! The mean time of an exchange without the round trips that a window of ten
//! segments saves (model «difference»; rounds of slow start as in Cardwell,
//! Savage and Anderson: Modeling TCP latency, INFOCOM 2000).
//!
//! ## References
//!
//! - RFC 6928 (initial window of ten segments); RFC 5681, section 3.1
//! - ip-route(8): `initcwnd`

use model::{Evidence, Finding, Reach, Source};
use text::{bytes, count, micros, share};

use crate::captured::{Group, NO_PACKETS, StreamDirection, group_directions};
use crate::cause::{Cause, Slows, Verdict};
use crate::proofs::WithFigures as _;
use crate::remedies::route;

pub(super) const CAUSE: Cause = Cause {
    id: "initial-window-small",
    title: "connections begin with few segments",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("initial_window_small.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Segments of a first flight of the usual size.
const MIN_USUAL_SEGMENTS: u64 = 9;
/// Share of the active time.
const MIN_TIME_SHARE: f64 = 0.01;
/// Round trips that a single connection must have lost.
const MIN_ROUND_TRIPS: u64 = 2;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let mut groups = group_directions(packets, small);
    let saved = |group: &Group<'_>| {
        group
            .directions
            .iter()
            .any(|direction| direction.sent().slow_starts.first_saved >= MIN_ROUND_TRIPS)
    };
    groups.retain(|group| group.directions.len() > 1 || saved(group));
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let flights = || {
            let all = packets.directions().map(|direction| direction.slow_starts.first_segments);
            all.filter(|segments| *segments > 0)
        };
        match flights().min() {
            Some(least) => Verdict::RuledOut(format!(
                "initial windows (at least {} in {})",
                count(least, "segment"),
                count(flights().count() as u64, "transfer")
            )),
            None => Verdict::not_checked("no transfer fills an initial window"),
        }
    })
}

fn small(direction: StreamDirection<'_>) -> Option<u64> {
    let starts = direction.sent().slow_starts;
    let cost = starts.first_saved.saturating_mul(direction.stream.round_trip_us()?);
    let felt = share(cost as f64, direction.stream.busy_us() as f64) >= MIN_TIME_SHARE;
    // After a lost SYN, one segment is right (RFC 6298, section 5.7).
    let lost_syn =
        direction.stream.syn_retransmissions > 0 || direction.stream.syn_ack_retransmissions > 0;
    let few = (1..MIN_USUAL_SEGMENTS).contains(&starts.first_segments) && starts.first_saved > 0;
    (few && felt && !lost_syn).then_some(cost)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let starts = direction.sent().slow_starts;
    let trip = direction.stream.round_trip_us().unwrap_or(0);
    let text = format!(
        "stream {}: {} in the first flight, {} in {} of {}",
        direction.stream.number,
        count(starts.first_segments, "segment"),
        bytes(starts.first_bytes),
        count(starts.first_rounds, "round trip"),
        micros(trip),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .at_moment("first flight", starts.first_segments as f64, "segments")
        .at_moment("round trips", starts.first_rounds as f64, "round trips");
    let sender = group.sender();
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("The initial window is small: {}", count(starts.first_segments, "segment")),
        &format!("costs {} compared with ten segments", group.lost_text()),
        vec![proof],
        vec![route(
            &group.sending_host(),
            &group.receiving_host(),
            "initcwnd",
            "10",
            Reach::NewConnections,
        )],
    );
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::SlowStarts;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![begun(3, 3, 1)]
    }

    fn begun(streams: usize, first_segments: u64, first_saved: u64) -> Evidence {
        let mut evidence = healthy();
        for _ in 0..streams {
            let sent =
                &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
            sent.slow_starts = SlowStarts {
                transfers: 1,
                first_flight: first_segments * 1448,
                first_segments,
                first_rounds: 4,
                first_bytes: 42_000,
                first_saved,
                ..SlowStarts::default()
            };
        }
        evidence
    }

    #[test]
    fn fires_for_several_connections_or_a_slow_one() {
        let finding = &findings_of(rule(&begun(3, 3, 1)))[0];
        assert_eq!(finding.title, "The initial window is small: 3 segments");
        assert!(finding.subject.name.starts_with("198.18.0.2:80 (sender)"), "{finding:?}");
        assert_eq!(findings_of(rule(&begun(1, 2, 2))).len(), 1);
    }

    #[test]
    fn stays_quiet_for_the_usual_window_and_for_one_round_trip_of_one_connection() {
        assert!(matches!(rule(&begun(3, 10, 0)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&begun(1, 5, 1)), Verdict::RuledOut(_)));
        let mut evidence = begun(3, 1, 3);
        evidence.packets.as_mut().unwrap().worst.iter_mut().for_each(|s| s.syn_retransmissions = 1);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "the SYN was lost");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
