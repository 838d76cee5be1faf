//! # ephemeral-ports-exhausted
//!
//! ## What happens
//!
//! A connection takes a local port out of `ip_local_port_range`. Towards one
//! destination address and port, each can be used once, and it stays in use for 60
//! s in TIME_WAIT when this host closes first. When all are in use, connect() fails
//! at once with EADDRNOTAVAIL («Cannot assign requested address»): nothing is sent,
//! and no counter of the kernel increases.
//!
//! ## Evidence
//!
//! - the process's own log says so (errno 99): the lines of the window, with the
//!   destination; or
//! - the local ports in use towards one destination, TIME_WAIT included, fill the
//!   range less `ip_local_reserved_ports`, while connections come and go.
//!
//! ## Threshold
//!
//! Full means that at most 1 in 100 ports is free in one sample, or one port of a
//! small range: the kernel searches the odd and the even half of the range and
//! finds the last ports late. A range full of connections that stay is a pool as
//! large as the range, and no finding: connections must come and go, which
//! TIME_WAIT or new sockets show. Where `tcp_tw_reuse` applies, ports in TIME_WAIT
//! are free again after a second and do not count as in use.
//!
//! ## Looks like it, but is not
//!
//! - Many sockets in TIME_WAIT towards many destinations: each destination has the
//!   whole range.
//! - EADDRNOTAVAIL of bind() to an address that this host does not have.
//! - ECONNREFUSED, ETIMEDOUT: a port was found, and the peer refused or did not
//!   answer.
//!
//! ## Check by hand
//!
//! ```sh
//! sysctl net.ipv4.ip_local_port_range net.ipv4.tcp_tw_reuse
//! # ports in use by destination
//! ss -Htan | awk '{print $5}' | sort | uniq -c | sort -n | tail
//! ```
//!
//! ## Fix
//!
//! Reuse connections: `keepalive 32;` in nginx's `upstream` with
//! `proxy_http_version 1.1` and an empty `Connection` header, or `fastcgi_keep_conn
//! on`. Widen the range (`1024 65535`) and put the ports that services listen on
//! into `ip_local_reserved_ports`. `tcp_tw_reuse=1` reuses a port in TIME_WAIT
//! after a second (with time stamps; the default, 2, does so on loopback only).
//! More source or destination addresses help too.
//!
//! ## Expected gain
//!
//! The share of the connections that fail (model «failures»: those logged, of
//! those and of the connections opened). Not predictable where nothing logs them.
//!
//! ## References
//!
//! - ip(7), <https://docs.kernel.org/networking/ip-sysctl.html>
//! - RFC 6056, section 3 (ephemeral ports); RFC 6191 (TIME-WAIT reuse)
//! - Linux: `__inet_hash_connect`, `tcp_twsk_unique`

use model::{
    AppLog, Complaint, Evidence, Finding, GainFigure, Impact, ImpactUnit, Meaning, PortUse, Proof,
    Reach, Remedy, Severity, Source, SubjectKind,
};
use text::{count, number, share};

use crate::applications;
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, config_line, sysctl};
use crate::words::{line, process_name, processes, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "ephemeral-ports-exhausted",
    title: "no local port is free towards a destination",
    slows: Slows::Connections,
    needs: &[&[Source::Sockets]],
    rule,
    source: include_str!("ephemeral_ports_exhausted.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the ports that may be free while they count as exhausted.
const MAX_FREE_SHARE: f64 = 0.01;
const RANGE: &str = "net.ipv4.ip_local_port_range";
const REUSE: &str = "net.ipv4.tcp_tw_reuse";

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let uses = evidence.sockets.as_ref().map(|s| &s.port_use[..]).unwrap_or_default();
    let mut findings = Vec::new();
    let mut explained: Vec<&PortUse> = Vec::new();
    for (log, complaint) in complaints(evidence) {
        let towards = towards(uses, complaint);
        explained.extend(towards);
        findings.push(finding(evidence, towards, Some((log, complaint))));
    }
    let full = uses.iter().filter(|use_| is_full(evidence, use_) && has_turnover(use_));
    for use_ in full {
        let known = |other: &&PortUse| other.remote == use_.remote;
        if !explained.iter().any(known) {
            explained.push(use_);
            findings.push(finding(evidence, Some(use_), None));
        }
    }
    Verdict::from_findings(findings, || match uses.first() {
        Some(use_) => Verdict::RuledOut(format!(
            "local ports ({} of {} to {})",
            number(use_.in_use.max),
            number(u64::from(use_.available)),
            use_.remote
        )),
        None => Verdict::not_checked("no outbound connection"),
    })
}

fn complaints(evidence: &Evidence) -> impl Iterator<Item = (&AppLog, &Complaint)> {
    let logs = evidence.logs.as_deref().unwrap_or_default().iter();
    logs.flat_map(|log| log.complaints.iter().map(move |complaint| (log, complaint)))
        .filter(|(_, complaint)| complaint.meaning == Meaning::AddressNotAvailable)
}

/// The ports in use towards the destination of a complaint.
fn towards<'a>(uses: &'a [PortUse], complaint: &Complaint) -> Option<&'a PortUse> {
    let about = complaint.about.as_deref()?;
    uses.iter().find(|use_| use_.remote.to_string() == about)
}

