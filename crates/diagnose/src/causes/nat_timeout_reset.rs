//! # nat-timeout-reset
//!
//! ## What happens
//!
//! A NAT, a firewall or a load balancer on the path forgets connections that were
//! idle for a while: after 350 s in some clouds, 4 minutes in others, 5 days on
//! Linux. It tells neither end. The next request on such a connection is answered
//! with a reset, or with nothing until it times out: pools of connections fail
//! after quiet times, at night and in the morning.
//!
//! ## Evidence
//!
//! In packets: connections that were idle while nothing was in flight and neither
//! end had closed; then one end sent something, and the answer was a reset, or none
//! to three packets or more. The shortest such idle period, compared with the
//! longest that connections to the same server survived.
//!
//! ## Threshold
//!
//! Two connections or more, and at most one in ten survived an idle period as long.
//! Their idle periods have no moment in common: if they have, one event can have
//! ended them all.
//!
//! ## Looks like it, but is not
//!
//! - A server that was restarted: all its connections are lost, idle or not.
//! - A peer that resets the connection itself: its reset acknowledges the newest
//!   data, which who has forgotten the connection cannot.
//! - A server that closes idle connections itself (keep-alive timeout of HTTP): it
//!   sends a FIN.
//! - A path that fails: connections that are not idle are lost too.
//!
//! ## Check by hand
//!
//! ```sh
//! # resets, and how long their connection had been idle
//! tshark -r FILE -Y tcp.flags.reset==1 -T fields -e tcp.stream -e tcp.time_delta
//! # on a Linux NAT
//! sysctl net.netfilter.nf_conntrack_tcp_timeout_established
//! ```
//!
//! ## Fix
//!
//! Send keepalives more often than the middlebox forgets:
//! `net.ipv4.tcp_keepalive_time` for applications that ask for them
//! (`SO_KEEPALIVE`), or the application's own; or use a pool that closes
//! connections earlier. At the middlebox: a longer timeout.
//!
//! ## Expected gain
//!
//! The share of the connections that fail (model «failures»: those lost, of all
//! to the service).
//!
//! ## References
//!
//! - RFC 5382, section 5 (REQ-5: not before 2 hours and 4 minutes); RFC 1122,
//!   section 4.2.3.6 (keep-alives)

use std::net::SocketAddr;

use model::{
    CapturedStream, Evidence, Finding, GainFigure, Impact, ImpactUnit, LostAfterIdle, Packets,
    Reach, Severity, Source, SubjectKind,
};
use text::{count, number};

use crate::captured::{NO_PACKETS, capture_again, stream_checks};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, sysctl};
use crate::words::subject;

