//! # worker-pool-exhausted
//!
//! ## What happens
//!
//! An application serves at most as many requests at once as it has workers or
//! slots. When all are busy, requests wait in front of it although the host is
//! idle: clients wait, give up (499), or get 502 or 504.
//!
//! ## Evidence
//!
//! - the application's own log in the window: php-fpm `server reached
//!   pm.max_children`, Apache `MaxRequestWorkers`, nginx `worker_connections are
//!   not enough`; or
//! - as many workers of a php-fpm pool as `pm.max_children` allows, while
//!   connections wait in the pool's listen queue: php-fpm logs its line once, and
//!   not again until the pool has recovered;
//! - the share of 499, 502 and 504 in the web server's access log.
//!
//! ## Threshold
//!
//! The log line is the application's own verdict. Without it, the pool must be at
//! its limit, and requests must wait in 8 of 10 samples and at the end, on average
//! one for every four workers: by Little's law, a request then waits for at least a
//! quarter of the time that it is served. Workers that compute, or wait for a CPU,
//! more than half of their time are short of CPU, not of workers. Critical from 1 %
//! of failed requests on, or with a queue longer than the pool.
//!
//! ## Looks like it, but is not
//!
//! - fd-exhausted, ephemeral-ports-exhausted: workers are free but cannot be
//!   reached; the web server's error log says which.
//! - accept-queue-overflow of the pool's listener is the effect of this.
//! - A pool whose workers use whole CPUs: more workers serve no more requests.
//!
//! ## Check by hand
//!
//! ```sh
//! grep -c max_children /var/log/php*-fpm.log
//! ss -lnt; ss -lnx | grep fpm     # Recv-Q: requests that wait
//! ps -o pid,stat,time,wchan:20,cmd -C php-fpm8.2
//! ```
//!
//! ## Fix
//!
//! Raise the limit (`pm.max_children`, `worker_connections`, `MaxRequestWorkers`)
//! as far as memory allows: the memory for the pool divided by what one worker
//! uses. Or make requests shorter: what do the workers wait for? No sysctl helps.
//!
//! ## Expected gain
//!
//! Where requests fail: the share of them that does (model «failures»). Otherwise
//! requests answered a second: as many more as there are requests that wait for
//! each worker (model «pool», Little's law). Not predictable where the CPU limits
//! the workers, or no access log says how many requests are answered.
//!
//! ## References
//!
//! - <https://www.php.net/manual/en/install.fpm.configuration.php>
//! - <https://nginx.org/en/docs/ngx_core_module.html#worker_connections>

