//! # slow-start-after-idle
//!
//! ## What happens
//!
//! A connection stays open between requests. When it was idle for longer than its
//! retransmission timeout, Linux gives up its congestion window and starts the next
//! response with ten segments, doubled with every round trip. A path that took the
//! last response in two round trips takes the next one in eight.
//!
//! ## Evidence
//!
//! In packets, from any place on the path: what one end sends in each round trip of
//! a transfer. After an idle period it begins with the initial window although much
//! more had been in flight before, and grows from round trip to round trip, by half
//! or to the double, without a pause, a loss or a full window.
//!
//! In transfers of netwhy's own (`netwhy transfer`), from the sender's kernel: the
//! congestion window when the last transfer was acknowledged, and the one with
//! which the next begins after an idle period, with the sysctl on.
//!
//! ## Threshold
//!
//! The idle period is longer than the timeout; the first round trip has less than
//! half of the most before, and at most twelve segments (or that most, halved for
//! each timeout that passed); it grows at least twice. Two such transfers, or one
//! that cost three round trips; 2 % of the active time (all but idle periods). Of
//! netwhy's own transfers: two that began with less than half after 200 ms or more,
//! and waited for at least 1 ms each and 2 % of their time for the window to grow
//! again.
//!
//! ## Looks like it, but is not
//!
//! - An idle period shorter than the timeout: the window is kept.
//! - An application that has nothing to send, or writes little at first.
//! - bbr: it paces by what it knows of the path, and does not start again.
//! - A policer or shaper: it lets the same bytes pass, however a transfer begins.
//! - short-connections: each begins slowly, none was idle.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -ti dst ADDRESS     # cwnd: falls to 10 between two transfers
//! sysctl net.ipv4.tcp_slow_start_after_idle
//! ```
//!
//! ## Fix
//!
//! At the sender: `net.ipv4.tcp_slow_start_after_idle=0` (open connections too).
//! Where bursts into the path are a concern: bbr, which paces.
//!
//! ## Expected gain
//!
//! The time of an exchange after an idle period, without the round trips of slow
//! start beyond those that the window before would have needed (model
//! «difference»). A window that nothing limited has grown to what was
//! acknowledged.
//!
//! ## References
//!
//! - RFC 5681, section 4.1 (restarting idle connections); RFC 7661
//! - Linux: `tcp_cwnd_restart`, `Documentation/networking/ip-sysctl.rst`

use std::net::SocketAddr;

use model::{
    Command, Evidence, Finding, GainFigure, Impact, ImpactUnit, OneTransfer, Reach, Source,
    SubjectKind, Transfer, TransferDirection,
};
use text::{bytes, count, micros, number, percent, share};

