//! # receive-window-limited
//!
//! ## What happens
//!
//! A sender may have at most as much in flight as the receiver's window allows.
//! When the path could hold more, it sends a window, waits for a round trip, and
//! sends the next: the throughput is the window divided by the round trip, whatever
//! the link could carry.
//!
//! ## Evidence
//!
//! In packets: how much of the window that the sender knew was left after each
//! segment. What it knew is the window as it was one round trip between the
//! capture point and the sender ago. If there is no room for another segment, and
//! the next segment follows an acknowledgement, that time was spent on the window.
//!
//! ## Threshold
//!
//! Eight round trips or more since the window last grew by a quarter, a twentieth
//! of the time in which that end sent, and more bytes than four windows of the
//! largest size: windows that grow (Linux tunes them) are in the way for a few
//! round trips only. Four round trips where they are half of the time in which that
//! end sent: a short transfer. Its share of the active time (all but idle periods)
//! says how bad it is.
//!
//! ## Looks like it, but is not
//!
//! - receiver-stalled: the window is closed, the process does not read.
//! - A reader that is slow: what it has not read makes the window smaller. Times in
//!   which the window is below three quarters of what it was, or opens half a round
//!   trip (1 ms at least) later than it could, or in which round trips are longer
//!   by as much, do not count, and must be fewer than the others.
//! - A window that Linux kept small on one stream: the same host advertises twice
//!   as much to more streams of the service.
//! - Two ends on one host: a sender that waits for room there waits for the reader.
//! - A queue on the path that holds what the window lets out: round trips are at
//!   least three times the shortest, or a tenth longer where they follow the bytes
//!   in flight (correlation 0.3 or more), or a quarter longer where the window is
//!   also a quarter more than the path holds in the shortest round trip, at the
//!   rate at which it delivers flights. The link is full, perhaps with other
//!   streams; the window is not small.
//! - The congestion window: there is room, and the sender does not use it.
//! - window-scaling-off: the window is near 64 KiB and cannot grow.
//! - A window that still grows (Linux tunes it): the first round trips only.
//!
//! ## Check by hand
//!
//! ```sh
//! # bytes in flight against the window that the other end advertises
//! tshark -r FILE -T fields -e tcp.stream -e tcp.analysis.bytes_in_flight \
//!   -e tcp.window_size
//! ```
//!
//! ## Fix
//!
//! At the receiver: `net.ipv4.tcp_rmem` (its third number limits the tuning); an
//! application that sets `SO_RCVBUF` disables the tuning.
//!
//! ## Expected gain
//!
//! The rate of a transfer: the rate at which the path delivers a flight, shared
//! by the streams that send at a time, or what losses allow, whichever is lower
//! (model «next limit»). Not predictable where the sender paces: then no flight
//! shows the rate of the path.
//!
//! ## References
//!
//! - RFC 7323 (window scale); tcp(7): `tcp_rmem`, `tcp_adv_win_scale`
//! - Zhang, Breslau, Paxson, Shenker: On the characteristics and origins of
//!   Internet flow rates (SIGCOMM 2002)

use model::{Evidence, Finding, Packets, Source};
use text::{bit_rate, bytes, count, micros, percent};