use model::{
    AppLog, Command, Complaint, Evidence, Finding, GainFigure, Gauge, Impact, ImpactUnit, Meaning,
    Process, ProcessName, Proof, Remedy, Setting, Severity, Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::access_logs::{Responses, responses};
use crate::applications;
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, config_line};
use crate::words::{line, shortened, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "worker-pool-exhausted",
    title: "an application has no free worker, requests wait",
    slows: Slows::Requests,
    needs: &[&[Source::Processes, Source::Logs]],
    rule,
    source: include_str!("worker_pool_exhausted.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of failed requests from which on the finding is critical.
const MIN_FAILED_SHARE_CRITICAL: f64 = 0.01;
/// Share of the workers' time on a CPU, or waiting for one, from which on more workers serve no more
/// requests.
const MIN_CPU_BOUND_SHARE: f64 = 0.5;
/// Share of the samples in which requests wait.
const MIN_WAITING_SHARE: f64 = 0.8;
/// Requests that wait on average, for each worker.
const MIN_WAITING_PER_WORKER: f64 = 0.25;
/// Most characters of a pool's name in the list of what is ruled out.
const MAX_POOL_CHARACTERS: usize = 24;
/// The limit that is proposed where the present one is not known.
const DEFAULT_PROPOSED: u64 = 4096;
/// The limit that is proposed, as a multiple of the present one.
const PROPOSED_FACTOR: u64 = 4;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let pools: Vec<Pool<'_>> = pools(evidence);
    let full =
        pools.iter().filter(|pool| pool.logged.is_some() || pool.is_full_with_requests_waiting());
    let mut findings: Vec<Finding> = full.map(|pool| of_pool(evidence, pool)).collect();
    for (log, complaint) in complaints(evidence) {
        let logged = pools.iter().filter_map(|pool| pool.logged);
        let of_a_pool = logged.into_iter().any(|(_, logged)| std::ptr::eq(logged, complaint));
        if !of_a_pool {
            findings.push(of_log(evidence, log, complaint));
        }
    }
    Verdict::from_findings(findings, || {
        let fullest = pools.iter().filter(|p| p.max_children.is_some()).max_by(|a, b| {
            share(a.workers.len() as f64, a.max_children.unwrap_or(0) as f64)
                .total_cmp(&share(b.workers.len() as f64, b.max_children.unwrap_or(0) as f64))
        });
        match fullest {
            Some(pool) => Verdict::RuledOut(format!(
                "workers (php-fpm {}: {} of {})",
                shortened(pool.name, MAX_POOL_CHARACTERS),
                number(pool.workers.len() as u64),
                number(pool.max_children.unwrap_or(0))
            )),
            None => match evidence.logs.as_ref().map_or(0, Vec::len) {
                0 => Verdict::not_checked("no worker pool, and no log of an application"),
                logs => Verdict::RuledOut(format!(
                    "workers (0 complaints in {})",
                    count(logs as u64, "log")
                )),
            },
        }
    })
}

fn complaints(evidence: &Evidence) -> impl Iterator<Item = (&AppLog, &Complaint)> {
    let logs = evidence.logs.as_deref().unwrap_or_default().iter();
    logs.flat_map(|log| log.complaints.iter().map(move |complaint| (log, complaint))).filter(
        |(_, complaint)| {
            let meaning = complaint.meaning;
            matches!(meaning, Meaning::WorkerLimitReached | Meaning::WorkerConnectionsNotEnough)
        },
    )
}

/// A php-fpm pool.
struct Pool<'a> {
    name: &'a str,
    /// Process id of the master.
    master: u32,
    workers: Vec<&'a Process>,
    /// `pm.max_children`, and where it is set.
    max_children: Option<u64>,
    setting: Option<&'a Setting>,
    queue: Option<Queue>,
    /// What the log says about it.
    logged: Option<(&'a AppLog, &'a Complaint)>,
}

/// The queue of a pool's listener.
struct Queue {
    name: String,
    local: Option<std::net::SocketAddr>,
    length: Gauge,
    samples_waiting: u32,
    limit: u32,
}

impl Pool<'_> {
    fn is_full_with_requests_waiting(&self) -> bool {
        let workers = self.workers.len() as f64;
        let requests_wait = self.queue.as_ref().is_some_and(|queue| {
            let samples = f64::from(queue.length.samples);
            share(f64::from(queue.samples_waiting), samples) >= MIN_WAITING_SHARE
                && queue.length.mean >= (MIN_WAITING_PER_WORKER * workers).max(1.0)
                && queue.length.last > 0
        });
        let full = self.max_children.is_some_and(|max| max > 0 && workers >= max as f64);
        full && requests_wait && self.cpu_share() < MIN_CPU_BOUND_SHARE
    }

    /// Share of the workers' time on a CPU or waiting for one.
    fn cpu_share(&self) -> f64 {
        let busy = self.workers.iter().map(|p| p.cpu_ms + p.run_delay_ms.unwrap_or(0.0)).sum();
        share(busy, self.workers.iter().map(|p| p.observed_ms as f64).sum())
    }
}

