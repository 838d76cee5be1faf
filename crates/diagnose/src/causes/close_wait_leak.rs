//! # close-wait-leak
//!
//! ## What happens
//!
//! The peer has closed its end, the kernel has let the process know, and the
//! process does not close its own: the socket stays in CLOSE_WAIT for as long as
//! the process lives. Each of them holds a file descriptor and memory; at the limit
//! of open files, the process accepts and connects no more.
//!
//! ## Evidence
//!
//! - the sockets in CLOSE_WAIT of one process, sampled several times in the window:
//!   their number only increases, and none of them is ever closed; or
//! - a stock of them that stays, all silent for more than a minute.
//!
//! ## Threshold
//!
//! Increase: at least 3 more at the end than at the beginning, never fewer in one
//! sample than in the one before, none closed, and at least 5 that were there in
//! the last three samples. An application that closes late shows some that leave,
//! and a busy one some that have just arrived. Stock: at least 100 that stayed
//! through the window, the oldest silent for 60 s, which is longer than servers
//! wait before they close (nginx `keepalive_timeout` 75 s counts from the last
//! request, not from the peer's close).
//!
//! ## Looks like it, but is not
//!
//! - A few sockets in CLOSE_WAIT for a moment: the process is about to close them.
//! - A half-closed connection: the peer has sent everything and still listens, and
//!   the process still sends. Sockets that have something to send, or have sent
//!   since they were first in CLOSE_WAIT, are not counted.
//! - A process that is stopped or gets no CPU: its sockets leave when it runs
//!   again.
//! - FIN_WAIT_2 at the other end is the same leak, observed at the peer.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -Htnp state close-wait | grep -o 'pid=[0-9]*' | sort | uniq -c
//! ```
//!
//! ## Fix
//!
//! It is a bug in the process: it must call close() when read() returns 0, on its
//! error paths too. No sysctl limits CLOSE_WAIT. Restarting the process frees the
//! sockets; a higher limit of open files buys time.
//!
//! ## Expected gain
//!
//! Not predictable: a leak costs nothing until no file descriptor is left.
//!
//! ## References
//!
//! - RFC 9293, section 3.3.2 (CLOSE-WAIT)
//! - Stevens, TCP/IP Illustrated 1, section 18.6 (half-close and its states)

use model::{
    CloseWait, Evidence, Finding, Impact, ImpactUnit, Reach, Severity, Source, SubjectKind,
    TableSample,
};
use text::{count, number, share};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::advice;
use crate::words::{process_name, processes, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "close-wait-leak",
    title: "a process never closes what its peers have closed",
    slows: Slows::Connections,
    needs: &[&[Source::Sockets]],
    rule,
    source: include_str!("close_wait_leak.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Increase that is no accident.
const MIN_INCREASE: u64 = 3;
/// Sockets that have stayed for some samples, which make an increasing number a leak.
const MIN_SETTLED: u64 = 5;
/// Sockets that make a constant number a leak.
const MIN_STOCK: u64 = 100;
/// How long the oldest of them has been idle, milliseconds.
const MIN_IDLE_MS: u32 = 60_000;
/// Share of the open files that are leaked sockets from which on it is critical.
const MIN_SHARE_CRITICAL: f64 = 0.5;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let groups =
        evidence.sockets.as_ref().map(|sockets| &sockets.close_wait[..]).unwrap_or_default();
    let leaking = groups.iter().filter(|group| leaks(group));
    let findings = leaking.map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let most = groups.iter().map(|group| group.count.max).max().unwrap_or(0);
        let last = evidence.sockets.as_ref().and_then(|sockets| sockets.samples.last());
        match (most, last.map_or(0, TableSample::total)) {
            (0, 0) => Verdict::not_checked("no TCP connection"),
            (0, all) => Verdict::RuledOut(format!("CLOSE_WAIT (0 of {})", count(all, "socket"))),
            _ => Verdict::RuledOut(format!("CLOSE_WAIT (up to {} of one process)", number(most))),
        }
    })
}

fn increases(group: &CloseWait) -> bool {
    group.count.samples >= 3
        && group.left == 0
        && !group.decreased
        && group.settled >= MIN_SETTLED
        && group.count.last >= group.count.first.saturating_add(MIN_INCREASE)
}

fn leaks(group: &CloseWait) -> bool {
    let stays = group.stayed >= MIN_STOCK && group.oldest_ms.is_some_and(|ms| ms >= MIN_IDLE_MS);
    increases(group) || stays
}

