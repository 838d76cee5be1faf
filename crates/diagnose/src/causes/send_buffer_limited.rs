//! # send-buffer-limited
//!
//! ## What happens
//!
//! What a process sends stays in the socket's send buffer until the other end has
//! acknowledged it. When the buffer holds less than the path can have in flight,
//! the sender sends a buffer, waits for a round trip, and sends the next: the
//! throughput is the buffer divided by the round trip. The process is ready, the
//! receiver's window is open, the path is empty.
//!
//! ## Evidence
//!
//! The kernel's own account of each connection, `tcp_info`: how long there was
//! something to send (`tcpi_busy_time`), and how much of it the kernel could have
//! sent more while the process waited for room in the buffer
//! (`tcpi_sndbuf_limited`), from the first sample to the last. The size of the
//! buffer and its limit, `net.ipv4.tcp_wmem`. The kernel's account begins when
//! something is sent while the writer already waits, and misses writers whose last
//! piece just fits; therefore also the samples in which the buffer was full, all of
//! it in flight, and both windows open.
//!
//! Packets that were captured near the sender: for many round trips it sends no
//! more than before, waits for an acknowledgement, and goes on at once; nothing
//! was lost, the peer sends nothing, and the flight fills less than half of the
//! window. A congestion window that is full grows.
//!
//! ## Threshold
//!
//! Half of the time in which there was something to send; or a tenth of it, and a
//! full buffer in half of the samples, of which there are five or more. Over a
//! second or more of the window, on a path of a millisecond or more: on shorter
//! ones a round trip costs nothing. No queue stands: a round trip that is steadily
//! (by four times its deviation) half longer than the shortest one shows that the
//! link is full, and what the buffer holds beyond the path waits before it.
//!
//! From packets: so for a second and a quarter of the sending time, in eight round
//! trips or more. Each has four segments less in flight than a congestion window
//! would let pass that has grown by 0.53 segments in each round trip since the
//! largest flight (RFC 9438, 4.3); the sender pauses for a quarter of it or
//! more, and goes on within 250 µs of an acknowledgement. One round trip in
//! eight may be different. Packets rule it out where other parts explain half of
//! the time of each transfer of a megabyte or more.
//!
//! ## Looks like it, but is not
//!
//! - receive-window-limited: `tcpi_rwnd_limited` increases instead.
//! - The congestion window: the kernel waits for acknowledgements with data left in
//!   the buffer, and neither counter increases.
//! - application-limited: the buffer is empty. From packets: no acknowledgement
//!   releases what it sends next.
//! - An application that keeps only so much unacknowledged, or a congestion window
//!   with a fixed limit (`cwnd lock` of a route): packets show the same. The
//!   sender's sockets distinguish them.
//!
//! ## Check by hand
//!
//! ```sh
//! # busy, sndbuf_limited; skmem: tb is the size of the send buffer
//! ss -tinm
//! # the largest flight of each round trip, at the sender
//! tshark -r FILE -T fields -e frame.time_relative -e tcp.analysis.bytes_in_flight
//! ```
//!
//! ## Fix
//!
//! `net.ipv4.tcp_wmem`: the third number is how far the kernel lets a send buffer
//! grow. An application that sets `SO_SNDBUF` disables that growth; it should not.
//!
//! ## Expected gain
//!
//! The rate of a transfer: the rate at which the path delivers a flight, shared
//! by the connections (model «next limit»). Not predictable without packets
//! (`netwhy --capture`), or where the sender paces.
//!
//! ## References
//!
//! - tcp(7): `tcp_wmem`, `SO_SNDBUF`; Linux: `tcp_sndbuf_expand`,
//!   `TCP_CHRONO_SNDBUF_LIMITED`
//! - Semke, Mahdavi, Mathis: Automatic TCP buffer tuning (SIGCOMM 1998)
//! - RFC 5681, section 3.1; RFC 9438, section 4.3 (growth of a congestion window)

mod packets;

use model::{
    Evidence, ExpectedGain, Finding, Impact, ImpactUnit, ProcessName, Reach, Remedy, Severity,
    Socket, Source, SubjectKind,
};
use text::{bit_rate, bytes, count, micros, percent, share};

