//! # fd-exhausted
//!
//! ## What happens
//!
//! Every connection is an open file. A process that has reached its limit of open
//! files can neither accept nor connect nor open: accept() fails with EMFILE, and
//! clients wait in the accept queue until it overflows. When the whole host has
//! reached `fs.file-max`, every process fails with ENFILE.
//!
//! ## Evidence
//!
//! - the process's own log says `Too many open files` (errno 24, or 23 for the
//!   host) in the window; or
//! - its open files (`/proc/PID/fd`) are at its limit (`/proc/PID/limits`) while
//!   connections wait in the accept queue of a listener that it owns; or
//! - the first number of `fs.file-nr` has reached `fs.file-max`.
//!
//! ## Threshold
//!
//! At the limit means at most one file below it, since accept() needs one. A
//! process at its limit with no connection waiting is no finding: it may have
//! opened all that it needs. The queue must not be empty on average over the
//! window.
//!
//! ## Looks like it, but is not
//!
//! - close-wait-leak: sockets that are never closed use up the file descriptors.
//!   When it is found for the same process, this is its effect.
//! - accept-queue-overflow: the process has file descriptors left but accepts too
//!   slowly.
//! - `worker_connections are not enough` of nginx: worker-pool-exhausted.
//!
//! ## Check by hand
//!
//! ```sh
//! # of each process: open files, limit
//! for p in /proc/[0-9]*; do echo "$(ls $p/fd 2>/dev/null | wc -l) $(awk \
//!   '/Max open files/ {print $4}' $p/limits) $p"; done | sort -n | tail
//! sysctl fs.file-nr
//! ```
//!
//! ## Fix
//!
//! `prlimit --pid PID --nofile=N:N` raises the limit of the running process. To
//! keep it: `LimitNOFILE=N` in the systemd unit, `worker_rlimit_nofile N;` for
//! nginx, `rlimit_files = N` for php-fpm, `ulimit -n N` in a shell. No process may
//! have more than `fs.nr_open`, and the host not more than `fs.file-max`.
//!
//! ## Expected gain
//!
//! The share of the connections that fail (model «failures»: those logged, of
//! those and of the connections accepted). Not predictable where nothing logs
//! them, unless a consequence, such as an accept queue that overflows, has a gain
//! of its own.
//!
//! ## References
//!
//! - accept(2), getrlimit(2), proc_sys_fs(5)

use model::{
    Complaint, Evidence, Finding, GainFigure, Impact, ImpactUnit, Listener, Meaning, Process,
    ProcessName, Reach, Remedy, Severity, Source, SubjectKind,
};
use text::{count, number};

