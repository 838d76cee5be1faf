//! Evidence for the tests of rules: a healthy host, and what makes it sick.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use model::*;

use crate::cause::Verdict;

/// A healthy host, watched for 10 seconds, whose every source could be read.
pub(crate) fn healthy() -> Evidence {
    let sysctls = [
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.ip_local_port_range", "32768\t60999"),
        ("net.ipv4.ip_local_reserved_ports", ""),
        ("net.ipv4.tcp_abort_on_overflow", "0"),
        ("net.ipv4.tcp_max_syn_backlog", "4096"),
        ("net.ipv4.tcp_max_tw_buckets", "262144"),
        ("net.ipv4.tcp_syncookies", "1"),
        ("net.ipv4.tcp_syn_linear_timeouts", "4"),
        ("net.ipv4.tcp_syn_retries", "6"),
        ("net.ipv4.tcp_tw_reuse", "2"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("fs.file-max", "9223372036854775807"),
        ("fs.file-nr", "1024\t0\t9223372036854775807"),
        ("fs.nr_open", "1048576"),
    ];
    let sysctls = sysctls.map(|(name, value)| (name.to_string(), value.to_string()));
    Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        netwhy_version: "test".into(),
        host: Host {
            name: "web-3".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            page_bytes: 4096,
            netns: None,
            root: true,
        },
        window: Window { start_unix_ms: 0, duration_ms: 10_000, interrupted: false },
        counters: Some(Counters::default()),
        sockstat: Some(Sockstat::default()),
        softnet: Some(Vec::new()),
        sockets: Some(SocketTable {
            samples: [0, 5_000, 10_000]
                .map(|at_ms| TableSample { at_ms, ..TableSample::default() })
                .to_vec(),
            ..SocketTable::default()
        }),
        listeners: Some(Vec::new()),
        unix_listeners: Some(Vec::new()),
        conntrack: Some(Conntrack::default()),
        sysctls: Some(BTreeMap::from(sysctls)),
        kernel_log: Some(KernelLog::default()),
        processes: Some(Vec::new()),
        logs: Some(Vec::new()),
        packets: Some(Packets { sources: vec!["slow.pcap".into()], ..Packets::default() }),
        ..Evidence::default()
    }
}

/// Sets by how much a counter increased.
pub(crate) fn increase_counter(evidence: &mut Evidence, counter: &str, by: u64) {
    let counters = evidence.counters.get_or_insert_default();
    counters.0.insert(counter.to_string(), Change::new(1_000, 1_000 + by));
}

/// Sets a sysctl.
pub(crate) fn set_sysctl(evidence: &mut Evidence, sysctl: &str, value: &str) {
    evidence.sysctls.get_or_insert_default().insert(sysctl.to_string(), value.to_string());
}

/// A gauge that went evenly from `first` to `last` in 100 samples.
pub(crate) fn gauge(first: u64, last: u64) -> Gauge {
    Gauge {
        samples: 100,
        first,
        last,
        min: first.min(last),
        max: first.max(last),
        mean: (first as f64 + last as f64) / 2.0,
    }
}

/// Adds a process and returns it for changes.
pub(crate) fn add_process<'a>(evidence: &'a mut Evidence, pid: u32, name: &str) -> &'a mut Process {
    let processes = evidence.processes.get_or_insert_default();
    processes.push(Process {
        pid,
        parent: 1,
        name: name.to_string(),
        command: name.to_string(),
        threads: 1,
        cpu_ms: 100.0,
        run_delay_ms: Some(10.0),
        observed_ms: 10_000,
        states: BTreeMap::from([('S', 20)]),
        open_files: Some(gauge(50, 50)),
        open_files_limit: Some(1024),
        application: None,
    });
    processes.last_mut().unwrap()
}

/// Adds a listener with an empty queue and returns it for changes.
pub(crate) fn add_listener<'a>(
    evidence: &'a mut Evidence,
    local: &str,
    limit: u32,
    pids: &[u32],
) -> &'a mut Listener {
    let listeners = evidence.listeners.get_or_insert_default();
    listeners.push(Listener {
        local: address(local),
        inode: 100 + listeners.len() as u32,
        cookie: 1 + listeners.len() as u64,
        uid: 0,
        pids: pids.to_vec(),
        limit,
        queue: gauge(0, 0),
        samples_full: 0,
        samples_waiting: 0,
        half_open: Some(gauge(0, 0)),
        drops: Some(Change::new(5, 5)),
        samples_dropping_again: None,
        new: false,
    });
    listeners.last_mut().unwrap()
}