use crate::captured::{
    Group, StreamDirection, is_unscaled, scale_unknown, verdict_from_packets, window_full_share,
    window_limited_us, without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::remedies::advice_about;
use crate::words::title;

pub(super) const CAUSE: Cause = Cause {
    id: "receive-window-limited",
    title: "the receiver's window is too small for the path",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("receive_window_limited.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let limited = |direction: StreamDirection<'_>| {
        let packets = evidence.packets.as_ref();
        window_limited_us(direction)
            .filter(|_| !is_unscaled(direction) && !is_exception(packets, direction))
    };
    verdict_from_packets(evidence, limited, finding, |packets| {
        without_data(packets)
            .or_else(|| scale_unknown(packets))
            .unwrap_or_else(|| fullest_window(packets))
    })
}

/// How far the windows were filled by what is larger than a window.
fn fullest_window(packets: &Packets) -> Verdict {
    let all = packets.worst.iter().flat_map(StreamDirection::both);
    let larger = all
        .filter(|direction| direction.sent().new_bytes > u64::from(direction.reverse().max_window));
    match larger.fold((0, 0.0_f64), |(transfers, most), direction| {
        (transfers + 1, most.max(window_full_share(direction)))
    }) {
        (0, _) => Verdict::not_checked("no transfer larger than a window"),
        (transfers, most) => Verdict::RuledOut(format!(
            "receive windows (full up to {} of the time, {})",
            percent(most),
            count(transfers, "transfer")
        )),
    }
}

/// Whether the same host advertises twice as much to more streams of this service than are limited
/// so: it does not limit its windows there.
fn is_exception(packets: Option<&Packets>, direction: StreamDirection<'_>) -> bool {
    let window = direction.reverse().max_window;
    let (mut wider, mut limited_too) = (0, 0);
    for stream in packets.iter().flat_map(|packets| &packets.worst) {
        let other = StreamDirection { stream, ..direction };
        if stream.server == direction.stream.server
            && other.receiver().ip() == direction.receiver().ip()
        {
            if other.reverse().max_window / 2 >= window {
                wider += 1;
            } else if window_limited_us(other).is_some() {
                limited_too += 1;
            }
        }
    }
    wider > limited_too
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let window = u64::from(direction.reverse().max_window);
    let trip = direction.stream.round_trip_us().unwrap_or(0);
    let mut text = format!(
        "stream {}: the window was full {} of the sending time; its largest size is {}",
        direction.stream.number,
        percent(window_full_share(direction)),
        bytes(window)
    );
    if trip > 0 {
        let max = window as f64 * 8e6 / trip as f64;
        let (trip, max) = (micros(trip), bit_rate(max));
        text.push_str(&format!(", over a round trip of {trip} that is at most {max}"));
    }
    let proof = group.proof(evidence, "proof", text);
    let (receiver, host) = (group.receiver(), group.receiving_host());
    let text = format!("on {host}: raise the third number of net.ipv4.tcp_rmem; set no SO_RCVBUF");
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        title(
            format!("The receive window of {receiver} is too small: {}", bytes(window)),
            "The receive window is too small",
        ),
        &format!("the window was full for {}", group.lost_text()),
        vec![proof],
        vec![advice_about(&host, text)],
    );
    finding.gain = group.gain_without_window();
    finding.subject.name = format!("{receiver} (receiver) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![limited(2_000_000)]
    }

    fn limited(us: u64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.from_client.max_window = 65_535;
        set_time(&mut stream.from_server, TimeCategory::ReceiveWindow, us);
        evidence
    }

    #[test]
    fn fires_when_the_window_is_full_for_many_round_trips() {
        let finding = &findings_of(rule(&limited(2_000_000)))[0];
        assert_eq!(finding.title, "The receive window of 198.18.0.1:4000 is too small: 64 KiB");
        assert!(finding.remedies[0].text.contains("tcp_rmem"));
        assert!(finding.evidence[0].text.contains("26.2 Mbit/s"), "{finding:?}");
    }

    #[test]
    fn stays_quiet_for_a_small_share_and_for_few_windows() {
        assert!(matches!(rule(&limited(40_000)), Verdict::RuledOut(_)));
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.new_bytes = 200_000;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn of_a_short_transfer_fewer_round_trips_suffice() {
        let of = |limited_us, sending_us| {
            let mut evidence = limited(limited_us);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            stream.from_server.round_trip.as_mut().unwrap().mean_us = 20_000;
            stream.from_server.time_breakdown.retain(|one| one.time_us == limited_us);
            set_time(&mut stream.from_server, TimeCategory::Network, sending_us);
            rule(&evidence)
        };
        assert_eq!(findings_of(of(100_000, 90_000)).len(), 1);
        assert!(matches!(of(100_000, 110_000), Verdict::RuledOut(_)), "less than half");
        assert!(matches!(of(75_000, 70_000), Verdict::RuledOut(_)), "three round trips");
        assert_eq!(findings_of(of(200_000, 900_000)).len(), 1, "ten of a longer one");
    }

    #[test]
    fn near_the_receiver_its_own_acknowledgements_are_no_round_trips_of_the_path() {
        let named = |full_us: u64| {
            let mut evidence = limited(full_us);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            set_time(sent, TimeCategory::Network, 600_000);
            let trips = sent.round_trip.as_mut().unwrap();
            (trips.min_us, trips.mean_us) = (1, 19);
            matches!(rule(&evidence), Verdict::Found(_))
        };
        // Eight round trips of 20 ms.
        assert!(!named(160_000) && named(161_000));
    }

    #[test]
    fn stays_quiet_when_a_queue_holds_the_window() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().mean_us = 80_000;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_bytes_in_flight_make_the_queue() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().mean_us = 26_000;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "longer, whatever is in flight");
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().follows_flight = Some(0.9);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_path_is_full_with_other_streams() {
        // 64 KiB over the shortest round trip of 20 ms: 26 Mbit/s.
        for (rate_bps, mean_us, is_found) in [
            (Some(20_000_000), 30_000, false),
            (Some(22_000_000), 30_000, true),
            (Some(20_000_000), 24_000, true),
            (None, 30_000, true),
        ] {
            let mut evidence = limited(2_000_000);
            let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
            let trip = sent.round_trip.as_mut().unwrap();
            (trip.min_us, trip.mean_us) = (20_000, mean_us);
            sent.flight_rate_bps = rate_bps;
            let found = matches!(rule(&evidence), Verdict::Found(_));
            assert_eq!(found, is_found, "{rate_bps:?}, {mean_us}");
        }
    }

    #[test]
    fn stays_quiet_on_one_host() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.client.set_ip(stream.server.ip());
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_while_the_window_grows() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.settled_window_us = Some(100_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_reader_was_slow() {
        let mut evidence = limited(2_000_000);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        (sent.settled_window_us, sent.reader_behind_us) = (Some(400_000), Some(300_000));
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "more of it was the window");
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.reader_behind_us = Some(500_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_host_advertises_more_to_most() {
        let mut evidence = limited(2_000_000);
        let streams = &mut evidence.packets.as_mut().unwrap().worst;
        let mut other = streams[0].clone();
        other.from_client.max_window = streams[0].from_client.max_window * 2;
        other.from_server.time_breakdown.clear();
        streams.push(other.clone());
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "one of two");
        evidence.packets.as_mut().unwrap().worst.push(other);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
