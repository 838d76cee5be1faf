//! # accept-queue-overflow
//!
//! ## What happens
//!
//! A connection whose handshake is complete waits in the accept queue of its
//! listener until the process calls accept(). When the queue is full the kernel
//! drops what comes: the client's SYN, or the last ACK of its handshake. The
//! client tries again after 1 s, then 2 s, then 4 s: its connection opens 1 s,
//! 3 s or 7 s late, or fails. With `tcp_abort_on_overflow=1` it is reset instead.
//!
//! ## Evidence
//!
//! - `TcpExtListenOverflows` grows: a full accept queue refused something;
//! - the drop counter of one listener grows (sock_diag, SK_MEMINFO_DROPS): it was
//!   this one;
//! - the length of that listener's queue, looked at every 100 ms, against its
//!   limit: the smaller of the backlog that the process gave to listen() and
//!   `net.core.somaxconn` at that moment;
//! - what the process did instead of accepting: it waited for a CPU (schedstat),
//!   slept, was stopped, or used its CPU whole.
//!
//! ## Threshold
//!
//! One drop is a finding: it delays one client by a second. The queue is full
//! when it is longer than its limit (`sk_acceptq_is_full` in the kernel compares
//! with `>`), so it holds one connection more than the limit says. The counter of
//! the listener also counts drops of other kinds (`tcp_listendrop`), so no more
//! are laid to it than `TcpExtListenOverflows` grew by. Critical from 1 % of the
//! handshakes on.
//!
//! ## Looks like it, but is not
//!
//! - `ListenDrops` alone: it counts every dropped SYN, whatever the reason.
//! - A queue that is long but under its limit: a burst, and it was absorbed.
//! - syn-queue-overflow: there the handshakes do not complete.
//! - worker-pool-exhausted and fd-exhausted: the process would accept if it could;
//!   when they are seen, this is their effect.
//!
//! ## Check by hand
//!
//! ```sh
//! # Recv-Q is the length of the queue, Send-Q its limit, d… in skmem its drops
//! ss -ltnm
//! nstat -az TcpExtListenOverflows TcpExtListenDrops
//! ```
//!
//! ## Mend
//!
//! Raise the backlog of the application and `net.core.somaxconn` together: the
//! smaller one rules. Neither reaches a listener that exists: listen() must be
//! called again. A longer queue absorbs bursts; a process that is too slow all
//! the time needs more CPU, more workers or less work.
//!
//! | application | setting |
//! |---|---|
//! | nginx | `listen 80 backlog=4096;` (511 without it) |
//! | php-fpm | `listen.backlog = 4096` in the pool |
//! | Apache | `ListenBackLog 4096` |
//! | Redis | `tcp-backlog 4096` |
//! | HAProxy | `backlog 4096` in the frontend |
//! | PostgreSQL | `max_connections` (its backlog is twice that) |
//! | Node | `server.listen({ port, backlog: 4096 })` |
//! | Java | `new ServerSocket(port, 4096)`; Tomcat: `acceptCount` |
//! | Python | `socket.listen(4096)`; gunicorn: `--backlog` |
//!
//! ## References
//!
//! - listen(2), tcp(7)
//! - Linux: `tcp_conn_request`, `tcp_v4_syn_recv_sock`, `sk_acceptq_is_full`
//! - <https://blog.cloudflare.com/syn-packet-handling-in-the-wild/>

