//! # accept-queue-overflow
//!
//! ## What happens
//!
//! A connection whose handshake is complete waits in the accept queue of its
//! listener until the process calls accept(). When the queue is full, the kernel
//! drops what arrives: the client's SYN, or the last ACK of its handshake. The
//! client tries again after 1 s, 2 s and 4 s, so its connection opens 1 s, 3 s or 7
//! s late, or fails. With `tcp_abort_on_overflow=1` it is reset instead.
//!
//! ## Evidence
//!
//! - `TcpExtListenOverflows` increases: a full accept queue refused something;
//! - the drop counter of one listener increases (sock_diag, SK_MEMINFO_DROPS): this
//!   is the listener;
//! - the length of that listener's queue, sampled every 100 ms, against its limit:
//!   the smaller of the backlog that the process gave to listen() and
//!   `net.core.somaxconn` at that moment;
//! - what the process did instead of accepting: it waited for a CPU (schedstat),
//!   slept, was stopped, or used a whole CPU.
//!
//! ## Threshold
//!
//! One drop is a finding: it delays a client by a second. A queue is full when it
//! is longer than its limit (`sk_acceptq_is_full` in the kernel compares with `>`),
//! so it holds one connection more than the limit. The counter of the listener also
//! counts drops of other kinds (`tcp_listendrop`); at most as many are attributed
//! to the queue as `TcpExtListenOverflows` counted. Critical from 1 % of the
//! handshakes on.
//!
//! ## Looks like it, but is not
//!
//! - `TcpExtListenDrops` alone: it counts every dropped SYN, whatever the reason.
//! - A queue that is long but below its limit: it absorbed a burst.
//! - syn-queue-overflow: the handshakes do not complete.
//! - worker-pool-exhausted and fd-exhausted: the process would accept if it could.
//!   When one of them is found, this is its effect.
//!
//! ## Check by hand
//!
//! ```sh
//! # Recv-Q: length of the queue, Send-Q: its limit, d... in skmem: its drops
//! ss -ltnm
//! nstat -az TcpExtListenOverflows TcpExtListenDrops
//! ```
//!
//! ## Fix
//!
//! Raise the backlog of the application and `net.core.somaxconn` together: the
//! smaller one is the limit. Neither changes a listener that exists: listen() has
//! to be called again. A longer queue absorbs bursts; a process that is always too
//! slow needs more CPU, more workers or less work.
//!
//! | application | setting |
//! |---|---|
//! | nginx | `listen 80 backlog=4096;` (default 511) |
//! | php-fpm | `listen.backlog = 4096` in the pool |
//! | Apache | `ListenBackLog 4096` |
//! | Redis | `tcp-backlog 4096` |
//! | HAProxy | `backlog 4096` in the frontend |
//! | PostgreSQL | `max_connections` (its backlog is twice that) |
//! | Node | `server.listen({ port, backlog: 4096 })` |
//! | Java | `new ServerSocket(port, 4096)`; Tomcat: `acceptCount` |
//! | Python | `socket.listen(4096)`; gunicorn: `--backlog` |
//!
//! ## Expected gain
//!
//! The delay of opening a connection, for the slowest in a hundred: the timeouts
//! of the SYNs that it loses (model «dropped SYNs»), which a longer queue or a
//! faster process saves. What connections then wait in the queue is not deducted.
//! With `tcp_abort_on_overflow=1`: the share of the connections that fail.
//!
//! ## References
//!
//! - listen(2), tcp(7)
//! - Linux: `tcp_conn_request`, `tcp_v4_syn_recv_sock`, `sk_acceptq_is_full`
//! - <https://blog.cloudflare.com/syn-packet-handling-in-the-wild/>

use model::{
    Evidence, Finding, GainFigure, Impact, ImpactUnit, Listener, Process, Proof, Reach, Remedy,
    Setting, Severity, Source, SubjectKind,
};
use text::figures::significant;
use text::{count, number, percent, share};