pub(super) const CAUSE: Cause = Cause {
    id: "nat-timeout-reset",
    title: "something on the path forgets idle connections",
    slows: Slows::Connections,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("nat_timeout_reset.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Connections that were lost.
const MIN_STREAMS: usize = 2;
/// One in so many may survive an idle period as long.
const ONE_IN: usize = 10;
/// Timeouts that middleboxes are known to have, seconds: what clouds and vendors document.
const KNOWN_TIMEOUTS_S: [u64; 15] =
    [30, 60, 90, 120, 180, 240, 300, 350, 600, 900, 1200, 1800, 3600, 7200, 432_000];
const SECOND_US: u64 = 1_000_000;
/// Servers that are reported.
const MAX_FINDINGS: usize = 5;

/// Connections to one server that were lost after idle periods.
struct Forgotten<'a> {
    server: SocketAddr,
    lost: Vec<(&'a CapturedStream, LostAfterIdle)>,
    /// The shortest idle period after which one was lost, microseconds.
    shortest_us: u64,
    /// The longest below it that one survived, microseconds; 0: none.
    survived_us: u64,
}

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let all = lost(packets);
    let found = all.iter().filter(|one| is_timer(one, packets)).take(MAX_FINDINGS);
    Verdict::from_findings(found.map(|one| finding(evidence, one)).collect(), || {
        let survived = packets.worst.iter().map(|stream| stream.longest_survived_idle_us).max();
        let shortest_timeout_us = KNOWN_TIMEOUTS_S[0] * SECOND_US;
        match survived.unwrap_or(0) {
            longest if longest >= shortest_timeout_us => Verdict::RuledOut(format!(
                "timeouts of idle connections ({} survived)",
                seconds(longest)
            )),
            _ if !all.is_empty() => Verdict::Undecided {
                needs: "connections that are lost at several times: once may be a restart"
                    .to_string(),
                sources: vec![Source::Packets],
                how_to_observe: Some(capture_again(packets).replace("1m", "1h")),
            },
            _ => Verdict::not_checked("no connection went on after 30 s of silence"),
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
                one.shortest_us = one.shortest_us.min(lost.idle_us);
            }
            None => {
                let lost_first = vec![(stream, lost)];
                let server = stream.server;
                all.push(Forgotten {
                    server,
                    lost: lost_first,
                    shortest_us: lost.idle_us,
                    survived_us: 0,
                });
            }
        }
    }
    for one in &mut all {
        let survived = streams(packets, one.server).map(|stream| stream.longest_survived_idle_us);
        one.survived_us = survived.filter(|us| *us < one.shortest_us).max().unwrap_or(0);
    }
    all.sort_by_key(|one| (std::cmp::Reverse(one.lost.len()), one.server));
    all
}

fn streams(packets: &Packets, server: SocketAddr) -> impl Iterator<Item = &CapturedStream> {
    packets.worst.iter().filter(move |stream| stream.server == server)
}

/// Whether a timer can have done it, and nothing else that is known.
fn is_timer(one: &Forgotten<'_>, packets: &Packets) -> bool {
    let survived = streams(packets, one.server)
        .filter(|s| s.longest_survived_idle_us >= one.shortest_us)
        .count();
    let last_began = one.lost.iter().map(|(_, lost)| lost.began_us).max();
    let first_ended =
        one.lost.iter().map(|(_, lost)| lost.began_us.saturating_add(lost.idle_us)).min();
    let apart = last_began > first_ended;
    one.lost.len() >= MIN_STREAMS && survived * ONE_IN <= one.lost.len() && apart
}

/// The timeout, if it is one that is known: the longest that is not above the shortest
/// idle period.
fn known(one: &Forgotten<'_>) -> Option<u64> {
    // Timers of middleboxes run at intervals.
    let below =
        KNOWN_TIMEOUTS_S.into_iter().filter(|seconds| seconds * SECOND_US <= one.shortest_us);
    below.max().filter(|seconds| seconds * SECOND_US > one.survived_us)
}

fn finding(evidence: &Evidence, one: &Forgotten<'_>) -> Finding {
    let resets = one.lost.iter().filter(|(_, lost)| lost.reset).count();
    let longest_us = one.lost.iter().map(|(_, lost)| lost.idle_us).max().unwrap_or(0);
    let lost = one.lost.len() as u64;
    let range = match one.survived_us {
        0 => format!("up to {}", seconds(one.shortest_us)),
        survived if seconds(survived) == seconds(one.shortest_us) => {
            format!("about {}", seconds(survived))
        }
        survived => format!("between {} and {}", seconds(survived), seconds(one.shortest_us)),
    };
    let likely = known(one).map_or_else(String::new, |seconds| format!("; likely {seconds} s"));
    let text = format!(
        "{} lost after idle periods of {} to {}; {} answered with a reset, {} not at all; the timeout is {range}{likely}",
        count(lost, "connection"),
        seconds(one.shortest_us),
        seconds(longest_us),
        number(resets as u64),
        number(lost.saturating_sub(resets as u64)),
    );
    let proof = proof(Source::Packets, "proof", text)
        .over_window(evidence, "connections lost", lost as f64, "connections")
        .at_moment("shortest idle period that was fatal", one.shortest_us as f64 / 1e3, "ms")
        .at_moment("longest idle period that was survived", one.survived_us as f64 / 1e3, "ms");
    let timeout_us =
        one.survived_us.max(known(one).map_or(one.shortest_us / 2, |seconds| seconds * SECOND_US));
    let interval_s = (timeout_us / 2 / SECOND_US).max(1);
    let name = "net.ipv4.tcp_keepalive_time";
    let service = evidence.packets.as_ref().and_then(|packets| packets.service(one.server));
    let streams = service.map_or(0, |service| service.streams);
    let keep_alive = sysctl(evidence, name, interval_s, Reach::NewConnections)
        .noted("for applications that ask for keepalives (SO_KEEPALIVE)");
    Finding {
        cause: CAUSE.id.to_string(),
        title: format!(
            "Something on the path forgets connections idle for {}",
            seconds(one.shortest_us)
        ),
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
                "{} to {} lost: the next request on each fails or waits",
                count(lost, "connection"),
                one.server
            ),
            unit: ImpactUnit::ConnectionsLost,
            amount: lost as f64,
            share: None,
        },
        evidence: vec![proof],
        checks: one.lost.first().map_or_else(Vec::new, |(s, _)| stream_checks(evidence, s)),
        remedies: vec![
            keep_alive,
            advice("a pool that closes connections earlier, or a longer timeout on the path"),
        ],
        gain: gain::of_failures(
            GainFigure::FailedConnections,
            lost as f64,
            streams.max(lost) as f64,
        ),
        also_causes: Vec::new(),
    }
}