fn pools(evidence: &Evidence) -> Vec<Pool<'_>> {
    let mut pools: Vec<Pool<'_>> = Vec::new();
    for process in evidence.processes.as_deref().unwrap_or_default() {
        let Some(name) = pool_of(process) else {
            continue;
        };
        match pools.iter_mut().find(|p| p.name == name && p.master == process.parent) {
            Some(pool) => pool.workers.push(process),
            None => pools.push(Pool {
                name,
                master: process.parent,
                workers: vec![process],
                max_children: None,
                setting: None,
                queue: None,
                logged: None,
            }),
        }
    }
    for pool in &mut pools {
        let pids: Vec<u32> = pool.workers.iter().map(|p| p.pid).collect();
        let setting = applications::family(evidence, &pids)
            .filter_map(|p| p.application.as_ref())
            .flat_map(|a| &a.settings)
            .find(|s| s.name == "pm.max_children" && s.section == pool.name);
        pool.max_children = setting.and_then(|s| s.value.trim().parse().ok());
        pool.setting = setting;
        pool.queue = queue(evidence, &pids);
        pool.logged = complaints(evidence).find(|(log, complaint)| {
            complaint.about.as_deref() == Some(pool.name)
                && (log.pids.contains(&pool.master) || log.pids.iter().any(|p| pids.contains(p)))
        });
    }
    pools
}

fn pool_of(process: &Process) -> Option<&str> {
    let application = process.application.as_ref()?;
    (application.name == "php-fpm" && application.role == "worker")
        .then_some(application.pool.as_deref())
        .flatten()
}

/// The listener that all these workers own: each worker of a pool owns the listener of its pool only.
fn queue(evidence: &Evidence, pids: &[u32]) -> Option<Queue> {
    let owned = |owners: &[u32]| pids.iter().all(|pid| owners.contains(pid));
    let tcp = evidence.listeners.as_deref().unwrap_or_default().iter();
    let tcp = tcp.filter(|l| owned(&l.pids)).map(|l| Queue {
        name: l.local.to_string(),
        local: Some(l.local),
        length: l.queue,
        samples_waiting: l.samples_waiting,
        limit: l.limit,
    });
    let unix = evidence.unix_listeners.as_deref().unwrap_or_default().iter();
    let unix = unix.filter(|l| owned(&l.pids)).map(|l| Queue {
        name: line(&l.path),
        local: None,
        length: l.queue,
        samples_waiting: l.samples_waiting,
        limit: l.limit,
    });
    tcp.chain(unix).max_by(|a, b| a.length.mean.total_cmp(&b.length.mean))
}