fn is_full(evidence: &Evidence, use_: &PortUse) -> bool {
    let available = f64::from(use_.available);
    let free = (available * MAX_FREE_SHARE).max(1.0).floor();
    let taken = if reuses(evidence, use_) {
        use_.in_use.mean - use_.time_wait.mean
    } else {
        use_.in_use.max as f64
    };
    available > 0.0 && taken + free >= available
}

/// Whether connect() may take a port that is in TIME_WAIT towards this destination.
fn reuses(evidence: &Evidence, use_: &PortUse) -> bool {
    let loopback = use_.remote.ip().to_canonical().is_loopback();
    let time_stamps = evidence.sysctl_number("net.ipv4.tcp_timestamps") != Some(0);
    match evidence.sysctl_number(REUSE) {
        Some(1) => time_stamps,
        Some(2) => time_stamps && loopback,
        _ => false,
    }
}

/// Whether connections to it come and go.
fn has_turnover(use_: &PortUse) -> bool {
    use_.time_wait.max > 0 || use_.new_sockets > 0
}

fn finding(
    evidence: &Evidence,
    use_: Option<&PortUse>,
    complaint: Option<(&AppLog, &Complaint)>,
) -> Finding {
    let mut pids = use_.map(|use_| use_.pids.clone()).unwrap_or_default();
    if let Some((log, _)) = complaint.filter(|_| pids.is_empty()) {
        pids.clone_from(&log.pids);
    }
    if let Some(use_) = use_.filter(|_| pids.is_empty()) {
        pids = configured(evidence, use_);
    }
    let owners = processes(evidence, &pids);
    let logged = complaint.and_then(|(_, complaint)| complaint.about.as_deref().map(line));
    let destination = use_.map(|use_| use_.remote.to_string()).or(logged);
    let destination = destination.unwrap_or_else(|| "a destination".to_string());
    let process = process_name(&owners)
        .or_else(|| complaint.map(|(log, _)| line(&log.application)))
        .unwrap_or_else(|| "this host".to_string());
    let failed = complaint.map(|(log, complaint)| {
        // A log that was not read whole stands for all that was written.
        let scale = share(log.bytes_written as f64, log.bytes_read as f64).max(1.0);
        ((complaint.count as f64 * scale).round() as u64, log.bytes_read < log.bytes_written)
    });
    let impact = match failed {
        Some((failed, sampled)) => format!(
            "{}{} to {destination} failed at once",
            if sampled { "about " } else { "" },
            count(failed, "connection"),
        ),
        None => format!("new connections to {destination} fail while all ports are in use"),
    };
    let mut proofs = Vec::new();
    proofs.extend(use_.map(|use_| ports(evidence, use_)));
    proofs.extend(use_.map(|use_| reuse(evidence, use_)));
    if let Some((log, complaint)) = complaint {
        proofs.push(
            proof(
                Source::Logs,
                "log",
                format!(
                    "{}: {}\n{}",
                    line(&log.path),
                    count(complaint.count, "line"),
                    line(&complaint.first_line)
                ),
            )
            .over_window(evidence, "failures logged", complaint.count as f64, "lines"),
        );
    }
    let opened = evidence.increase("TcpActiveOpens");
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("{process} finds no free local port to {destination}"),
            "No local port is free towards a destination",
        ),
        severity: if failed.is_some() { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Destination,
            destination,
            None,
            use_.map(|use_| use_.remote),
            owners,
        ),
        impact: Impact {
            text: impact,
            unit: ImpactUnit::ConnectionsLost,
            amount: failed.map_or(0, |(failed, _)| failed) as f64,
            share: failed
                .zip(opened)
                .map(|((failed, _), opened)| share(failed as f64, failed as f64 + opened as f64)),
        },
        evidence: proofs,
        checks: commands([
            CommandLine::new("sysctl net.ipv4.ip_local_port_range net.ipv4.tcp_tw_reuse")
                .in_netns(evidence),
            match use_ {
                Some(use_) => CommandLine::new("ss -Htan dst").arg(use_.remote).pipe("wc -l"),
                None => CommandLine::new("ss -Htan")
                    .pipe("awk")
                    .arg("{print $5}")
                    .pipe("sort")
                    .pipe("uniq -c")
                    .pipe("sort -n")
                    .pipe("tail"),
            }
            .in_netns(evidence),
        ]),
        remedies: remedies(evidence, use_, &pids),
        gain: match failed {
            Some((failed, _)) => {
                let all = failed.saturating_add(opened.unwrap_or(0)) as f64;
                gain::of_failures(GainFigure::FailedConnections, failed as f64, all)
            }
            None => {
                gain::not_predictable("how many connections fail is not known: nothing logs it")
            }
        },
        also_causes: Vec::new(),
    }
}

