//! # fd-exhausted
//!
//! ## What happens
//!
//! Every connection is an open file. A process that has reached its limit of
//! open files cannot accept, connect or open: accept() fails with EMFILE, and
//! clients wait in the accept queue until it overflows. When the whole host has
//! reached `fs.file-max`, every process fails with ENFILE.
//!
//! ## Evidence
//!
//! - the process's own log says `Too many open files` (errno 24, or 23 for the
//!   host), counted over the window; or
//! - its open files (`/proc/PID/fd`) are at its limit (`/proc/PID/limits`) while
//!   connections wait in the accept queue of a listener that it holds; or
//! - the first number of `fs.file-nr` has reached `fs.file-max`.
//!
//! ## Threshold
//!
//! At the limit means no more than one file below it, since accept() needs one. A
//! process that sits at its limit with nobody waiting is no finding: it may have
//! opened all it needs. The queue must not be empty in the mean over the window.
//!
//! ## Looks like it, but is not
//!
//! - close-wait-leak: sockets that are never closed use up the files; when it is
//!   seen for the same process, this is its effect.
//! - accept-queue-overflow: the process has files left but accepts too slowly.
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
//! ## Mend
//!
//! `prlimit --pid PID --nofile=N:N` reaches the running process. To keep it:
//! `LimitNOFILE=N` in the systemd unit, `worker_rlimit_nofile N;` for nginx,
//! `rlimit_files = N` for php-fpm, `ulimit -n N` in a shell. A process may not have
//! more than `fs.nr_open`, the host not more than `fs.file-max`.
//!
//! ## References
//!
//! - accept(2), getrlimit(2), proc_sys_fs(5)

use model::{
    Complaint, Evidence, Finding, Impact, ImpactUnit, Listener, Meaning, Process, ProcessName,
    Reach, Remedy, Severity, Source, SubjectKind,
};
use text::{count, number};

use crate::Verdict;
use crate::applications;
use crate::make::{WithFigures as _, advice, config, proof, subject, sysctl};

/// Files that may be left at the limit: accept() needs one.
const LEFT: u64 = 1;
/// The limit that is proposed is this many times the present one, and at least [`LEAST`].
const TIMES: u64 = 4;
/// systemd's own soft limit for services that ask for more is 524288; servers commonly run with
/// this.
const LEAST: u64 = 65_536;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.processes.as_deref().unwrap_or_default();
    let mut findings: Vec<Finding> = Vec::new();
    for (log, complaint) in complaints(evidence) {
        // The workers that are at their limit; if that has passed, all that write this log.
        let writers = || all.iter().filter(|p| log.pids.contains(&p.pid));
        let mut who: Vec<&Process> = writers().filter(|p| at_limit(p)).collect();
        if who.is_empty() {
            who = writers().collect();
        }
        findings.push(of_processes(evidence, &who, &log.application, Some((&log.path, complaint))));
    }
    for process in all.iter().filter(|p| at_limit(p)) {
        let told =
            findings.iter().any(|f| f.subject.processes.iter().any(|p| p.pid == process.pid));
        if !told && waiting(evidence, process).is_some() {
            findings.push(of_processes(evidence, &[process], &process.name, None));
        }
    }
    if let Some((open, max)) = host(evidence).filter(|(open, max)| open >= max) {
        findings.push(of_host(evidence, open, max));
    }
    Verdict::from_findings(findings, || fullest(all))
}

fn complaints(evidence: &Evidence) -> impl Iterator<Item = (&model::AppLog, &Complaint)> {
    let logs = evidence.logs.as_deref().unwrap_or_default().iter();
    logs.flat_map(|log| log.complaints.iter().map(move |complaint| (log, complaint)))
        .filter(|(_, complaint)| complaint.meaning == Meaning::TooManyOpenFiles)
}