fn impact(responses: Option<&Responses>, waiting: Option<&Queue>) -> Impact {
    let waits = waiting.filter(|queue| queue.length.max > 0).map(|queue| {
        format!(
            "up to {} waited at a time, {} on average",
            count(queue.length.max, "request"),
            number(queue.length.mean.round() as u64)
        )
    });
    let failed = responses.filter(|a| a.failed > 0.0).map(Responses::text);
    let text = match (failed, waits) {
        (Some(failed), Some(waits)) => format!("{failed}; {waits}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "requests waited for a worker".to_string(),
    };
    let waited = waiting.map_or(0, |queue| queue.length.max) as f64;
    Impact {
        text,
        unit: ImpactUnit::RequestsFailed,
        amount: responses.map_or(0.0, |a| a.failed).max(waited),
        share: responses.map(Responses::share),
    }
}

fn of_pool(evidence: &Evidence, pool: &Pool<'_>) -> Finding {
    let responses = responses(evidence);
    let workers = pool.workers.len() as u64;
    let full = pool.max_children.is_some_and(|max| workers >= max);
    let mut proofs = Vec::new();
    let limit = pool.max_children.map_or_else(|| "unknown".to_string(), number);
    let place = pool.setting.map(|setting| format!(" ({})", applications::place(setting)));
    let place = place.unwrap_or_default();
    proofs.push(
        proof(
            Source::Processes,
            "pool",
            format!("{}, pm.max_children is {limit}{place}", count(workers, "worker")),
        )
        .at_moment("workers", workers as f64, "processes")
        .at_moment("pm.max_children", pool.max_children.unwrap_or(0) as f64, "processes"),
    );
    if let Some(queue) = &pool.queue {
        proofs.push(
            proof(
                Source::Listeners,
                "queue",
                format!(
                    "{}: {} waiting on average, up to {}, limit {}",
                    queue.name,
                    number(queue.length.mean.round() as u64),
                    number(queue.length.max),
                    number(u64::from(queue.limit))
                ),
            )
            .over_window(evidence, "queue, mean", queue.length.mean, "connections")
            .over_window(
                evidence,
                "queue, longest",
                queue.length.max as f64,
                "connections",
            ),
        );
    }
    if let Some((log, complaint)) = pool.logged {
        proofs.push(logged_lines(evidence, log, complaint));
    }
    if let Some(responses) = &responses {
        proofs.push(responses.proof(evidence));
    }
    let cpu_share = pool.cpu_share();
    let cpu_bound = cpu_share >= MIN_CPU_BOUND_SHARE;
    let so = if cpu_bound {
        "more workers would serve no more requests"
    } else {
        "the rest of it they wait for something else"
    };
    proofs.push(
        proof(
            Source::Processes,
            "why",
            format!(
                "the workers compute, or wait for a CPU, {} of their time: {so}",
                percent(cpu_share.min(1.0))
            ),
        )
        .over_window(
            evidence,
            "share of the workers' time on a CPU or waiting",
            cpu_share,
            "1",
        ),
    );
    let long = pool.queue.as_ref().is_some_and(|q| q.length.max > workers);
    let failing = responses.as_ref().is_some_and(|a| a.share() >= MIN_FAILED_SHARE_CRITICAL);
    let severity = if failing || (full && long) { Severity::Critical } else { Severity::Warning };
    let owners =
        pool.workers.iter().map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect();
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("php-fpm pool {} has no free worker: requests wait or fail", pool.name),
            "A php-fpm pool has no free worker: requests wait or fail",
        ),
        severity,
        subject: subject(
            SubjectKind::Process,
            format!("php-fpm pool {}", line(pool.name)),
            pool.queue.as_ref().and_then(|queue| queue.local),
            None,
            owners,
        ),
        impact: impact(responses.as_ref(), pool.queue.as_ref()),
        evidence: proofs,
        checks: pool_checks(pool),
        remedies: pool_remedies(pool, cpu_bound),
        gain: match (&pool.queue, &responses) {
            _ if cpu_bound => gain::not_predictable("the CPU limits the workers"),
            (_, Some(all)) if failing => {
                gain::of_failures(GainFigure::FailedRequests, all.failed, all.requests)
            }
            (Some(queue), Some(all)) => {
                let per_second = share(all.requests, evidence.window.seconds());
                gain::of_more_workers(per_second, workers as f64, queue.length.mean)
            }
            _ => gain::not_predictable("no access log says how many requests are answered"),
        },
        also_causes: Vec::new(),
    }
}

fn pool_checks(pool: &Pool<'_>) -> Vec<Command> {
    let queue = match pool.queue.as_ref().and_then(|queue| queue.local) {
        Some(local) => CommandLine::new("ss -ltn").arg(format!("sport = :{}", local.port())),
        None => CommandLine::new("ss -lxn").pipe("grep -e Recv-Q -e fpm"),
    };
    let log = pool
        .logged
        .and_then(|(log, _)| CommandLine::new("grep -e max_children --").arg(&log.path).here());
    let workers = CommandLine::new("pgrep -c -P").arg(pool.master);
    commands([workers.here(), queue.here(), log])
}

fn pool_remedies(pool: &Pool<'_>, cpu_bound: bool) -> Vec<Remedy> {
    let mut all = Vec::new();
    if !cpu_bound {
        // Enough for those that work and those that wait; the average, since a burst may wait.
        let waiting = pool.queue.as_ref().map_or(0.0, |queue| queue.length.mean).ceil() as u64;
        let workers = pool.max_children.unwrap_or(pool.workers.len() as u64);
        let wanted = workers.saturating_add(waiting).max(workers.saturating_mul(2));
        let raise = config_line("php-fpm", pool.setting, "pm.max_children", &wanted.to_string());
        all.extend(raise.map(|raise| {
            raise.noted("at most the memory for the pool / the RSS of one worker (ps -o rss)")
        }));
    }
    all.push(advice("make requests shorter: what do the workers wait for (slowlog, strace -p)?"));
    all
}

