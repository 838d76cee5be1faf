//! # slow-start-after-idle
//!
//! ## What happens
//!
//! A connection stays open between requests. When it was idle for longer than its
//! retransmission timeout, Linux gives up the congestion window that it had and
//! starts the next answer with ten segments, doubled with every round trip. A path
//! that took the last answer in two round trips gets the next one in eight.
//!
//! ## Evidence
//!
//! In packets, from any place on the path: what one end sends in each round trip
//! of a transfer. After a pause it begins with the initial window although much
//! more had been out in a round trip before, and grows from round to round, by
//! half or to the double, without a pause, a loss or a full window.
//!
//! In transfers of netwhy's own (`netwhy transfer`), from the sender's kernel: the
//! congestion window when the last transfer was acknowledged, and the one with
//! which the next begins after a pause, with the sysctl on.
//!
//! ## Threshold
//!
//! The pause is longer than the timeout; the first round has less than half of the
//! most before, and no more than twelve segments (or that most, halved for each
//! timeout that passed); it grows at least twice. Two such transfers, or one that
//! cost three round trips; two percent of the time in which somebody waited. Of
//! netwhy's own: two that began with less than half after 200 ms and more, and
//! waited 1 ms each and two percent of their time for the window to grow again.
//!
//! ## Looks like it, but is not
//!
//! - A pause shorter than the timeout: the window is kept.
//! - An application that has nothing to send, or writes a little first.
//! - bbr: it paces by what it knows of the path, and does not start again.
//! - short-connections: each begins slowly, none was idle.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -ti dst ADDRESS     # cwnd: falls to 10 between two transfers
//! sysctl net.ipv4.tcp_slow_start_after_idle
//! ```
//!
//! ## Mend
//!
//! At the sender: `net.ipv4.tcp_slow_start_after_idle=0` (open connections too).
//! Where bursts into the path are feared: bbr, which paces.
//!
//! ## References
//!
//! - RFC 5681, section 4.1 (restarting idle connections); RFC 7661
//! - Linux: `tcp_cwnd_restart`, `Documentation/networking/ip-sysctl.rst`

use std::net::SocketAddr;

use model::{
    Evidence, Finding, Impact, ImpactUnit, OneTransfer, Reach, Severity, Source, SubjectKind,
    Transfer, TransferDirection,
};
use text::{bytes, count, micros, number, percent, share};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, proof, subject, sysctl, there};
use crate::words::command;

const SYSCTL: &str = "net.ipv4.tcp_slow_start_after_idle";

/// Transfers that are no accident.
const SEVERAL: u64 = 2;
/// Round trips that one alone must have cost.
const ROUNDS: u64 = 3;
/// Share of the time in which somebody waited.
const TIME: f64 = 0.02;
/// The shortest timeout, and so the shortest pause after which a window is given up, microseconds.
const PAUSE_US: u64 = 200_000;
/// What each of netwhy's own transfers paid at least, microseconds.
const FELT_US: u64 = 1_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let told = captured(evidence);
    if matches!(told, Verdict::Found(_)) {
        return told;
    }
    let probes = evidence.probes.as_ref();
    match probes.and_then(|probes| measured(evidence, probes.transfer.as_ref()?)) {
        Some(finding) => Verdict::Found(vec![finding]),
        None => told,
    }
}