/// Processes whose configuration names this destination as an upstream.
fn configured(evidence: &Evidence, use_: &PortUse) -> Vec<u32> {
    let end = use_.remote.to_string();
    let names = |setting: &model::Setting| {
        matches!(setting.name.as_str(), "fastcgi_pass" | "proxy_pass" | "server")
            && setting.value.contains(&end)
    };
    let all = evidence.processes.as_deref().unwrap_or_default().iter();
    all.filter(|p| p.application.as_ref().is_some_and(|a| a.settings.iter().any(names)))
        .map(|p| p.pid)
        .collect()
}

fn ports(evidence: &Evidence, use_: &PortUse) -> Proof {
    let range = evidence.sysctl(RANGE).unwrap_or("unknown").split_whitespace().collect::<Vec<_>>();
    let reserved = evidence.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default().trim();
    let less =
        if reserved.is_empty() { String::new() } else { format!(" less {}", line(reserved)) };
    proof(
        Source::Sockets,
        "ports",
        format!(
            "up to {} of {} in use to {}, {} of them in TIME_WAIT; \
             ip_local_port_range {}{less}",
            number(use_.in_use.max),
            number(u64::from(use_.available)),
            use_.remote,
            number(use_.time_wait.max),
            line(&range.join(" ")),
        ),
    )
    .over_window(evidence, "ports in use, maximum", use_.in_use.max as f64, "ports")
    .over_window(evidence, "ports in TIME_WAIT, maximum", use_.time_wait.max as f64, "ports")
    .over_window(evidence, "new sockets", use_.new_sockets as f64, "sockets")
    .at_moment("ports available", f64::from(use_.available), "ports")
}

/// Whether ports in TIME_WAIT can be reused.
fn reuse(evidence: &Evidence, use_: &PortUse) -> Proof {
    let text = match (evidence.sysctl_number(REUSE), reuses(evidence, use_)) {
        (Some(1), true) => "tcp_tw_reuse 1: a port in TIME_WAIT is free again after 1 s",
        (Some(_), true) => "tcp_tw_reuse 2: on loopback, a port in TIME_WAIT is free after 1 s",
        (Some(0), _) => "tcp_tw_reuse 0: a port stays in use for 60 s after its connection ends",
        (Some(2), _) => {
            "tcp_tw_reuse 2 (loopback only): a port stays in use for 60 s after its connection ends"
        }
        (Some(_), _) => "tcp_tw_reuse 1 has no effect without tcp_timestamps",
        (None, _) => "tcp_tw_reuse is unknown",
    };
    proof(Source::Sysctls, "reuse", text)
}

fn remedies(evidence: &Evidence, use_: Option<&PortUse>, pids: &[u32]) -> Vec<Remedy> {
    let mut all = Vec::new();
    let of_nginx = applications::application(evidence, pids) == Some("nginx");
    all.push(match of_nginx.then(|| nginx_keepalive(evidence, use_, pids)).flatten() {
        Some(line) => line,
        None => advice("keep connections open and reuse them (a pool, HTTP keep-alive)"),
    });
    let now = evidence.sysctl(RANGE).unwrap_or_default().split_whitespace();
    if now.collect::<Vec<_>>() != ["1024", "65535"] {
        let range = sysctl(evidence, RANGE, "1024 65535", Reach::NewConnections);
        all.push(range.noted("put ports that services listen on into ip_local_reserved_ports"));
    }
    if evidence.sysctl_number(REUSE) != Some(1) {
        all.push(sysctl(evidence, REUSE, 1, Reach::NewConnections));
    }
    all
}