use crate::applications;
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, config_line, sysctl};
use crate::words::{line, process_name, processes, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "accept-queue-overflow",
    title: "a process accepts too slowly for its listen queue",
    slows: Slows::Connections,
    needs: &[&[Source::Counters, Source::Listeners]],
    rule,
    source: include_str!("accept_queue_overflow.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the handshakes from which on the finding is critical.
const MIN_SHARE_CRITICAL: f64 = 0.01;
/// Share of the time from which on what a process did explains a queue.
const MIN_TIME_SHARE: f64 = 0.5;
/// Smallest queue that is proposed: what current kernels and servers allow.
const MIN_PROPOSED: u32 = 1024;
/// Largest: the kernel keeps the limit in 32 bits, applications often in 16.
const MAX_PROPOSED: u32 = 65_535;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let overflows = evidence.increase("TcpExtListenOverflows");
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    if listeners.is_empty() && (overflows.unwrap_or(0) == 0 || !evidence.focus.is_everything()) {
        return Verdict::not_checked("no listener");
    }
    if overflows == Some(0) {
        return Verdict::RuledOut(fullest(listeners));
    }
    let dropping: Vec<&Listener> = listeners.iter().filter(|l| drops(l) > 0).collect();
    let at_fault: Vec<&Listener> = if overflows.is_some() {
        dropping
    } else {
        // Without the counter, only a queue that was full at a sample makes its drops overflows.
        dropping.into_iter().filter(|l| l.samples_full > 0).collect()
    };
    let Some(overflows) = overflows.or((!at_fault.is_empty()).then_some(u64::MAX)) else {
        return Verdict::RuledOut(fullest(listeners));
    };
    if at_fault.is_empty() {
        if !evidence.focus.is_everything() {
            return Verdict::RuledOut(fullest(listeners));
        }
        return Verdict::Undecided {
            needs: format!(
                "the listener that dropped {} (it was closed, or has no drop counter)",
                count(overflows, "handshake packet")
            ),
            sources: vec![Source::Listeners],
            how_to_observe: Some("run netwhy while it listens".to_string()),
        };
    }
    let of_all = at_fault.iter().map(|l| drops(l)).fold(0u64, u64::saturating_add);
    let found = at_fault.into_iter().map(|listener| {
        // Together the listeners dropped no more than the counter says.
        let own = drops(listener);
        let dropped = if of_all > overflows {
            (own as f64 * overflows as f64 / of_all as f64).ceil() as u64
        } else {
            own
        };
        finding(evidence, listener, dropped)
    });
    Verdict::Found(found.collect())
}

/// Drops of a listener in the window.
fn drops(listener: &Listener) -> u64 {
    listener.drops.map_or(0, model::Change::increase)
}

fn fullest(listeners: &[Listener]) -> String {
    let fill = |l: &Listener| share(l.queue.max as f64, f64::from(l.limit));
    match listeners.iter().max_by(|a, b| fill(a).total_cmp(&fill(b))) {
        None => String::new(),
        Some(l) => format!(
            "accept queues (fullest {} of {} on port {})",
            number(l.queue.max),
            number(u64::from(l.limit)),
            l.local.port()
        ),
    }
}

fn finding(evidence: &Evidence, listener: &Listener, dropped: u64) -> Finding {
    let accepted = evidence.increase("TcpPassiveOpens").unwrap_or(0);
    let part = share(dropped as f64, (dropped + accepted) as f64);
    let owners = processes(evidence, &listener.pids);
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let aborts = evidence.sysctl_number("net.ipv4.tcp_abort_on_overflow") == Some(1);
    let fate = if aborts { "are reset" } else { "wait 1 s or more, or give up" };
    let severity = if part >= MIN_SHARE_CRITICAL { Severity::Critical } else { Severity::Warning };
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("Connections are dropped: {process} accepts too slowly for its queue"),
            "Connections are dropped: a process accepts too slowly for its queue",
        ),
        severity,
        impact: Impact {
            text: format!(
                "{} dropped ({}), {} accepted on this host: the clients that are hit {fate}",
                count(dropped, "handshake packet"),
                percent(part),
                count(accepted, "connection"),
            ),
            unit: ImpactUnit::ConnectionsLost,
            amount: dropped as f64,
            share: Some(part),
        },
        evidence: [
            Some(queue(evidence, listener, dropped)),
            why(evidence, listener),
            Some(counted(evidence, listener, dropped)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        checks: commands([
            CommandLine::new("ss -ltnm")
                .arg(format!("sport = :{}", listener.local.port()))
                .in_netns(evidence),
            CommandLine::new("nstat -az TcpExtListenOverflows").in_netns(evidence),
        ]),
        remedies: remedies(evidence, listener, &process),
        gain: if aborts {
            gain::of_failures(
                GainFigure::FailedConnections,
                dropped as f64,
                (dropped + accepted) as f64,
            )
        } else {
            gain::of_syns_dropped_by(evidence, listener, dropped as f64, accepted as f64)
        },
        also_causes: Vec::new(),
        subject: subject(
            SubjectKind::Listener,
            listener.local.to_string(),
            Some(listener.local),
            None,
            owners,
        ),
    }
}

/// How full the queue was, and what its limit comes from.
fn queue(evidence: &Evidence, listener: &Listener, dropped: u64) -> Proof {
    let limit = listener.limit;
    let (full, samples) = (listener.samples_full, listener.queue.samples);
    let mut text = format!(
        "up to {}, limit {}; ",
        count(listener.queue.max, "connection"),
        number(u64::from(limit))
    );
    if full > 0 {
        text.push_str(&format!("full in {full} of {}", count(u64::from(samples), "sample")));
    } else {
        text.push_str(&format!(
            "overflowed between samples (every 100 ms): {} dropped",
            number(dropped)
        ));
    }
    text.push_str(&match evidence.sysctl_number("net.core.somaxconn") {
        None => {
            "\nlimit: the smaller of net.core.somaxconn and the backlog given to listen()".into()
        }
        Some(somaxconn) if u64::from(limit) < somaxconn => {
            format!("\nlimit: backlog {limit}, given to listen() (somaxconn is {somaxconn})")
        }
        Some(somaxconn) => {
            format!("\nbacklog is at least somaxconn: somaxconn {somaxconn} is the limit")
        }
    });
    if let Some(setting) = applications::listen_setting(evidence, &listener.pids, listener.local) {
        let place = applications::place(setting);
        text.push_str(&format!("\n{place}: listen {}", line(&setting.value)));
    }
    proof(Source::Listeners, "queue", text)
        .over_window(evidence, "accept queue, longest", listener.queue.max as f64, "connections")
        .over_window(evidence, "accept queue, mean", listener.queue.mean, "connections")
        .over_window(evidence, "samples with a full queue", f64::from(full), "samples")
        .over_window(evidence, "samples", f64::from(samples), "samples")
        .at_moment("accept queue limit", f64::from(limit), "connections")
}

/// What the process did instead of accepting.
fn why(evidence: &Evidence, listener: &Listener) -> Option<Proof> {
    let all: Vec<&Process> = listener.pids.iter().filter_map(|p| evidence.process(*p)).collect();
    let busy = |p: &&&Process| share(p.cpu_ms, p.observed_ms as f64);
    // The busiest speaks for all: masters sleep while their workers work.
    let process = *all.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let watched = process.observed_ms as f64;
    let waited =
        process.run_delay_ms.map(|ms| share(ms, watched * f64::from(process.threads.max(1))));
    let used = share(process.cpu_ms, watched);
    let samples = process.states.values().copied().fold(0, u32::saturating_add);
    let in_state = |letter| {
        share(f64::from(process.states.get(&letter).copied().unwrap_or(0)), f64::from(samples))
    };
    let owner = format!("{} (pid {})", line(&process.name), process.pid);
    let text = if in_state('T') + in_state('t') >= MIN_TIME_SHARE {
        format!("{owner} is stopped (state T): it accepts nothing")
    } else if in_state('D') >= MIN_TIME_SHARE {
        format!("{owner} sleeps in the kernel (state D): it waits for a disk or a file system")
    } else if let Some(waited) = waited.filter(|waited| *waited >= MIN_TIME_SHARE) {
        format!("{owner} was runnable but not running {} of the time", percent(waited))
    } else if used + waited.unwrap_or(0.0) >= 1.0 - MIN_TIME_SHARE / 2.0 {
        format!(
            "{owner} used {}, waited for a CPU {} of the time: \
             it cannot accept faster",
            cpu_text(used),
            percent(waited.unwrap_or(0.0))
        )
    } else {
        format!(
            "{owner} used {}: bursts are longer than the queue, or it \
             waited for something other than a CPU",
            cpu_text(used)
        )
    };
    let mut why =
        proof(Source::Processes, "why", text).over_window(evidence, "CPU", process.cpu_ms, "ms");
    if let Some(ms) = process.run_delay_ms {
        why = why.over_window(evidence, "run delay", ms, "ms");
    }
    Some(why)
}

/// CPU time as a share of the time, where several threads may use several CPUs.
fn cpu_text(used: f64) -> String {
    if used > 1.0 {
        format!("{} CPUs", significant(used))
    } else {
        format!("{} of a CPU", percent(used))
    }
}

fn counted(evidence: &Evidence, listener: &Listener, dropped: u64) -> Proof {
    let own = drops(listener);
    let mut text = String::new();
    let overflows = evidence.increase("TcpExtListenOverflows");
    if let Some(overflows) = overflows {
        text.push_str(&format!("TcpExtListenOverflows +{}, ", number(overflows)));
    }
    text.push_str(&format!("drops of this listener +{}", number(own)));
    let mut counted = proof(Source::Counters, "proof", text)
        .over_window(evidence, "drops of this listener", own as f64, "packets")
        .over_window(evidence, "drops by the full accept queue", dropped as f64, "packets");
    for counter in ["TcpExtListenOverflows", "TcpExtListenDrops", "TcpPassiveOpens"] {
        if let Some(increase) = evidence.increase(counter) {
            counted = counted.over_window(evidence, counter, increase as f64, "packets");
        }
    }
    counted
}

/// Four times the limit, in the sizes people use.
fn proposed(listener: &Listener) -> u32 {
    listener
        .limit
        .saturating_mul(4)
        .max(MIN_PROPOSED)
        .checked_next_power_of_two()
        .unwrap_or(MAX_PROPOSED)
        .min(MAX_PROPOSED)
}

fn remedies(evidence: &Evidence, listener: &Listener, process: &str) -> Vec<Remedy> {
    let backlog = proposed(listener);
    let mut own = application_backlog(evidence, listener, process, backlog);
    own.reaches = Reach::AfterListen;
    let mut remedies = vec![own];
    let name = "net.core.somaxconn";
    if evidence.sysctl_number(name).is_none_or(|now| now < u64::from(backlog)) {
        remedies.push(sysctl(evidence, name, backlog, Reach::AfterListen));
    }
    remedies.push(advice(
        "a longer queue absorbs bursts; a process that is always too slow needs more CPU or workers",
    ));
    remedies
}

/// The backlog of the application: a line of its configuration where netwhy knows how it is written.
fn application_backlog(
    evidence: &Evidence,
    listener: &Listener,
    process: &str,
    backlog: u32,
) -> Remedy {
    let port = listener.local.port();
    let known = applications::listen_setting(evidence, &listener.pids, listener.local);
    let application = applications::application(evidence, &listener.pids);
    let own = match application {
        Some("nginx") => config_line("nginx", known, "listen", &nginx_listen(known, port, backlog))
            .map(|own| own.noted("then nginx -s reload; Send-Q of ss -ltn shows the new limit")),
        Some("php-fpm") => config_line("php-fpm", known, "listen.backlog", &backlog.to_string())
            .map(|own| own.noted("in the pool; then restart php-fpm: a reload keeps the socket")),
        _ => None,
    };
    own.unwrap_or_else(|| {
        let name = application.map_or_else(|| process.to_string(), line);
        Remedy {
            needs_root: true,
            ..advice(format!("{name}: backlog {backlog} in listen() for port {port}"))
        }
        .noted("netwhy explain accept-queue-overflow lists where applications set it")
    })
}

/// The present value of nginx's `listen` with another backlog.
fn nginx_listen(known: Option<&Setting>, port: u16, backlog: u32) -> String {
    let port = port.to_string();
    let now = known.map_or(port.as_str(), |setting| setting.value.as_str());
    let kept = now.split_ascii_whitespace().filter(|word| !word.starts_with("backlog="));
    let kept: Vec<&str> = kept.collect();
    format!("{} backlog={backlog}", kept.join(" "))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use model::{Change, RemedyChange};

    use super::*;
    use crate::fixtures::{
        add_listener, add_process, application, findings_of, gauge, healthy, increase_counter,
        remove_source, set_sysctl,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut python = overflowing();
        python.processes.as_mut().unwrap()[0].application = None;
        let mut between_samples = overflowing();
        set_sysctl(&mut between_samples, "net.core.somaxconn", "10");
        between_samples.listeners.as_mut().unwrap()[0].samples_full = 0;
        vec![overflowing(), python, between_samples]
    }

    fn overflowing() -> Evidence {
        let mut evidence = healthy();
        increase_counter(&mut evidence, "TcpExtListenOverflows", 1_620);
        increase_counter(&mut evidence, "TcpPassiveOpens", 3_757);
        let nginx = add_process(&mut evidence, 7, "nginx");
        nginx.cpu_ms = 2_900.0;
        nginx.run_delay_ms = Some(7_100.0);
        nginx.application =
            Some(application("nginx", "worker", ("listen", "80 backlog=10", "http")));
        let full = add_listener(&mut evidence, "0.0.0.0:80", 10, &[7]);
        full.drops = Some(Change::new(5, 1_625));
        full.queue = gauge(11, 11);
        full.samples_full = 97;
        evidence
    }

    fn found(evidence: &Evidence) -> Finding {
        findings_of(rule(evidence)).remove(0)
    }

    #[test]
    fn fires_and_names_socket_process_limit_and_loss() {
        let findings = findings_of(rule(&overflowing()));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.subject.local, Some("0.0.0.0:80".parse().unwrap()));
        assert_eq!(finding.subject.processes[0].name, "nginx");
        assert_eq!(finding.impact.amount, 1_620.0);
        assert!(finding.impact.text.contains("30 %"), "{}", finding.impact.text);
        let queue = &finding.evidence[0].text;
        assert!(queue.contains("full in 97 of 100 samples\nlimit: backlog 10, given"), "{queue}");
        assert!(queue.contains("\n/etc/nginx/nginx.conf:12: listen 80 backlog=10"), "{queue}");
        assert!(finding.evidence[1].text.contains("runnable but not running 71 %"));
        let RemedyChange::ConfigLine { value, .. } = &finding.remedies[0].change else { panic!() };
        assert_eq!(value, "80 backlog=1024");
        assert_eq!(finding.remedies[0].reaches, Reach::AfterListen);
    }

    #[test]
    fn fires_for_somaxconn_when_that_is_the_limit() {
        let mut evidence = overflowing();
        set_sysctl(&mut evidence, "net.core.somaxconn", "10");
        let finding = &findings_of(rule(&evidence))[0];
        let queue = &finding.evidence[0].text;
        assert!(queue.contains("at least somaxconn: somaxconn 10 is the limit"), "{queue}");
        let sysctl =
            |r: &Remedy| matches!(&r.change, RemedyChange::Sysctl { value, .. } if value == "1024");
        assert!(finding.remedies.iter().any(sysctl));
    }

    #[test]
    fn other_parameters_of_a_listen_line_are_kept() {
        let mut evidence = overflowing();
        let with = |evidence: &mut Evidence, value: &str| {
            let process = &mut evidence.processes.as_mut().unwrap()[0];
            process.application.as_mut().unwrap().settings[0].value = value.to_string();
        };
        with(&mut evidence, "80 default_server ssl backlog=10 so_keepalive=30m::10");
        let line = "listen 80 default_server ssl so_keepalive=30m::10 backlog=1024;";
        assert!(found(&evidence).remedies[0].text.ends_with(line), "{evidence:?}");
        with(&mut evidence, "80 ;evil");
        assert_eq!(found(&evidence).remedies[0].change, RemedyChange::Advice);
    }

    #[test]
    fn an_overflow_between_samples_is_no_full_sample() {
        let mut evidence = overflowing();
        evidence.listeners.as_mut().unwrap()[0].samples_full = 0;
        let text = "overflowed between samples (every 100 ms): 1,620 dropped";
        assert!(found(&evidence).evidence[0].text.contains(text));
    }

    #[test]
    fn fires_with_no_more_than_the_counter_says() {
        let mut evidence = overflowing();
        increase_counter(&mut evidence, "TcpExtListenOverflows", 3);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.impact.amount, 3.0);
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn fires_without_processes_too() {
        let mut evidence = overflowing();
        evidence.processes = None;
        let finding = &findings_of(rule(&evidence))[0];
        assert!(finding.title.contains("a process"));
    }

    #[test]
    fn stays_quiet_when_the_queue_was_long_but_dropped_nothing() {
        let mut evidence = overflowing();
        increase_counter(&mut evidence, "TcpExtListenOverflows", 0);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_in_a_focus_whose_listeners_dropped_nothing() {
        let mut evidence = overflowing();
        add_listener(&mut evidence, "0.0.0.0:443", 511, &[7]);
        evidence.focus.ports = vec![443];
        let report = crate::diagnose(&evidence);
        assert_eq!(report.findings, []);
    }

    #[test]
    fn undecided_when_the_listener_was_closed() {
        let mut evidence = overflowing();
        evidence.listeners = Some(Vec::new());
        assert!(matches!(rule(&evidence), Verdict::Undecided { .. }));
    }

    #[test]
    fn undecided_without_counters_unless_a_sample_was_full() {
        let mut evidence = overflowing();
        remove_source(&mut evidence, Source::Counters);
        assert_eq!(findings_of(rule(&evidence))[0].impact.amount, 1_620.0);
        evidence.listeners.as_mut().unwrap()[0].samples_full = 0;
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = overflowing();
        evidence.window.duration_ms = 0;
        let odd = add_process(&mut evidence, 8, "odd");
        odd.observed_ms = 0;
        odd.states = BTreeMap::new();
        odd.cpu_ms = f64::NAN;
        let odd = add_listener(&mut evidence, "[::]:0", u32::MAX, &[8]);
        odd.drops = Some(Change::new(0, u64::MAX));
        odd.queue.samples = 0;
        assert_eq!(findings_of(rule(&evidence)).len(), 2);
    }
}