fn at_limit(process: &Process) -> bool {
    match (process.open_files, process.open_files_limit) {
        (Some(open), Some(limit)) => open.max.saturating_add(LEFT) >= limit && open.samples > 0,
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

fn fullest(all: &[Process]) -> String {
    let known = all.iter().filter_map(|p| Some((p, p.open_files?.max, p.open_files_limit?)));
    match known.max_by(|a, b| {
        (a.1 as f64 / a.2.max(1) as f64).total_cmp(&(b.1 as f64 / b.2.max(1) as f64))
    }) {
        Some((p, open, limit)) => {
            format!("open files ({}: {} of {})", p.name, number(open), number(limit))
        }
        None => "open files".to_string(),
    }
}

fn of_processes(
    evidence: &Evidence,
    who: &[&Process],
    application: &str,
    complaint: Option<(&str, &Complaint)>,
) -> Finding {
    let fullest = who.iter().copied().max_by_key(|p| p.open_files.map_or(0, |open| open.max));
    let limit = fullest.and_then(|p| p.open_files_limit);
    let name = fullest.map_or(application, |p| p.name.as_str()).to_string();
    let mut proofs = Vec::new();
    if let Some((process, open)) = fullest.and_then(|p| Some((p, p.open_files?))) {
        let of = limit.map_or_else(|| "unlimited".to_string(), number);
        proofs.push(
            proof(
                Source::Processes,
                "files",
                format!(
                    "{} (pid {}) has {} of {of} files open at most",
                    process.name,
                    process.pid,
                    number(open.max)
                ),
            )
            .over_window(evidence, "open files, most", open.max as f64, "files")
            .at_moment("open files, limit", limit.unwrap_or(0) as f64, "files"),
        );
    }
    if let Some((path, complaint)) = complaint {
        proofs.push(
            proof(
                Source::Logs,
                "log",
                format!(
                    "{path}: {} of «Too many open files», the first:\n{}",
                    count(complaint.count, "line"),
                    complaint.first_line
                ),
            )
            .over_window(evidence, "failures logged", complaint.count as f64, "lines"),
        );
    }
    let queue = who.iter().find_map(|process| waiting(evidence, process));
    if let Some(listener) = queue {
        proofs.push(
            proof(
                Source::Listeners,
                "queue",
                format!(
                    "{} of {} connections wait to be accepted on {}",
                    number(listener.queue.last),
                    number(u64::from(listener.limit)),
                    listener.local
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
        (0, stuck) => format!("{} not accepted", count(stuck, "waiting connection")),
        (failures, 0) => format!("{} to accept, connect or open", count(failures, "failure")),
        (failures, stuck) => format!(
            "{} to accept, connect or open; {} not accepted",
            count(failures, "failure"),
            count(stuck, "waiting connection")
        ),
    };
    let pid = fullest.map(|p| p.pid);
    Finding {
        cause: "fd-exhausted".to_string(),
        title: format!("{name} has no file descriptor left: connections wait or fail"),
        severity: Severity::Critical,
        subject: subject(
            SubjectKind::Process,
            name.clone(),
            queue.map(|listener| listener.local),
            None,
            who.iter().map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect(),
        ),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::ConnectionsLost,
            amount: failures.max(stuck) as f64,
            share: None,
        },
        evidence: proofs,
        checks: match pid {
            Some(pid) => vec![
                format!("ls /proc/{pid}/fd | wc -l"),
                format!("grep 'open files' /proc/{pid}/limits"),
            ],
            None => vec!["sysctl fs.file-nr".to_string()],
        },
        remedies: remedies(evidence, who, application, pid, limit),
        also_causes: Vec::new(),
    }
}

fn remedies(
    evidence: &Evidence,
    who: &[&Process],
    application: &str,
    pid: Option<u32>,
    limit: Option<u64>,
) -> Vec<Remedy> {
    let most = evidence.sysctl_number("fs.nr_open").unwrap_or(u64::MAX);
    let wanted = limit.unwrap_or(0).saturating_mul(TIMES).max(LEAST).min(most);
    let mut all = Vec::new();
    if let Some(pid) = pid {
        let mut running = advice(format!("raise the limit of the running process to {wanted}"));
        running.command = Some(format!("prlimit --pid {pid} --nofile={wanted}:{wanted}"));
        running.needs_root = true;
        running.reaches = Reach::Everything;
        running.note = Some("until it restarts; and for each worker".to_string());
        all.push(running);
    }
    let pids: Vec<u32> = who.iter().map(|p| p.pid).collect();
    let (setting, value) = match application {
        "nginx" => ("worker_rlimit_nofile", format!("worker_rlimit_nofile {wanted};")),
        "php-fpm" => ("rlimit_files", format!("rlimit_files = {wanted}")),
        _ => ("LimitNOFILE", format!("LimitNOFILE={wanted} in its systemd unit")),
    };
    let place = applications::settings(evidence, &pids, setting).next().map(applications::place);
    let at = place.as_ref().map(|place| format!("{place}  ")).unwrap_or_default();
    all.push(config(application, place, setting, &wanted.to_string(), format!("{at}{value}")));
    all
}

fn of_host(evidence: &Evidence, open: u64, max: u64) -> Finding {
    Finding {
        cause: "fd-exhausted".to_string(),
        title: "The host has no file descriptor left: every process fails to open".to_string(),
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
        checks: vec!["sysctl fs.file-nr fs.file-max".to_string()],
        remedies: vec![sysctl(
            evidence,
            "fs.file-max",
            &max.saturating_mul(TIMES).to_string(),
            Reach::Everything,
        )],
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        add_complaint, add_listener, add_process, findings_of, gauge, healthy, remove_source,
        set_sysctl,
    };

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
        assert!(finding.evidence[0].text.contains("64 of 64 files open"));
        let command = finding.remedies[0].command.as_deref();
        assert_eq!(command, Some("prlimit --pid 7 --nofile=65536:65536"));
    }

    #[test]
    fn fires_once_for_what_the_log_says_too() {
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
    fn stays_quiet_at_the_limit_when_nobody_waits() {
        let mut evidence = full();
        evidence.listeners.as_mut().unwrap()[0].queue = gauge(0, 0);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_processes_unless_the_log_says_so() {
        let mut evidence = full();
        remove_source(&mut evidence, Source::Processes);
        let judge = |evidence: &Evidence| crate::cause("fd-exhausted").unwrap().judge(evidence);
        assert!(matches!(judge(&evidence), Verdict::Undecided { .. }));
        add_complaint(&mut evidence, "nginx", Meaning::TooManyOpenFiles, None, 42, &[7]);
        assert!(matches!(judge(&evidence), Verdict::Found(_)));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = full();
        let odd = add_process(&mut evidence, 8, "odd");
        odd.open_files = Some(gauge(u64::MAX, u64::MAX));
        odd.open_files_limit = Some(0);
        set_sysctl(&mut evidence, "fs.file-nr", "");
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
