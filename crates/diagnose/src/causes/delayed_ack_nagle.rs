//! # delayed-ack-nagle
//!
//! ## What happens
//!
//! A program writes one message in two small pieces. The kernel sends the first and
//! holds the second until the first is acknowledged: Nagle's algorithm, which
//! avoids small segments. The receiver waits for more data before it acknowledges,
//! up to 40 ms (Linux, newer Windows), 100 ms (BSDs, macOS) or 200 ms (older
//! Windows): the delayed acknowledgement. Each end waits for the other.
//!
//! ## Evidence
//!
//! In the packets of the sender: a segment smaller than the MSS, then silence; a
//! pure acknowledgement that is later than the round trip by one of these delays;
//! and right after it the next small segment of the same end, with nothing from the
//! other end in between.
//!
//! ## Threshold
//!
//! Delays of 30 to 60, 85 to 115 or 150 to 215 ms beyond the round trip, or of
//! 30 to 260 ms where they are at least four times the round trip. The held
//! segment passes within 2 ms of the acknowledgement, plus the way to the
//! sender and back (and a quarter of it, where that is more), and not before
//! half of that way. At least one in five of the small segments that were
//! acknowledged so late held something back: when somebody types slowly,
//! acknowledgements are delayed too, but a key follows one only by chance.
//! Further than 5 ms from the sender (there and back): at least three in a
//! stream, and half of them. The same share of those of all streams of that sender
//! and service.
//!
//! All streams of the service together: a ten-thousandth of the capture's time, as
//! a single wait in an hour is nothing. Nobody feels a few waits of 40 ms: without
//! three of them, and one for ten exchanges of the service or a second in all, they
//! must be half of the round trip or more, as round trips vary, and it is `info`.
//!
//! Where the handshake was not captured, the sockets of a host that is watched
//! show the MSS. In a capture file the largest segment stands for it, at least 536
//! bytes: if that segment is smaller than 1,208 bytes, what an MTU of 1,280
//! leaves, and acknowledgements are late, it may be a small one itself, and the
//! cause is undecided.
//!
//! ## Looks like it, but is not
//!
//! - A delayed acknowledgement that nothing waits for: it costs nothing.
//! - Nagle's algorithm alone: the held segment waits for one round trip. The
//!   shortest acknowledgement of a stream is a round trip, however long it took.
//! - A sender without Nagle's algorithm: it has sent a small segment while another
//!   was in flight, so what it sends after a late acknowledgement was not held.
//! - A server that takes 40 ms to answer: no acknowledgement comes before its
//!   response, or long before.
//!
//! ## Check by hand
//!
//! ```sh
//! # a small segment, 40 ms, a bare ACK, and the next small segment at once
//! tshark -r FILE -Y 'tcp.len < 1000' -T fields -e frame.time_delta -e tcp.len
//! ```
//!
//! ## Fix
//!
//! `TCP_NODELAY` at the sender (nginx: `tcp_nodelay on`), or one write instead of
//! two. The receiver acknowledges at once with the route attribute `quickack 1`
//! (`ip route change ... quickack 1`). No sysctl switches Nagle's algorithm off.
//!
//! ## Expected gain
//!
//! The mean time of an exchange without its stalls (model «difference»): with
//! `TCP_NODELAY` the held segment leaves at once, with the first.
//!
//! ## References
//!
//! - RFC 896 (Nagle), RFC 1122, section 4.2.3.2 (delayed acknowledgements)
//! - tcp(7): `TCP_NODELAY`, `TCP_CORK`, `TCP_QUICKACK`

use model::{Evidence, Finding, Packets, Reach, Source};
use text::{bytes, count, micros, number, percent, share};