/// Adds ports in use towards a destination and returns them for changes.
pub(crate) fn add_port_use<'a>(
    evidence: &'a mut Evidence,
    remote: &str,
    in_use: u64,
    available: u32,
    pids: &[u32],
) -> &'a mut PortUse {
    let all = &mut evidence.sockets.get_or_insert_default().port_use;
    let remote = address(remote);
    all.push(PortUse {
        local: if remote.ip().is_loopback() { remote.ip() } else { IpAddr::from([198, 18, 0, 1]) },
        remote,
        pids: pids.to_vec(),
        in_use: gauge(in_use, in_use),
        time_wait: gauge(0, 0),
        new_sockets: 0,
        available,
    });
    all.last_mut().unwrap()
}

/// Adds an idle established socket with three samples and returns it for changes.
pub(crate) fn add_socket<'a>(
    evidence: &'a mut Evidence,
    local: &str,
    remote: &str,
    pid: Option<u32>,
) -> &'a mut Socket {
    let sockets = &mut evidence.sockets.get_or_insert_default().sockets;
    sockets.push(Socket {
        local: address(local),
        remote: address(remote),
        state: TcpState::Established,
        inode: 1000 + sockets.len() as u32,
        cookie: 1000 + sockets.len() as u64,
        uid: 0,
        interface: 0,
        pid,
        receive_queue_bytes: 0,
        send_queue_bytes: 0,
        timer: Timer::default(),
        memory: Some(SocketMemory {
            receive_buffer_bytes: 131_072,
            send_buffer_bytes: 87_040,
            ..SocketMemory::default()
        }),
        tcp: Some(Box::new(TcpInfo {
            rtt_us: Some(500),
            snd_mss: Some(1448),
            rcv_mss: Some(1448),
            snd_wnd: Some(65_536),
            rcv_wnd: Some(65_536),
            bytes_received: Some(1_000),
            bytes_acked: Some(1_000),
            last_data_recv_ms: Some(20),
            last_data_sent_ms: Some(20),
            probes: Some(0),
            backoff: Some(0),
            ..TcpInfo::default()
        })),
        congestion: Some("cubic".into()),
        last_at_ms: 10_000,
        first: Some(FirstSample {
            samples: 3,
            state: TcpState::Established,
            bytes_received: 1_000,
            bytes_acked: 1_000,
            ..FirstSample::default()
        }),
    });
    sockets.last_mut().unwrap()
}

/// Adds a log with one kind of complaint.
pub(crate) fn add_complaint(
    evidence: &mut Evidence,
    application: &str,
    meaning: Meaning,
    about: Option<&str>,
    count: u64,
    pids: &[u32],
) {
    evidence.logs.get_or_insert_default().push(AppLog {
        path: format!("/var/log/{application}/error.log"),
        application: application.to_string(),
        pids: pids.to_vec(),
        bytes_written: 100 * count,
        bytes_read: 100 * count,
        lines: count,
        statuses: BTreeMap::new(),
        complaints: vec![Complaint {
            meaning,
            about: about.map(str::to_string),
            count,
            first_line: "2026/11/21 03:41:36 [error] the line".to_string(),
        }],
    });
}

/// Adds an access log with these statuses.
pub(crate) fn add_access_log(evidence: &mut Evidence, pids: &[u32], statuses: &[(u16, u64)]) {
    let lines = statuses.iter().map(|(_, count)| count).sum();
    evidence.logs.get_or_insert_default().push(AppLog {
        path: "/var/log/nginx/access.log".to_string(),
        application: "nginx".to_string(),
        pids: pids.to_vec(),
        bytes_written: 100 * lines,
        bytes_read: 100 * lines,
        lines,
        statuses: statuses.iter().copied().collect(),
        complaints: Vec::new(),
    });
}

/// An application with one setting.
pub(crate) fn application(name: &str, role: &str, setting: (&str, &str, &str)) -> Application {
    let (key, value, section) = setting;
    Application {
        name: name.to_string(),
        role: role.to_string(),
        pool: None,
        settings: vec![Setting {
            name: key.to_string(),
            value: value.to_string(),
            section: section.to_string(),
            file: format!("/etc/{name}/{name}.conf"),
            line: 12,
        }],
    }
}

/// Removes a source and the packets, and notes why the source is missing.
pub(crate) fn remove_source(evidence: &mut Evidence, source: Source) {
    // Packets could rule out the same.
    evidence.packets = None;
    evidence.remove(source);
    evidence.missing_evidence.push(MissingEvidence {
        capability: model::Capability::NotPermitted,
        source,
        what: format!("the {}", source.name()),
        why: "permission denied".into(),
        how_to_observe: Some("run as root".into()),
    });
}