use model::{
    Evidence, Finding, Impact, ImpactUnit, Listener, Process, Proof, Reach, Remedy, Severity,
    Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::applications;
use crate::make::{WithFigures as _, advice, config, proof, subject, sysctl};
use crate::words::{command, process_name, processes};

/// From this share of handshakes on the finding is critical.
const CRITICAL: f64 = 0.01;
/// A process waited for a CPU, or used it, so that it explains a queue: half of the time.
const MOSTLY: f64 = 0.5;
/// Smallest queue that is proposed: what current kernels and servers allow.
const LEAST: u32 = 1024;
/// Largest: the kernel keeps the limit in 32 bits, applications often in 16.
const MOST: u32 = 65_535;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let overflows = evidence.increase("TcpExtListenOverflows");
    let listeners = evidence.listeners.as_deref().unwrap_or_default();
    if overflows == Some(0) {
        return Verdict::RuledOut(fullest(listeners));
    }
    let dropping: Vec<&Listener> = listeners.iter().filter(|l| lost(l) > 0).collect();
    let at_fault: Vec<&Listener> = if overflows.is_some() {
        dropping
    } else {
        // Without the counter only a queue that was seen full makes its drops overflows.
        dropping.into_iter().filter(|l| l.samples_full > 0).collect()
    };
    let Some(overflows) = overflows.or((!at_fault.is_empty()).then_some(u64::MAX)) else {
        return Verdict::RuledOut(fullest(listeners));
    };
    if at_fault.is_empty() {
        if !evidence.focus.is_everything() {
            return Verdict::RuledOut("no listener in focus dropped any".to_string());
        }
        return Verdict::Undecided {
            needs: format!(
                "the listener that dropped {} (it is gone, or gives no counter)",
                count(overflows, "handshake packet")
            ),
            closes_with: Some("watch while it listens".to_string()),
        };
    }
    let of_all = at_fault.iter().map(|l| lost(l)).fold(0u64, u64::saturating_add);
    let found = at_fault.into_iter().map(|listener| {
        // Together the listeners dropped no more than the counter says.
        let own = lost(listener);
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
fn lost(listener: &Listener) -> u64 {
    listener.drops.map_or(0, model::Change::increase)
}

fn fullest(listeners: &[Listener]) -> String {
    let fill = |l: &Listener| share(l.queue.max as f64, f64::from(l.limit));
    match listeners.iter().max_by(|a, b| fill(a).total_cmp(&fill(b))) {
        None => "no listener".to_string(),
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
    let who = processes(evidence, &listener.pids);
    let process = process_name(&who).unwrap_or("a process").to_string();
    let aborts = evidence.sysctl_number("net.ipv4.tcp_abort_on_overflow") == Some(1);
    let fate = if aborts { "are reset" } else { "wait 1 s and more, or give up" };
    let severity = if part >= CRITICAL { Severity::Critical } else { Severity::Warning };
    Finding {
        cause: "accept-queue-overflow".to_string(),
        title: format!("Connections are dropped: {process} accepts too slowly for its queue"),
        severity,
        impact: Impact {
            text: format!(
                "{} dropped beside {} accepted on this host ({}): these clients {fate}",
                count(dropped, "handshake packet"),
                count(accepted, "connection"),
                percent(part),
            ),
            unit: ImpactUnit::ConnectionsLost,
            amount: dropped as f64,
            share: Some(part),
        },
        evidence: [
            Some(queue(evidence, listener)),
            why(evidence, listener),
            Some(counted(evidence, listener, dropped)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        checks: vec![
            command(evidence, &format!("ss -ltnm 'sport = :{}'", listener.local.port())),
            command(evidence, "nstat -az TcpExtListenOverflows"),
        ],
        remedies: remedies(evidence, listener, &process),
        also_causes: Vec::new(),
        subject: subject(
            SubjectKind::Listener,
            listener.local.to_string(),
            Some(listener.local),
            None,
            who,
        ),
    }
}

/// How full the queue was, and which limit rules.
fn queue(evidence: &Evidence, listener: &Listener) -> Proof {
    let limit = listener.limit;
    let somaxconn = evidence.sysctl_number("net.core.somaxconn");
    let own_rules = somaxconn.is_none_or(|somaxconn| u64::from(limit) < somaxconn);
    let setting = applications::listen(evidence, &listener.pids, listener.local);
    let rules = |own: bool| {
        if own == own_rules { "  <- this one rules" } else { "" }
    };
    let mut text = format!(
        "{} of {limit} at most, full in {} of {} looks; the limit is the smaller of",
        number(listener.queue.max),
        listener.samples_full,
        listener.queue.samples,
    );
    if own_rules {
        text.push_str(&format!("\nbacklog {limit} given to listen(){}", rules(true)));
    } else {
        text.push_str("\nthe backlog given to listen(), not smaller");
    }
    if let Some(setting) = setting {
        text.push_str(&format!("\n  {}: listen {}", applications::place(setting), setting.value));
    }
    if let Some(somaxconn) = somaxconn {
        text.push_str(&format!("\nnet.core.somaxconn {somaxconn}{}", rules(false)));
    }
    proof(Source::Listeners, "queue", text)
        .over_window(evidence, "accept queue, longest", listener.queue.max as f64, "connections")
        .over_window(evidence, "accept queue, mean", listener.queue.mean, "connections")
        .over_window(evidence, "looks with a full queue", f64::from(listener.samples_full), "looks")
        .over_window(evidence, "looks", f64::from(listener.queue.samples), "looks")
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
    let looks: u32 = process.states.values().sum();
    let in_state = |letter| {
        share(f64::from(process.states.get(&letter).copied().unwrap_or(0)), f64::from(looks))
    };
    let who = format!("{} (pid {})", process.name, process.pid);
    let text = if in_state('T') + in_state('t') >= MOSTLY {
        format!("{who} is stopped (state T): it accepts nothing")
    } else if in_state('D') >= MOSTLY {
        format!("{who} sleeps in the kernel (state D): a disk or file system")
    } else if let Some(waited) = waited.filter(|waited| *waited >= MOSTLY) {
        format!("{who} was runnable but not running {} of the time", percent(waited))
    } else if used + waited.unwrap_or(0.0) >= 1.0 - MOSTLY / 2.0 {
        let waited = waited.unwrap_or(0.0);
        format!(
            "{who} used {} of a CPU, waited for one {}:\n\
             it cannot accept faster",
            percent(used),
            percent(waited)
        )
    } else {
        format!(
            "{who} used {} of a CPU: bursts longer than the queue, or it was\n\
             held up by something else than a CPU",
            percent(used)
        )
    };
    let mut why =
        proof(Source::Processes, "why", text).over_window(evidence, "CPU", process.cpu_ms, "ms");
    if let Some(ms) = process.run_delay_ms {
        why = why.over_window(evidence, "run delay", ms, "ms");
    }
    Some(why)
}

fn counted(evidence: &Evidence, listener: &Listener, dropped: u64) -> Proof {
    let own = lost(listener);
    let mut text = String::new();
    let overflows = evidence.increase("TcpExtListenOverflows");
    if let Some(overflows) = overflows {
        text.push_str(&format!("TcpExtListenOverflows +{}, ", number(overflows)));
    }
    text.push_str(&format!("this socket's own drops +{}", number(own)));
    let mut counted = proof(Source::Counters, "proof", text)
        .over_window(evidence, "drops of this listener", own as f64, "packets")
        .over_window(evidence, "drops laid to a full accept queue", dropped as f64, "packets");
    for counter in ["TcpExtListenOverflows", "TcpExtListenDrops", "TcpPassiveOpens"] {
        if let Some(growth) = evidence.increase(counter) {
            counted = counted.over_window(evidence, counter, growth as f64, "packets");
        }
    }
    counted
}

/// A length that would have held what was dropped between two looks, in the sizes people use.
fn proposed(listener: &Listener) -> u32 {
    listener
        .limit
        .saturating_mul(4)
        .max(LEAST)
        .checked_next_power_of_two()
        .unwrap_or(MOST)
        .min(MOST)
}

fn remedies(evidence: &Evidence, listener: &Listener, process: &str) -> Vec<Remedy> {
    let wanted = proposed(listener);
    let mut remedies = Vec::new();
    let port = listener.local.port();
    let setting = applications::listen(evidence, &listener.pids, listener.local);
    let place = setting.map(applications::place);
    let at = place.as_ref().map(|place| format!("{place}  ")).unwrap_or_default();
    let application = applications::application(evidence, &listener.pids).unwrap_or(process);
    let mut own = match application {
        "nginx" => {
            let end = setting.and_then(|s| s.value.split_ascii_whitespace().next());
            let end = end.map_or_else(|| port.to_string(), str::to_string);
            let text = format!("{at}listen {end} backlog={wanted};");
            let mut own =
                config("nginx", place, "listen", &format!("{end} backlog={wanted}"), text);
            own.note = Some("then nginx -s reload; see with ss -ltn that Send-Q changed".into());
            own
        }
        "php-fpm" => {
            let text = format!("{at}listen.backlog = {wanted}");
            let mut own = config("php-fpm", place, "listen.backlog", &wanted.to_string(), text);
            own.note = Some("in the pool; then restart php-fpm: a reload keeps the socket".into());
            own
        }
        other => {
            let text = format!("{other}: a backlog of {wanted} in its listen() for port {port}");
            let mut own = config(other, place, "backlog", &wanted.to_string(), text);
            own.note = Some("netwhy explain accept-queue-overflow lists where it is set".into());
            own
        }
    };
    own.reaches = Reach::AfterListen;
    remedies.push(own);
    if evidence.sysctl_number("net.core.somaxconn").is_none_or(|now| now < u64::from(wanted)) {
        remedies.push(sysctl(
            evidence,
            "net.core.somaxconn",
            &wanted.to_string(),
            Reach::AfterListen,
        ));
    }
    remedies.push(advice(
        "a longer queue absorbs bursts; a process too slow all the time needs more CPU or workers",
    ));
    remedies
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{Change, RemedyChange};

    use super::*;
    use crate::fixtures::{
        add_listener, add_process, application, findings_of, gauge, healthy, increase_counter,
        remove_source, set_sysctl,
    };

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
        assert!(queue.contains("backlog 10 given to listen()"), "{queue}");
        assert!(queue.contains("\n  /etc/nginx/nginx.conf:12: listen 80 backlog=10"), "{queue}");
        assert!(finding.evidence[1].text.contains("runnable but not running 71 %"));
        let RemedyChange::Config { value, .. } = &finding.remedies[0].change else { panic!() };
        assert_eq!(value, "80 backlog=1024");
        assert_eq!(finding.remedies[0].reaches, Reach::AfterListen);
    }

    #[test]
    fn fires_for_somaxconn_when_that_rules() {
        let mut evidence = overflowing();
        set_sysctl(&mut evidence, "net.core.somaxconn", "10");
        let finding = &findings_of(rule(&evidence))[0];
        assert!(finding.evidence[0].text.ends_with("somaxconn 10  <- this one rules"));
        let sysctl =
            |r: &Remedy| matches!(&r.change, RemedyChange::Sysctl { value, .. } if value == "1024");
        assert!(finding.remedies.iter().any(sysctl));
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
    fn fires_without_processes_and_says_less() {
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
    fn undecided_when_the_listener_is_gone() {
        let mut evidence = overflowing();
        evidence.listeners = Some(Vec::new());
        assert!(matches!(rule(&evidence), Verdict::Undecided { .. }));
    }

    #[test]
    fn undecided_without_counters_unless_the_queue_was_seen_full() {
        let mut evidence = overflowing();
        remove_source(&mut evidence, Source::Counters);
        assert_eq!(findings_of(rule(&evidence))[0].impact.amount, 1_620.0);
        evidence.listeners.as_mut().unwrap()[0].samples_full = 0;
        let verdict = crate::cause("accept-queue-overflow").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
    }

    #[test]
    fn odd_numbers_harm_nobody() {
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