use crate::captured::{Group, StreamDirection, total, verdict_from_packets, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{sysctl, sysctl_on};
use crate::severity;
use crate::words::subject;

pub(super) const CAUSE: Cause = Cause {
    id: "slow-start-after-idle",
    title: "idle connections begin with slow start again",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("slow_start_after_idle.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

const SYSCTL: &str = "net.ipv4.tcp_slow_start_after_idle";

/// Transfers that are no accident.
const MIN_TRANSFERS: u64 = 2;
/// Round trips that a single one must have cost.
const MIN_ROUND_TRIPS: u64 = 3;
/// Share of the active time.
const MIN_TIME_SHARE: f64 = 0.02;
/// The shortest timeout, and so the shortest idle period after which a window is given up,
/// microseconds.
const MIN_IDLE_US: u64 = 200_000;
/// What each of netwhy's own transfers paid, microseconds.
const MIN_COST_US: u64 = 1_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let captured = captured(evidence);
    if matches!(captured, Verdict::Found(_)) {
        return captured;
    }
    let probes = evidence.probes.as_ref();
    match probes.and_then(|probes| measured(evidence, probes.transfer.as_ref()?)) {
        Some(finding) => Verdict::Found(vec![finding]),
        None => captured,
    }
}

fn captured(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        // The first transfer of a connection follows no idle period.
        let after_idle = total(packets, |sent| sent.slow_starts.transfers.saturating_sub(1));
        match after_idle {
            0 => without_data(packets)
                .unwrap_or_else(|| Verdict::not_checked("no second transfer on a connection")),
            _ => Verdict::RuledOut(format!(
                "slow start after idle ({} of {})",
                number(total(packets, |sent| sent.slow_starts.restarts)),
                count(after_idle, "later transfer")
            )),
        }
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let starts = direction.sent().slow_starts;
    let cost = starts.restart_us;
    let trip = direction.stream.round_trip_us()?.max(1);
    let several = starts.restarts >= MIN_TRANSFERS || cost >= trip.saturating_mul(MIN_ROUND_TRIPS);
    let felt = share(cost as f64, direction.stream.busy_us() as f64) >= MIN_TIME_SHARE;
    // A token bucket lets the same bytes pass, however they begin.
    let by_bucket = !direction.sent().policed.is_empty() || direction.sent().shaped.is_some();
    (starts.restarts > 0 && several && felt && !by_bucket).then_some(cost)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let starts = direction.sent().slow_starts;
    let restarts: u64 = group
        .directions
        .iter()
        .map(|direction| direction.sent().slow_starts.restarts)
        .fold(0, u64::saturating_add);
    let each = group.lost_us / restarts.max(1);
    let text = format!(
        "packet {} (stream {}): after {} idle it sent {} in the first round trip of {}, \
         where it had sent {} before; then it grew again",
        number(starts.worst_at),
        direction.stream.number,
        micros(starts.worst_idle_us),
        bytes(starts.worst_flight),
        micros(direction.stream.round_trip_us().unwrap_or(0)),
        bytes(starts.worst_before),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(
            evidence,
            "transfers that began with slow start again",
            restarts as f64,
            "transfers",
        )
        .at_moment("first flight", starts.worst_flight as f64, "bytes")
        .at_moment("flight before", starts.worst_before as f64, "bytes");
    let sender = group.sender();
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("Idle connections fall back to slow start: {} each time", micros(each)),
        &format!("{} after idle periods cost {}", count(restarts, "slow start"), group.lost_text()),
        vec![proof],
        vec![sysctl_on(&group.sending_host(), SYSCTL, 0, Reach::Everything)],
    );
    finding.gain = group.gain_of_some(restarts);
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

/// The windows before and after an idle period, of a transfer of netwhy's own that began again.
fn restarted(transfer: &Transfer, one: &OneTransfer) -> Option<(u32, u32)> {
    let sender = transfer.senders.iter().find(|sender| sender.stream == one.stream)?;
    let start = sender.starts.iter().find(|start| start.number == one.number)?;
    let before = start.previous_window_segments?;
    let idle = one.idle_us.is_some_and(|us| us >= MIN_IDLE_US);
    let cost = one.theory?.slow_start_us;
    let felt = cost >= MIN_COST_US && share(cost as f64, one.duration_us as f64) >= MIN_TIME_SHARE;
    let fell = start.window_segments < before / 2;
    (sender.slow_start_after_idle == Some(true) && idle && felt && fell)
        .then_some((before, start.window_segments))
}

/// Shows the congestion window of a sender: it falls in the idle period.
fn window_check(evidence: &Evidence, peer: SocketAddr, up: bool) -> Option<Command> {
    let sockets = CommandLine::new("ss -tin");
    match up {
        true => sockets.args("dst").arg(peer).in_netns(evidence),
        false => sockets.arg(format!("sport = :{}", peer.port())).on(&peer.ip().to_string()),
    }
}

fn measured(evidence: &Evidence, transfer: &Transfer) -> Option<Finding> {
    let again = |one: &&OneTransfer| restarted(transfer, one).is_some();
    let all: Vec<&OneTransfer> = transfer.transfers.iter().filter(again).collect();
    let cost = |one: &OneTransfer| one.theory.map_or(0, |theory| theory.slow_start_us);
    let worst = all.iter().copied().max_by_key(|one| cost(one))?;
    if (all.len() as u64) < MIN_TRANSFERS {
        return None;
    }
    let lost: u64 = all.iter().map(|one| cost(one)).fold(0, u64::saturating_add);
    let duration: u64 = all.iter().map(|one| one.duration_us).fold(0, u64::saturating_add);
    let (before, after) = restarted(transfer, worst)?;
    let up = transfer.direction == TransferDirection::Up;
    let peer = transfer.address.map(|at| at.to_string()).unwrap_or_default();
    let sender = if up { "this host".to_string() } else { peer.clone() };
    let text = format!(
        "transfer {}: after {} idle, {sender} began with {} of {} segments, over a round trip of {}",
        number(u64::from(worst.number) + 1),
        micros(worst.idle_us.unwrap_or(0)),
        number(after.into()),
        number(before.into()),
        micros(transfer.round_trip_us.unwrap_or(0)),
    );
    let remedy = if up {
        sysctl(evidence, SYSCTL, 0, Reach::Everything)
    } else {
        let host = transfer.address.map_or("the sender".to_string(), |peer| peer.ip().to_string());
        sysctl_on(&host, SYSCTL, 0, Reach::Everything)
    };
    let part = share(lost as f64, duration as f64);
    let each_ms = |us: u64| us as f64 / 1e3 / all.len() as f64;
    Some(Finding {
        cause: CAUSE.id.to_string(),
        title: format!(
            "Idle connections fall back to slow start: {} each time",
            micros(lost / (all.len() as u64).max(1))
        ),
        severity: severity::of_lost_time(lost, part),
        subject: subject(
            SubjectKind::Connection,
            format!("{sender} (sender) · transfers with {peer}"),
            transfer.address,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} after idle periods cost {}, {} of their time",
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
                    "transfers that began with slow start again",
                    all.len() as f64,
                    "transfers",
                )
                .over_window(evidence, "time lost", lost as f64 / 1e3, "ms")
                .at_moment("congestion window before", before.into(), "segments")
                .at_moment("congestion window after", after.into(), "segments"),
        ],
        checks: commands([transfer.address.and_then(|peer| window_check(evidence, peer, up))]),
        remedies: vec![remedy],
        gain: gain::of_time(GainFigure::ExchangeTime, each_ms(duration), each_ms(lost), 0.0),
        also_causes: Vec::new(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use model::{ShapedRate, SlowStarts};

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut up = own(&[10, 20, 400], 1_000_000, true);
        up.probes.as_mut().unwrap().transfer.as_mut().unwrap().direction = TransferDirection::Up;
        vec![restarted(4, 100_000), own(&[10, 20, 400], 1_000_000, true), up]
    }

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
    fn stays_quiet_where_a_token_bucket_limits_what_passes() {
        let mut evidence = restarted(4, 100_000);
        evidence.packets.as_mut().unwrap().worst[0].from_server.shaped =
            Some(ShapedRate::default());
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn fires_for_several_or_for_one_that_cost_much() {
        let finding = &findings_of(rule(&restarted(4, 100_000)))[0];
        assert_eq!(finding.title, "Idle connections fall back to slow start: 100 ms each time");
        assert!(finding.subject.name.starts_with("198.18.0.2:80 (sender)"), "{finding:?}");
        assert!(finding.evidence[0].text.contains("packet 977 "));
        assert_eq!(findings_of(rule(&restarted(1, 100_000))).len(), 1);
    }

    #[test]
    fn stays_quiet_when_it_is_not_felt() {
        assert!(matches!(rule(&restarted(0, 0)), Verdict::NotChecked(_)));
        assert!(!matches!(rule(&restarted(1, 20_000)), Verdict::Found(_)), "one round trip");
        assert!(!matches!(rule(&restarted(2, 2_000)), Verdict::Found(_)), "a small share");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    /// Transfers of netwhy's own after idle periods: the window that each began with, of 400 before.
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
            previous_window_segments: Some(400),
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
        assert_eq!(found[0].title, "Idle connections fall back to slow start: 60 ms each time");
        assert!(found[0].impact.text.starts_with("2 slow starts after idle periods cost 120 ms"));
        assert!(found[0].remedies[0].text.starts_with("on 198.18.0.2: set net.ipv4.tcp_slow"));
        assert_eq!(found[0].checks[0].host.as_deref(), Some("198.18.0.2"));
        let transfer = evidence.probes.as_mut().unwrap().transfer.as_mut().unwrap();
        transfer.direction = TransferDirection::Up;
        let Verdict::Found(found) = rule(&evidence) else { panic!("not found") };
        let command = found[0].remedies[0].command.as_ref().unwrap();
        assert_eq!(command.host, None, "this host's own sysctl");
    }

    #[test]
    fn stays_quiet_where_windows_are_kept_or_shrink_for_another_reason() {
        for evidence in [
            own(&[400, 390, 300], 1_000_000, true),
            own(&[10, 400, 400], 1_000_000, true),
            own(&[10, 10, 10], 100_000, true),
            own(&[10, 10, 10], 1_000_000, false),
        ] {
            assert!(!matches!(rule(&evidence), Verdict::Found(_)), "{evidence:?}");
        }
    }
}