/// An idle period, in the unit that the makers of middleboxes use: `350 s`.
fn seconds(us: u64) -> String {
    if us < 1_000_000 { text::micros(us) } else { format!("{} s", number(us / 1_000_000)) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![idle(&[(0, 352), (400, 380), (90, 360)], &[310, 200])]
    }

    /// Streams that were idle: when that began and how long it was, seconds.
    fn idle(lost: &[(u64, u64)], survived: &[u64]) -> Evidence {
        let mut evidence = healthy();
        let end = |number: usize| format!("198.18.0.1:{}", 4000 + number);
        for (number, (began, idle_s)) in lost.iter().enumerate() {
            add_stream(&mut evidence, &end(number), "198.18.0.2:5432").lost_after_idle =
                Some(LostAfterIdle {
                    began_us: began * SECOND_US,
                    idle_us: idle_s * SECOND_US,
                    client_sent_first: true,
                    reset: number % 2 == 0,
                });
        }
        for (number, us) in survived.iter().enumerate() {
            add_stream(&mut evidence, &end(100 + number), "198.18.0.2:5432")
                .longest_survived_idle_us = us * SECOND_US;
        }
        evidence
    }

    #[test]
    fn fires_for_idle_periods_that_end_at_a_timer() {
        let finding = &findings_of(rule(&idle(&[(0, 352), (400, 380), (90, 360)], &[310, 200])))[0];
        assert_eq!(finding.title, "Something on the path forgets connections idle for 352 s");
        let text = &finding.evidence[0].text;
        assert!(text.ends_with("between 310 s and 352 s; likely 350 s"), "{text}");
        assert!(text.contains("2 answered with a reset, 1 not at all"), "{text}");
        assert_eq!(finding.remedies[0].text, "set net.ipv4.tcp_keepalive_time to 175");
    }

    #[test]
    fn stays_quiet_for_one_event_one_stream_and_where_others_survive() {
        // All were idle at 300 s: the server may have been restarted then.
        assert!(matches!(rule(&idle(&[(0, 352), (200, 380)], &[])), Verdict::Undecided { .. }));
        assert!(matches!(rule(&idle(&[(0, 352)], &[])), Verdict::Undecided { .. }));
        let survived = idle(&[(0, 352), (400, 380)], &[400]);
        assert!(matches!(rule(&survived), Verdict::RuledOut(_)));
        assert!(matches!(rule(&idle(&[], &[400])), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