use crate::applications;
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, config_line, open_files_limit, sysctl_of_machine};
use crate::words::{line, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "fd-exhausted",
    title: "a process or the host has no file descriptor left",
    slows: Slows::Connections,
    needs: &[&[Source::Processes]],
    rule,
    source: include_str!("fd_exhausted.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Files that may be left at the limit: accept() needs one.
const MAX_LEFT: u64 = 1;
/// The limit that is proposed is so many times the present one, and at least [`MIN_PROPOSED`].
const PROPOSED_FACTOR: u64 = 4;
/// systemd's own soft limit for services that ask for more is 524288; servers commonly run with
/// this.
const MIN_PROPOSED: u64 = 65_536;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.processes.as_deref().unwrap_or_default();
    let mut findings: Vec<Finding> = Vec::new();
    for (log, complaint) in complaints(evidence) {
        // The workers that are at their limit; if they no longer are, all that write this log.
        let writers = || all.iter().filter(|p| log.pids.contains(&p.pid));
        let mut owners: Vec<&Process> = writers().filter(|p| at_limit(p)).collect();
        if owners.is_empty() {
            owners = writers().collect();
        }
        findings.push(of_processes(
            evidence,
            &owners,
            &log.application,
            Some((&log.path, complaint)),
        ));
    }
    for process in all.iter().filter(|p| at_limit(p)) {
        let named =
            findings.iter().any(|f| f.subject.processes.iter().any(|p| p.pid == process.pid));
        if !named && waiting(evidence, process).is_some() {
            findings.push(of_processes(evidence, &[process], &process.name, None));
        }
    }
    if let Some((open, max)) = host(evidence).filter(|(open, max)| open >= max) {
        findings.push(of_host(evidence, open, max));
    }
    Verdict::from_findings(findings, || fullest(evidence, all))
}

fn complaints(evidence: &Evidence) -> impl Iterator<Item = (&model::AppLog, &Complaint)> {
    let logs = evidence.logs.as_deref().unwrap_or_default().iter();
    logs.flat_map(|log| log.complaints.iter().map(move |complaint| (log, complaint)))
        .filter(|(_, complaint)| complaint.meaning == Meaning::TooManyOpenFiles)
}

fn at_limit(process: &Process) -> bool {
    match (process.open_files, process.open_files_limit) {
        (Some(open), Some(limit)) => open.max.saturating_add(MAX_LEFT) >= limit && open.samples > 0,
        _ => false,
    }
}

/// A listener of this process at which connections wait.
fn waiting<'a>(evidence: &'a Evidence, process: &Process) -> Option<&'a Listener> {
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    let mut own = listeners.iter().filter(|l| l.pids.contains(&process.pid));
    own.find(|l| l.queue.mean >= 1.0 && l.queue.last > 0)
}

/// Open files of the host and their limit.
fn host(evidence: &Evidence) -> Option<(u64, u64)> {
    let open = evidence.sysctl("fs.file-nr")?.split_ascii_whitespace().next()?.parse().ok()?;
    Some((open, evidence.sysctl_number("fs.file-max")?))
}

fn fullest(evidence: &Evidence, all: &[Process]) -> Verdict {
    let known = all.iter().filter_map(|p| Some((p, p.open_files?.max, p.open_files_limit?)));
    match known.max_by(|a, b| {
        (a.1 as f64 / a.2.max(1) as f64).total_cmp(&(b.1 as f64 / b.2.max(1) as f64))
    }) {
        Some((p, open, limit)) => Verdict::RuledOut(format!(
            "open files ({}: {} of {})",
            line(&p.name),
            number(open),
            number(limit)
        )),
        None => match host(evidence) {
            Some((open, _)) => Verdict::NotChecked(format!(
                "no process with a socket; {} open on this host",
                count(open, "file")
            )),
            None => Verdict::not_checked("no process with a socket"),
        },
    }
}

