//! # worker-pool-exhausted
//!
//! ## What happens
//!
//! An application serves only as many requests at once as it has workers or
//! slots. When all are taken, requests wait in front of it, though the host is
//! idle: its clients wait, give up (499), or are told 502 or 504.
//!
//! ## Evidence
//!
//! - the application's own log in the window: php-fpm `server reached
//!   pm.max_children`, Apache `MaxRequestWorkers`, nginx `worker_connections are
//!   not enough`; or
//! - as many workers of a php-fpm pool as `pm.max_children` allows, while
//!   connections wait in the pool's listen queue: php-fpm logs its line once and
//!   then no more until the pool has recovered;
//! - the share of 499, 502 and 504 in the web server's access log.
//!
//! ## Threshold
//!
//! The log line is the application's own verdict. Without it the pool must be at
//! its limit, somebody must wait at 8 of 10 looks and at the end, and in the mean
//! one for every four workers: by Little's law a request then waits for a quarter
//! of the time that it is served, and longer. Workers that compute, or wait for a
//! CPU, for more than half of their time are short of CPU, not of workers. Critical
//! from 1 % of failed requests on, or with a queue longer than the pool.
//!
//! ## Looks like it, but is not
//!
//! - fd-exhausted, ephemeral-ports-exhausted: workers are free but cannot be
//!   reached; the web server's error log says which.
//! - accept-queue-overflow of the pool's listener is the effect of this.
//! - A pool whose workers use their CPUs whole: more workers serve no more.
//!
//! ## Check by hand
//!
//! ```sh
//! grep -c max_children /var/log/php*-fpm.log
//! ss -lnt; ss -lnx | grep fpm     # Recv-Q: requests that wait
//! ps -o pid,stat,time,wchan:20,cmd -C php-fpm8.2
//! ```
//!
//! ## Mend
//!
//! Raise the limit (`pm.max_children`, `worker_connections`, `MaxRequestWorkers`)
//! as far as memory allows: memory for the pool divided by what one worker holds.
//! Or make requests shorter: what do the workers wait for? No sysctl helps.
//!
//! ## References
//!
//! - <https://www.php.net/manual/en/install.fpm.configuration.php>
//! - <https://nginx.org/en/docs/ngx_core_module.html#worker_connections>