use crate::captured::StreamDirection;
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::connections::{by_process, canonical, common_end, owner};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, sysctl};
use crate::words::{process_name, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "send-buffer-limited",
    title: "a sender's buffer is too small for the path",
    slows: Slows::Transfers,
    needs: &[&[Source::Sockets], &[Source::Packets]],
    rule,
    source: include_str!("send_buffer_limited.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the time in which there was something to send.
const MIN_TIME_SHARE: f64 = 0.5;
/// The same where the buffer was full in half of the samples, of which there are so many.
const MIN_TIME_SHARE_SAMPLED: f64 = 0.1;
const MIN_SAMPLES: u32 = 5;
/// Time in which there was something to send, microseconds.
const MIN_BUSY_US: u64 = 1_000_000;
/// The shortest round trip on which it matters, microseconds.
const MIN_ROUND_TRIP_US: u32 = 1_000;
/// A queue stands where round trips are so many times the shortest, and longer than it by so many deviations:
/// a larger buffer would wait in it.
const MIN_QUEUE_RATIO: f64 = 1.5;
const MIN_QUEUE_DEVIATIONS: u32 = 4;
/// A buffer as large as this share of its limit cannot grow: the kernel grows it by whole segments.
const MIN_FILL_OF_LIMIT: f64 = 0.8;
/// The limit that is proposed: a flight of 1 Gbit/s over 60 ms, twice for the kernel's overhead.
const PROPOSED_BYTES: u64 = 16 << 20;
const WMEM: &str = "net.ipv4.tcp_wmem";

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.sockets.as_ref().map(|table| &table.sockets[..]).unwrap_or_default();
    let limited: Vec<&Socket> = all.iter().filter(|socket| hit(socket).is_some()).collect();
    let groups = by_process(&limited, |socket| socket.local.port());
    let mut findings: Vec<Finding> =
        groups.iter().filter_map(|group| finding(evidence, group)).collect();
    if let Some(packets) = &evidence.packets {
        // Connections that the sockets show already are not reported again.
        let ends = |socket: &&Socket| (canonical(socket.local), canonical(socket.remote));
        findings.extend(packets::findings(evidence, packets, &limited.iter().map(ends).collect()));
    }
    Verdict::from_findings(findings, || {
        if let (None, Some(packets)) = (&evidence.sockets, &evidence.packets) {
            return packets::otherwise(packets);
        }
        let most = all.iter().filter_map(times).map(|(busy, waited)| share(waited, busy));
        match most.reduce(f64::max) {
            Some(most) => Verdict::RuledOut(format!(
                "send buffers (full up to {} of the time{})",
                percent(most),
                if all.iter().any(|socket| waited(socket).is_some()) {
                    ", while a queue stood on the path"
                } else {
                    ""
                }
            )),
            None => Verdict::not_checked("no connection sent for 1 s"),
        }
    })
}

/// How long there was something to send in the window, where that was long enough, and how much of it
/// the buffer was the limit; microseconds.
fn times(socket: &Socket) -> Option<(f64, f64)> {
    let (first, tcp) = (socket.first?, socket.tcp.as_deref()?);
    let busy = tcp.busy_time_us?.checked_sub(first.busy_us)?;
    let waited = tcp.sndbuf_limited_us?.checked_sub(first.sndbuf_limited_us)?;
    (busy >= MIN_BUSY_US).then_some((busy as f64, waited as f64))
}

/// How long the buffer was the limit, where that matters, microseconds.
fn hit(socket: &Socket) -> Option<f64> {
    waited(socket).filter(|_| !has_queue(socket))
}

/// The same, with or without a queue.
fn waited(socket: &Socket) -> Option<f64> {
    let (busy, waited) = times(socket)?;
    let far = socket.tcp.as_deref()?.rtt_us? >= MIN_ROUND_TRIP_US;
    let (full, samples) = samples(socket);
    let sampled_full = samples >= MIN_SAMPLES && full.saturating_mul(2) >= samples;
    let min_share = if sampled_full { MIN_TIME_SHARE_SAMPLED } else { MIN_TIME_SHARE };
    (far && share(waited, busy) >= min_share).then_some(waited)
}

/// Whether what is in flight stands in a queue of the path.
fn has_queue(socket: &Socket) -> bool {
    let Some(tcp) = socket.tcp.as_deref() else { return false };
    let (Some(rtt), Some(min), Some(deviation)) = (tcp.rtt_us, tcp.min_rtt_us, tcp.rttvar_us)
    else {
        return false;
    };
    f64::from(rtt) >= f64::from(min) * MIN_QUEUE_RATIO
        && rtt.saturating_sub(min) >= deviation.saturating_mul(MIN_QUEUE_DEVIATIONS)
}

/// In how many samples the buffer was full, and of how many.
fn samples(socket: &Socket) -> (u32, u32) {
    socket.first.map_or((0, 0), |first| (first.samples_send_buffer_full, first.samples))
}

fn buffer(socket: &Socket) -> Option<u64> {
    Some(socket.memory?.send_buffer_bytes.into())
}

/// `None` for an empty group.
fn finding(evidence: &Evidence, group: &[&Socket]) -> Option<Finding> {
    let worst = group.iter().copied().max_by_key(|socket| hit(socket).unwrap_or(0.0) as u64)?;
    let owners: Vec<ProcessName> = owner(evidence, worst).into_iter().collect();
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let (busy, waited) = times(worst).unwrap_or_default();
    let trip = worst.tcp.as_deref().and_then(|tcp| tcp.rtt_us).unwrap_or(0);
    let mut text = format!(
        "{} -> {}: the buffer was full {} of the time, the kernel could have sent more",
        canonical(worst.local),
        canonical(worst.remote),
        percent(share(waited, busy)),
    );
    let (full, samples) = samples(worst);
    if full > 0 {
        text.push_str(&format!(" (full in {full} of {})", count(u64::from(samples), "sample")));
    }
    if let Some(throughput) = throughput(worst) {
        text.push_str(&format!(
            "; {} over a round trip of {}",
            bit_rate(throughput * 8.0),
            micros(trip.into())
        ));
    }
    let held = buffer(worst).unwrap_or(0);
    if held > 0 {
        text.push_str(&format!(", send buffer {}", bytes(held)));
    }
    let proof = proof(Source::Sockets, "proof", text)
        .over_window(evidence, "busy", busy / 1e3, "ms")
        .over_window(evidence, "limited by the send buffer", waited / 1e3, "ms")
        .at_moment("send buffer", held as f64, "bytes")
        .at_moment("round trip", f64::from(trip) / 1e3, "ms");
    let all: f64 = group.iter().filter_map(|socket| hit(socket)).sum();
    let local = common_end(group, |socket| canonical(socket.local));
    let remote = common_end(group, |socket| canonical(socket.remote));
    Some(Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            match held {
                0 => format!("The send buffer of {process} is too small"),
                _ => format!("The send buffer of {process} is too small: {}", bytes(held)),
            },
            "A send buffer is too small for the path",
        ),
        severity: Severity::Warning,
        subject: subject(
            SubjectKind::Connection,
            match (local, remote) {
                (Some(local), Some(remote)) => format!("{local} > {remote}"),
                (Some(local), None) => format!("{} of {local}", connections(group)),
                _ => format!("{} of {process}", connections(group)),
            },
            local,
            remote,
            owners,
        ),
        impact: Impact {
            text: format!(
                "{}: limited {} of the time in which there was something to send",
                connections(group),
                percent(share(waited, busy))
            ),
            unit: ImpactUnit::SecondsLost,
            amount: all / 1e6,
            share: Some(share(waited, busy)),
        },
        evidence: vec![proof],
        checks: commands([CommandLine::new("ss -tinm dst")
            .arg(canonical(worst.remote).ip())
            .in_netns(evidence)]),
        remedies: remedies(evidence, &process, held),
        gain: gain(evidence, worst, group.len()),
        also_causes: Vec::new(),
    })
}