fn of_processes(
    evidence: &Evidence,
    owners: &[&Process],
    application: &str,
    complaint: Option<(&str, &Complaint)>,
) -> Finding {
    let fullest = owners.iter().copied().max_by_key(|p| p.open_files.map_or(0, |open| open.max));
    let limit = fullest.and_then(|p| p.open_files_limit);
    let name = line(fullest.map_or(application, |p| p.name.as_str()));
    let mut proofs = Vec::new();
    if let Some((process, open)) = fullest.and_then(|p| Some((p, p.open_files?))) {
        let of = limit.map_or_else(|| "unlimited".to_string(), number);
        proofs.push(
            proof(
                Source::Processes,
                "files",
                format!(
                    "{} (pid {}) has up to {} of {of} files open",
                    line(&process.name),
                    process.pid,
                    number(open.max)
                ),
            )
            .over_window(evidence, "open files, maximum", open.max as f64, "files")
            .at_moment("open files, limit", limit.unwrap_or(0) as f64, "files"),
        );
    }
    if let Some((path, complaint)) = complaint {
        proofs.push(
            proof(
                Source::Logs,
                "log",
                format!(
                    "{}: {} of «Too many open files», the first:\n{}",
                    line(path),
                    count(complaint.count, "line"),
                    line(&complaint.first_line)
                ),
            )
            .over_window(evidence, "failures logged", complaint.count as f64, "lines"),
        );
    }
    let queue = owners.iter().find_map(|process| waiting(evidence, process));
    if let Some(listener) = queue {
        proofs.push(
            proof(
                Source::Listeners,
                "queue",
                format!(
                    "{} to be accepted on {}, the limit is {}",
                    waiting_text(listener.queue.last),
                    listener.local,
                    number(u64::from(listener.limit)),
                ),
            )
            .over_window(
                evidence,
                "accept queue, mean",
                listener.queue.mean,
                "connections",
            ),
        );
    }
    let failures = complaint.map_or(0, |(_, complaint)| complaint.count);
    let stuck = queue.map_or(0, |listener| listener.queue.last);
    let impact = match (failures, stuck) {
        (0, stuck) => format!("{} to be accepted", waiting_text(stuck)),
        (failures, 0) => format!("{} to accept, connect or open", count(failures, "failure")),
        (failures, stuck) => format!(
            "{} to accept, connect or open; {} to be accepted",
            count(failures, "failure"),
            waiting_text(stuck)
        ),
    };
    let pid = fullest.map(|p| p.pid);
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("{name} has no file descriptor left: connections wait or fail"),
            "A process has no file descriptor left: connections wait or fail",
        ),
        severity: Severity::Critical,
        subject: subject(
            SubjectKind::Process,
            name.clone(),
            queue.map(|listener| listener.local),
            None,
            owners.iter().map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect(),
        ),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::ConnectionsLost,
            amount: failures.max(stuck) as f64,
            share: None,
        },
        evidence: proofs,
        checks: match pid {
            Some(pid) => commands([
                CommandLine::new("ls").arg(format!("/proc/{pid}/fd")).pipe("wc -l").here(),
                CommandLine::new("grep")
                    .arg("open files")
                    .arg(format!("/proc/{pid}/limits"))
                    .here(),
            ]),
            None => commands([CommandLine::new("sysctl fs.file-nr").here()]),
        },
        remedies: remedies(evidence, owners, application, fullest),
        gain: match failures {
            0 => gain::not_predictable("how many connections fail is not known: nothing logs it"),
            _ => {
                let opened = evidence.increase("TcpPassiveOpens").unwrap_or(0);
                let all = failures.saturating_add(opened) as f64;
                gain::of_failures(GainFigure::FailedConnections, failures as f64, all)
            }
        },
        also_causes: Vec::new(),
    }
}

/// `1 connection waits`, `200 connections wait`.
fn waiting_text(connections: u64) -> String {
    let wait = if connections == 1 { "waits" } else { "wait" };
    format!("{} {wait}", count(connections, "connection"))
}

fn remedies(
    evidence: &Evidence,
    owners: &[&Process],
    application: &str,
    fullest: Option<&Process>,
) -> Vec<Remedy> {
    let limit = fullest.and_then(|process| process.open_files_limit);
    let most = evidence.sysctl_number("fs.nr_open").unwrap_or(u64::MAX);
    let wanted = limit.unwrap_or(0).saturating_mul(PROPOSED_FACTOR).max(MIN_PROPOSED).min(most);
    let mut all = Vec::new();
    if let Some(process) = fullest {
        let running = open_files_limit(&process.name, process.pid, limit, wanted);
        all.push(running.noted("until it restarts; for each worker"));
    }
    let pids: Vec<u32> = owners.iter().map(|p| p.pid).collect();
    let (syntax, setting) = match application {
        "nginx" => ("nginx", "worker_rlimit_nofile"),
        "php-fpm" => ("php-fpm", "rlimit_files"),
        _ => ("systemd", "LimitNOFILE"),
    };
    let known = applications::settings(evidence, &pids, setting).next();
    if let Some(mut lasting) = config_line(syntax, known, setting, &wanted.to_string()) {
        if syntax == "systemd" {
            let unit = line(application);
            lasting.text = format!("in the systemd unit of {unit}: LimitNOFILE={wanted}");
        }
        all.push(lasting);
    }
    all
}