/// A plain finding, for tests of what happens to findings.
pub(crate) fn finding(
    cause: &str,
    kind: SubjectKind,
    pids: &[u32],
    local: Option<&str>,
    remote: Option<&str>,
) -> Finding {
    let name = |pid: &u32| ProcessName { name: "process".into(), pid: *pid };
    Finding {
        cause: cause.into(),
        title: cause.into(),
        severity: Severity::Warning,
        subject: Subject {
            kind,
            name: "subject".into(),
            local: local.map(address),
            remote: remote.map(address),
            processes: pids.iter().map(name).collect(),
        },
        impact: Impact {
            text: "impact".into(),
            unit: ImpactUnit::ConnectionsLost,
            amount: 1.0,
            share: None,
        },
        evidence: Vec::new(),
        checks: Vec::new(),
        remedies: Vec::new(),
        gain: ExpectedGain::default(),
        also_causes: Vec::new(),
    }
}

/// The findings of a verdict that must have some.
pub(crate) fn findings_of(verdict: Verdict) -> Vec<Finding> {
    match verdict {
        Verdict::Found(findings) => findings,
        other => panic!("nothing found: {other:?}"),
    }
}

/// An address and port.
pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Adds a healthy captured stream of a second over 20 ms and returns it for changes.
pub(crate) fn add_stream<'a>(
    evidence: &'a mut Evidence,
    client: &str,
    server: &str,
) -> &'a mut CapturedStream {
    let packets = evidence.packets.get_or_insert_default();
    let sent = |part, us| CapturedDirection {
        packets: 800,
        data_segments: 700,
        new_bytes: 1_000_000,
        mss: Some(1460),
        window_scale: Some(7),
        max_window: 1 << 20,
        max_in_flight: 100_000,
        max_segment_bytes: 1448,
        round_trip: Some(RoundTrips {
            samples: 400,
            min_us: 20_000,
            mean_us: 21_000,
            max_us: 30_000,
            inflated: 0.0,
            follows_flight: None,
            losses: 0,
            losses_after_long: 0,
            losses_after_longer: None,
        }),
        time_breakdown: vec![TimeShare { category: part, time_us: us, exchanges: 10 }],
        ..CapturedDirection::default()
    };
    let stream = CapturedStream {
        number: packets.streams,
        client: address(client),
        server: address(server),
        roles_known: true,
        first_us: 0,
        span_us: 1_000_000,
        handshake_us: Some(20_000),
        greeting_us: None,
        syn_retransmissions: 0,
        syn_ack_retransmissions: 0,
        syn_answered: true,
        end: StreamEnd::Closed,
        exchanges: 10,
        last_exchange_bytes: 0,
        late_answers: 0,
        unwaited_requests: 0,
        to_client_us: Some(10),
        to_server_us: Some(20_000),
        longest_survived_idle_us: 0,
        lost_after_idle: None,
        tls: None,
        statuses: Vec::new(),
        from_client: sent(TimeCategory::Network, 100_000),
        from_server: sent(TimeCategory::Network, 900_000),
    };
    packets.streams += 1;
    packets.worst.push(stream);
    packets.worst.last_mut().unwrap()
}

/// Sets the time of a category in a direction's breakdown.
pub(crate) fn set_time(direction: &mut CapturedDirection, part: TimeCategory, us: u64) {
    direction.time_breakdown.retain(|share| share.category != part);
    direction.time_breakdown.push(TimeShare { category: part, time_us: us, exchanges: 1 });
}

/// Adds up the streams of each service; `exchange_us` is the median time of an exchange.
pub(crate) fn add_up_services(evidence: &mut Evidence, exchange_us: u64) {
    let packets = evidence.packets.get_or_insert_default();
    packets.services.clear();
    for stream in &packets.worst {
        let place = packets.services.iter().position(|known| known.server == stream.server);
        let place = place.unwrap_or_else(|| {
            packets.services.push(Service {
                server: stream.server,
                streams: 0,
                exchanges: 0,
                bytes: 0,
                data_segments: 0,
                retransmitted: 0,
                exchange_p50_us: Some(exchange_us),
                exchange_p99_us: Some(exchange_us),
                network_breakdown: Vec::new(),
                time_breakdown: TimeCategory::ALL
                    .map(|part| TimeShare { category: part, time_us: 0, exchanges: 0 })
                    .to_vec(),
                statuses: Vec::new(),
                slow_requests: Vec::new(),
            });
            packets.services.len() - 1
        });
        let service = &mut packets.services[place];
        service.streams += 1;
        service.exchanges += stream.exchanges;
        for share in &mut service.time_breakdown {
            share.time_us += stream.time_us(share.category);
        }
    }
}