/// Where its packets were captured, they may show the rate of the path.
fn gain(evidence: &Evidence, worst: &Socket, connections: usize) -> ExpectedGain {
    let ends = (canonical(worst.local), canonical(worst.remote));
    let is_worst = |one: &StreamDirection<'_>| (one.sender(), one.receiver()) == ends;
    let streams = evidence.packets.iter().flat_map(|packets| &packets.worst);
    let sent = streams.flat_map(StreamDirection::both).find(is_worst);
    let rate = sent.and_then(|one| one.sent().flight_rate_bps);
    match (throughput(worst), rate) {
        (Some(now), Some(path)) => gain::of_rate(now * 8.0, [path as f64 / connections as f64]),
        _ => gain::path_is_not_known(),
    }
}

fn connections(group: &[&Socket]) -> String {
    count(group.len() as u64, "connection")
}

/// Bytes a second that were acknowledged in the window.
fn throughput(socket: &Socket) -> Option<f64> {
    let (first, tcp) = (socket.first?, socket.tcp.as_deref()?);
    let sent = tcp.bytes_acked?.checked_sub(first.bytes_acked)?;
    let duration_ms = socket.last_at_ms.checked_sub(first.at_ms).filter(|ms| *ms > 0)?;
    Some(sent as f64 * 1e3 / duration_ms as f64)
}