fn captured(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        let seen = packets.directions().map(|direction| direction.slow_starts.transfers).sum();
        format!("slow start after idle ({} seen to grow)", count(seen, "transfer"))
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let starts = direction.sent().slow_starts;
    let cost = starts.restart_us;
    let trip = direction.stream.round_trip_us()?.max(1);
    let several = starts.restarts >= SEVERAL || cost >= ROUNDS * trip;
    let felt = share(cost as f64, direction.stream.busy_us() as f64) >= TIME;
    (starts.restarts > 0 && several && felt).then_some(cost)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let starts = direction.sent().slow_starts;
    let restarts: u64 =
        group.directions.iter().map(|direction| direction.sent().slow_starts.restarts).sum();
    let each = group.lost_us / restarts.max(1);
    let text = format!(
        "packet {} (stream {}): after {} of silence {} went out\nin a round trip of {}, {} \
         before it; then it grew again",
        number(starts.worst_at),
        direction.stream.number,
        micros(starts.worst_idle_us),
        bytes(starts.worst_flight),
        micros(direction.stream.round_trip_us().unwrap_or(0)),
        bytes(starts.worst_before),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "transfers that started again", restarts as f64, "transfers")
        .at_moment("first flight", starts.worst_flight as f64, "bytes")
        .at_moment("flight before", starts.worst_before as f64, "bytes");
    let sender = group.sender();
    let mut finding = group.finding(
        evidence,
        "slow-start-after-idle",
        format!("Idle connections start slowly again: {} a time", micros(each)),
        &format!("{} after a pause, {} lost", count(restarts, "slow start"), micros(group.lost_us)),
        vec![proof],
        vec![there(
            format!("at {sender}: sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
            Reach::Everything,
        )],
    );
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

/// A transfer of netwhy's own that began again after a pause: the windows before and after.
fn restarted(transfer: &Transfer, one: &OneTransfer) -> Option<(u32, u32)> {
    let sender = transfer.senders.iter().find(|sender| sender.stream == one.stream)?;
    let start = sender.starts.iter().find(|start| start.number == one.number)?;
    let before = start.before_segments?;
    let paused = one.idle_us.is_some_and(|us| us >= PAUSE_US);
    let cost = one.theory?.slow_start_us;
    let felt = cost >= FELT_US && share(cost as f64, one.duration_us as f64) >= TIME;
    let fell = start.window_segments < before / 2;
    (sender.slow_start_after_idle == Some(true) && paused && felt && fell)
        .then_some((before, start.window_segments))
}

/// How to see the window of a sender.
fn by_hand(evidence: &Evidence, peer: SocketAddr, up: bool) -> String {
    match up {
        true => command(evidence, &format!("ss -tin dst {peer}")),
        false => format!("ss -tin 'sport = :{}'   # at {}", peer.port(), peer.ip()),
    }
}

fn measured(evidence: &Evidence, transfer: &Transfer) -> Option<Finding> {
    let again = |one: &&OneTransfer| restarted(transfer, one).is_some();
    let all: Vec<&OneTransfer> = transfer.transfers.iter().filter(again).collect();
    let cost = |one: &OneTransfer| one.theory.map_or(0, |theory| theory.slow_start_us);
    let worst = all.iter().copied().max_by_key(|one| cost(one))?;
    if (all.len() as u64) < SEVERAL {
        return None;
    }
    let lost: u64 = all.iter().map(|one| cost(one)).fold(0, u64::saturating_add);
    let took: u64 = all.iter().map(|one| one.duration_us).fold(0, u64::saturating_add);
    let (before, after) = restarted(transfer, worst)?;
    let up = transfer.direction == TransferDirection::Up;
    let peer = transfer.address.map(|at| at.to_string()).unwrap_or_default();
    let sender = if up { "this host".to_string() } else { peer.clone() };
    let text = format!(
        "transfer {}: after {} of silence {sender} began with\n{} of {} segments, over a round trip of {}",
        number(u64::from(worst.number) + 1),
        micros(worst.idle_us.unwrap_or(0)),
        number(after.into()),
        number(before.into()),
        micros(transfer.round_trip_us.unwrap_or(0)),
    );
    let remedy = if up {
        sysctl(evidence, SYSCTL, "0", Reach::Everything)
    } else {
        there(format!("at {sender}: sysctl -w {SYSCTL}=0"), Reach::Everything)
    };
    let part = share(lost as f64, took as f64);
    Some(Finding {
        cause: "slow-start-after-idle".to_string(),
        title: format!(
            "Idle connections start slowly again: {} a time",
            micros(lost / all.len() as u64)
        ),
        severity: if part >= 0.1 { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Connection,
            format!("{sender} (sender) · transfers with {peer}"),
            transfer.address,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} after a pause, {} lost, {} of their time",
                count(all.len() as u64, "slow start"),
                micros(lost),
                percent(part)
            ),
            unit: ImpactUnit::SecondsLost,
            amount: lost as f64 / 1e6,
            share: Some(part),
        },
        evidence: vec![
            proof(Source::Probes, "proof", text)
                .over_window(
                    evidence,
                    "transfers that started again",
                    all.len() as f64,
                    "transfers",
                )
                .over_window(evidence, "time lost", lost as f64 / 1e3, "ms")
                .at_moment("congestion window before", before.into(), "segments")
                .at_moment("congestion window after", after.into(), "segments"),
        ],
        // At the sender: its congestion window falls in the pause.
        checks: transfer.address.iter().map(|peer| by_hand(evidence, *peer, up)).collect(),
        remedies: vec![remedy],
        also_causes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use model::{SlowStarts, Source};

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    fn restarted(restarts: u64, each_us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.slow_starts = SlowStarts {
            transfers: restarts,
            restarts,
            restart_us: restarts * each_us,
            worst_idle_us: 900_000,
            worst_flight: 14_480,
            worst_before: 800_000,
            worst_at: 977,
            ..SlowStarts::default()
        };
        evidence
    }

    #[test]
    fn fires_for_several_or_for_one_that_cost_much() {
        let finding = &findings_of(rule(&restarted(4, 100_000)))[0];
        assert_eq!(finding.title, "Idle connections start slowly again: 100 ms a time");
        assert!(finding.subject.name.starts_with("198.18.0.2:80 (sender)"), "{finding:?}");
        assert!(finding.evidence[0].text.contains("packet 977 "));
        assert_eq!(findings_of(rule(&restarted(1, 100_000))).len(), 1);
    }

    #[test]
    fn stays_quiet_when_it_is_not_felt() {
        assert!(matches!(rule(&restarted(0, 0)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&restarted(1, 20_000)), Verdict::RuledOut(_)), "one round trip");
        assert!(matches!(rule(&restarted(2, 2_000)), Verdict::RuledOut(_)), "a small part");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("slow-start-after-idle").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    /// Transfers of netwhy's own, after pauses: the window that each began with, of 400 before.
    fn own(windows: &[u32], idle_us: u64, on: bool) -> Evidence {
        use model::{Probes, SendStart, TheoreticalTime, TransferSender};
        let one = |number: usize| OneTransfer {
            number: number as u32,
            idle_us: Some(idle_us),
            duration_us: 500_000,
            theory: Some(TheoreticalTime { slow_start_us: 60_000, ..TheoreticalTime::default() }),
            ..OneTransfer::default()
        };
        let starts = windows.iter().enumerate().map(|(number, window)| SendStart {
            number: number as u32,
            window_segments: *window,
            before_segments: Some(400),
            segment_bytes: 1448,
        });
        let sender = TransferSender {
            slow_start_after_idle: Some(on),
            starts: starts.collect(),
            ..TransferSender::default()
        };
        let transfer = Transfer {
            address: Some("198.18.0.2:7717".parse().unwrap()),
            transfers: (0..windows.len()).map(one).collect(),
            senders: vec![sender],
            ..Transfer::default()
        };
        let probes = Probes { transfer: Some(transfer), ..Probes::default() };
        Evidence { probes: Some(probes), ..Evidence::default() }
    }

    #[test]
    fn fires_for_transfers_of_netwhys_own() {
        let mut evidence = own(&[10, 20, 400], 1_000_000, true);
        let Verdict::Found(found) = rule(&evidence) else { panic!("not found") };
        assert_eq!(found[0].title, "Idle connections start slowly again: 60 ms a time");
        assert!(found[0].impact.text.starts_with("2 slow starts after a pause, 120 ms lost"));
        assert!(found[0].remedies[0].text.starts_with("at 198.18.0.2:7717: sysctl -w"));
        let transfer = evidence.probes.as_mut().unwrap().transfer.as_mut().unwrap();
        transfer.direction = TransferDirection::Up;
        let Verdict::Found(found) = rule(&evidence) else { panic!("not found") };
        assert!(found[0].remedies[0].command.is_some(), "this host's own sysctl");
    }

    #[test]
    fn stays_quiet_where_windows_are_kept_or_fall_for_another_reason() {
        for evidence in [
            own(&[400, 390, 300], 1_000_000, true),
            own(&[10, 400, 400], 1_000_000, true),
            own(&[10, 10, 10], 100_000, true),
            own(&[10, 10, 10], 1_000_000, false),
        ] {
            assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "{evidence:?}");
        }
    }
}
