//! # close-wait-leak
//!
//! ## What happens
//!
//! The peer has closed its end, the kernel has told the process, and the process
//! does not close its own: the socket stays in CLOSE_WAIT for as long as the
//! process lives. Each holds a file descriptor and memory; at the limit of open
//! files the process accepts and connects no more.
//!
//! ## Evidence
//!
//! - the sockets in CLOSE_WAIT of one process, looked at several times in the
//!   window: their number only grows, and none of them is ever closed; or
//! - a standing stock of them, all silent for more than a minute.
//!
//! ## Threshold
//!
//! Growth: at least 3 more at the end than at the beginning, never fewer at one
//! look than at the one before, none closed, and at least 5 that were there at the
//! last three looks: an application that closes late shows some that leave, and a
//! busy one some that have just come. Stock: at least 100 that
//! stayed through the window, the oldest silent for 60 s, which is longer than
//! servers wait before they close (nginx `keepalive_timeout` 75 s counts from the
//! last request, not from the peer's close).
//!
//! ## Looks like it, but is not
//!
//! - A few sockets in CLOSE_WAIT for moments: the process is about to close them.
//! - A half-closed connection: the peer has said all and still listens, the
//!   process still sends. Sockets that have something to send, or have sent since
//!   they were first seen in CLOSE_WAIT, are not counted.
//! - A process that is stopped or starved: its sockets leave when it runs again.
//! - FIN_WAIT_2 on the other end is the same leak, seen by the peer.
//!
//! ## Check by hand
//!
//! ```sh
//! ss -Htnp state close-wait | grep -o 'pid=[0-9]*' | sort | uniq -c
//! ```
//!
//! ## Mend
//!
//! It is a fault of the process: it must call close() when read() returns 0, also
//! on its error paths. No sysctl ends CLOSE_WAIT. Restarting the process frees
//! the sockets; a higher limit of open files buys time.
//!
//! ## References
//!
//! - RFC 9293, section 3.3.2 (CLOSE-WAIT)
//! - Stevens, TCP/IP Illustrated 1, section 18.6 (half-close and its states)

use model::{
    CloseWait, Evidence, Finding, Impact, ImpactUnit, Reach, Severity, Source, SubjectKind,
};
use text::{count, number, share};

use crate::Verdict;
use crate::make::{With as _, advice, proof, subject};
use crate::words::{command, name, processes};

/// Growth that is no accident.
const GROWTH: u64 = 3;
/// Sockets that have stayed for some looks, which make a growing number a leak.
const GROWING: u64 = 5;
/// Sockets that make a standing number a leak.
const STOCK: u64 = 100;
/// Silence of the oldest of them, milliseconds.
const SILENT_MS: u32 = 60_000;
/// Share of the open files that are leaked sockets, from which on it is critical.
const CRITICAL: f64 = 0.5;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let groups =
        evidence.sockets.as_ref().map(|sockets| &sockets.close_wait[..]).unwrap_or_default();
    let leaks = groups.iter().filter(|group| leaks(group));
    let findings = leaks.map(|group| finding(evidence, group)).collect();
    Verdict::of(findings, || {
        let most = groups.iter().map(|group| group.count.max).max().unwrap_or(0);
        format!("CLOSE_WAIT (at most {} of one process)", number(most))
    })
}

fn grows(group: &CloseWait) -> bool {
    group.count.samples >= 3
        && group.left == 0
        && !group.decreased
        && group.settled >= GROWING
        && group.count.last >= group.count.first.saturating_add(GROWTH)
}

fn leaks(group: &CloseWait) -> bool {
    let stands = group.stayed >= STOCK && group.oldest_ms.is_some_and(|ms| ms >= SILENT_MS);
    grows(group) || stands
}

