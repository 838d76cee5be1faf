//! # nat-timeout-reset
//!
//! ## What happens
//!
//! A NAT, a firewall or a load balancer on the way forgets connections of which it
//! has not heard for a while: 350 s in some clouds, 4 minutes in others, 5 days on
//! Linux. Neither end is told. The next request on such a connection is answered
//! with a reset, or with nothing until it times out: pools of connections fail
//! after quiet times, at night and in the morning.
//!
//! ## Evidence
//!
//! In packets: connections that were silent while nothing was under way and neither
//! end had closed; then one end spoke, and the answer was a reset, or none to three
//! packets and more. The shortest such silence, beside the longest that connections
//! to the same server outlived.
//!
//! ## Threshold
//!
//! Two connections and more, and at most one in ten outlived a silence as long.
//! Their silences have no moment in common: if they have, one event can have ended
//! them all.
//!
//! ## Looks like it, but is not
//!
//! - A server that was restarted: all its connections are lost, whatever they did.
//! - A server that closes idle connections itself (keep-alive timeout of HTTP): it
//!   says so with a FIN.
//! - A path that fails: connections that are not silent are lost too.
//!
//! ## Check by hand
//!
//! ```sh
//! # resets, and how long their connection had been silent
//! tshark -r FILE -Y tcp.flags.reset==1 -T fields -e tcp.stream -e tcp.time_delta
//! # on a Linux NAT
//! sysctl net.netfilter.nf_conntrack_tcp_timeout_established
//! ```
//!
//! ## Mend
//!
//! Keep-alives more often than the box forgets: `net.ipv4.tcp_keepalive_time` for
//! applications that ask for them (`SO_KEEPALIVE`), or the application's own; or a
//! pool that closes what was idle for longer. At the box: a longer timeout.
//!
//! ## References
//!
//! - RFC 5382, section 5 (REQ-5: not before 2 hours and 4 minutes); RFC 1122,
//!   section 4.2.3.6 (keep-alives)

use std::net::SocketAddr;

use model::{
    CapturedStream, Evidence, Finding, Impact, ImpactUnit, LostAfterIdle, Packets, Reach, Severity,
    Source, SubjectKind,
};
use text::{count, number};

use crate::Verdict;
use crate::captured::stream_checks;
use crate::make::{WithFigures as _, advice, proof, subject, sysctl};

/// Connections that were lost.
const STREAMS: usize = 2;
/// Of so many one may outlive a silence as long.
const ONE_IN: usize = 10;
/// Timeouts that boxes are known to have, seconds: what clouds and vendors document.
const KNOWN: [u64; 15] =
    [30, 60, 90, 120, 180, 240, 300, 350, 600, 900, 1200, 1800, 3600, 7200, 432_000];
const SECOND: u64 = 1_000_000;
/// Findings of it.
const FINDINGS: usize = 5;

/// Connections to one server that were lost after silences.
struct Forgotten<'a> {
    server: SocketAddr,
    lost: Vec<(&'a CapturedStream, LostAfterIdle)>,
    /// The shortest silence after which one was lost, and the longest that was outlived, microseconds.
    shortest: u64,
    outlived: u64,
}

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::RuledOut("no packets".to_string());
    };
    let all = lost(packets);
    let found = all.iter().filter(|one| is_timer(one, packets)).take(FINDINGS);
    Verdict::from_findings(found.map(|one| finding(evidence, one)).collect(), || {
        let outlived = packets.worst.iter().map(|stream| stream.longest_survived_idle_us).max();
        match outlived.unwrap_or(0) {
            0 => "connections forgotten in silence (none was silent)".to_string(),
            longest => format!("connections forgotten in silence ({} outlived)", seconds(longest)),
        }
    })
}

fn lost(packets: &Packets) -> Vec<Forgotten<'_>> {
    let mut all: Vec<Forgotten<'_>> = Vec::new();
    for (stream, lost) in
        packets.worst.iter().filter_map(|stream| Some((stream, stream.lost_after_idle?)))
    {
        match all.iter_mut().find(|one| one.server == stream.server) {
            Some(one) => {
                one.lost.push((stream, lost));
                one.shortest = one.shortest.min(lost.idle_us);
            }
            None => {
                let lost_first = vec![(stream, lost)];
                let server = stream.server;
                all.push(Forgotten {
                    server,
                    lost: lost_first,
                    shortest: lost.idle_us,
                    outlived: 0,
                });
            }
        }
    }
    for one in &mut all {
        let outlived = streams(packets, one.server).map(|stream| stream.longest_survived_idle_us);
        one.outlived = outlived.filter(|us| *us < one.shortest).max().unwrap_or(0);
    }
    all.sort_by_key(|one| (std::cmp::Reverse(one.lost.len()), one.server));
    all
}

fn streams(packets: &Packets, server: SocketAddr) -> impl Iterator<Item = &CapturedStream> {
    packets.worst.iter().filter(move |stream| stream.server == server)
}

/// Whether a timer can have done it, and nothing else that is known.
fn is_timer(one: &Forgotten<'_>, packets: &Packets) -> bool {
    let outlived =
        streams(packets, one.server).filter(|s| s.longest_survived_idle_us >= one.shortest).count();
    let last_began = one.lost.iter().map(|(_, lost)| lost.began_us).max();
    let first_ended =
        one.lost.iter().map(|(_, lost)| lost.began_us.saturating_add(lost.idle_us)).min();
    let apart = last_began > first_ended;
    one.lost.len() >= STREAMS && outlived * ONE_IN <= one.lost.len() && apart
}

