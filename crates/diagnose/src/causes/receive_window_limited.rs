//! # receive-window-limited
//!
//! ## What happens
//!
//! A sender may have only so much on its way as the receiver's window allows. When
//! the path could hold more, it sends a window, waits for a round trip, and sends
//! the next: the rate is the window divided by the round trip, whatever the line
//! could do.
//!
//! ## Evidence
//!
//! In packets: after each segment, how much of the window that the sender knew was
//! left. What it knew is the window as old as the way from the place of capture to
//! the sender and back. No room for another segment, and the next segment comes
//! after an acknowledgement: that time was spent on the window.
//!
//! ## Threshold
//!
//! Eight round trips and more since the window last grew by a quarter, a twentieth
//! of the time in which that end sent, and more bytes than four windows, of the
//! largest: those that grow (Linux tunes them) are in the way for a few round trips
//! only. How much of the time it was says how bad it is.
//!
//! ## Looks like it, but is not
//!
//! - receiver-stalled: the window is closed, the process does not read.
//! - A reader that is slow: what it has not read makes the window smaller. Times in
//!   which it is below three quarters of what it was, or opens half a round trip
//!   (1 ms at least) later than it could, or in which round trips are longer by as
//!   much, do not count, and are fewer than the others.
//! - A window that Linux left small this once: to more streams of the service the
//!   same host offers twice as much.
//! - Two ends on one host: who waits for room there waits for the reader.
//! - A queue on the way that holds what the window lets out: round trips are three
//!   times the shortest and more, or a tenth longer where they follow the bytes on
//!   their way (correlation 0.3 and more). The line is full, not the window small.
//! - The congestion window: there is room, and the sender does not use it.
//! - window-scaling-off: the window is near 64 KiB and cannot grow.
//! - A window that still grows (Linux tunes it): the first round trips only.
//!
//! ## Check by hand
//!
//! ```sh
//! # bytes in flight against the window that the other end offers
//! tshark -r FILE -T fields -e tcp.stream -e tcp.analysis.bytes_in_flight \
//!   -e tcp.window_size
//! ```
//!
//! ## Mend
//!
//! At the receiver: `net.ipv4.tcp_rmem` (its third number is the limit of the
//! tuning); an application that sets `SO_RCVBUF` turns tuning off.
//!
//! ## References
//!
//! - RFC 7323 (window scale); tcp(7): `tcp_rmem`, `tcp_adv_win_scale`
//! - Zhang, Breslau, Paxson, Shenker: On the characteristics and origins of
//!   Internet flow rates (SIGCOMM 2002)

use model::{Evidence, Finding, Packets, TimeCategory};
use text::{bit_rate, bytes, micros, percent};

use super::window_scaling_off::is_unscaled;
use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::advice;

/// Share of the sending time.
const LEAST: f64 = 0.05;
/// Windows that it must have filled, of the largest.
const WINDOWS: u64 = 4;
/// Round trips that are so many times the shortest, and so much longer, are those of a queue.
const QUEUED: f64 = 3.0;
/// The same where they follow what is out so closely: what is more than the path holds waits.
const QUEUED_BY_US: f64 = 1.1;
const FOLLOWS: f64 = 0.3;
const QUEUE_US: u64 = 5_000;
/// Round trips in which it must have been so.
const ROUND_TRIPS: u64 = 8;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let scaled = |direction: StreamDirection<'_>| {
        limited(direction).filter(|_| {
            !is_unscaled(direction) && !is_exception(evidence.packets.as_ref(), direction)
        })
    };
    verdict_from_packets(evidence, scaled, finding, |_| "full receive windows".to_string())
}

/// Whether the same host offers twice as much to more streams of this service than are limited so: it
/// does not limit its windows there.
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
            } else if limited(other).is_some() {
                limited_too += 1;
            }
        }
    }
    wider > limited_too
}