fn logged_lines(evidence: &Evidence, log: &AppLog, complaint: &Complaint) -> Proof {
    let (path, first) = (line(&log.path), line(&complaint.first_line));
    let text = format!("{path}: {}, the first:\n{first}", count(complaint.count, "line"));
    proof(Source::Logs, "log", text).over_window(
        evidence,
        "lines logged",
        complaint.count as f64,
        "lines",
    )
}

fn of_log(evidence: &Evidence, log: &AppLog, complaint: &Complaint) -> Finding {
    let responses = responses(evidence);
    let connections = complaint.meaning == Meaning::WorkerConnectionsNotEnough;
    let (setting, slot) = match (log.application.as_str(), connections) {
        (_, true) => ("worker_connections", "connection slot"),
        ("apache", _) => ("MaxRequestWorkers", "worker"),
        ("postgresql", _) => ("max_connections", "connection slot"),
        _ => ("pm.max_children", "worker"),
    };
    let known = applications::settings(evidence, &log.pids, setting).next();
    let now: Option<u64> = known.and_then(|s| s.value.trim().parse().ok());
    let wanted = now.map_or(DEFAULT_PROPOSED, |now| now.saturating_mul(PROPOSED_FACTOR));
    let remedy = config_line(&log.application, known, setting, &wanted.to_string());
    let name = line(&log.application);
    let mut proofs = vec![logged_lines(evidence, log, complaint)];
    proofs.extend(responses.as_ref().map(|responses| responses.proof(evidence)));
    let mut impact = impact(responses.as_ref(), None);
    if impact.amount == 0.0 {
        impact.text = format!("reported in its log {}", count(complaint.count, "time"));
        impact.amount = complaint.count as f64;
    }
    let failing =
        connections || responses.as_ref().is_some_and(|a| a.share() >= MIN_FAILED_SHARE_CRITICAL);
    let owners = log.pids.iter().filter_map(|pid| evidence.process(*pid));
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("{name} has no free {slot}: requests wait or fail"),
            "An application has no free worker: requests wait or fail",
        ),
        severity: if failing { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Process,
            match &complaint.about {
                Some(pool) => format!("{name} {}", line(pool)),
                None => name.clone(),
            },
            None,
            None,
            owners.map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect(),
        ),
        impact,
        evidence: proofs,
        checks: commands([CommandLine::new("tail -n 20 --").arg(&log.path).here()]),
        remedies: vec![
            remedy.unwrap_or_else(|| advice(format!("{name}: set {setting} to {wanted}"))),
        ],
        gain: gain::not_predictable("how many requests wait is not known"),
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Application, UnixListener};

    use super::*;
    use crate::fixtures::{
        add_access_log, add_complaint, add_listener, add_process, findings_of, gauge, healthy,
        remove_source,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut logged = pool(gauge(20, 40));
        add_complaint(&mut logged, "php-fpm", Meaning::WorkerLimitReached, Some("www"), 1, &[10]);
        add_access_log(&mut logged, &[3], &[(200, 90), (499, 6), (504, 4)]);
        let mut nginx = healthy();
        let meaning = Meaning::WorkerConnectionsNotEnough;
        add_complaint(&mut nginx, "nginx", meaning, None, 99, &[]);
        let mut other = healthy();
        add_complaint(&mut other, "other", Meaning::WorkerLimitReached, Some("x"), 9, &[]);
        vec![pool(gauge(20, 40)), logged, nginx, other]
    }

    const WORKERS: [u32; 5] = [11, 12, 13, 14, 15];

    fn pool(queue: Gauge) -> Evidence {
        let mut evidence = healthy();
        for pid in WORKERS {
            let worker = add_process(&mut evidence, pid, "php-fpm8.2");
            worker.parent = 10;
            worker.application = Some(Application {
                name: "php-fpm".into(),
                role: "worker".into(),
                pool: Some("www".into()),
                settings: vec![Setting {
                    name: "pm.max_children".into(),
                    value: "5".into(),
                    section: "www".into(),
                    file: "/etc/php/8.2/fpm/pool.d/www.conf".into(),
                    line: 124,
                }],
            });
        }
        let pool = add_listener(&mut evidence, "127.0.0.1:9000", 511, &WORKERS);
        pool.queue = queue;
        pool.samples_waiting = if queue.mean >= 1.0 { 95 } else { 0 };
        evidence
    }

    #[test]
    fn fires_when_all_workers_are_busy_and_requests_wait() {
        let mut evidence = pool(gauge(20, 40));
        add_access_log(&mut evidence, &[3], &[(200, 90), (499, 6), (504, 4)]);
        let findings = findings_of(rule(&evidence));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.subject.name, "php-fpm pool www");
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.impact.share, Some(0.1));
        assert!(finding.impact.text.contains("499: 6, 504: 4"), "{}", finding.impact.text);
        assert!(finding.remedies[0].text.ends_with("www.conf:124  pm.max_children = 35"));
    }

    #[test]
    fn fires_for_a_pool_on_a_unix_socket() {
        let mut evidence = pool(gauge(0, 0));
        evidence.unix_listeners = Some(vec![UnixListener {
            path: "/run/php/fpm.sock".into(),
            inode: 5,
            pids: [vec![10], WORKERS.to_vec()].concat(),
            limit: 511,
            queue: gauge(3, 9),
            samples_full: 0,
            samples_waiting: 100,
        }]);
        assert!(
            findings_of(rule(&evidence))[0].evidence[1].text.starts_with("/run/php/fpm.sock: 6")
        );
    }

    #[test]
    fn fires_once_with_the_log_of_the_pool() {
        let mut evidence = pool(gauge(0, 0));
        add_complaint(&mut evidence, "php-fpm", Meaning::WorkerLimitReached, Some("www"), 1, &[10]);
        let findings = findings_of(rule(&evidence));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Warning);
    }

    #[test]
    fn fires_for_nginx_without_connection_slots() {
        let mut evidence = healthy();
        let meaning = Meaning::WorkerConnectionsNotEnough;
        add_complaint(&mut evidence, "nginx", meaning, None, 99, &[]);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.impact.amount, 99.0);
        assert!(finding.remedies[0].text.ends_with("worker_connections 4096;"));
    }

    #[test]
    fn stays_quiet_when_a_full_pool_keeps_up() {
        for queue in [gauge(0, 0), Gauge { max: 1, last: 1, mean: 0.3, ..gauge(0, 0) }] {
            let evidence = pool(queue);
            let Verdict::RuledOut(because) = rule(&evidence) else { panic!() };
            assert_eq!(because, "workers (php-fpm www: 5 of 5)");
        }
    }

    #[test]
    fn stays_quiet_when_the_queue_empties_or_the_workers_compute() {
        let mut evidence = pool(gauge(4, 4));
        evidence.listeners.as_mut().unwrap()[0].samples_waiting = 70;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = pool(gauge(4, 4));
        for worker in evidence.processes.as_mut().unwrap() {
            worker.cpu_ms = 4_000.0;
            worker.run_delay_ms = Some(5_500.0);
        }
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_logs_unless_the_pool_is_full() {
        let judge = |e: &Evidence| CAUSE.judge(e);
        let mut evidence = pool(gauge(0, 0));
        remove_source(&mut evidence, Source::Logs);
        assert!(matches!(judge(&evidence), Verdict::Undecided { .. }));
        let mut evidence = pool(gauge(9, 9));
        remove_source(&mut evidence, Source::Logs);
        assert!(matches!(judge(&evidence), Verdict::Found(_)));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = pool(gauge(u64::MAX, u64::MAX));
        evidence.window.duration_ms = 0;
        evidence.host.cpus = 0;
        add_access_log(&mut evidence, &[], &[(502, 0)]);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