/// The timeout, if it is one that is known: the longest that is not above the shortest silence.
fn known(one: &Forgotten<'_>) -> Option<u64> {
    // Clocks of boxes look once in a while.
    let below = KNOWN.into_iter().filter(|seconds| seconds * SECOND <= one.shortest);
    below.max().filter(|seconds| seconds * SECOND > one.outlived)
}

fn finding(evidence: &Evidence, one: &Forgotten<'_>) -> Finding {
    let resets = one.lost.iter().filter(|(_, lost)| lost.reset).count();
    let longest = one.lost.iter().map(|(_, lost)| lost.idle_us).max().unwrap_or(0);
    let lost = one.lost.len() as u64;
    let range = match one.outlived {
        0 => format!("up to {}", seconds(one.shortest)),
        outlived => format!("between {} and {}", seconds(outlived), seconds(one.shortest)),
    };
    let likely = known(one).map_or_else(String::new, |seconds| format!("; likely {seconds} s"));
    let text = format!(
        "{} lost after silences of {} to {};\n{} answered with a reset, {} not at all; the timeout is\n{range}{likely}",
        count(lost, "connection"),
        seconds(one.shortest),
        seconds(longest),
        number(resets as u64),
        number(lost - resets as u64),
    );
    let proof = proof(Source::Packets, "proof", text)
        .over_window(evidence, "connections lost", lost as f64, "connections")
        .at_moment("shortest silence that was fatal", one.shortest as f64 / 1e3, "ms")
        .at_moment("longest silence that was outlived", one.outlived as f64 / 1e3, "ms");
    let first = one.lost[0].0;
    let most = one.outlived.max(known(one).map_or(one.shortest / 2, |seconds| seconds * SECOND));
    let keep = (most / 2 / SECOND).max(1).to_string();
    let mut keep_alive =
        sysctl(evidence, "net.ipv4.tcp_keepalive_time", &keep, Reach::NewConnections);
    keep_alive.note = Some("where the application asks for keep-alives (SO_KEEPALIVE)".to_string());
    Finding {
        cause: "nat-timeout-reset".to_string(),
        title: format!("Connections that are silent for {} are forgotten", seconds(one.shortest)),
        severity: Severity::Warning,
        subject: subject(
            SubjectKind::Connection,
            format!("{} to {}", count(lost, "connection"), one.server),
            Some(one.server),
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} to {} lost: their next request fails or waits",
                count(lost, "connection"),
                one.server
            ),
            unit: ImpactUnit::ConnectionsLost,
            amount: lost as f64,
            share: None,
        },
        evidence: vec![proof],
        checks: stream_checks(evidence, first),
        remedies: vec![
            keep_alive,
            advice("a pool that closes connections before, or a longer timeout on the way"),
        ],
        also_causes: Vec::new(),
    }
}

/// An idle time as the makers of such boxes give their timers: `350 s`.
fn seconds(us: u64) -> String {
    if us < 1_000_000 { text::micros(us) } else { format!("{} s", number(us / 1_000_000)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Streams that were silent: when it began and how long it was, seconds.
    fn silent(lost: &[(u64, u64)], outlived: &[u64]) -> Evidence {
        let mut evidence = healthy();
        let end = |number: usize| format!("198.18.0.1:{}", 4000 + number);
        for (number, (began, lasted)) in lost.iter().enumerate() {
            add_stream(&mut evidence, &end(number), "198.18.0.2:5432").lost_after_idle =
                Some(LostAfterIdle {
                    began_us: began * SECOND,
                    idle_us: lasted * SECOND,
                    client_sent_first: true,
                    reset: number % 2 == 0,
                });
        }
        for (number, us) in outlived.iter().enumerate() {
            add_stream(&mut evidence, &end(100 + number), "198.18.0.2:5432")
                .longest_survived_idle_us = us * SECOND;
        }
        evidence
    }

    #[test]
    fn fires_for_silences_that_end_at_a_timer() {
        let finding =
            &findings_of(rule(&silent(&[(0, 352), (400, 380), (90, 360)], &[310, 200])))[0];
        assert_eq!(finding.title, "Connections that are silent for 352 s are forgotten");
        let text = &finding.evidence[0].text;
        assert!(text.ends_with("between 310 s and 352 s; likely 350 s"), "{text}");
        assert!(text.contains("2 answered with a reset, 1 not at all"), "{text}");
        assert_eq!(finding.remedies[0].text, "net.ipv4.tcp_keepalive_time=175");
    }

    #[test]
    fn stays_quiet_for_one_event_one_stream_and_where_others_outlive_it() {
        // All were silent at 300 s: the server may have been restarted then.
        assert!(matches!(rule(&silent(&[(0, 352), (200, 380)], &[])), Verdict::RuledOut(_)));
        assert!(matches!(rule(&silent(&[(0, 352)], &[])), Verdict::RuledOut(_)));
        let outlived = silent(&[(0, 352), (400, 380)], &[400]);
        assert!(matches!(rule(&outlived), Verdict::RuledOut(_)));
        assert!(matches!(rule(&silent(&[], &[400])), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("nat-timeout-reset").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