/// Share of the time of a direction in which the window was full.
fn full(direction: StreamDirection<'_>) -> f64 {
    let sent = direction.sent();
    let limited = sent.time_us(TimeCategory::ReceiveWindow);
    let other = [
        TimeCategory::Network,
        TimeCategory::Loss,
        TimeCategory::Application,
        TimeCategory::Unexplained,
    ];
    let all = other.into_iter().map(|part| sent.time_us(part)).sum::<u64>() + limited;
    limited as f64 / all.max(1) as f64
}

/// Time in which the window was full, where that was long.
pub(super) fn limited(direction: StreamDirection<'_>) -> Option<u64> {
    let limited = direction.sent().time_us(TimeCategory::ReceiveWindow);
    let trip = direction
        .sent()
        .round_trip
        .map(|trip| trip.mean_us)
        .or(direction.stream.round_trip_us())?;
    // A queue holds what the window lets out: a larger window would make it longer, no more.
    let queue = direction.sent().round_trip.is_some_and(|trip| {
        let ours = trip.follows_flight.is_some_and(|follows| follows >= FOLLOWS);
        let least = if ours { QUEUED_BY_US } else { QUEUED };
        trip.mean_us as f64 >= least * trip.min_us as f64 && trip.mean_us >= trip.min_us + QUEUE_US
    });
    // One that still grew is no limit.
    let settled = direction.sent().settled_window_us.unwrap_or(limited);
    let several = settled > ROUND_TRIPS * trip.max(1)
        && settled > direction.sent().reader_behind_us.unwrap_or(0);
    // In a transfer of the same number of full windows there is more.
    let more = direction.sent().new_bytes > WINDOWS * u64::from(direction.reverse().max_window);
    // On one host who waits for room waits for the reader.
    let limits = several && more && !queue && !direction.is_within_one_host();
    (full(direction) > LEAST && limits).then_some(limited)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let window = u64::from(direction.reverse().max_window);
    let trip = direction.stream.round_trip_us().unwrap_or(0);
    let mut text = format!(
        "stream {}: the window was full in {} of the sending time; it is\n{} at most",
        direction.stream.number,
        percent(full(direction)),
        bytes(window)
    );
    if trip > 0 {
        let most = window as f64 * 8e6 / trip as f64;
        text.push_str(&format!(
            ", over {} of round trip that is {} at most",
            micros(trip),
            bit_rate(most)
        ));
    }
    let proof = group.proof(evidence, "proof", text);
    let receiver = group.receiver();
    let remedies = vec![advice(format!("{receiver}: a larger tcp_rmem, no SO_RCVBUF"))];
    let finding = group.finding(
        evidence,
        "receive-window-limited",
        title(&receiver, window),
        &format!("{} with a full window", micros(group.lost_us)),
        vec![proof],
        remedies,
    );
    Finding {
        subject: model::Subject {
            name: format!("{receiver} (receiver) · {}", finding.subject.name),
            ..finding.subject
        },
        ..finding
    }
}

fn title(receiver: &str, window: u64) -> String {
    let title = format!("The receive window of {receiver} is too small: {}", bytes(window));
    if title.chars().count() <= 72 { title } else { "The receive window is too small".to_string() }
}

#[cfg(test)]
mod tests {
    use model::Source;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

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
    fn stays_quiet_for_a_part_of_the_time_and_for_one_window() {
        assert!(matches!(rule(&limited(40_000)), Verdict::RuledOut(_)));
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.new_bytes = 200_000;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_a_queue_holds_the_window() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().mean_us = 80_000;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_what_is_out_makes_the_queue() {
        let mut evidence = limited(2_000_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().mean_us = 26_000;
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "longer, whatever is out");
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.round_trip.as_mut().unwrap().follows_flight = Some(0.9);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
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
    fn stays_quiet_when_it_was_the_reader() {
        let mut evidence = limited(2_000_000);
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        (sent.settled_window_us, sent.reader_behind_us) = (Some(400_000), Some(300_000));
        assert_eq!(findings_of(rule(&evidence)).len(), 1, "more of it was the window");
        let sent = &mut evidence.packets.as_mut().unwrap().worst[0].from_server;
        sent.reader_behind_us = Some(500_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_when_the_host_offers_more_to_most() {
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
        let verdict = crate::cause("receive-window-limited").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