fn remedies(evidence: &Evidence, process: &str, held: u64) -> Vec<Remedy> {
    let mut limits = evidence.sysctl(WMEM).unwrap_or("").split_ascii_whitespace();
    let mut next = || limits.next().and_then(|limit| limit.parse::<u64>().ok());
    let (Some(min), Some(default), Some(max)) = (next(), next(), next()) else {
        return vec![advice("raise the third number of net.ipv4.tcp_wmem")];
    };
    if (held as f64) < MIN_FILL_OF_LIMIT * max as f64 {
        // The kernel would let it grow.
        return vec![advice(format!(
            "{process}: do not set SO_SNDBUF; the kernel then tunes the buffer, up to {}",
            bytes(max)
        ))];
    }
    let value = format!("{min} {default} {}", PROPOSED_BYTES.max(max.saturating_mul(4)));
    let remedy = sysctl(evidence, WMEM, value, Reach::Everything);
    vec![remedy.noted("each connection may use so much memory, if it needs it")]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_process, add_socket, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![limited(0.9), packets::tests::example()]
    }

    fn limited(share: f64) -> Evidence {
        let mut evidence = healthy();
        add_process(&mut evidence, 7, "nginx");
        let socket = add_socket(&mut evidence, "198.18.0.2:80", "198.18.0.1:4000", Some(7));
        socket.memory.as_mut().unwrap().send_buffer_bytes = 65_536;
        let tcp = socket.tcp.as_mut().unwrap();
        tcp.rtt_us = Some(100_000);
        tcp.bytes_acked = Some(6_001_000);
        // What came before the window does not count.
        tcp.busy_time_us = Some(8_000_000 + 500_000_000);
        tcp.sndbuf_limited_us = Some((8e6 * share) as u64 + 3_000_000);
        let first = socket.first.as_mut().unwrap();
        (first.busy_us, first.sndbuf_limited_us) = (500_000_000, 3_000_000);
        evidence
            .sysctls
            .get_or_insert_default()
            .insert("net.ipv4.tcp_wmem".into(), "4096\t16384\t65536".into());
        evidence
    }

    #[test]
    fn fires_when_the_buffer_is_full_most_of_the_time() {
        let finding = &findings_of(rule(&limited(0.9)))[0];
        assert_eq!(finding.title, "The send buffer of nginx is too small: 64 KiB");
        assert!(finding.evidence[0].text.contains("4.8 Mbit/s"), "{finding:?}");
        let text = &finding.remedies[0].text;
        assert!(text.starts_with("set net.ipv4.tcp_wmem to 4096 16384 16777216 (now"), "{text}");
    }

    #[test]
    fn an_application_that_sets_its_buffer_should_not() {
        let mut evidence = limited(0.9);
        evidence
            .sysctls
            .get_or_insert_default()
            .insert("net.ipv4.tcp_wmem".into(), "4096 16384 4194304".into());
        let finding = &findings_of(rule(&evidence))[0];
        assert!(finding.remedies[0].text.contains("nginx: do not set SO_SNDBUF"), "{finding:?}");
    }

    #[test]
    fn fires_when_the_buffer_is_full_in_most_samples() {
        let mut evidence = limited(0.3);
        let sampled = |evidence: &mut Evidence, full, samples| {
            let first = evidence.sockets.as_mut().unwrap().sockets[0].first.as_mut().unwrap();
            (first.samples_send_buffer_full, first.samples) = (full, samples);
        };
        sampled(&mut evidence, 3, 7);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        sampled(&mut evidence, 3, 4);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "few samples");
        sampled(&mut evidence, 6, 7);
        assert!(
            findings_of(rule(&evidence))[0].evidence[0].text.contains("full in 6 of 7 samples")
        );
        let mut evidence = limited(0.05);
        sampled(&mut evidence, 7, 7);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "the kernel counted nothing");
    }

    #[test]
    fn a_larger_buffer_would_wait_in_the_queue_that_stands() {
        let with = |rtt: u32, deviation: u32| {
            let mut evidence = limited(0.9);
            let tcp = evidence.sockets.as_mut().unwrap().sockets[0].tcp.as_mut().unwrap();
            (tcp.min_rtt_us, tcp.rtt_us, tcp.rttvar_us) =
                (Some(100_000), Some(rtt), Some(deviation));
            rule(&evidence)
        };
        let Verdict::RuledOut(why) = with(150_000, 12_500) else { panic!("a queue") };
        assert_eq!(
            why,
            "send buffers (full up to 90 % of the time, while a queue stood on the path)"
        );
        findings_of(with(149_000, 1_000));
        findings_of(with(150_000, 13_000));
    }

    #[test]
    fn stays_quiet_for_a_small_share_a_short_path_and_a_short_time() {
        assert!(matches!(rule(&limited(0.3)), Verdict::RuledOut(_)));
        let mut evidence = limited(0.9);
        let tcp = |evidence: &mut Evidence, change: fn(&mut model::TcpInfo)| {
            change(evidence.sockets.as_mut().unwrap().sockets[0].tcp.as_mut().unwrap());
        };
        tcp(&mut evidence, |tcp| tcp.rtt_us = Some(200));
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = limited(0.9);
        tcp(&mut evidence, |tcp| tcp.busy_time_us = Some(500_900_000));
        assert!(matches!(rule(&evidence), Verdict::NotChecked(_)));
        let mut evidence = limited(0.9);
        tcp(&mut evidence, |tcp| tcp.sndbuf_limited_us = None);
        assert!(
            matches!(rule(&evidence), Verdict::NotChecked(_)),
            "an old kernel does not count it"
        );
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Sockets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