use crate::captured::{Group, NO_PACKETS, StreamDirection, group_directions, total, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::remedies::{advice_about, route};

pub(super) const CAUSE: Cause = Cause {
    id: "delayed-ack-nagle",
    title: "small writes wait for delayed acknowledgements",
    slows: Slows::Requests,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("delayed_ack_nagle.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// One in so many of the late acknowledgements held something back.
const ONE_IN: u64 = 5;
/// The same where the round trip from the capture point to the sender is longer than
/// [`MAX_NEAR_US`], and how many there are.
const ONE_IN_FAR: u64 = 2;
const MIN_STALLS_FAR: u64 = 3;
const MAX_NEAR_US: u64 = 5_000;
/// Fewer stalls of a service are no finding.
const MIN_STALLS: u64 = 3;
/// One stall for so many exchanges is worth a finding, whatever it costs.
const MAX_EXCHANGES_PER_STALL: u64 = 10;
/// So is this time in all, microseconds.
const MIN_LOST_US: u64 = 1_000_000;
/// Of a stream whose handshake was not captured: segments below this are small, whatever the MSS (RFC
/// 9293, 3.7.1), and those of this size fill an MTU of 1,280 bytes, the least of IPv6 (RFC 8200, 5).
const MIN_ASSUMED_MSS: u32 = 536;
const MIN_FULL_BYTES: u32 = 1_208;
/// One in so many microseconds of the capture was lost: a single wait in an hour is nothing.
const MAX_TIME_PER_LOST: u64 = 10_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let groups = group_directions(packets, hit);
    let findings =
        groups.iter().filter(|group| held_often(group, packets) && matters(group, packets));
    let findings = findings.map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || otherwise(packets, &groups))
}

/// Whether the late acknowledgements held data back in all streams of this sender and service: in one of many,
/// some messages follow them by chance.
fn held_often(group: &Group<'_>, packets: &Packets) -> bool {
    let worst = group.worst();
    let of_sender = |other: &StreamDirection<'_>| {
        let service = |one: &StreamDirection<'_>| (one.server_sends, one.stream.server);
        service(other) == service(&worst) && other.sender().ip() == worst.sender().ip()
    };
    let all = packets.worst.iter().flat_map(StreamDirection::both).filter(of_sender);
    let (held, late) = all.fold((0_u64, 0_u64), |(held, late), one| {
        let sent = one.sent();
        let add = u64::saturating_add;
        (add(held, sent.delayed_ack_stalls.count), add(late, sent.acknowledged_late))
    });
    held.saturating_mul(one_in(worst)) >= late
}

/// Whether stalls are so frequent, or cost so much, that somebody may feel them, or are more than a wait
/// now and then.
fn matters(group: &Group<'_>, packets: &Packets) -> bool {
    let share = group.lost_us.saturating_mul(MAX_TIME_PER_LOST) >= packets.span_us;
    // Round trips vary: a few that are longer by a part of them prove nothing.
    let round_trip = group.worst().stream.round_trip_us().unwrap_or(0);
    let clear = group.lost_us / stalls(group).max(1) >= round_trip / 2;
    (share && clear) || is_felt(group, packets)
}

fn is_felt(group: &Group<'_>, packets: &Packets) -> bool {
    let stalls = stalls(group);
    // Those of its streams without a stall count as well.
    let exchanges = packets.service(group.server).map_or(0, |service| service.exchanges);
    let exchanges = exchanges.max(group.exchanges());
    let frequent = stalls.saturating_mul(MAX_EXCHANGES_PER_STALL) >= exchanges;
    stalls >= MIN_STALLS && (frequent || group.lost_us >= MIN_LOST_US)
}

fn stalls(group: &Group<'_>) -> u64 {
    group.sum(|sent| sent.delayed_ack_stalls.count)
}