fn of_host(evidence: &Evidence, open: u64, max: u64) -> Finding {
    Finding {
        cause: CAUSE.id.to_string(),
        title: "The host has no file descriptor left: no process can open files".to_string(),
        severity: Severity::Critical,
        subject: subject(SubjectKind::Host, "this host's open files", None, None, Vec::new()),
        impact: Impact {
            text: format!("{} of {} files are open on this host", number(open), number(max)),
            unit: ImpactUnit::ConnectionsLost,
            amount: open as f64,
            share: None,
        },
        evidence: vec![
            proof(
                Source::Sysctls,
                "proof",
                format!("fs.file-nr {}, fs.file-max {}", number(open), number(max)),
            )
            .at_moment("fs.file-nr", open as f64, "files")
            .at_moment("fs.file-max", max as f64, "files"),
        ],
        checks: commands([CommandLine::new("sysctl fs.file-nr fs.file-max").here()]),
        remedies: vec![sysctl_of_machine(
            evidence,
            "fs.file-max",
            max.saturating_mul(PROPOSED_FACTOR),
            Reach::Everything,
        )],
        gain: gain::not_predictable("any program of the host may fail"),
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{
        add_complaint, add_listener, add_process, findings_of, gauge, healthy, remove_source,
        set_sysctl,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut logged = full();
        add_complaint(&mut logged, "nginx", Meaning::TooManyOpenFiles, None, 42, &[6, 7]);
        let mut host = healthy();
        set_sysctl(&mut host, "fs.file-max", "1024");
        vec![full(), logged, host]
    }

    fn full() -> Evidence {
        let mut evidence = healthy();
        let nginx = add_process(&mut evidence, 7, "nginx");
        nginx.open_files = Some(gauge(60, 64));
        nginx.open_files_limit = Some(64);
        let stuck = add_listener(&mut evidence, "0.0.0.0:80", 511, &[7]);
        stuck.queue = gauge(20, 200);
        evidence
    }

    #[test]
    fn fires_at_the_limit_while_connections_wait() {
        let finding = &findings_of(rule(&full()))[0];
        assert_eq!(finding.subject.processes[0].pid, 7);
        assert!(finding.evidence[0].text.contains("has up to 64 of 64 files open"));
        let command = &finding.remedies[0].command.as_ref().unwrap().argv[0];
        assert_eq!(command.join(" "), "prlimit --pid 7 --nofile=65536:65536");
        let line = "in the configuration of nginx: worker_rlimit_nofile 65536;";
        assert_eq!(finding.remedies[1].text, line);
    }

    #[test]
    fn fires_once_with_the_failures_of_the_log() {
        let mut evidence = full();
        add_complaint(&mut evidence, "nginx", Meaning::TooManyOpenFiles, None, 42, &[6, 7]);
        let findings = findings_of(rule(&evidence));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].impact.amount, 200.0);
        assert!(findings[0].impact.text.starts_with("42 failures"));
    }

    #[test]
    fn fires_for_the_host() {
        let mut evidence = healthy();
        set_sysctl(&mut evidence, "fs.file-max", "1024");
        assert_eq!(findings_of(rule(&evidence))[0].subject.kind, SubjectKind::Host);
    }

    #[test]
    fn stays_quiet_at_the_limit_when_no_connection_waits() {
        let mut evidence = full();
        evidence.listeners.as_mut().unwrap()[0].queue = gauge(0, 0);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_processes_unless_the_log_says_so() {
        let mut evidence = full();
        remove_source(&mut evidence, Source::Processes);
        let judge = |evidence: &Evidence| CAUSE.judge(evidence);
        assert!(matches!(judge(&evidence), Verdict::Undecided { .. }));
        add_complaint(&mut evidence, "nginx", Meaning::TooManyOpenFiles, None, 42, &[7]);
        assert!(matches!(judge(&evidence), Verdict::Found(_)));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = full();
        let odd = add_process(&mut evidence, 8, "odd");
        odd.open_files = Some(gauge(u64::MAX, u64::MAX));
        odd.open_files_limit = Some(0);
        set_sysctl(&mut evidence, "fs.file-nr", "");
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