use model::{
    AppLog, Complaint, Evidence, Finding, Gauge, Impact, ImpactUnit, Meaning, Process, ProcessName,
    Proof, Remedy, Severity, Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::access_logs::{Responses, responses};
use crate::applications;
use crate::make::{WithFigures as _, advice, config, proof, subject};

/// From this share of failed requests on the finding is critical.
const CRITICAL: f64 = 0.01;
/// Share of the workers' time on a CPU or waiting for one, from which on more of them serve no
/// more.
const CPU_BOUND: f64 = 0.5;
/// Share of the looks at which somebody waits.
const WAITING: f64 = 0.8;
/// Requests that wait for each worker, in the mean.
const WAIT_FOR_EACH: f64 = 0.25;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let pools: Vec<Pool<'_>> = pools(evidence);
    let full = pools.iter().filter(|pool| pool.told.is_some() || pool.is_full_and_waited_for());
    let mut findings: Vec<Finding> = full.map(|pool| of_pool(evidence, pool)).collect();
    for (log, complaint) in complaints(evidence) {
        let told_with_its_pool = pools
            .iter()
            .filter_map(|pool| pool.told)
            .any(|(_, told)| std::ptr::eq(told, complaint));
        if !told_with_its_pool {
            findings.push(of_log(evidence, log, complaint));
        }
    }
    Verdict::from_findings(findings, || {
        let fullest = pools.iter().filter(|p| p.most.is_some()).max_by(|a, b| {
            share(a.workers.len() as f64, a.most.unwrap_or(0) as f64)
                .total_cmp(&share(b.workers.len() as f64, b.most.unwrap_or(0) as f64))
        });
        match fullest {
            Some(pool) => format!(
                "workers (php-fpm {}: {} of {})",
                pool.name,
                pool.workers.len(),
                number(pool.most.unwrap_or(0))
            ),
            None => "workers (no log complains)".to_string(),
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
    workers: Vec<&'a Process>,
    /// `pm.max_children` with its file and line.
    most: Option<u64>,
    place: Option<String>,
    queue: Option<Queue>,
    told: Option<(&'a AppLog, &'a Complaint)>,
}

/// The queue of a pool's listener.
struct Queue {
    name: String,
    local: Option<std::net::SocketAddr>,
    length: Gauge,
    looks_waiting: u32,
    limit: u32,
}

impl Pool<'_> {
    fn is_full_and_waited_for(&self) -> bool {
        let workers = self.workers.len() as f64;
        let waited_for = self.queue.as_ref().is_some_and(|queue| {
            let looks = f64::from(queue.length.samples);
            share(f64::from(queue.looks_waiting), looks) >= WAITING
                && queue.length.mean >= (WAIT_FOR_EACH * workers).max(1.0)
                && queue.length.last > 0
        });
        let full = self.most.is_some_and(|most| most > 0 && workers >= most as f64);
        full && waited_for && self.computing() < CPU_BOUND
    }

    /// Share of the workers' time on a CPU or waiting for one.
    fn computing(&self) -> f64 {
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
        match pools.iter_mut().find(|p| p.name == name && p.workers[0].parent == process.parent) {
            Some(pool) => pool.workers.push(process),
            None => pools.push(Pool {
                name,
                workers: vec![process],
                most: None,
                place: None,
                queue: None,
                told: None,
            }),
        }
    }
    for pool in &mut pools {
        let pids: Vec<u32> = pool.workers.iter().map(|p| p.pid).collect();
        let setting = applications::family(evidence, &pids)
            .filter_map(|p| p.application.as_ref())
            .flat_map(|a| &a.settings)
            .find(|s| s.name == "pm.max_children" && s.section == pool.name);
        pool.most = setting.and_then(|s| s.value.trim().parse().ok());
        pool.place = setting.map(applications::place);
        pool.queue = queue(evidence, &pids);
        let parent = pool.workers[0].parent;
        pool.told = complaints(evidence).find(|(log, complaint)| {
            complaint.about.as_deref() == Some(pool.name)
                && (log.pids.contains(&parent) || log.pids.iter().any(|p| pids.contains(p)))
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

/// The listener that all these workers hold: each worker of a pool holds that pool's only.
fn queue(evidence: &Evidence, pids: &[u32]) -> Option<Queue> {
    let holds = |holders: &[u32]| pids.iter().all(|pid| holders.contains(pid));
    let tcp = evidence.listeners.as_deref().unwrap_or_default().iter();
    let tcp = tcp.filter(|l| holds(&l.pids)).map(|l| Queue {
        name: l.local.to_string(),
        local: Some(l.local),
        length: l.queue,
        looks_waiting: l.samples_waiting,
        limit: l.limit,
    });
    let unix = evidence.unix_listeners.as_deref().unwrap_or_default().iter();
    let unix = unix.filter(|l| holds(&l.pids)).map(|l| Queue {
        name: l.path.clone(),
        local: None,
        length: l.queue,
        looks_waiting: l.samples_waiting,
        limit: l.limit,
    });
    tcp.chain(unix).max_by(|a, b| a.length.mean.total_cmp(&b.length.mean))
}

fn impact(answers: Option<&Responses>, waiting: Option<&Queue>) -> Impact {
    let waits = waiting.filter(|queue| queue.length.max > 0).map(|queue| {
        format!(
            "{} waited at a time, {} in the mean",
            count(queue.length.max, "request"),
            number(queue.length.mean.round() as u64)
        )
    });
    let failed = answers.filter(|a| a.failed > 0.0).map(Responses::text);
    let text = match (failed, waits) {
        (Some(failed), Some(waits)) => format!("{failed}; {waits}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "requests waited for a worker".to_string(),
    };
    let waited = waiting.map_or(0, |queue| queue.length.max) as f64;
    Impact {
        text,
        unit: ImpactUnit::RequestsFailed,
        amount: answers.map_or(0.0, |a| a.failed).max(waited),
        share: answers.map(Responses::share),
    }
}

fn of_pool(evidence: &Evidence, pool: &Pool<'_>) -> Finding {
    let answers = responses(evidence);
    let workers = pool.workers.len() as u64;
    let full = pool.most.is_some_and(|most| workers >= most);
    let mut proofs = Vec::new();
    let most = pool.most.map_or_else(|| "?".to_string(), number);
    let at = pool.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
    proofs.push(
        proof(
            Source::Processes,
            "pool",
            format!("{} of pm.max_children {most}{at}", count(workers, "worker")),
        )
        .at_moment("workers", workers as f64, "processes")
        .at_moment("pm.max_children", pool.most.unwrap_or(0) as f64, "processes"),
    );
    if let Some(queue) = &pool.queue {
        proofs.push(
            proof(
                Source::Listeners,
                "queue",
                format!(
                    "{}: {} waiting in the mean, {} at most, limit {}",
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
    if let Some((log, complaint)) = pool.told {
        proofs.push(said(evidence, log, complaint));
    }
    if let Some(answers) = &answers {
        proofs.push(answers.proof(evidence));
    }
    let computing = pool.computing();
    let cpu_bound = computing >= CPU_BOUND;
    let so =
        if cpu_bound { "more of them serve no more" } else { "else they wait, and not for a CPU" };
    proofs.push(
        proof(
            Source::Processes,
            "why",
            format!(
                "the workers compute, or wait for a CPU, {} of their time:\n{so}",
                percent(computing)
            ),
        )
        .over_window(
            evidence,
            "share of the workers' time on a CPU or waiting",
            computing,
            "1",
        ),
    );
    let long = pool.queue.as_ref().is_some_and(|q| q.length.max > workers);
    let failing = answers.as_ref().is_some_and(|a| a.share() >= CRITICAL);
    let severity = if failing || (full && long) { Severity::Critical } else { Severity::Warning };
    let who =
        pool.workers.iter().map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect();
    Finding {
        cause: "worker-pool-exhausted".to_string(),
        title: format!("php-fpm pool {} has no free worker: requests wait or fail", pool.name),
        severity,
        subject: subject(
            SubjectKind::Process,
            format!("php-fpm pool {}", pool.name),
            pool.queue.as_ref().and_then(|queue| queue.local),
            None,
            who,
        ),
        impact: impact(answers.as_ref(), pool.queue.as_ref()),
        evidence: proofs,
        checks: pool_checks(pool),
        remedies: pool_remedies(pool, cpu_bound),
        also_causes: Vec::new(),
    }
}

fn pool_checks(pool: &Pool<'_>) -> Vec<String> {
    let parent = pool.workers[0].parent;
    let mut checks = vec![format!("pgrep -c -P {parent}")];
    checks.push(match pool.queue.as_ref().and_then(|queue| queue.local) {
        Some(local) => format!("ss -ltn 'sport = :{}'", local.port()),
        None => "ss -lxn | grep -e Recv-Q -e fpm".to_string(),
    });
    if let Some((log, _)) = pool.told {
        checks.push(format!("grep max_children {}", log.path));
    }
    checks
}

fn pool_remedies(pool: &Pool<'_>, cpu_bound: bool) -> Vec<Remedy> {
    let mut all = Vec::new();
    if !cpu_bound {
        // Enough for those that work and those that wait; the mean, since a burst may wait.
        let waiting = pool.queue.as_ref().map_or(0.0, |queue| queue.length.mean).ceil() as u64;
        let workers = pool.most.unwrap_or(pool.workers.len() as u64);
        let wanted = workers.saturating_add(waiting).max(workers.saturating_mul(2));
        let at = pool.place.as_ref().map(|place| format!("{place}  ")).unwrap_or_default();
        let text = format!("{at}pm.max_children = {wanted}");
        let mut raise =
            config("php-fpm", pool.place.clone(), "pm.max_children", &wanted.to_string(), text);
        raise.note =
            Some("at most the memory for the pool / the RSS of one worker (ps -o rss)".to_string());
        all.push(raise);
    }
    all.push(advice("make requests shorter: what do the workers wait for (strace -p, slowlog)?"));
    all
}

fn said(evidence: &Evidence, log: &AppLog, complaint: &Complaint) -> Proof {
    proof(
        Source::Logs,
        "log",
        format!("{}: {}\n{}", log.path, count(complaint.count, "line"), complaint.first_line),
    )
    .over_window(evidence, "lines logged", complaint.count as f64, "lines")
}

fn of_log(evidence: &Evidence, log: &AppLog, complaint: &Complaint) -> Finding {
    let answers = responses(evidence);
    let connections = complaint.meaning == Meaning::WorkerConnectionsNotEnough;
    let (setting, what) = match (log.application.as_str(), connections) {
        (_, true) => ("worker_connections", "connection slot"),
        ("apache", _) => ("MaxRequestWorkers", "worker"),
        ("postgresql", _) => ("max_connections", "connection slot"),
        _ => ("pm.max_children", "worker"),
    };
    let known = applications::settings(evidence, &log.pids, setting).next();
    let now: Option<u64> = known.and_then(|s| s.value.trim().parse().ok());
    let wanted = now.map_or(4096, |now| now.saturating_mul(4));
    let place = known.map(applications::place);
    let at = place.as_ref().map(|place| format!("{place}  ")).unwrap_or_default();
    let remedy = config(
        &log.application,
        place,
        setting,
        &wanted.to_string(),
        format!("{at}{setting} {wanted}"),
    );
    let mut proofs = vec![said(evidence, log, complaint)];
    proofs.extend(answers.as_ref().map(|answers| answers.proof(evidence)));
    let mut impact = impact(answers.as_ref(), None);
    if impact.amount == 0.0 {
        impact.text = format!("{} of it in the log", count(complaint.count, "line"));
        impact.amount = complaint.count as f64;
    }
    let failing = connections || answers.as_ref().is_some_and(|a| a.share() >= CRITICAL);
    let who = log.pids.iter().filter_map(|pid| evidence.process(*pid));
    let name = &log.application;
    Finding {
        cause: "worker-pool-exhausted".to_string(),
        title: format!("{name} has no free {what}: requests wait or fail"),
        severity: if failing { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Process,
            complaint.about.as_ref().map_or_else(|| name.clone(), |pool| format!("{name} {pool}")),
            None,
            None,
            who.map(|p| ProcessName { name: p.name.clone(), pid: p.pid }).collect(),
        ),
        impact,
        evidence: proofs,
        checks: vec![format!("tail -n 20 {}", log.path)],
        remedies: vec![remedy],
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use model::{Application, Setting, UnixListener};

    use super::*;
    use crate::fixtures::{
        add_access_log, add_complaint, add_listener, add_process, findings_of, gauge, healthy,
        remove_source,
    };

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
    fn fires_when_all_workers_are_taken_and_requests_wait() {
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
        assert!(finding.remedies[0].text.contains("worker_connections 4096"));
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
    fn undecided_without_logs_unless_the_pool_is_seen_full() {
        let judge = |e: &Evidence| crate::cause("worker-pool-exhausted").unwrap().judge(e);
        let mut evidence = pool(gauge(0, 0));
        remove_source(&mut evidence, Source::Logs);
        assert!(matches!(judge(&evidence), Verdict::Undecided { .. }));
        let mut evidence = pool(gauge(9, 9));
        remove_source(&mut evidence, Source::Logs);
        assert!(matches!(judge(&evidence), Verdict::Found(_)));
    }

    #[test]
    fn odd_numbers_harm_nobody() {
        let mut evidence = pool(gauge(u64::MAX, u64::MAX));
        evidence.window.duration_ms = 0;
        evidence.host.cpus = 0;
        add_access_log(&mut evidence, &[], &[(502, 0)]);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