/// The line of nginx's configuration that keeps connections to its upstream open.
fn nginx_keepalive(evidence: &Evidence, use_: Option<&PortUse>, pids: &[u32]) -> Option<Remedy> {
    let destination = use_.map(|use_| use_.remote.to_string()).unwrap_or_default();
    let pass = ["fastcgi_pass", "proxy_pass"].into_iter().find_map(|name| {
        let mut own = applications::settings(evidence, pids, name);
        // One that names the destination, or an upstream block.
        own.find(|s| s.value.contains(&destination) || !s.value.contains('.'))
    });
    let fastcgi = pass.is_none_or(|setting| setting.name == "fastcgi_pass");
    let (setting, value) =
        if fastcgi { ("fastcgi_keep_conn", "on") } else { ("proxy_http_version", "1.1") };
    let own = config_line("nginx", pass, setting, value)?;
    Some(own.noted("and keepalive 32; in an upstream block for the destination"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{
        add_complaint, add_port_use, add_process, application, findings_of, gauge, healthy,
        remove_source, set_sysctl,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut logged = upstream(50, 50);
        let meaning = Meaning::AddressNotAvailable;
        add_complaint(&mut logged, "nginx", meaning, Some("127.0.0.1:9000"), 812, &[7]);
        let mut log_alone = healthy();
        add_complaint(&mut log_alone, "nginx", meaning, Some("198.18.0.9:80"), 2, &[]);
        vec![upstream(50, 50), logged, log_alone]
    }

    fn upstream(in_use: u64, available: u32) -> Evidence {
        let mut evidence = healthy();
        let nginx = add_process(&mut evidence, 7, "nginx");
        let setting = ("fastcgi_pass", "127.0.0.1:9000", "http/server/location");
        nginx.application = Some(application("nginx", "worker", setting));
        let use_ = add_port_use(&mut evidence, "127.0.0.1:9000", in_use, available, &[7]);
        use_.time_wait = gauge(0, in_use / 2);
        set_sysctl(&mut evidence, RANGE, "40000\t40049");
        set_sysctl(&mut evidence, REUSE, "0");
        evidence
    }

    #[test]
    fn fires_when_the_range_is_full_and_connections_come_and_go() {
        let finding = &findings_of(rule(&upstream(50, 50)))[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.title, "nginx finds no free local port to 127.0.0.1:9000");
        assert_eq!(finding.subject.remote, Some("127.0.0.1:9000".parse().unwrap()));
        assert!(finding.evidence[0].text.contains("50 of 50 in use"));
        assert!(finding.evidence[1].text.starts_with("tcp_tw_reuse 0: a port stays in use"));
        assert!(
            finding.remedies[0]
                .text
                .contains("nginx.conf:12  below this line: fastcgi_keep_conn on;")
        );
        let command = &finding.remedies[1].command.as_ref().unwrap().argv[0];
        assert_eq!(command, &["sysctl", "-w", "net.ipv4.ip_local_port_range=1024 65535"]);
    }

    #[test]
    fn fires_once_with_the_failures_of_the_log() {
        let mut evidence = upstream(50, 50);
        let meaning = Meaning::AddressNotAvailable;
        add_complaint(&mut evidence, "nginx", meaning, Some("127.0.0.1:9000"), 812, &[7]);
        evidence.logs.as_mut().unwrap()[0].bytes_written *= 2;
        let findings = findings_of(rule(&evidence));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Critical);
        assert_eq!(findings[0].impact.amount, 1_624.0);
        assert!(findings[0].impact.text.starts_with("about 1,624 connections"));
    }

    #[test]
    fn fires_by_the_log_alone() {
        let mut evidence = healthy();
        let meaning = Meaning::AddressNotAvailable;
        add_complaint(&mut evidence, "nginx", meaning, Some("198.18.0.9:80"), 2, &[]);
        assert_eq!(findings_of(rule(&evidence))[0].subject.name, "198.18.0.9:80");
    }

    #[test]
    fn stays_quiet_for_a_pool_as_large_as_the_range_and_for_free_ports() {
        let mut evidence = upstream(50, 50);
        evidence.sockets.as_mut().unwrap().port_use[0].time_wait = gauge(0, 0);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let Verdict::RuledOut(because) = rule(&upstream(50, 28_232)) else { panic!() };
        assert_eq!(because, "local ports (50 of 28,232 to 127.0.0.1:9000)");
    }

    #[test]
    fn stays_quiet_where_ports_in_time_wait_are_free_again() {
        let mut evidence = upstream(50, 50);
        set_sysctl(&mut evidence, REUSE, "2");
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        // Connections that stay open use their ports all the same.
        let use_ = &mut evidence.sockets.as_mut().unwrap().port_use[0];
        use_.time_wait = gauge(0, 0);
        use_.new_sockets = 9;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = upstream(50, 50);
        remove_source(&mut evidence, Source::Sockets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = upstream(u64::MAX, 0);
        add_port_use(&mut evidence, "[fd00::1]:443", u64::MAX, 1, &[99]).new_sockets = 1;
        set_sysctl(&mut evidence, RANGE, "");
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