fn otherwise(packets: &Packets, groups: &[Group<'_>]) -> Verdict {
    if let Some(not_checked) = without_data(packets) {
        return not_checked;
    }
    let sum = |of: fn(&Group<'_>) -> u64| groups.iter().map(of).fold(0, u64::saturating_add);
    let stalls = sum(stalls);
    if stalls > 0 {
        let lost = micros(sum(|group| group.lost_us));
        let stalls = count(stalls, "stall");
        return Verdict::RuledOut(format!("Nagle with delayed ACKs ({stalls}, {lost} in all)"));
    }
    if let Some(sent) = packets.worst.iter().flat_map(StreamDirection::both).find(may_be_held) {
        return Verdict::Undecided {
            needs: format!(
                "the MSS of {}, as segments of {} may be small ones and no handshake was captured",
                sent.sender(),
                bytes(sent.sent().max_segment_bytes.into())
            ),
            sources: vec![Source::Packets],
            how_to_observe: Some(format!("netwhy --capture --port {}", sent.stream.server.port())),
        };
    }
    Verdict::RuledOut(format!(
        "Nagle with delayed ACKs ({} late of {})",
        number(total(packets, |sent| sent.acknowledged_late)),
        count(total(packets, |sent| sent.data_segments), "segment")
    ))
}

/// Whether acknowledgements of a stream that was joined in the middle are late as often as somebody would
/// feel, and its largest segment may be a small one: then what they released does not show.
fn may_be_held(direction: &StreamDirection<'_>) -> bool {
    let (sent, back) = (direction.sent(), direction.reverse());
    let is_mss_known = sent.mss.or(back.mss).is_some() || sent.window_scale.is_some();
    let often = sent.acknowledged_late >= MIN_STALLS
        && sent.acknowledged_late.saturating_mul(MAX_EXCHANGES_PER_STALL)
            >= direction.stream.exchanges;
    !is_mss_known && often && (MIN_ASSUMED_MSS..MIN_FULL_BYTES).contains(&sent.max_segment_bytes)
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let waited = sent.delayed_ack_stalls;
    let min_stalls = if is_far(direction) { MIN_STALLS_FAR } else { 1 };
    let often = waited.count.saturating_mul(one_in(direction)) >= sent.acknowledged_late;
    (waited.count >= min_stalls && often).then_some(waited.total_us)
}

/// One in so many late acknowledgements has to hold something back.
fn one_in(direction: StreamDirection<'_>) -> u64 {
    if is_far(direction) { ONE_IN_FAR } else { ONE_IN }
}

/// Whether the capture point is far from the sender: what an acknowledgement released is known less exactly.
fn is_far(direction: StreamDirection<'_>) -> bool {
    let way_to_it = match direction.server_sends {
        true => direction.stream.to_server_us,
        false => direction.stream.to_client_us,
    };
    way_to_it.is_some_and(|us| us > MAX_NEAR_US)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let longest = direction.sent().delayed_ack_stalls;
    let stalls = stalls(group);
    let mean = group.lost_us / stalls.max(1);
    let exchanges = group.exchanges();
    let sender = group.sender();
    let what = format!(
        "{} of {} on average ({} of {})",
        count(stalls, "stall"),
        micros(mean),
        percent(share(stalls.min(exchanges) as f64, exchanges as f64)),
        count(exchanges, "exchange")
    );
    let proof = group.proof(
        evidence,
        "proof",
        format!(
            "packet {} (stream {}): held for {} until a delayed \
             acknowledgement came; {} of {} late acknowledgements held a segment",
            number(longest.longest_ended_at),
            direction.stream.number,
            micros(longest.longest_us),
            number(stalls),
            number(group.sum(|sent| sent.acknowledged_late).max(stalls)),
        ),
    );
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("Small writes wait {} for delayed acknowledgements", micros(mean)),
        &what,
        vec![proof],
        vec![
            advice_about(
                &group.sending_host(),
                format!("{sender}: set TCP_NODELAY, or write each message at once"),
            ),
            route(
                &group.receiving_host(),
                &group.sending_host(),
                "quickack",
                "1",
                Reach::NewConnections,
            ),
        ],
    );
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Severity, Stalls, TimeCategory};

    use super::*;
    use crate::fixtures::{
        add_stream, add_up_services, findings_of, healthy, remove_source, set_time,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![waiting(5, 6)]
    }

    fn waiting(count: u64, late: u64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.to_server_us = Some(100);
        let sent = &mut stream.from_server;
        let total_us = count * 40_000;
        set_time(sent, TimeCategory::DelayedAck, total_us);
        sent.delayed_ack_stalls =
            Stalls { count, total_us, longest_us: 40_100, longest_ended_at: 7 };
        sent.acknowledged_late = late;
        evidence
    }

    #[test]
    fn fires_for_stalls_and_names_the_sender() {
        let finding = &findings_of(rule(&waiting(5, 6)))[0];
        assert_eq!(finding.title, "Small writes wait 40 ms for delayed acknowledgements");
        assert!(finding.subject.name.starts_with("198.18.0.2:80 (sender)"), "{finding:?}");
        assert!(finding.evidence[0].text.contains("packet 7 "));
    }

    #[test]
    fn undecided_where_the_largest_segment_may_be_a_small_one() {
        let joined = |bytes: u32| {
            let mut evidence = waiting(0, 40);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            for sent in [&mut stream.from_client, &mut stream.from_server] {
                (sent.mss, sent.window_scale, sent.max_segment_bytes) = (None, None, bytes);
            }
            rule(&evidence)
        };
        let Verdict::Undecided { how_to_observe, needs, .. } = joined(700) else { panic!() };
        assert_eq!(how_to_observe.as_deref(), Some("netwhy --capture --port 80"));
        assert!(needs.starts_with("the MSS of 198.18.0.2:80, as segments of 700 B"), "{needs}");
        assert!(matches!(joined(500), Verdict::RuledOut(_)), "small for any MSS");
        assert!(matches!(joined(1_448), Verdict::RuledOut(_)), "a full segment");
    }

    #[test]
    fn stays_quiet_when_late_acknowledgements_held_nothing() {
        assert!(matches!(rule(&waiting(0, 40)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&waiting(1, 40)), Verdict::RuledOut(_)), "chance");
    }

    #[test]
    fn a_few_short_stalls_are_info_and_in_an_hour_ruled_out_with_their_time() {
        let severity = |evidence: &Evidence| findings_of(rule(evidence))[0].severity;
        assert_eq!(severity(&waiting(1, 1)), Severity::Info);
        assert_eq!(severity(&waiting(40, 40)), Severity::Critical);
        let hour = |stalls: u64, exchanges: u64| {
            let mut evidence = waiting(stalls, stalls);
            let packets = evidence.packets.as_mut().unwrap();
            packets.span_us = 3_600_000_000;
            packets.worst[0].exchanges = exchanges;
            evidence
        };
        let Verdict::RuledOut(why) = rule(&hour(4, 41)) else { panic!("a few in an hour") };
        assert_eq!(why, "Nagle with delayed ACKs (4 stalls, 160 ms in all)");
        findings_of(rule(&hour(4, 40)));
        // Few of many, but a second in all.
        findings_of(rule(&hour(25, 10_000)));
        // The other connections of the service had none.
        let mut evidence = hour(4, 40);
        let mut others = evidence.packets.as_ref().unwrap().worst[0].clone();
        others.from_server.delayed_ack_stalls = Stalls::default();
        set_time(&mut others.from_server, TimeCategory::DelayedAck, 0);
        evidence.packets.as_mut().unwrap().worst.push(others);
        add_up_services(&mut evidence, 5_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn the_same_stall_in_several_connections_counts() {
        let mut evidence = waiting(1, 1);
        let of_three = evidence.packets.as_mut().unwrap();
        let stream = of_three.worst[0].clone();
        of_three.worst.extend([stream.clone(), stream]);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn stays_quiet_where_those_of_the_other_streams_held_nothing() {
        let named = |others: u64| {
            let mut evidence = waiting(3, 5);
            let streams = &mut evidence.packets.as_mut().unwrap().worst;
            streams[0].to_server_us = Some(20_000);
            let mut other = streams[0].clone();
            other.from_server.delayed_ack_stalls = Stalls { count: 1, ..Stalls::default() };
            other.from_server.acknowledged_late = others;
            streams.push(other);
            matches!(rule(&evidence), Verdict::Found(_))
        };
        assert!(named(3), "four of eight");
        assert!(!named(4), "four of nine");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