fn finding(evidence: &Evidence, group: &CloseWait) -> Finding {
    let pids: Vec<u32> = group.pid.into_iter().collect();
    let who = processes(evidence, &pids);
    let process = name(&who).unwrap_or("a process").to_string();
    let grown = group.count.last.saturating_sub(group.count.first);
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
            "\nthe oldest has been silent for {} s",
            number(u64::from(ms / 1000))
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
        Some((share, _)) if share >= CRITICAL => Severity::Critical,
        _ => Severity::Warning,
    };
    let rate = share(grown as f64, evidence.window.seconds());
    let left = of_files.filter(|_| rate > 0.0).map(|(_, limit)| {
        let open = known.and_then(|p| p.open_files).map_or(group.count.last, |open| open.last);
        limit.saturating_sub(open) as f64 / rate
    });
    let mut impact = format!("{} held for nothing", count(group.count.last, "socket"));
    if grown > 0 {
        impact.push_str(&format!(", {} more in the window", number(grown)));
    }
    if let Some(seconds) = left {
        impact.push_str(&format!("; its files last for {} s more", number(seconds.round() as u64)));
    }
    let filter = match group.pid {
        Some(pid) => format!("ss -Htnp state close-wait | grep -c pid={pid},"),
        None => "ss -Htnp state close-wait | wc -l".to_string(),
    };
    let mut restart = advice(format!("until then: restart {process}; its sockets are freed"));
    restart.needs_root = true;
    restart.reaches = Reach::AfterReload;
    Finding {
        cause: "close-wait-leak".to_string(),
        title: format!("{process} never closes what its peers have closed"),
        severity,
        subject: subject(SubjectKind::Process, process.clone(), None, None, who),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::SocketsLeaked,
            amount: group.count.last as f64,
            share: of_files.map(|(share, _)| share),
        },
        evidence: vec![
            proof(Source::Sockets, "proof", text)
                .over(evidence, "CLOSE_WAIT, first", group.count.first as f64, "sockets")
                .over(evidence, "CLOSE_WAIT, last", group.count.last as f64, "sockets")
                .over(evidence, "CLOSE_WAIT, closed", group.left as f64, "sockets"),
        ],
        checks: vec![command(evidence, &filter)],
        remedies: vec![
            advice(format!("{process} must call close() when read() returns 0: a fault in it")),
            restart,
        ],
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use model::Gauge;

    use super::*;
    use crate::fixtures::{end, found, gauge, healthy, lose, process};

    fn leaking(count: Gauge) -> Evidence {
        let mut evidence = healthy();
        process(&mut evidence, 7, "python3");
        evidence.sockets.as_mut().unwrap().close_wait.push(CloseWait {
            pid: Some(7),
            count,
            decreased: false,
            stayed: count.first,
            left: 0,
            settled: count.last,
            oldest_ms: Some(8_000),
            local_port: Some(8080),
            remote: Some(end("198.18.0.9:4000")),
        });
        evidence
    }

    fn group(evidence: &mut Evidence) -> &mut CloseWait {
        &mut evidence.sockets.as_mut().unwrap().close_wait[0]
    }

    #[test]
    fn fires_when_they_only_grow() {
        let finding = &found(rule(&leaking(gauge(10, 60))))[0];
        assert_eq!(finding.subject.processes[0].name, "python3");
        assert_eq!(finding.impact.amount, 60.0);
        assert!(finding.impact.text.contains("50 more in the window; its files last for 195 s"));
        assert_eq!(finding.remedies[0].reaches, Reach::Elsewhere);
    }

    #[test]
    fn fires_for_an_old_standing_stock() {
        let mut evidence = leaking(gauge(700, 700));
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        group(&mut evidence).oldest_ms = Some(3_600_000);
        assert_eq!(found(rule(&evidence))[0].severity, Severity::Critical);
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
        // A busy proxy: at the last look, some that the peer has just closed.
        let mut evidence = leaking(gauge(0, 9));
        group(&mut evidence).settled = 0;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = leaking(gauge(10, 60));
        lose(&mut evidence, Source::Sockets);
        let verdict = crate::cause("close-wait-leak").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = leaking(gauge(0, u64::MAX));
        evidence.window.duration_ms = 0;
        evidence.processes.as_mut().unwrap()[0].open_files_limit = Some(0);
        assert_eq!(found(rule(&evidence)).len(), 1);
        evidence.processes = None;
        assert_eq!(found(rule(&evidence)).len(), 1);
    }
}