fn finding(evidence: &Evidence, group: &CloseWait) -> Finding {
    let pids: Vec<u32> = group.pid.into_iter().collect();
    let owners = processes(evidence, &pids);
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let increase = group.count.last.saturating_sub(group.count.first);
    let known = group.pid.and_then(|pid| evidence.process(pid));
    let of_files = known.and_then(|process| {
        let limit = process.open_files_limit?;
        Some((share(group.count.last as f64, limit as f64), limit))
    });
    let mut text = format!(
        "{} in CLOSE_WAIT, {} at the beginning of the window; {} closed",
        count(group.count.last, "socket"),
        number(group.count.first),
        number(group.left)
    );
    if let Some(ms) = group.oldest_ms {
        text.push_str(&format!(
            "\nthe oldest has been silent for {}",
            text::duration(std::time::Duration::from_millis(u64::from(ms)))
        ));
    }
    let mut ends = Vec::new();
    if let Some(port) = group.local_port {
        ends.push(format!("most on local port {port}"));
    }
    if let Some(remote) = group.remote {
        ends.push(format!("most from {remote}"));
    }
    if !ends.is_empty() {
        text.push_str(&format!("\n{}", ends.join(", ")));
    }
    let severity = match of_files {
        Some((share, _)) if share >= MIN_SHARE_CRITICAL => Severity::Critical,
        _ => Severity::Warning,
    };
    let rate = share(increase as f64, evidence.window.seconds());
    let seconds_left = of_files.filter(|_| rate > 0.0).map(|(_, limit)| {
        let open = known.and_then(|p| p.open_files).map_or(group.count.last, |open| open.last);
        limit.saturating_sub(open) as f64 / rate
    });
    let mut impact = format!("{} leaked", count(group.count.last, "socket"));
    if increase > 0 {
        impact.push_str(&format!(", {} of them in the window", number(increase)));
    }
    if let Some(seconds) = seconds_left {
        let seconds = seconds.round() as u64;
        let left = text::duration(std::time::Duration::from_secs(seconds));
        impact.push_str(&format!("; at this rate its file descriptors are used up in {left}"));
    }
    let sockets = CommandLine::new("ss -Htnp state close-wait");
    let check = match group.pid {
        Some(pid) => sockets.pipe("grep -c").arg(format!("pid={pid},")),
        None => sockets.pipe("wc -l"),
    };
    let mut restart = advice(format!("until then, restart {process}: that frees its sockets"));
    restart.needs_root = true;
    restart.reaches = Reach::AfterReload;
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("{process} never closes what its peers have closed"),
            "A process never closes what its peers have closed",
        ),
        severity,
        subject: subject(SubjectKind::Process, process.clone(), None, None, owners),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::SocketsLeaked,
            amount: group.count.last as f64,
            share: of_files.map(|(share, _)| share),
        },
        evidence: vec![
            proof(Source::Sockets, "proof", text)
                .over_window(evidence, "CLOSE_WAIT, first", group.count.first as f64, "sockets")
                .over_window(evidence, "CLOSE_WAIT, last", group.count.last as f64, "sockets")
                .over_window(evidence, "CLOSE_WAIT, closed", group.left as f64, "sockets"),
        ],
        checks: commands([check.in_netns(evidence)]),
        remedies: vec![
            advice(format!("{process} must call close() when read() returns 0: it is a bug in it")),
            restart,
        ],
        gain: gain::not_predictable("it costs nothing until no file descriptor is left"),
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::Gauge;

    use super::*;
    use crate::fixtures::{add_process, address, findings_of, gauge, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![leaking(gauge(10, 60))]
    }

    fn leaking(count: Gauge) -> Evidence {
        let mut evidence = healthy();
        add_process(&mut evidence, 7, "python3");
        evidence.sockets.as_mut().unwrap().close_wait.push(CloseWait {
            pid: Some(7),
            count,
            decreased: false,
            stayed: count.first,
            left: 0,
            settled: count.last,
            oldest_ms: Some(8_000),
            local_port: Some(8080),
            remote: Some(address("198.18.0.9:4000")),
        });
        evidence
    }

    fn group(evidence: &mut Evidence) -> &mut CloseWait {
        &mut evidence.sockets.as_mut().unwrap().close_wait[0]
    }

    #[test]
    fn fires_when_their_number_only_increases() {
        let finding = &findings_of(rule(&leaking(gauge(10, 60))))[0];
        assert_eq!(finding.subject.processes[0].name, "python3");
        assert_eq!(finding.impact.amount, 60.0);
        assert!(finding.impact.text.ends_with("used up in 3 min 15 s"), "{finding:?}");
        assert!(finding.impact.text.contains("50 of them in the window; at this rate its file"));
        assert_eq!(finding.remedies[0].reaches, Reach::Elsewhere);
    }

    #[test]
    fn fires_for_an_old_stock() {
        let mut evidence = leaking(gauge(700, 700));
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        group(&mut evidence).oldest_ms = Some(3_600_000);
        assert_eq!(findings_of(rule(&evidence))[0].severity, Severity::Critical);
    }

    #[test]
    fn stays_quiet_when_some_are_closed_or_few() {
        let mut evidence = leaking(gauge(10, 60));
        group(&mut evidence).left = 1;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = leaking(gauge(10, 60));
        group(&mut evidence).decreased = true;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        assert!(matches!(rule(&leaking(gauge(0, 4))), Verdict::RuledOut(_)));
        // A busy proxy: in the last sample, some that the peer has just closed.
        let mut evidence = leaking(gauge(0, 9));
        group(&mut evidence).settled = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = leaking(gauge(10, 60));
        remove_source(&mut evidence, Source::Sockets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = leaking(gauge(0, u64::MAX));
        evidence.window.duration_ms = 0;
        evidence.processes.as_mut().unwrap()[0].open_files_limit = Some(0);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
        evidence.processes = None;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
